"""Figure 4: what every attack errs against d/k, in the white box, and the Bayesian adversary beside them.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from studies.claims.claim import judged_here
from studies.claims.statement import interval_over, interval_words
from studies.measurements.descriptions import Choice, Measurement
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.rassouli.claims.comparisons import ATTACKS, LABELS
from studies.rassouli.claims.reconstruction import RECONSTRUCTION_CLAIMS
from studies.rassouli.windowed import (
    DATASETS,
    LEVELS,
    POSTERIOR,
    SYNTHETIC,
    Windows,
    brought_measurements,
    choice_words,
    classes_over,
    mean_errors,
    measured_on,
    measurements_over,
    model_of,
    posterior_measurements,
)
from studies.study import StudyRun

# Rassouli VIII measures D(c_hat || c), the attack D(c || c_hat), which is convex (Remark 7 has them the wrong way).
GIA_STEPS = 1000


def gia(init: str, steps: int = GIA_STEPS) -> Choice:
    """Gradient inversion by Kullback-Leibler divergence from one of its starts."""
    return Choice.of("gia", distance="kld", init=init, steps=steps)


CLOSED = tuple(Choice.of(name) for name in ("zero", "half", "ls", "clamped_ls", "cls", "half_star", "rcc2"))
RCC1 = Choice.of("rcc1")
# What the literature had before this paper, and what this paper adds.
BEFORE, PROPOSED = ("ls", "gia"), ("cls", "half_star", "rcc1", "rcc2", "clamped_ls")


@dataclass(frozen=True)
class _Plan:
    """How much is run.

    Attributes:
        datasets: which.
        rows: most that are used; None for all.
        closed: windows of the attacks in closed form and of rcc2.
        again: the same on a second split.
        centres: windows of rcc1, which takes a hundred times as long.
        searches: windows of gradient inversion.
        ours: windows of the Bayesian adversary.
        other: windows of the model by lbfgs.
        records: attacked predictions.
        auxiliary: complete records of the highest level.
        steps: of gradient inversion.
    """

    datasets: tuple[str, ...]
    rows: int | None
    closed: Windows
    again: Windows
    centres: Windows
    searches: Windows
    ours: Windows
    other: Windows
    records: int
    auxiliary: int
    steps: int


_FULL = _Plan(
    DATASETS,
    None,
    closed=Windows(),
    again=Windows(count=6),
    centres=Windows(count=12),
    searches=Windows(count=5),
    ours=Windows(sizes=8, count=4),
    other=Windows(sizes=12, count=6),
    records=1000,
    auxiliary=90,
    steps=GIA_STEPS,
)
_QUICK = _Plan(
    ("satellite", SYNTHETIC),
    4000,
    closed=Windows(sizes=5, count=4),
    again=Windows(sizes=3, count=2),
    centres=Windows(sizes=5, count=4),
    searches=Windows(sizes=3, count=2),
    ours=Windows(sizes=3, count=2),
    other=Windows(sizes=3, count=2),
    records=100,
    auxiliary=40,
    steps=300,
)


def white_box_section(run: StudyRun, plan: _Plan | None = None) -> Section:
    """Measure every attack of Figure 4 over windows of adjacent passive columns, and ours at four levels.

    ``data``: a row per data set, trainer, split, window, attack (``measure_all``), with ``k`` besides. ``attack`` has
    gradient inversion as ``gia`` whatever its options, which the notes say. Attacks of ``run`` are measured where
    gradient inversion is.
    """
    plan = plan or (_QUICK if run.quick else _FULL)
    names, skipped = run.available(plan.datasets)
    data = measured_on(run, names, partial(_measurements, run, plan))
    data = data.assign(attack=_short(data["attack"]), k=classes_over(data))
    return Section(
        name="white_box",
        title="Attacks in the white box (Figure 4)",
        data=data,
        summary=mean_errors(data, ["dataset", "trainer"], "attack"),
        plots=(_plot(data),),
        notes=(*skipped, *_notes(data, plan)),
        statements=judged_here(RECONSTRUCTION_CLAIMS, data[data["trainer"] == "adam"], DATASETS),
    )


def _measurements(run: StudyRun, plan: _Plan, name: str) -> list[Measurement]:
    first, second = (model_of(name, run.seed + number, rows=plan.rows) for number in (0, 1))
    other = model_of(name, run.seed, "lbfgs", plan.rows)
    return [
        *measurements_over(first, plan.closed, CLOSED, plan.records),
        # With a seed for every window: guesses of one seed would all err alike.
        *(
            replace(measurement, attack=Choice.of("random_guess", seed=number))
            for number, measurement in enumerate(
                measurements_over(first, plan.closed, (Choice.of("random_guess"),), plan.records)
            )
        ),
        *measurements_over(second, plan.again, (*CLOSED, RCC1), plan.records),
        *measurements_over(first, plan.centres, (RCC1,), plan.records),
        *measurements_over(first, plan.searches, (gia("zero", plan.steps),), plan.records),
        *brought_measurements(run.attacks, first, plan.searches, plan.records, plan.auxiliary),
        *measurements_over(other, plan.other, CLOSED, plan.records),
        *posterior_measurements(first, plan.ours, plan.records, plan.auxiliary),
    ]


def _short(words: pd.Series) -> pd.Series:
    """Gradient inversion and random guesses without their options."""
    short = words.where(~words.str.startswith("gia(distance=kld, init=zero"), "gia")
    return short.where(~short.str.startswith("random_guess("), "random_guess")


# --- drawing ------------------------------------------------------------------------------------------------------


def _plot(data: pd.DataFrame) -> Plot:
    """Two panels per data set: what the paper compares, and what is left on the table."""
    adam = data[data["trainer"] == "adam"]
    panels = [
        panel
        for name in adam["dataset"].unique()
        for panel in (_published(adam[adam["dataset"] == name], name), _beside(adam[adam["dataset"] == name], name))
    ]
    return Plot(
        "white-box",
        panels,
        "Figure 4, mean squared error per feature over windows of adjacent passive columns. Left: the attacks that the "
        "paper compares. Right: the best of them, the Bayesian adversary at each level of what it knows beforehand, "
        "and what the level's best guess errs without a score. As in the paper, Zero is not drawn for satellite and "
        "synthetic.",
    )


def _published(own: pd.DataFrame, name: str) -> Panel:
    left_out = ("zero",) if name in ("satellite", SYNTHETIC) else ()
    plugins = [attack for attack in own["attack"].unique() if attack not in LABELS and not attack.startswith(POSTERIOR)]
    curves = [curve(own, attack, label) for attack, label in LABELS.items() if attack not in left_out]
    curves += [curve(own, attack, attack) for attack in plugins]
    curves.append(curve(own, level("half"), "posterior, knows nothing", ours=True))
    return error_panel(f"{name}: the paper's attacks", curves)


def _beside(own: pd.DataFrame, name: str) -> Panel:
    best = best_published(own)
    curves = [curve(own, best, LABELS.get(best, best))]
    curves += [curve(own, level(prior), f"posterior, knows {word}", ours=True) for prior, word in LEVELS.items()]
    curves += [
        curve(own, level(prior), f"guess, knows {word}", measure="guess", ours=True)
        for prior, word in LEVELS.items()
        # The mean is the best guess of the third level as well.
        if prior != "covariance"
    ]
    return error_panel(f"{name}: what is left on the table", curves)


def error_panel(title: str, curves: Sequence[Curve]) -> Panel:
    """Errors against d/k, of the curves that have points."""
    return Panel(title, "d / k", "MSE per feature", tuple(one for one in curves if one.x), marks=((1.0, "d = k"),))


def curve(own: pd.DataFrame, attack: str, label: str, *, measure: str = "mse", ours: bool = False) -> Curve:
    """An attack's mean over windows against d/k, of rows of one data set; without points where nobody measured it."""
    if measure not in own:
        return Curve(label, (), ())
    rows = own[(own["attack"] == attack) & own[measure].notna()]
    means = rows.groupby(["d", "k"])[measure].mean()
    return Curve(label, tuple(d / k for d, k in means.index), tuple(means.tolist()), ours=ours)


def level(prior: str) -> str:
    """The Bayesian adversary at a level, as a frame has it."""
    return choice_words(POSTERIOR, prior=prior)


def best_published(own: pd.DataFrame) -> str:
    """The attack of the paper that errs least on average where equations don't settle everything.

    Rows of one data set. Averages are over the windows on which all were measured.
    """
    hidden = own[(own["d"] >= own["k"]) & own["attack"].isin([*BEFORE, *PROPOSED])]
    table = hidden.pivot_table(index=["seed", "d", "start"], columns="attack", values="mse").dropna()
    return str(table.mean().idxmin()) if len(table) else "rcc2"


# --- what the numbers say -----------------------------------------------------------------------------------------


def _notes(data: pd.DataFrame, plan: _Plan) -> list[str]:
    return [
        f"{plan.records} held-out predictions of each window, averaged over windows; models by Adam with early "
        "stopping, as the paper's. The models by lbfgs, which goes on to larger weights, are in the table and in the "
        f"data. Windows: attacks in closed form {_counted(plan.closed)}, rcc1 {_counted(plan.centres)}, gradient "
        f"inversion {_counted(plan.searches)}, ours {_counted(plan.ours)}; and a second split.",
        "CLS has many solutions for d >= k, and what a solver returns depends on where it starts; here it is the one "
        "of minimum norm, which is unique. GIA is gradient inversion from 0 by the divergence D(c || c_hat), with "
        f"{plan.steps} steps of Adam.",
        "The Bayesian adversary knows nothing, the columns' means and variances, their covariance, or "
        f"{plan.auxiliary} complete records; it owns its own columns in all cases. A level's guess is what it would "
        "say with the scores withheld, or a constant that errs less.",
        *(_left_on_the_table(data, name) for name in data["dataset"].unique()),
    ]


def _counted(over: Windows) -> str:
    count = "every window" if over.count is None else f"{over.count} windows"
    return f"{count} of {'every' if over.sizes is None else over.sizes} d"


def _left_on_the_table(data: pd.DataFrame, name: str) -> str:
    """How far the best published attack is from ours, on the windows that both were measured on."""
    own = data[(data["dataset"] == name) & (data["trainer"] == "adam") & (data["d"] >= data["k"])]
    best = best_published(own)
    said = []
    for prior in LEVELS:
        pairs = ATTACKS.pairs(own, best, level(prior))
        if not len(pairs):
            continue
        theirs, ours = pairs["left"].mean(), pairs["right"].mean()
        guess = _guess_on(pairs, own[own["attack"] == level(prior)])
        part = max(0.0, 1 - ours / guess) if guess > 0 else float("nan")
        gap = interval_words(interval_over(pairs, "difference"))
        said.append(
            f"with prior={prior} ours errs {number_words(ours)} beside {number_words(theirs)} (difference {gap}), "
            f"a guess {number_words(guess)}: the federation's part is {number_words(part)}"
        )
    listed = "; ".join(said) or "ours was not measured"
    return f"{name}, d >= k: the paper's best attack is {LABELS.get(best, best)}; {listed}."


def _guess_on(pairs: pd.DataFrame, ours: pd.DataFrame) -> float:
    """What the least guess of our level errs without scores, over the windows of ``pairs``; NaN where nobody said."""
    on = ["seed", "d", "start"]
    return float(pairs[on].merge(ours, on=on)["guess"].mean()) if "guess" in ours else float("nan")
