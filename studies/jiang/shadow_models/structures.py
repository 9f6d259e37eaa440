"""Jiang, Figure 13: shadow models that guess the passive part's structure, which really has two hidden layers.

SIMULATION: networks are trained in one place; auxiliary records are held-out ones whose scores the network gives.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pandas as pd

from studies.claims.claim import Claim, Finding, Test
from studies.claims.kinds import where
from studies.claims.statement import Statement
from studies.jiang.inversion.inversion_setting import HIDDEN, QUICK_STEPS, RECORDS, gradient_inversion
from studies.jiang.paired_points import (
    Difference,
    Point,
    by_data_set,
    curve,
    difference,
    judged_on,
    mean_error,
    mean_table,
    measured,
    names_in,
    told,
)
from studies.jiang.splits import Split, SplitPlan, Splits, threshold
from studies.measurements import AttackMeasurement, Choice
from studies.page.elements import number_words
from studies.page.plots import Panel, Plot
from studies.page.section import Section
from studies.study import StudyRun

# Hidden layers that the adversary guesses; the real ones are HIDDEN.
GUESSED: tuple[tuple[int, ...], ...] = ((), (8,), HIDDEN, (8, 8, 8), (4, 4), (16, 16))
# "Similar": within this share of the error with the real structure.
_SIMILAR = 0.1


_FULL = SplitPlan(("bank_all", "robot", "satellite", "drive"), Splits((0.1, 0.3, 0.5, 0.7, 0.9), windows=2, seeds=2))
_QUICK = SplitPlan(("drive",), Splits((0.5,), windows=2, steps=QUICK_STEPS, shadow_steps=1000))


def structures(run: StudyRun) -> Section:
    """Measure shadow models of several structures with the same n = tau auxiliary records.

    ``data`` has a row per data set, r, window, seed and adversary. adversary: shadow (with ``structure``: its hidden
    layers), white box, random guess, posterior and imputation, as in Figure 11.
    """
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    points = [
        point
        for name in names
        for split in plan.splits.of(name, run.seed, "network")
        for point in _points(plan.splits, split, run.attacks)
    ]
    data = measured(run, points)
    return Section(
        name="structures",
        title="Black box: shadow models of another structure (Figure 13)",
        data=data,
        summary=mean_table(data, "dataset", "adversary", "structure", "n", measures=("mse", "attack_accuracy")),
        plots=(Plot("structures", _panels(data), _CAPTION),) if len(data) else (),
        notes=(*missing, *_notes(data)),
        statements=structure_statements(data),
    )


_CAPTION = (
    "Figure 13: error per feature of shadow models of several structures, n = tau; the real parts' hidden layers have "
    f"{' and '.join(map(str, HIDDEN))} units. Ours: the Bayesian adversary, which takes the part for linear, "
    "with the same records, and what these tell without a score."
)


def structure_words(hidden: tuple[int, ...]) -> str:
    """Name a structure: LR, or the units of its hidden layers."""
    return "-".join(map(str, hidden)) if hidden else "LR"


_REAL, _LR = structure_words(HIDDEN), structure_words(())
_ONE_OR_TWO = tuple(structure_words(one) for one in GUESSED if len(one) in (1, 2) and one != HIDDEN)
_DEEPER = tuple(structure_words(one) for one in GUESSED if len(one) > len(HIDDEN))


def _points(splits: Splits, split: Split, others: tuple[Choice, ...]) -> Iterator[Point]:
    tau = threshold(split.model.data.name, HIDDEN)

    def point(adversary: str, attack: Choice, structure: str = "") -> Point:
        measurement = AttackMeasurement(split.model, split.passive, attack, RECORDS)
        if adversary not in ("white box", "random guess"):
            measurement = replace(measurement, auxiliary=tau, access="black_box", seed=split.model.seed)
        return Point({**split.labels, "adversary": adversary, "structure": structure, "n": tau}, measurement)

    yield point("white box", gradient_inversion(splits.steps))
    yield point("random guess", Choice.of("random_guess"))
    yield point("posterior", Choice.of("posterior", prior="imputation", draws=100))
    yield point("imputation", Choice.of("imputation"))
    for hidden in GUESSED:
        yield point("shadow", splits.shadow(hidden), structure_words(hidden))
    for other in others:
        yield point(other.words, other)


# --- what is shown -------------------------------------------------------------------------------------------------


def _panels(data: pd.DataFrame) -> list[Panel]:
    named = {"white box": "white box, GIA", "random guess": "random guess"}
    ours = {"posterior": "posterior, tau records", "imputation": "tau records alone"}
    given = [one for one in data["adversary"].unique() if one not in {*named, *ours, "shadow"}]
    return [
        Panel(
            f"{name}, n = {tau}",
            "ratio of passive features r",
            "MSE per feature",
            (
                *(
                    curve(where(part, adversary="shadow", structure=one), "mse", f"shadow, {one}")
                    for one in map(structure_words, GUESSED)
                ),
                *(
                    curve(where(part, adversary=who), "mse", words)
                    for who, words in {**named, **dict(zip(given, given, strict=True))}.items()
                ),
                *(curve(where(part, adversary=who), "mse", words, ours=True) for who, words in ours.items()),
            ),
        )
        for name, tau, part in by_data_set(data)
    ]


# --- what the numbers say ------------------------------------------------------------------------------------------


_SIMPLE = (
    "A shadow is inverted, not only fitted: a linear one has the fewest weights that its records leave open, and its "
    "inversion has one valley where that of a network's sigmoids has flat parts."
)
_SOURCE = "5.3.2, Figure 13"


def _beside_real(others: Iterable[str], holds: Callable[[Difference], bool], more: str = "") -> Test:
    """A test of what structures err more than the real one."""

    def tested(rows: pd.DataFrame) -> Finding:
        found = {
            f"{name}, {other}": difference(
                where(rows, dataset=name, structure=other), where(rows, dataset=name, structure=_REAL), "mse"
            )
            for name in names_in(rows)
            for other in others
        }
        lead = f"Error less that with the real structure ({_REAL}), paired over r, windows and seeds{more}"
        return told(lead, found, holds, lambda change: f"{change.words}, {change.share:+.0%}")

    return tested


def _is_above(change: Difference) -> bool:
    return change.is_above


_CLAIMS = (
    Claim(
        _SOURCE, "A linear shadow model usually causes a higher attack error.", _beside_real((_LR,), _is_above), _SIMPLE
    ),
    Claim(
        _SOURCE,
        "The attack error is smallest when the shadow has the structure of the real model.",
        _beside_real([structure_words(one) for one in GUESSED if one != HIDDEN], _is_above),
        _SIMPLE,
    ),
    Claim(
        _SOURCE,
        "With one or two hidden layers the shadow reaches a similar attack performance.",
        _beside_real(_ONE_OR_TWO, lambda change: abs(change.share) <= _SIMILAR, f" (similar: within {_SIMILAR:.0%})"),
        "Units count as well as layers: a shadow fits its records in directions that its weights' start prefers.",
    ),
    Claim(
        _SOURCE,
        "The attack performance can degrade when the shadow is much more complex: three hidden layers.",
        _beside_real(_DEEPER, _is_above),
        "Where GIA's start at 0 makes most of the error, a shadow that hardly moves the guess costs nothing.",
        possible=True,
    ),
)


def structure_statements(data: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what section 5.3.2 says of Figure 13, from rows of the section's ``data``."""
    return judged_on("networks", _CLAIMS, where(data, adversary="shadow"))


def _notes(data: pd.DataFrame) -> Iterator[str]:
    for name, _, of in by_data_set(where(data)) if len(data) else ():
        errors = {
            one: mean_error(where(of, adversary="shadow", structure=one)) for one in map(structure_words, GUESSED)
        }
        best = min(errors, key=lambda one: errors[one])
        ours, alone = (mean_error(where(of, adversary=who)) for who in ("posterior", "imputation"))
        yield (
            f"{name}: the best structure of a shadow, {best}, errs by {number_words(errors[best])} over all r; the "
            f"Bayesian adversary, which regresses a linear part from the same records, by {number_words(ours)}; the "
            f"records alone, without a score, by {number_words(alone)}."
        )
    yield (
        "All structures get the same n = tau records, tau of eq. 22 for the real structure at r = 1. The paper names "
        "LR and one to three hidden layers; 4-4 and 16-16 stand for its other numbers of neurons."
    )
