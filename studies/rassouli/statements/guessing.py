"""What the paper states of the black box: section VI, and Figure 7.

Every function takes rows as ``black_box_section`` gives them.
"""

from collections.abc import Iterator

import pandas as pd

from studies.claims.statement import Statement, interval_over, interval_words, verdict_of
from studies.page.elements import number_words

_EMPLOYMENT = 14
_SIGN, _SHIFT, _SIGNS = "sign of omega b", "b", "signs"
# What counts as gone, beside a guess of 1/2.
_GONE = 0.1
# What is as 1/2: so much more or less, as a share of its error. A number that is as the paper prints it, likewise.
_AS_HALF, _AS_PRINTED = 0.1, 0.05
_PRINTED = {"omega": 0.98916, "b": 3.048751}


def guessing_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """All statements of the section, each computed from the rows."""
    return (
        *_figure_7(frame),
        *_limits(frame),
        _vanishes(frame, _SHIFT, "1", "Case 1: with b = 0 the error vanishes with N."),
        _vanishes(frame, _SIGN, "2", "Case 2: with omega b > 0 the error vanishes with N."),
        _vanishes(frame, _SIGN, "3, one sign", "Case 3: with observations of one sign the error vanishes with N."),
        _no_better_than_half(frame),
        _vanishes(
            frame, _SIGNS, "3, both signs", "Who knows the signs of omega and b errs less and less in case 3 too."
        ),
    )


def _figure_7(frame: pd.DataFrame) -> Iterator[Statement]:
    own = frame[(frame["dataset"] == "bank") & (frame["column"] == _EMPLOYMENT) & (frame["knows"] == _SIGN)]
    words = ", ".join(f"omega {row.omega:.2f}, b {row.b:.2f}" for row in own.itertuples())
    yield Statement(
        "Section VIII-C",
        "bank, employment variation rate",
        "omega b > 0, with omega = 0.989 and b = 3.05.",
        verdict_of(
            [bool(value > 0) for value in own["omega"] * own["b"]]
            # Which of two classes is the first turns both signs.
            + [bool(abs(abs(one) / printed - 1) < _AS_PRINTED) for key, printed in _PRINTED.items() for one in own[key]]
        ),
        words,
        "The sign of omega b is what the attack needs; that its parts depend on when training stops is a guess."
        if len(own)
        else "",
    )
    last = _last(own)
    yield Statement(
        "Figure 7",
        "bank, employment variation rate",
        "The expected error converges to 0 within 100 predictions.",
        verdict_of([bool(one < _GONE * half) for one, half in zip(last["error"], last["half"], strict=True)]),
        f"{interval_words(interval_over(last, 'error', ('seed',)))} at the largest N, a guess of 1/2 "
        f"{number_words(float(last['half'].mean()))}"
        if len(last)
        else "",
    )


def _last(frame: pd.DataFrame) -> pd.DataFrame:
    """With the error at the largest N."""
    return frame.assign(error=[float(row[-1]) for row in frame["error"]])


def _limits(frame: pd.DataFrame) -> Iterator[Statement]:
    for equation, case in (("65", "1"), ("71", "2")):
        own = frame[frame["case"] == case]
        held = (own["exceeded"] == 0).tolist()
        limit = "(X_M - 1)^2" if case == "1" else "(X_M - 1)^2 + X_m^2"
        yield Statement(
            f"Eq. {equation}",
            f"case {case}, every instance",
            f"The error is at most {limit}.",
            verdict_of(held),
            f"exceeded {int(own['exceeded'].sum())} times over {len(own)} columns",
        )


def _vanishes(frame: pd.DataFrame, knows: str, case: str, paper: str) -> Statement:
    """Every column that takes both its ends often enough to be seen; the others are told in the reason."""
    own = _last(frame[(frame["knows"] == knows) & (frame["case"] == case)])
    gone = own["error"] < _GONE * own["half"]
    rare = own[~gone]
    listed = ", ".join(
        f"{row.dataset} {row.name_}" for row in rare.rename(columns={"name": "name_"}).head(6).itertuples()
    )
    words = f"after all predictions {int(gone.sum())} of {len(own)} columns err less than {_GONE:.0%} of a guess of 1/2"
    if len(own):
        words += f"; on average {interval_words(interval_over(own, 'error', ('dataset', 'seed', 'column')))}"
    return Statement(
        "Section VI",
        f"case {case}",
        paper,
        verdict_of(gone.tolist()),
        words if len(own) else "",
        f"Values near 0 or 1 are rare in the others (columns {listed}), or no held-out record has them: the bound "
        f"falls to that share after 10,000 predictions in {int((rare['bound_later'] < _GONE * rare['half']).sum())} "
        "of them."
        if len(rare)
        else "",
    )


def _no_better_than_half(frame: pd.DataFrame) -> Statement:
    """Both ways: an average of x and 1 - x is 1/2, neither better nor worse."""
    own = _last(frame[(frame["knows"] == _SIGN) & (frame["case"] == "3, both signs")])
    same = (own["error"] / own["half"] - 1).abs() < _AS_HALF
    ratios = own.assign(ratio=own["error"] / own["half"])
    return Statement(
        "Section VI-C",
        "case 3, both signs",
        "With observations of both signs, the average of what both signs of b would mean is no better than 1/2.",
        verdict_of(same.tolist()),
        f"{number_words(float(own['error'].mean()))} beside {number_words(float(own['half'].mean()))} of a guess, "
        f"{interval_words(interval_over(ratios, 'ratio', ('dataset', 'seed', 'column')))} times as much, over "
        f"{len(own)} columns"
        if len(own)
        else "",
        ""
        if same.all()
        else f"Within {_AS_HALF:.0%} at {int(same.sum())}. As long as all observations have one sign, whatever later "
        "ones have, the adversary takes it for case 3's other half.",
    )
