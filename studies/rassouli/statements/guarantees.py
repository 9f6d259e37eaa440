"""What the paper proves, and states of Figure 5: checks on every window (Theorems 1 and 2, Remarks 3 and 4).

Every function takes rows as ``bounds_section`` gives them.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from studies.claims.statement import Statement, interval_over, interval_words, verdict_of
from studies.page.elements import number_words
from studies.rassouli.statements.comparisons import each, hidden

_DATASETS = ("bank", "robot", "satellite", "synthetic")
_ATTACKS = {"ls": "LS", "half_star": "Half*"}
_ROUNDING = 1e-6
# Curves that a reader can't tell apart, and a bound that is tight: relative to the larger one.
_COINCIDES, _TIGHT = 0.05, 0.9
# The last third of the values of d.
_LARGE = 2 / 3


def guarantee_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """All statements on theorems, each computed from the rows."""
    return (
        _theorem_1(frame),
        *_theorem_2(frame),
        _floor(frame),
        _feasible(frame),
        *_remark_4(frame),
        *_coincide(frame),
        *_tight(frame),
        *_converges(frame),
    )


def _theorem_1(frame: pd.DataFrame) -> Statement:
    broken = int(frame["violations"].sum()) if len(frame) else 0
    return Statement(
        "Theorem 1",
        "every prediction",
        "RCC2 errs no more than Half*, and Half* no more than Half, record by record (eq. 44, 48).",
        verdict_of((frame["violations"] == 0).tolist()),
        f"{broken} violations in {len(frame)} windows; the largest amount is {_largest(frame, 'violation')}",
    )


def _largest(frame: pd.DataFrame, measure: str) -> str:
    return number_words(float(frame[measure].max())) if len(frame) else "unknown"


def _theorem_2(frame: pd.DataFrame) -> Iterator[Statement]:
    for attack, words in _ATTACKS.items():
        inside = (frame[attack] >= frame[f"{attack}_lower"] - _ROUNDING) & (
            frame[attack] <= frame[f"{attack}_upper"] + _ROUNDING
        )
        yield Statement(
            "Theorem 2, Figure 5",
            "every window",
            f"The bounds of {words} are valid.",
            verdict_of(inside.tolist()),
            f"{int((~inside).sum())} violations in {len(frame)} windows",
        )


def _floor(frame: pd.DataFrame) -> Statement:
    below = (frame[list(_ATTACKS)].min(axis=1) < frame["floor"] - _ROUNDING) if len(frame) else pd.Series(dtype=bool)
    return Statement(
        "Theorem 2, eq. 52",
        "every window",
        "Neither LS nor Half* errs less than the covariance allows.",
        verdict_of((~below).tolist()),
        f"{int(below.sum())} violations in {len(frame)} windows",
    )


def _feasible(frame: pd.DataFrame) -> Statement:
    return Statement(
        "Propositions 2 and 3",
        "every window",
        "RCC1 and RCC2 belong to the set of feasible solutions.",
        verdict_of((frame["infeasible"] < _ROUNDING).tolist()),
        f"the largest distance from [0, 1] or from solving the equations is {_largest(frame, 'infeasible')}",
    )


def _remark_4(frame: pd.DataFrame) -> Iterator[Statement]:
    expected = np.minimum(frame["k"] - 1, frame["d"])
    full = frame["rank"] == expected
    yield Statement(
        "Remark 4",
        "every window",
        "A has full rank: min(k - 1, d).",
        verdict_of(full.tolist()),
        f"in {int(full.sum())} of {len(frame)} windows",
        "" if full.all() else "A guess: a column that is constant there, or a weight of 0, takes a rank away.",
    )
    yield Statement(
        "Remark 4",
        "every window",
        "The passive party can bound what LS and Half* err before training, from its own columns.",
        verdict_of((frame["out_of_bounds"] == 0).tolist()),
        f"{int(frame['out_of_bounds'].sum())} of {2 * len(frame)} errors lie outside",
    )


def _coincide(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), _DATASETS):
        for attack, words in _ATTACKS.items():
            theory, empirical = (own.groupby("d")[column].mean() for column in (attack, f"{attack}_empirical"))
            apart = (empirical / theory - 1).abs()
            yield Statement(
                "Figure 5",
                name,
                f"The closed form of {words} coincides with its empirical value.",
                verdict_of((apart < _COINCIDES).tolist()),
                f"{apart.mean():.1%} apart on average over d, {apart.max():.1%} at most",
                ""
                if (apart < _COINCIDES).all()
                else "The closed form is exact for the records whose moments it is from; others are a sample of few.",
            )


def _tight(frame: pd.DataFrame) -> Iterator[Statement]:
    for names, attack, bound, words in (
        (("bank",), "ls", "ls_upper", "The upper bound of LS is tight where d is large enough."),
        (("satellite", "synthetic"), "half_star", "floor", "The lower bound of eq. 52 is tight for Half*."),
    ):
        for name, own in each(hidden(frame), names):
            chosen = own[own["d"] >= _LARGE * own["d"].max()] if bound == "ls_upper" else own
            sides = chosen[[attack, bound]]
            ratio = interval_over(chosen.assign(ratio=sides.min(axis=1) / sides.max(axis=1)), "ratio", ("start",))
            yield Statement(
                "Figure 5",
                name,
                words,
                verdict_of([ratio.mean > _TIGHT]),
                f"the smaller one is {interval_words(ratio)} of the larger one"
                + (", in the last third of d" if bound == "ls_upper" else ""),
            )


def _converges(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), _DATASETS):
        far, bound = (np.array(own[column].tolist()) for column in ("far", "chebyshev"))
        # A share of 200 draws: three standard errors.
        held = far <= bound + 3 * np.sqrt(np.maximum(far * (1 - far), 1 / 200) / 200)
        first, last = (number_words(float(far[:, end].mean())) for end in (0, -1))
        yield Statement(
            "Section III, eq. 7",
            name,
            "The empirical error converges to the MSE as the number of predictions grows.",
            verdict_of([bool(held.all()), bool((np.diff(far.mean(axis=0)) <= 0).all())]),
            f"more than 10 % off in {first} of the draws of 10 predictions, in {last} of those of 1,000; above "
            f"Chebyshev's bound in {int((~held).sum())} of {held.size} (window, N)",
        )
