"""Intervals and verdicts: what counts, and what has none."""

import numpy as np
import pandas as pd
import pytest

from studies.claims.claim import Claim, Finding, Test, judged
from studies.claims.kinds import ahead, trend
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


def claim(test: Test, *, possible: bool = False) -> Claim:
    return Claim("Remark 1", "It may be so.", test, "Here is why.", possible=possible)


@pytest.mark.parametrize(
    ("held", "verdict"), [((False, False), "not seen"), ((True, False), "reproduced"), ((), "not measured")]
)
def test_what_may_be_so_is_shown_by_one_case_and_refuted_by_none(held: tuple[bool, ...], verdict: str) -> None:
    said = claim(lambda _: Finding(held, "numbers"), possible=True).judged(frame(0.1))
    assert (said.verdict, said.reason) == (verdict, "Here is why." if verdict == "not seen" else "")


def test_a_claim_that_says_nothing_of_the_rows_is_empty() -> None:
    assert claim(lambda _: Finding((), "T_eps is 0.", empty=True)).judged(frame(0.1)).verdict == "empty"
    assert claim(lambda _: Finding([True], "T_eps is 9.", empty=True)).judged(frame(0.1)).verdict == "reproduced"


def test_all_data_sets_are_not_reproduced_from_some_of_them() -> None:
    rows = pd.DataFrame({"dataset": ["bank", "grid"], "status": ["done", "failed"]})
    (said,) = judged([claim(lambda _: Finding([True], "So it is."))], rows, ("bank", "grid"))
    assert (said.verdict, said.measured) == ("in part", "So it is. Of 2 data sets, grid not measured.")
    (whole,) = judged([claim(lambda _: Finding([True], "So it is."))], rows.assign(status="done"), ("bank", "grid"))
    assert (whole.verdict, whole.measured) == ("reproduced", "So it is.")
    (differing,) = judged([claim(lambda _: Finding([False], "It isn't."))], rows, ("bank", "grid"))
    assert differing.verdict == "differs"


def test_three_points_have_no_rank_correlation() -> None:
    rows = pd.DataFrame([{"seed": s, "start": 0, "d": d, "mse": d} for s in (0, 1) for d in range(4)])
    assert trend(rows[rows["d"] < 3], "d", "mse") is None
    found = trend(rows, "d", "mse")
    assert found is not None
    assert found.mean == 1
