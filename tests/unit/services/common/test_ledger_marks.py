"""How far a ledger is: on the wire, in a file's header, and when it is of an older copy."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos.v1 import coordinator_pb2
from services.common.errors import InvalidMessage
from services.common.ledger_marks import LedgerMark

LEDGER = "0123456789abcdef" * 2
SESSION = "fedcba9876543210" * 2
MARKS = st.builds(
    LedgerMark, st.just(LEDGER), st.integers(1, 1 << 53), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1)
)


@given(MARKS)
def test_a_mark_comes_back_from_the_wire(mark: LedgerMark) -> None:
    message = mark.to_message(SESSION)
    assert message.session_id == SESSION
    assert LedgerMark.from_message(coordinator_pb2.LedgerMark.FromString(message.SerializeToString())) == mark


@given(MARKS, MARKS)
def test_of_two_marks_at_most_one_is_ahead_in_everything(one: LedgerMark, other: LedgerMark) -> None:
    assert not one.is_behind(one)
    assert one.is_behind(one.next())
    assert not one.next().is_behind(one)
    if not one.is_behind(other):
        assert (one.attempt, one.step) >= (other.attempt, other.step)
        assert one.generation >= other.generation


def test_a_later_try_is_ahead_of_a_later_step_and_never_with_fewer_writes() -> None:
    known = LedgerMark(LEDGER, 50, attempt=2, step=9)
    assert not LedgerMark(LEDGER, 51, attempt=3, step=1).is_behind(known)
    assert LedgerMark(LEDGER, 51, attempt=2, step=8).is_behind(known)
    assert LedgerMark(LEDGER, 51, attempt=1, step=99).is_behind(known)
    # The number of a try is named by whoever resumes; that of writes isn't.
    assert LedgerMark(LEDGER, 49, attempt=3, step=1).is_behind(known)


@pytest.mark.parametrize(
    "facts", [{"ledger": "", "generation": 1}, {"ledger": LEDGER.upper(), "generation": 1}, {"ledger": LEDGER}]
)
def test_no_other_id_and_no_ledger_that_was_never_written_is_taken(facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage):
        LedgerMark.from_message(coordinator_pb2.LedgerMark(session_id=SESSION, **facts))


def test_writes_beyond_what_sqlite_counts_are_refused() -> None:
    with pytest.raises(InvalidMessage):
        LedgerMark.from_message(coordinator_pb2.LedgerMark(ledger=LEDGER, generation=1 << 63))


def test_a_header_holds_it_and_an_earlier_releases_has_none() -> None:
    mark = LedgerMark(LEDGER, 7)
    assert LedgerMark.of_header({"version": 1, **mark.header}) == mark
    assert LedgerMark.of_header({"version": 1}).generation == 0
    assert LedgerMark.drawn().ledger != LedgerMark.drawn().ledger


@pytest.mark.parametrize(
    "header",
    [
        {"ledger": LEDGER},
        {"ledger": LEDGER, "generation": 0},
        {"ledger": LEDGER, "generation": "7"},
        {"ledger": 7, "generation": 7},
        {"ledger": "x", "generation": 7},
    ],
)
def test_a_header_that_was_never_written_so_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        LedgerMark.of_header(header)


def test_it_is_said_in_words() -> None:
    assert str(LedgerMark(LEDGER, 1)) == "1 write"
    assert str(LedgerMark(LEDGER, 12, attempt=2, step=3)) == "12 writes, the last in step 3 of try 2"
