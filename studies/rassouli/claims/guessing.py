"""What the paper states of the black box: section VI, and Figure 7.

Rows are as ``black_box_section`` gives them.
"""

from collections.abc import Callable

import pandas as pd

from studies.claims.claim import Claim, Finding, Test
from studies.claims.kinds import among, every
from studies.claims.statement import interval_over, interval_words
from studies.page.elements import number_words

_EMPLOYMENT = 14
_SIGN, _SHIFT, _SIGNS = "sign of omega b", "b", "signs"
# What counts as gone, beside a guess of 1/2.
_GONE = 0.1
# What is as 1/2: so much more or less, as a share of its error. A number that is as the paper prints it, likewise.
_AS_HALF, _AS_PRINTED = 0.1, 0.05
_PRINTED = {"omega": 0.98916, "b": 3.048751}
_COLUMN = ("dataset", "seed", "column")


def _employment(frame: pd.DataFrame) -> pd.DataFrame:
    """Figure 7's own column, with the error at the largest N."""
    return _of(_SIGN)(frame[(frame["dataset"] == "bank") & (frame["column"] == _EMPLOYMENT)])


def _of(knows: str, case: str = "") -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Columns in a case of who knows so much, with the error at the largest N."""

    def chosen(frame: pd.DataFrame) -> pd.DataFrame:
        own = frame[(frame["knows"] == knows) & (frame["case"] == case)] if case else frame[frame["knows"] == knows]
        return own.assign(error=[float(row[-1]) for row in own["error"]])

    return chosen


def _as_printed(own: pd.DataFrame) -> Finding:
    # Which of two classes is the first turns both signs.
    near = [abs(abs(one) / printed - 1) < _AS_PRINTED for key, printed in _PRINTED.items() for one in own[key]]
    return Finding(
        [*(own["omega"] * own["b"] > 0), *near],
        ", ".join(f"omega {row.omega:.2f}, b {row.b:.2f}" for row in own.itertuples()),
    )


def _converged(own: pd.DataFrame) -> Finding:
    return Finding(
        (own["error"] < _GONE * own["half"]).tolist(),
        f"{interval_words(interval_over(own, 'error', ('seed',)))} at the largest N, a guess of 1/2 "
        f"{number_words(float(own['half'].mean()))}",
    )


def _gone(own: pd.DataFrame) -> Finding:
    """Every column that takes both its ends often enough to be seen; the others are told in the reason."""
    gone = own["error"] < _GONE * own["half"]
    rare = own[~gone]
    listed = ", ".join(f"{row['dataset']} {row['name']}" for row in rare.head(6).to_dict("records"))
    return Finding(
        gone.tolist(),
        f"after all predictions {int(gone.sum())} of {len(own)} columns err less than {_GONE:.0%} of a guess of 1/2; "
        f"on average {interval_words(interval_over(own, 'error', _COLUMN))}",
        f"Values near 0 or 1 are rare in the others (columns {listed}), or no held-out record has them: the bound "
        f"falls to that share after 10,000 predictions in {int((rare['bound_later'] < _GONE * rare['half']).sum())} "
        "of them."
        if len(rare)
        else "",
    )


def _as_half(own: pd.DataFrame) -> Finding:
    """Both ways: an average of x and 1 - x is 1/2, neither better nor worse."""
    ratios = own.assign(ratio=own["error"] / own["half"])
    same = (ratios["ratio"] - 1).abs() < _AS_HALF
    return Finding(
        same.tolist(),
        f"{number_words(float(own['error'].mean()))} beside {number_words(float(own['half'].mean()))} of a guess, "
        f"{interval_words(interval_over(ratios, 'ratio', _COLUMN))} times as much, over {len(own)} columns, within "
        f"{_AS_HALF:.0%} at {int(same.sum())}",
    )


def _never_exceeded(case: str) -> Test:
    return among(
        lambda frame: frame[frame["case"] == case],
        every(lambda own: own["exceeded"] == 0, "columns", lambda own: f"exceeded {int(own['exceeded'].sum())} times"),
    )


_FEATURE = "bank, employment variation rate"
GUESSING_CLAIMS = (
    Claim(
        "Section VIII-C",
        "omega b > 0, with omega = 0.989 and b = 3.05.",
        among(_employment, _as_printed),
        "The sign of omega b is what the attack needs; that its parts depend on when training stops is a guess.",
        _FEATURE,
    ),
    Claim(
        "Figure 7",
        "The expected error converges to 0 within 100 predictions.",
        among(_employment, _converged),
        subject=_FEATURE,
    ),
    Claim("Eq. 65", "The error is at most (X_M - 1)^2.", _never_exceeded("1"), subject="case 1, every instance"),
    Claim(
        "Eq. 71", "The error is at most (X_M - 1)^2 + X_m^2.", _never_exceeded("2"), subject="case 2, every instance"
    ),
    *(
        Claim("Section VI", paper, among(_of(knows, case), _gone), subject=f"case {case}")
        for knows, case, paper in (
            (_SHIFT, "1", "Case 1: with b = 0 the error vanishes with N."),
            (_SIGN, "2", "Case 2: with omega b > 0 the error vanishes with N."),
            (_SIGN, "3, one sign", "Case 3: with observations of one sign the error vanishes with N."),
            (_SIGNS, "3, both signs", "Who knows the signs of omega and b errs less and less in case 3 too."),
        )
    ),
    Claim(
        "Section VI-C",
        "With observations of both signs, the average of what both signs of b would mean is no better than 1/2.",
        among(_of(_SIGN, "3, both signs"), _as_half),
        "As long as all observations have one sign, whatever later ones have, the adversary takes it for case 3's "
        "other half.",
        "case 3, both signs",
    ),
)
