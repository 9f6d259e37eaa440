"""Estimates by given costs of single operations: more of anything never takes less."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.audit.forecast import Calibration, CipherSeconds, Workload, training_seconds
from services.ciphers.arithmetic import EngineArithmetic
from studies.speed.estimate import Estimate, EstimateAsked, estimate, estimated
from studies.speed.timed_operations import timed_calibration

CALIBRATION = Calibration(55e-6, 40e-6, cores=2, cipher=CipherSeconds(0.5, 5e-4, 4e-6, 0.01))


def foretold(asked: EstimateAsked) -> Estimate:
    return estimated(asked, asked.agreement, CALIBRATION, "portable")


@settings(max_examples=10, deadline=None)
@given(rows=st.integers(4_000, 20_000), columns=st.integers(2, 60), factor=st.integers(2, 4))
def test_more_rows_or_columns_never_take_less(rows: int, columns: int, factor: int) -> None:
    # So many rows that every layout leaves the guard silent: with fewer, a larger table may choose a cheaper one.
    asked = EstimateAsked(rows, columns, batch=512)
    one = foretold(asked)
    taller, wider = (foretold(replace(asked, **{name: getattr(asked, name) * factor})) for name in ("rows", "columns"))
    for other in (taller, wider):
        assert one.epoch <= other.epoch
        assert one.training <= other.training
    assert one.alignment < taller.alignment
    assert one.prediction < taller.prediction


@settings(max_examples=15, deadline=None)
@given(columns=st.integers(4, 100), share=st.floats(0.3, 1.0))
def test_narrow_columns_take_less(columns: int, share: float) -> None:
    # So many rows, again, that the guard lets the cheapest layout be.
    wide, narrow = (EstimateAsked(20_000, columns, one_hot=part, batch=1024) for part in (0.0, share))
    assert foretold(narrow).step <= foretold(wide).step


def test_an_estimate_is_the_audits_forecast() -> None:
    asked = EstimateAsked(3_000, 20, epochs=7)
    agreement = asked.agreement
    work = Workload(agreement, (3_000, 3_000), {}, 0, 0)
    found = foretold(asked)
    assert found.training == training_seconds(work, CALIBRATION, "paillier")
    # Keys are made once.
    assert found.training == pytest.approx(found.epoch * 7 + CALIBRATION.cipher.key)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": 3}, "at least 10 rows"),
        ({"columns": 1}, "a column for each of the 2 parties"),
        ({"one_hot": 0.7, "byte": 0.6}, "1 together at most"),
        ({"one_hot": -0.1}, "1 together at most"),
    ],
)
def test_tables_that_nobody_can_have_are_refused(changes: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EstimateAsked(**{"rows": 100, "columns": 10, **changes})  # type: ignore[arg-type]


def test_this_machine_is_timed() -> None:
    found = estimate(EstimateAsked(100, 4, one_hot=0.5, batch=16, key_bits=512, kernel="portable", workers=1))
    assert (found.kernel, found.workers, found.batch) == ("portable", 1, 16)
    assert 0 < found.step < found.epoch < found.training


@pytest.mark.parametrize("packing", [True, False])
def test_every_operation_of_a_session_is_timed(packing: bool) -> None:
    agreement = EstimateAsked(60, 42, one_hot=0.3, byte=0.3, batch=30, key_bits=512).agreement
    agreement = replace(agreement, plan=agreement.plan.changed(packing=packing))
    found = timed_calibration(agreement, EngineArithmetic(), workers=1000)
    assert found.cipher is not None
    # An id may take less than the processor's clock tells.
    assert min(found.blinded_id, found.reblinded_id) >= 0
    assert min(vars(found.cipher).values()) >= 0
    assert found.cipher.key > 0
    assert 1 <= found.workers <= found.cores
