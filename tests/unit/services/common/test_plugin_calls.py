"""Code of other packages is called in time: its own is counted, and what it waits for others has another limit."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from services.common import plugin_calls
from services.common.plugin_calls import done_within, waiting_for_others

# Nobody waits so long: time is the tests'.
LONG = 60.0


class Clock:
    """A clock that stands until it is set on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(plugin_calls, "monotonic", made)
    return made


class Hangs(Exception):
    """A call isn't over in time."""


def in_time(work: Callable[[], object], seconds: float = LONG, in_all: float | None = None) -> object:
    return done_within(seconds, work, Hangs(), in_all)


def test_what_a_call_gives_or_raises_is_given_or_raised() -> None:
    assert in_time(lambda: 5) == 5
    with pytest.raises(ValueError, match="its own"):
        in_time(lambda: (_ for _ in ()).throw(ValueError("its own")))


def test_a_call_that_blocks_is_left_alone() -> None:
    released = threading.Event()
    with pytest.raises(Hangs):
        in_time(lambda: released.wait(LONG), 0.01)
    released.set()


@pytest.mark.parametrize("depth", [1, 2])
def test_what_it_waits_for_others_is_not_its_own_time(clock: Clock, depth: int) -> None:
    waits, come = threading.Event(), threading.Event()

    def work() -> str:
        with waiting_for_others():
            waits.set()
            come.wait(LONG)
        return "done"

    called: Callable[[], object] = work
    for _ in range(depth - 1):
        called = partial(in_time, called, LONG, 10 * LONG)
    with ThreadPoolExecutor(1) as other:
        calling = other.submit(in_time, called, LONG, 10 * LONG)
        assert waits.wait(LONG)
        clock.now += 5 * LONG
        come.set()
        assert calling.result(LONG) == "done"


@pytest.mark.parametrize(("waited", "own"), [(5 * LONG, 2 * LONG), (11 * LONG, 0.0)], ids=["own time", "in all"])
def test_it_hangs_by_its_own_time_behind_a_wait_and_by_all_of_it(clock: Clock, waited: float, own: float) -> None:
    released = threading.Event()

    def work() -> None:
        with waiting_for_others():
            clock.now += waited
        clock.now += own
        with waiting_for_others():
            pass
        released.wait(LONG)

    with pytest.raises(Hangs):
        in_time(work, LONG, 10 * LONG)
    released.set()
