"""Comparisons of paired measurements, in numbers made up by hand."""

import pandas as pd
import pytest

from plumbline.judge.measures import LoneMean
from studies.claims.claim import Claim
from studies.claims.kinds import where
from studies.jiang.paired_points import Difference, curve, difference, judged_on, told


def _rows(values: list[float], *, starts: list[int] | None = None) -> pd.DataFrame:
    windows = list(range(len(values))) if starts is None else starts
    return pd.DataFrame(
        {"dataset": "wine", "model": "linear", "r": 0.5, "seed": 0, "start": windows, "mse": values, "status": "done"}
    )


def test_a_difference_is_of_the_same_windows() -> None:
    # Unpaired the two means are 0.05 apart and cross; window by window the left is always 0.01 less.
    left, right = _rows([0.10, 0.20, 0.30]), _rows([0.31, 0.21, 0.11], starts=[2, 1, 0])
    change = difference(left, right, "mse")
    assert change is not None
    assert change.mean.mean == pytest.approx(-0.01)
    assert change.is_below
    assert not change.is_above
    assert change.share == pytest.approx(-0.01 / 0.21)
    assert change.words.startswith("-0.01")


def test_a_difference_whose_interval_has_0_is_neither() -> None:
    change = difference(_rows([0.1, 0.3]), _rows([0.2, 0.2]), "mse")
    assert change is not None
    assert not change.is_below
    assert not change.is_above


def test_without_pairs_there_is_no_difference() -> None:
    assert difference(_rows([0.1], starts=[3]), _rows([0.2]), "mse") is None
    assert difference(_rows([]), _rows([0.2]), "mse") is None
    assert difference(_rows([float("nan")]), _rows([0.2]), "mse") is None


def test_only_what_was_measured_counts() -> None:
    rows = _rows([0.1, 0.2])
    rows.loc[1, "status"] = "failed"
    assert list(where(rows, r=0.5)["mse"]) == [0.1]
    assert where(rows, colour="red").empty
    assert where(pd.DataFrame(), r=0.5).empty


@pytest.mark.parametrize(
    ("changes", "verdict", "reason"),
    [
        ([-0.1, -0.2], "reproduced", ""),
        ([-0.1, 0.2], "in part", "why"),
        ([0.1], "differs", "why"),
        ([], "not measured", ""),
        ([None], "not measured", ""),
    ],
)
def test_a_reason_is_said_where_something_differs(changes: list[float | None], verdict: str, reason: str) -> None:
    found = {f"n{n}": None if one is None else Difference(LoneMean(one), 0.5) for n, one in enumerate(changes)}
    claim = Claim("5.3", "words", lambda _: told("Numbers", found, lambda change: change.is_below), "why")
    (statement,) = judged_on("LR", [claim], _rows([0.1]), "6.2")
    assert (statement.verdict, statement.reason) == (verdict, reason)
    assert (statement.source, statement.subject) == ("6.2", "LR, wine")
    assert statement.measured.startswith("Numbers: n0 " if verdict != "not measured" else "Not in this run")


def test_a_curve_has_a_mean_per_ratio() -> None:
    rows = pd.concat([_rows([0.1, 0.3]), _rows([0.5, 0.5]).assign(r=0.1)])
    drawn = curve(rows, "mse", "shadow")
    assert drawn.x == (0.1, 0.5)
    assert drawn.y == pytest.approx((0.5, 0.2))
    assert drawn.low[1] <= 0.2 <= drawn.high[1]


def test_one_window_has_no_interval() -> None:
    assert "no interval" in Difference(LoneMean(0.1), 0.5).words
