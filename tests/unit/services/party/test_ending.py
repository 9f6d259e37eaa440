"""Who waits in a session is freed when it ends, whatever else hangs."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.common.errors import Cancelled, OutOfOrder
from services.party.ending import Ending

SECONDS = 20


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def test_what_has_come_to_its_own_end_is_not_ended_before_its_time() -> None:
    ending = Ending()
    assert not ending.is_finished
    ending.finish()
    assert ending.is_finished
    assert not ending.end(Cancelled("too late"))
    ending.check()

    ended = Ending()
    assert ended.end(Cancelled("in time"))
    with pytest.raises(Cancelled, match="in time"):
        ended.finish()
    assert not ended.is_finished


def test_the_first_reason_stays() -> None:
    ending = Ending()
    ending.check()
    assert ending.error is None
    assert ending.end(Cancelled("first"))
    assert not ending.end(OutOfOrder("second"))
    with pytest.raises(Cancelled, match="first"):
        ending.check()


def test_who_waits_for_a_call_that_hangs_is_freed_at_once(executor: ThreadPoolExecutor) -> None:
    ending, hanging, begun = Ending(), threading.Event(), threading.Event()

    def call() -> bool:
        begun.set()
        return hanging.wait(SECONDS)

    waiting = executor.submit(ending.for_result, executor, call)
    assert begun.wait(SECONDS)
    ending.end(Cancelled("by the operator"))
    with pytest.raises(Cancelled):
        waiting.result(SECONDS)
    assert not hanging.is_set()
    hanging.set()


def test_results_and_errors_come_through_and_nothing_begins_after_the_end(executor: ThreadPoolExecutor) -> None:
    ending = Ending()
    assert ending.for_result(executor, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        ending.for_result(executor, lambda: 1 // 0)
    ending.end(Cancelled("over"))
    begun: list[bool] = []
    with pytest.raises(Cancelled):
        ending.for_result(executor, lambda: begun.append(True))
    assert not begun


def test_a_stream_that_hangs_is_cancelled_and_one_that_is_over_is_not() -> None:
    ending = Ending()
    cancelled: list[str] = []
    with ending.cancelling(lambda: cancelled.append("over")):
        pass
    with ending.cancelling(lambda: cancelled.append("open")):
        ending.end(Cancelled("by the operator"))
    assert cancelled == ["open"]
    with ending.cancelling(lambda: cancelled.append("late")):
        assert cancelled == ["open", "late"]


def test_chunks_end_with_the_session() -> None:
    ending = Ending()
    chunks = ending.guarded(iter("abc"))
    assert next(chunks) == "a"
    ending.end(Cancelled("by the operator"))
    with pytest.raises(Cancelled):
        next(chunks)


def test_it_does_not_end_inside_what_must_be_whole(executor: ThreadPoolExecutor) -> None:
    ending = Ending()
    with ending.while_open():
        other = executor.submit(ending.end, Cancelled("by the operator"))
        assert not other.done()
        assert ending.error is None
    assert other.result(SECONDS)
    with pytest.raises(Cancelled), ending.while_open():
        pass
