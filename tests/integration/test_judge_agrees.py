"""A federation of Plumbline's own gives away as much by a judge of its scores as by the audit that trained it."""

from pathlib import Path
from statistics import median

import pytest

from scripts.received_agreement import WITHIN, compared, overlap


@pytest.mark.slow("it trains, attacks and judges a federation")
def test_a_judge_and_an_audit_say_the_same_of_one_session(tmp_path: Path) -> None:
    found = compared("breast_cancer", 569, 100, tmp_path)
    audit, judge = (median(one.mean for one in parts) for parts in zip(*found.values(), strict=True))
    assert judge == pytest.approx(audit, abs=WITHIN)
    # Some three hundred records say no more of a single column than its interval does.
    assert all(overlap(*both) for both in found.values())
    assert len(found) == 15
