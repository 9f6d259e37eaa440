"""A federation of Plumbline's own gives away as much by a judge of its scores as by the audit that trained it."""

from pathlib import Path
from statistics import median

import pytest

from scripts.received_agreement import compared


@pytest.mark.slow("it trains, attacks and judges a federation")
def test_a_judge_and_an_audit_say_the_same_of_one_session(tmp_path: Path) -> None:
    found = compared("breast_cancer", 569, 100, tmp_path)
    audit, judge = map(median, zip(*found.values(), strict=True))
    assert judge == pytest.approx(audit, abs=0.03)
    assert len(found) == 15
