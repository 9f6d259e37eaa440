"""Jiang, Figures 14 and 15: what defences cost the attack and the model, half of the columns passive.

SIMULATION: models are trained in one place and scores pass the defences as the coordinator applies them. Alignment by
PSI is real: both sides' messages are made and read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from studies.claims.kinds import where
from studies.jiang.changed_situations import after_alignment, behind_real_purifier
from studies.jiang.inversion.inversion_setting import RECORDS, gradient_inversion
from studies.jiang.paired_points import KINDS, Point, mean_table, measured
from studies.jiang.splits import Split, Splits, threshold
from studies.jiang.with_defences.claims_on_defences import trade_off_notes, trade_off_statements
from studies.measurements import AttackMeasurement, Choice, Measurement
from studies.measurements.descriptions import Access, ModelKind
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.study import StudyRun

_KINDS: tuple[ModelKind, ...] = ("linear", "network")


@dataclass(frozen=True)
class _Plan:
    """How much is run.

    Attributes:
        datasets: names.
        splits: at r = 0.5.
        epsilons: of dp_sgd.
        ours: on how many of the windows the adversaries who know the defence are measured: they take longest.
        draws: of their posteriors: an error of 2 / sqrt(draws) of a posterior's spread.
        records: attacked at each point.
    """

    datasets: tuple[str, ...]
    splits: Splits
    epsilons: tuple[float, ...] = (0.1, 1.0, 10.0)
    ours: int = 1
    draws: int = 100
    records: int = RECORDS


_FULL = _Plan(("bank_all", "robot", "satellite", "drive"), Splits((0.5,), windows=3, seeds=3))
_QUICK = _Plan(
    ("satellite",), Splits((0.5,), windows=1, steps=100, shadow_steps=100), epsilons=(1.0,), draws=5, records=25
)


def trade_offs(run: StudyRun) -> Section:
    """Measure what defences leave of gradient inversion, of a shadow model's, and of who knows the defence.

    ``data`` has a row per data set, model, window, seed, defence with its option, and adversary. adversary: inversion
    (GIA in white box, a shadow of the real structure in black box), posterior (ours, knows the defence and its options;
    half: nothing besides, records: tau complete records), and without scores random guess and imputation.
    """
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    points = [
        point
        for kind in _KINDS
        for name in names
        for number, split in enumerate(plan.splits.of(name, run.seed, kind))
        for point in _points(plan, split, run, ours=number < plan.ours)
    ]
    data = measured(run, points)
    return Section(
        name="trade_offs",
        title="Privacy and utility of defences (Figures 14 and 15)",
        data=data,
        summary=mean_table(
            data,
            *("dataset", "model", "access", "defence", "option", "adversary"),
            measures=("model_accuracy", "attack_accuracy", "mse"),
        ),
        plots=tuple(
            utility_plot(where(data, model=kind), kind, measure)
            for kind in _KINDS
            for measure in ("attack_accuracy", "mse")
            if len(where(data, model=kind))
        ),
        notes=(*missing, *trade_off_notes(data)),
        statements=tuple(trade_off_statements(data)),
    )


@dataclass(frozen=True)
class _Defended:
    """A defence at one strength: words for it, and what it makes of a measurement."""

    family: str
    option: str
    choice: Choice | None = None

    def measurement(self, asked: AttackMeasurement) -> Measurement:
        """The measurement under this defence."""
        if self.family == "psi":
            return after_alignment(asked)
        if self.choice is None:
            return behind_real_purifier(asked) if self.family == "purification" else asked
        if self.family == "dp_sgd":
            return replace(asked, model=replace(asked.model, defence=self.choice))
        return replace(asked, defences=(self.choice,))


def _defences(plan: _Plan, given: Sequence[Choice]) -> Iterator[_Defended]:
    yield _Defended("none", "")
    yield _Defended("psi", "")
    for decimals in (2, 1, 0):
        yield _Defended("score_rounding", f"{decimals} decimals", Choice.of("score_rounding", decimals=decimals))
    for sigma in (0.01, 0.1, 1.0):
        yield _Defended("score_noise", f"sigma {sigma:g}", Choice.of("score_noise", sigma=sigma))
    yield _Defended("purification", "random scores", Choice.of("purification"))
    yield _Defended("purification", "real scores")
    yield _Defended("class_label", "", Choice.of("class_label"))
    for epsilon in plan.epsilons:
        yield _Defended("dp_sgd", f"epsilon {epsilon:g}", Choice.of("dp_sgd", epsilon=epsilon))
    for one in given:
        yield _Defended(one.words, "", one)


def _points(plan: _Plan, split: Split, run: StudyRun, *, ours: bool) -> Iterator[Point]:
    tau = threshold(split.model.data.name, split.hidden)
    for defended in _defences(plan, run.defences):
        yield _point(plan, split, defended, "inversion", gradient_inversion(plan.splits.steps))
        yield _point(plan, split, defended, "inversion", plan.splits.shadow(split.hidden), black_box=True, n=tau)
        for other in run.attacks:
            yield _point(plan, split, defended, other.words, other, n=tau)
        if ours:
            yield from _knowing(plan, split, defended, tau)
    none = next(_defences(plan, ()))
    for black_box in (False, True):
        yield _point(plan, split, none, "random guess", Choice.of("random_guess"), black_box=black_box)
        yield _point(plan, split, none, "imputation", Choice.of("imputation"), black_box=black_box, n=tau)


def _knowing(plan: _Plan, split: Split, defended: _Defended, tau: int) -> Iterator[Point]:
    """Adversaries who know the defence and all of its options."""
    yield _point(plan, split, defended, "posterior, half", Choice.of("posterior", prior="half", draws=plan.draws))
    records = Choice.of("posterior", prior="imputation", draws=plan.draws)
    for black_box in (False, True):
        yield _point(plan, split, defended, "posterior, records", records, black_box=black_box, n=tau)


def _point(
    plan: _Plan,
    split: Split,
    defended: _Defended,
    adversary: str,
    attack: Choice,
    *,
    black_box: bool = False,
    n: int = 0,
) -> Point:
    access: Access = "black_box" if black_box else "white_box"
    model, records = split.model, plan.records
    asked = AttackMeasurement(model, split.passive, attack, records, auxiliary=n, access=access, seed=model.seed)
    labels = split.labels | {"defence": defended.family, "option": defended.option, "adversary": adversary}
    return Point(labels | {"access": access.replace("_", " "), "n": n}, defended.measurement(asked))


# --- drawing ----------------------------------------------------------------------------------------------------------


_FIGURES = {"linear": "14", "network": "15"}
_WORDS = {"attack_accuracy": "attack accuracy", "mse": "MSE per feature"}
# Whose estimates a defence leaves, drawn full beside the paper's hollow signs, and those who see no scores.
_OURS = "posterior, records"
_WITHOUT = ("random guess", "imputation")


def utility_plot(results: pd.DataFrame, model: str, measure: str) -> Plot:
    """Draw a measure of the attack against the model's accuracy: a panel per data set and access; means over splits.

    Hollow: the paper's attack; full: the Bayesian adversary who knows the defence and has tau records.
    """
    names = list(dict.fromkeys(results["dataset"]))
    panels = [
        Panel(
            f"{name}, {access}",
            "model accuracy",
            _WORDS[measure],
            tuple(_curves(results[(results["dataset"] == name) & (results["access"] == access)], measure)),
        )
        for access in ("white box", "black box")
        for name in names
    ]
    better = "right and low" if measure == "attack_accuracy" else "right and high"
    caption = (
        f"Figure {_FIGURES[model]}: {_WORDS[measure]} on {KINDS[model]} at r = 0.5, GIA above, shadow models below. "
        f"A defence should be {better}. Full, ours: the Bayesian adversary who knows the defence and tau complete "
        "records; lines: these records alone (imputation), and a random guess."
    )
    return Plot(f"trade-offs-{model}-{measure.replace('_', '-')}", panels, caption, columns=len(names))


def _curves(results: pd.DataFrame, measure: str) -> list[Curve]:
    """A point per defence and adversary, and a line for each who sees no scores."""
    keys = ["adversary", "defence", "option"]
    means = results.groupby(keys, sort=False)[["model_accuracy", measure]].mean().reset_index()
    curves = [
        Curve(
            f"{row['defence']} {row['option']}".strip(),
            (row["model_accuracy"],),
            (row[measure],),
            ours=row["adversary"] == _OURS,
        )
        for row in means[means["adversary"].isin(("inversion", _OURS))].to_dict("records")
    ]
    ends = (means["model_accuracy"].min(), means["model_accuracy"].max())
    levels = means[means["adversary"].isin(_WITHOUT)].to_dict("records")
    return curves + [Curve(str(row["adversary"]), ends, (row[measure],) * 2) for row in levels]
