"""What the paper proves, and states of Figure 5: checks on every window (Theorems 1 and 2, Remarks 3 and 4).

Rows are as ``bounds_section`` gives them.
"""

import numpy as np
import pandas as pd

from studies.claims.claim import Claim, Finding, Test
from studies.claims.kinds import among, every
from studies.claims.statement import interval_over, interval_words
from studies.page.elements import number_words
from studies.rassouli.claims.comparisons import DATASETS, hidden

_ATTACKS = {"ls": "LS", "half_star": "Half*"}
_ROUNDING = 1e-6
# Curves that a reader can't tell apart, and a bound that is tight: relative to the larger one.
_COINCIDES, _TIGHT = 0.05, 0.9
# The last third of the values of d.
_LARGE = 2 / 3


def _inside(attack: str) -> Test:
    return every(
        lambda rows: (
            (rows[attack] >= rows[f"{attack}_lower"] - _ROUNDING)
            & (rows[attack] <= rows[f"{attack}_upper"] + _ROUNDING)
        )
    )


def _coincides(attack: str) -> Test:
    def tested(rows: pd.DataFrame) -> Finding:
        theory, empirical = (rows.groupby("d")[column].mean() for column in (attack, f"{attack}_empirical"))
        apart = (empirical / theory - 1).abs()
        return Finding(
            (apart < _COINCIDES).tolist(), f"{apart.mean():.1%} apart on average over d, {apart.max():.1%} at most"
        )

    return among(hidden, tested)


def _tight(attack: str, bound: str, *, large: bool = False) -> Test:
    def tested(rows: pd.DataFrame) -> Finding:
        chosen = rows[rows["d"] >= _LARGE * rows["d"].max()] if large else rows
        sides = chosen[[attack, bound]]
        ratio = interval_over(chosen.assign(ratio=sides.min(axis=1) / sides.max(axis=1)), "ratio", ("start",))
        words = f"the smaller one is {interval_words(ratio)} of the larger one"
        return Finding([ratio.mean > _TIGHT], words + (", in the last third of d" if large else ""))

    return among(hidden, tested)


def _converges(rows: pd.DataFrame) -> Finding:
    far, bound = (np.array(rows[column].tolist()) for column in ("far", "chebyshev"))
    # A share of 200 draws: three standard errors.
    held = far <= bound + 3 * np.sqrt(np.maximum(far * (1 - far), 1 / 200) / 200)
    first, last = (number_words(float(far[:, end].mean())) for end in (0, -1))
    return Finding(
        [bool(held.all()), bool((np.diff(far.mean(axis=0)) <= 0).all())],
        f"more than 10 % off in {first} of the draws of 10 predictions, in {last} of those of 1,000; above Chebyshev's "
        f"bound in {int((~held).sum())} of {held.size} (window, N)",
    )


_EVERY = "every window"
GUARANTEES = (
    Claim(
        "Theorem 1",
        "RCC2 errs no more than Half*, and Half* no more than Half, record by record (eq. 44, 48).",
        every(
            lambda rows: rows["violations"] == 0,
            more=lambda rows: (
                f"{int(rows['violations'].sum())} violations, by at most {number_words(float(rows['violation'].max()))}"
            ),
        ),
        subject="every prediction",
    ),
    *(
        Claim("Theorem 2, Figure 5", f"The bounds of {words} are valid.", _inside(attack), subject=_EVERY)
        for attack, words in _ATTACKS.items()
    ),
    Claim(
        "Theorem 2, eq. 52",
        "Neither LS nor Half* errs less than the covariance allows.",
        every(lambda rows: rows[list(_ATTACKS)].min(axis=1) >= rows["floor"] - _ROUNDING),
        subject=_EVERY,
    ),
    Claim(
        "Propositions 2 and 3",
        "RCC1 and RCC2 belong to the set of feasible solutions.",
        every(
            lambda rows: rows["infeasible"] < _ROUNDING,
            more=lambda rows: (
                "the largest distance from [0, 1] or from solving the equations is "
                f"{number_words(float(rows['infeasible'].max()))}"
            ),
        ),
        subject=_EVERY,
    ),
    Claim(
        "Remark 4",
        "A has full rank: min(k - 1, d).",
        every(lambda rows: rows["rank"] == np.minimum(rows["k"] - 1, rows["d"])),
        "A guess: a column that is constant there, or a weight of 0, takes a rank away.",
        _EVERY,
    ),
    Claim(
        "Remark 4",
        "The passive party can bound what LS and Half* err before training, from its own columns.",
        every(
            lambda rows: rows["out_of_bounds"] == 0,
            more=lambda rows: f"{int(rows['out_of_bounds'].sum())} of {2 * len(rows)} errors lie outside",
        ),
        subject=_EVERY,
    ),
    *(
        one
        for attack, words in _ATTACKS.items()
        for one in Claim(
            "Figure 5",
            f"The closed form of {words} coincides with its empirical value.",
            _coincides(attack),
            "The closed form is exact for the records whose moments it is from; others are a sample of few.",
        ).on(*DATASETS)
    ),
    *Claim(
        "Figure 5", "The upper bound of LS is tight where d is large enough.", _tight("ls", "ls_upper", large=True)
    ).on("bank"),
    *Claim("Figure 5", "The lower bound of eq. 52 is tight for Half*.", _tight("half_star", "floor")).on(
        "satellite", "synthetic"
    ),
    *Claim(
        "Section III, eq. 7",
        "The empirical error converges to the MSE as the number of predictions grows.",
        among(hidden, _converges),
    ).on(*DATASETS),
)
