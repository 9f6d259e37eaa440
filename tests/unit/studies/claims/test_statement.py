"""Intervals and verdicts: what counts, and what has none."""

import numpy as np
import pandas as pd

from studies.claims.kinds import ahead
from studies.claims.statement import interval_over, verdict_of


def frame(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"seed": 0, "start": range(len(values)), "difference": values})


def test_verdicts() -> None:
    cases = {(True, True): "reproduced", (True, False): "in part", (False,): "differs", (): "not measured"}
    assert {held: verdict_of(held) for held in cases} == cases


def test_what_was_not_measured_on_one_window_leaves_the_others_their_interval() -> None:
    found = interval_over(frame(0.1, np.nan, 0.3), "difference")
    assert found == interval_over(frame(0.1, 0.3), "difference")
    assert 0 < found.low < found.high


def test_nothing_has_no_interval_and_no_warning() -> None:
    for empty in (frame(), frame(np.nan)):
        assert np.isnan(interval_over(empty, "difference").mean)


def test_one_window_is_told_from_several() -> None:
    assert interval_over(frame(0.1), "difference").alone
    assert not interval_over(frame(0.1, 0.2), "difference").alone
    found = [ahead("By", {"d": interval_over(frame(*one), "difference")}) for one in ((0.1, 0.2), (0.1,), (-0.1,))]
    assert [verdict_of(one.held) for one in found] == ["reproduced", "in part", "differs"]
    # Equal errors on every window: an interval of nothing, not none.
    assert not interval_over(frame(0.3, 0.3), "difference").alone
