"""Alignments are counted per caller and day, across restarts, whatever the clock does."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import OutOfOrder
from services.common.state_folder import StateInMemory
from services.passive.quota import AlignmentQuota

HOUR = 3600.0
# 2026-01-01 00:00 UTC.
START = 1_767_225_600.0


@dataclass
class Clock:
    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass
class Broken(StateInMemory):
    """A state folder that can't be read, or can't be written."""

    content: bytes | None = None
    reads: bool = True
    written: list[bytes] = field(default_factory=list)

    def read(self, name: str) -> bytes | None:
        if not self.reads:
            raise OSError("input/output error")
        return self.content

    def write(self, name: str, content: bytes) -> None:
        raise OSError("no space left on device")


def test_more_alignments_than_the_owner_allows_are_refused_until_a_day_has_passed() -> None:
    clock = Clock()
    quota = AlignmentQuota(2, clock=clock)
    quota.take("active")
    clock.now += 5 * HOUR
    quota.take("active")
    with pytest.raises(OutOfOrder) as error:
        quota.take("active")
    assert "active has had 2 alignments within 24 hours" in str(error.value)
    assert "The next one is possible at 2026-01-02 00:00 UTC." in str(error.value)
    assert "PLUMBLINE_ALIGNMENTS_PER_DAY" in str(error.value)
    quota.take("another active party has its own")
    clock.now = START + 24 * HOUR
    quota.take("active")
    with pytest.raises(OutOfOrder, match="possible at 2026-01-02 05:00 UTC"):
        quota.take("active")


def test_a_restart_forgets_nothing() -> None:
    clock, state = Clock(), StateInMemory()
    for _ in range(3):
        AlignmentQuota(3, state, clock).take("active")
    with pytest.raises(OutOfOrder, match="has had 3 alignments"):
        AlignmentQuota(3, state, clock).take("active")
    AlignmentQuota(4, state, clock).take("active")


@given(steps=st.lists(st.floats(-1e9, 0), max_size=12))
def test_a_clock_that_is_set_back_frees_nothing(steps: list[float]) -> None:
    clock, quota = Clock(), None
    quota = AlignmentQuota(2, clock=clock)
    quota.take("active")
    quota.take("active")
    for step in steps:
        clock.now += step
        with pytest.raises(OutOfOrder):
            quota.take("active")
    # And nobody waits for a year that the clock once showed by mistake.
    clock.now += 24 * HOUR + 1
    quota.take("active")


def test_the_count_is_kept_before_an_alignment_is_answered() -> None:
    with pytest.raises(OutOfOrder, match="can't count its alignments and answers none"):
        AlignmentQuota(9, Broken()).take("active")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"version": 2, "answered": {}}',
        b'{"version": 1, "answered": {"active": 5}}',
        b'{"version": 1, "answered": {"active": ["now"]}}',
        b'{"version": 1, "answered": {"active": [NaN]}}',
        b'{"version": 1, "answered": {"active": [1.0',
    ],
)
def test_a_count_that_cant_be_read_refuses_and_is_not_begun_anew(
    content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateInMemory()
    state.write("alignments.json", content)
    with pytest.raises(OutOfOrder, match="can't count its alignments"):
        AlignmentQuota(9, state).take("active")
    assert state.read("alignments.json") == content
    assert "alignments.json" in caplog.text
    with pytest.raises(OutOfOrder, match="can't count"):
        AlignmentQuota(9, Broken(reads=False)).take("active")


def test_no_more_is_kept_than_a_day_of_each_caller() -> None:
    clock, state = Clock(), StateInMemory()
    quota = AlignmentQuota(5, state, clock)
    for number in range(200):
        clock.now += 6 * HOUR
        quota.take(f"active-{number % 2}")
    kept = json.loads(state.read("alignments.json") or b"")["answered"]
    assert {caller: len(times) for caller, times in kept.items()} == {"active-0": 2, "active-1": 2}
