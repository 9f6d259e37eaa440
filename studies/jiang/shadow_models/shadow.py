"""Jiang, Figure 11: how many complete records a shadow model needs, against the white box and against who has records.

SIMULATION: models are trained in one place; auxiliary records are held-out ones whose scores the model gives.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import pandas as pd

from studies.claims.claim import Claim, Finding
from studies.claims.kinds import where
from studies.claims.statement import Statement
from studies.jiang.inversion.inversion_setting import QUICK_STEPS, RECORDS, STEPS, gradient_inversion
from studies.jiang.paired_points import (
    KINDS,
    Point,
    curve,
    difference,
    judged_on,
    mean_error,
    mean_table,
    measured,
    names_in,
    told,
)
from studies.jiang.splits import Split, Splits, threshold
from studies.measurements import AttackMeasurement, Choice
from studies.measurements.descriptions import ModelKind
from studies.page.elements import number_words
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.study import StudyRun

SHARES = (0.1, 0.25, 0.5, 1.0)
# "Almost the same" and "close": within this share of the white box's error.
_CLOSE = 0.1
_EARLY = 0.25
# "Satisfactory": within this one, and better than a random guess.
_SATISFACTORY = 0.25
_READ = (
    "n is rounded up, tau is that of r = 1 as in the paper (19 to 24 records for LR, 52 to 77 for networks). Passive "
    "columns are windows of adjacent ones, for which the paper gives no rule; auxiliary records are held-out ones that "
    "aren't attacked, so that a guess from them alone, without a score, is what the attack must be better than."
)


@dataclass(frozen=True)
class _Plan:
    """How much is run: by model, the paper's data sets and their splits; shares of tau; draws of posteriors."""

    linear: tuple[tuple[str, ...], Splits]
    network: tuple[tuple[str, ...], Splits]
    shares: tuple[float, ...] = SHARES
    draws: int = 100


_RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)
_FULL = _Plan(
    (("bank_all", "robot"), Splits(_RATIOS, windows=4, seeds=2, steps=STEPS)),
    (("satellite", "drive"), Splits(_RATIOS, windows=3, seeds=3, steps=STEPS)),
)
_QUICK = _Plan(
    (("robot",), Splits((0.5,), windows=2, steps=QUICK_STEPS)),
    (("drive",), Splits((0.5,), windows=2, steps=QUICK_STEPS)),
    shares=(0.25, 1.0),
    draws=20,
)


def shadow(run: StudyRun) -> Section:
    """Measure shadow models by n / tau, the white box, and the Bayesian adversary with the same records.

    ``data`` has a row per data set, model, r, window, seed and adversary. adversary: shadow, white box, random guess,
    posterior (ours, knows the same n records), imputation (sees the records and no score). share: n / tau; n: records.
    """
    plan = _QUICK if run.quick else _FULL
    groups: dict[ModelKind, tuple[tuple[str, ...], Splits]] = {"linear": plan.linear, "network": plan.network}
    names, missing = run.available([name for chosen, _ in groups.values() for name in chosen])
    points = [
        point
        for kind, (chosen, splits) in groups.items()
        for name in chosen
        if name in names
        for split in splits.of(name, run.seed, kind)
        for point in _points(plan, splits, split, run.attacks)
    ]
    data = measured(run, points)
    return Section(
        name="shadow",
        title="Black box: a shadow model of few complete records (Figure 11)",
        data=data,
        summary=mean_table(data, "dataset", "model", "adversary", "share", "n", measures=("mse", "attack_accuracy")),
        plots=(Plot("shadow", _panels(data), _CAPTION),) if len(data) else (),
        notes=(*missing, *_notes(data)),
        statements=shadow_statements(data),
    )


_CAPTION = (
    "Figure 11: error per feature of shadow models by n / tau, tau of eq. 21 and 22 at r = 1. Ours: the "
    "Bayesian adversary with the same complete records, and what the records alone tell, without a score."
)


def _points(plan: _Plan, splits: Splits, split: Split, others: Sequence[Choice]) -> Iterator[Point]:
    hidden = split.hidden
    tau = threshold(split.model.data.name, hidden)

    def point(adversary: str, attack: Choice, share: float | None = None) -> Point:
        n = 0 if share is None else records_at(share, tau)
        measurement = AttackMeasurement(split.model, split.passive, attack, RECORDS)
        if n:
            measurement = replace(measurement, auxiliary=n, access="black_box", seed=split.model.seed)
        return Point({**split.labels, "adversary": adversary, "share": share or 0.0, "n": n, "tau": tau}, measurement)

    yield point("white box", gradient_inversion(splits.steps))
    yield point("random guess", Choice.of("random_guess"))
    yield point("white box, posterior", Choice.of("posterior", prior="half", draws=plan.draws))
    for share in plan.shares:
        yield point("shadow", splits.shadow(hidden), share)
        yield point("posterior", Choice.of("posterior", prior="imputation", draws=plan.draws), share)
        yield point("imputation", Choice.of("imputation"), share)
    for other in others:
        yield point(other.words, other, 1.0)


def records_at(share: float, tau: int) -> int:
    """Count the complete records of a share of tau: rounded up, since fewer give fewer equations."""
    return math.ceil(share * tau - 1e-9)


# --- what is shown -------------------------------------------------------------------------------------------------


def _panels(data: pd.DataFrame) -> list[Panel]:
    return [
        Panel(
            f"{name}, {KINDS[kind]}, tau = {tau}",
            "ratio of passive features r",
            "MSE per feature",
            _curves(where(data, dataset=name, model=kind)),
        )
        for name, kind, tau in data[["dataset", "model", "tau"]].drop_duplicates().to_numpy().tolist()
    ]


def _curves(part: pd.DataFrame) -> tuple[Curve, ...]:
    most = part["share"].max()
    published = [
        curve(where(part, adversary="shadow", share=share), "mse", f"shadow, {share:g} tau")
        for share in sorted(set(part.loc[part["adversary"] == "shadow", "share"]))
    ]
    known = {"shadow", "posterior", "imputation", "white box", "random guess", "white box, posterior"}
    given = [name for name in part["adversary"].unique() if name not in known]
    return (
        *published,
        curve(where(part, adversary="white box"), "mse", "white box, GIA"),
        curve(where(part, adversary="random guess"), "mse", "random guess"),
        *(curve(where(part, adversary=name), "mse", name) for name in given),
        curve(where(part, adversary="posterior", share=most), "mse", f"posterior, {most:g} tau", ours=True),
        curve(where(part, adversary="imputation", share=most), "mse", f"records alone, {most:g} tau", ours=True),
        curve(where(part, adversary="white box, posterior"), "mse", "white box, posterior (1/2)", ours=True),
    )


# --- what the numbers say ------------------------------------------------------------------------------------------


_TOO_FEW = "Ours: the mean falls at every step, by less than so few windows and seeds can tell from chance."
_SATURATED = (
    "Where the shadow is as good as the white box already, more records change nothing that can be told from chance."
)
_SHRUNK = (
    "With n < tau a shadow is known only along what its records show, and stays near its own start elsewhere: its "
    "inversion moves less from 0, which errs no more than moving far on a well-known model whose few equations leave "
    "most of the features open."
)
_START = (
    "GIA starts at 0 and stays near it where k - 1 equations say nothing, and most of its error is that start's: what "
    "a shadow gets wrong moves the guess elsewhere, for better or worse."
)


def _falling(rows: pd.DataFrame) -> Finding:
    steps = {
        (name, fewer, more): (where(of, share=fewer), where(of, share=more))
        for name, of in _shadows(rows)
        for fewer, more in pairwise(sorted(set(of["share"])))
    }
    changes = {step: difference(more, fewer, "mse") for step, (fewer, more) in steps.items()}
    reached = {
        step: difference(fewer, where(rows, dataset=step[0], adversary="white box"), "mse")
        for step, (fewer, _) in steps.items()
    }
    # Which of the reasons apply: some step starts at the white box's error; some step rises.
    why = [
        _SATURATED if abs(there.share) <= _CLOSE else _SHRUNK
        for step, change in changes.items()
        if change is not None and not change.is_below and (there := reached[step]) is not None
    ]
    if why and all(change is None or change.mean.mean < 0 for change in changes.values()):
        why = [_TOO_FEW]
    said = {f"{name}, {fewer:g} to {more:g} tau": change for (name, fewer, more), change in changes.items()}
    found = told("Paired changes of the error", said, lambda change: change.is_below)
    return replace(found, reason=" ".join(dict.fromkeys(why)))


def _as_white_box(rows: pd.DataFrame) -> Finding:
    return told(
        f"Error at tau less the white box's (almost the same: within {_CLOSE:.0%})",
        {
            name: difference(where(of, share=1.0), where(rows, dataset=name, adversary="white box"), "mse")
            for name, of in _shadows(rows)
        },
        lambda change: abs(change.share) <= _CLOSE,
        lambda change: f"{change.words}, {change.share:+.0%}",
    )


def _early(few: int, rows: pd.DataFrame) -> Finding:
    held, said = [], []
    for name, of in _shadows(rows):
        attacked = where(of, share=_EARLY)
        white, random = (where(rows, dataset=name, adversary=who) for who in ("white box", "random guess"))
        change, gain = (difference(attacked, other, "mse") for other in (white, random))
        if change is not None and gain is not None:
            n = int(attacked["n"].max())
            held += [n < few, change.share <= _SATISFACTORY, gain.is_below]
            said.append(
                f"{name} {n} records, {change.share:+.0%} of the white box's error, {gain.words} from a random guess"
            )
    lead = f"Three conditions per data set (fewer than {few} records; at most {_SATISFACTORY:.0%} above the white "
    lead += f"box's error; below a random guess's): {'; '.join(said)}."
    return Finding(held, lead if held else "")


def _claims(figure: str, few: int, reached: str) -> tuple[Claim, ...]:
    return (
        Claim(f"5.3, Figure {figure}", "The attack error decreases with an increase in n.", _falling),
        Claim(
            f"5.3, Figure {figure}",
            "When n = tau, the attack error is almost the same as for the white-box attack.",
            _as_white_box,
            _START,
        ),
        Claim(
            f"1 and 5.3, Figure {figure}",
            f"From n = {_EARLY:g} tau on, which is less than {few} records, the attack is {reached}.",
            partial(_early, few),
            _START,
        ),
    )


_CLAIMS = {"linear": _claims("11a", 10, "satisfactory"), "network": _claims("11b", 25, "close to the white box")}


def shadow_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what sections 1 and 5.3 say of Figure 11, from rows of the section's ``data``."""
    return tuple(
        one for kind, claims in _CLAIMS.items() for one in judged_on(KINDS[kind], claims, where(data, model=kind))
    )


def _shadows(own: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    found = where(own, adversary="shadow")
    for name in names_in(found):
        yield name, where(found, dataset=name)


def _notes(data: pd.DataFrame) -> Iterator[str]:
    for kind, words in KINDS.items():
        for name, of in _shadows(where(data, model=kind)):
            errors = {share: mean_error(where(of, share=share)) for share in sorted(set(of["share"]))}
            best = min(errors, key=lambda share: errors[share])
            ours, alone = (
                mean_error(where(data, model=kind, dataset=name, adversary=who, share=best))
                for who in ("posterior", "imputation")
            )
            yield (
                f"{name}, {words}: the best shadow, at {best:g} tau, errs by {number_words(errors[best])} over all r; "
                f"the Bayesian adversary with the same records by {number_words(ours)}; those records alone, without a "
                f"score, by {number_words(alone)}."
            )
    yield _READ
