"""Pairs of measurements, and what is said of their differences."""

from typing import Any

import pandas as pd
import pytest

from plumbline.judge.measures import Interval, LoneMean
from studies.claims.kinds import paired
from studies.claims.statement import interval_words
from studies.page.plots import mean_curve

NAN = float("nan")


def rows(errors: dict[tuple[int, int], float]) -> pd.DataFrame:
    """Errors by seed and start."""
    return pd.DataFrame([{"seed": seed, "start": start, "d": 2, "mse": mse} for (seed, start), mse in errors.items()])


def test_only_the_same_place_makes_a_pair_in_whatever_order() -> None:
    left = rows({(0, 1): 0.3, (0, 2): 0.5, (1, 1): 0.7, (1, 2): NAN})
    right = rows({(1, 2): 0.1, (1, 1): 0.6, (0, 1): 0.1})
    found = paired(left, right, ("seed", "start", "trainer")).set_index(["seed", "start"])
    assert found["difference"].to_dict() == pytest.approx({(0, 1): 0.2, (1, 1): 0.1})
    assert found["left"].to_dict() == {(0, 1): 0.3, (1, 1): 0.7}
    assert found["right"].to_dict() == {(0, 1): 0.1, (1, 1): 0.6}


def test_nothing_to_pair_is_an_empty_frame_with_its_columns() -> None:
    some = rows({(0, 1): 0.3})
    for left, right in ((some, some.iloc[:0]), (some, rows({(5, 5): 0.1})), (some.iloc[:0], some)):
        found = paired(left, right, ("seed", "start"))
        assert list(found.columns) == ["seed", "start", "left", "right", "difference"]
        assert found.empty


@pytest.mark.parametrize(
    ("interval", "options", "words"),
    [
        (Interval(0.0123, 0.0118, 0.01284), {}, "0.0123 (0.0118 to 0.0128)"),
        (LoneMean(0.5), {}, "0.500 (no interval)"),
        (LoneMean(0.0), {}, "0 (no interval)"),
        (Interval(0.0, 0.0, 0.0), {}, "0 (0 to 0)"),
        (Interval(1e-17, -1e-3, 1e-3), {"digits": 1}, "0 (-0.001 to 0.001)"),
        (Interval(0.99993, 0.9999, 1.0), {"decimals": 4}, "0.9999 (0.9999 to 1.0000)"),
        (Interval(0.012, -0.003, 0.02), {"digits": 2, "signed": True}, "+0.012 (-0.0030 to +0.020)"),
        (Interval(NAN, NAN, NAN), {}, ""),
    ],
)
def test_an_interval_is_said_where_there_is_one(interval: Interval, options: dict[str, Any], words: str) -> None:
    assert interval_words(interval, **options) == words


def test_a_curve_of_means_has_a_point_for_each_x_and_its_interval() -> None:
    measured = pd.concat([rows({(0, 1): 0.2, (1, 1): 0.4}), rows({(0, 1): 0.6, (1, 1): NAN}).assign(d=1)])
    drawn = mean_curve(measured, "d", "LS")
    assert drawn.x == (1.0, 2.0)
    assert drawn.y == pytest.approx((0.6, 0.3))
    assert drawn.low[0] == drawn.high[0] == 0.6
    assert drawn.low[1] == pytest.approx(0.2)
    assert mean_curve(measured, "d", "LS", banded=False).low == ()
