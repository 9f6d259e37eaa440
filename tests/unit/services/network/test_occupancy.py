"""One process of a certificate at a time: who is let in, who waits, who is refused. With a clock of its own."""

import threading
from collections.abc import Callable

import pytest

from services.common.errors import NotAllowed
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

    def admit(self, caller: Caller) -> None:
        self.occupancy.admit(caller, f"ipv4:10.0.0.1:{caller.instance}")


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
    assert door.now == 0
