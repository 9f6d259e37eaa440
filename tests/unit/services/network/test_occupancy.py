"""One process of a certificate at a time: who is let in, who waits, who is refused. With a clock of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from services.common.errors import HoldsTooMuch, NotAllowed
from services.common.identity import Caller, Role
from services.network.occupancy import SILENT_SECONDS, Occupancy

FIRST = Caller(Role.ACTIVE, "active", "aa")
SECOND = Caller(Role.ACTIVE, "active", "bb")
THIRD = Caller(Role.ACTIVE, "active", "cc")


class Door:
    """An occupancy whose waits pass at once; ``meanwhile`` happens in each."""

    def __init__(self, own_name: str = "passive") -> None:
        self.now = 0.0
        self.meanwhile: Callable[[], object] = lambda: None
        self.occupancy = Occupancy(own_name, clock=lambda: self.now, pause=self._pause)

    def _pause(self, condition: threading.Condition, seconds: float) -> None:
        # Half of it: the rest is waited for in another turn, as when another call wakes the waiting one.
        self.now += max(seconds / 2, 0.01)
        self.meanwhile()

    def admit(self, caller: Caller, waiting: AbstractContextManager[object] | None = None) -> None:
        self.occupancy.admit(caller, f"ipv4:10.0.0.1:{caller.instance}", waiting)


def test_a_process_is_let_in_as_often_as_it_calls() -> None:
    door = Door()
    for _ in range(5):
        door.admit(FIRST)
    assert door.now == 0


def test_a_second_process_is_refused_while_the_first_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    # Once: a second client with the active party's certificate ended 5 of 8 jobs.
    door = Door()
    door.admit(FIRST)
    door.meanwhile = lambda: door.occupancy.heard(FIRST)
    for _ in range(3):
        with pytest.raises(NotAllowed, match=r"^This session belongs to another process that holds this certificate"):
            door.admit(SECOND)
        assert door.now < 3 * SILENT_SECONDS
    # Both addresses, once, however often it comes.
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "10.0.0.1:aa" in warnings[0]
    assert "10.0.0.1:bb" in warnings[0]
    door.admit(FIRST)


def test_whatever_processes_call_themselves_they_write_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    # Once a line per instance: 2,542 in 8 s.
    door = Door()
    door.admit(FIRST)
    door.meanwhile = lambda: door.occupancy.heard(FIRST)
    while door.now < 50:
        with pytest.raises(NotAllowed):
            door.admit(Caller(Role.ACTIVE, "active", f"{len(caplog.records)}{door.now}"))
    assert len(caplog.records) == 1
    door.now += 60
    door.occupancy.tell_the_rest()
    assert "more within a minute: calls refused to a second process of active." in caplog.records[-1].message


def test_processes_that_follow_each_other_write_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    for number in range(10):
        door.admit(Caller(Role.ACTIVE, "active", f"{number}"))
        door.now += SILENT_SECONDS
    assert [record.message.count("takes the place") for record in caplog.records] == [1]


def test_who_waits_is_counted_for_the_time_of_the_wait_alone() -> None:
    door, waits = Door(), []

    @contextmanager
    def counted() -> Iterator[None]:
        waits.append(door.now)
        yield
        waits.append(door.now)

    door.admit(FIRST, counted())
    door.admit(FIRST, counted())
    assert not waits
    door.admit(SECOND, counted())
    assert waits == [0, door.now]
    door.now += 100
    door.admit(THIRD, counted())
    assert len(waits) == 2, "who needs not wait takes no place of those who do"


def test_who_finds_no_place_to_wait_does_not_wait() -> None:
    @contextmanager
    def full() -> Iterator[None]:
        raise HoldsTooMuch("full")
        yield

    door = Door()
    door.admit(FIRST)
    with pytest.raises(HoldsTooMuch):
        door.admit(SECOND, full())
    assert door.now == 0
    assert [door.occupancy.is_let_in(one) for one in (FIRST, SECOND)] == [True, False]


def test_a_restarted_process_waits_for_the_silence_of_its_predecessor(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    door.admit(FIRST)
    door.now += 1
    door.admit(SECOND)
    assert SILENT_SECONDS <= door.now <= SILENT_SECONDS + 0.1
    assert "takes the place of one that is silent" in caplog.text
    # From now on it is the only one.
    door.meanwhile = lambda: door.occupancy.heard(SECOND)
    with pytest.raises(NotAllowed):
        door.admit(FIRST)


def test_a_successor_of_a_process_long_dead_does_not_wait() -> None:
    door = Door()
    door.admit(FIRST)
    door.now += 100
    door.admit(SECOND)
    assert door.now == 100


def test_of_two_successors_one_is_let_in() -> None:
    door = Door()
    door.admit(FIRST)

    def third_comes() -> None:
        door.meanwhile = lambda: None
        door.admit(THIRD)

    door.meanwhile = third_comes
    with pytest.raises(NotAllowed):
        door.admit(SECOND)


def test_two_first_calls_of_a_successor_are_both_let_in() -> None:
    door = Door()
    door.admit(FIRST)

    def same_comes_again() -> None:
        door.meanwhile = lambda: None
        door.admit(SECOND)

    door.meanwhile = same_comes_again
    door.admit(SECOND)


def test_signs_of_life_let_nobody_in() -> None:
    door = Door()
    door.occupancy.heard(SECOND)
    door.admit(FIRST)
    door.now += 1
    for _ in range(10):
        door.occupancy.heard(SECOND)
    door.meanwhile = lambda: door.occupancy.heard(FIRST)
    with pytest.raises(NotAllowed):
        door.admit(SECOND)


def test_operators_may_be_many_and_parties_do_not_share_a_place() -> None:
    door = Door()
    for caller in (
        Caller(Role.OPERATOR, "operator", "aa"),
        Caller(Role.OPERATOR, "operator", "bb"),
        Caller(Role.PASSIVE, "passive-1", "aa"),
        Caller(Role.PASSIVE, "passive-2", "bb"),
        # Its own certificate, as its health check uses it.
        Caller(Role.PASSIVE, "passive", "aa"),
        Caller(Role.PASSIVE, "passive", "bb"),
    ):
        door.admit(caller)
        assert door.occupancy.is_let_in(caller)
    assert door.now == 0
