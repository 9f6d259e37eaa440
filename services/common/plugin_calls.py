"""Calls code of other packages in time: what takes longer is left alone, and its caller goes on.

What it waits for other parties isn't its own time, where `waiting_for_others` says so.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


class _OwnTime(threading.Condition):
    """How long a call may still take: of its own time, which stands still while it waits for others, and in all."""

    def __init__(self, seconds: float, in_all: float) -> None:
        super().__init__()
        self._left, self._since, self._waits = seconds, monotonic(), 0
        self._end = self._since + in_all

    def left(self) -> float:
        """Give the seconds until it is over, if nothing changes; 0 or less where it is."""
        own = self._left - (monotonic() - self._since) if not self._waits else float("inf")
        return min(own, self._end - monotonic())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still."""
        with self:
            if not self._waits:
                self._left -= monotonic() - self._since
            self._waits += 1
            self.notify_all()
        try:
            yield
        finally:
            with self:
                self._waits -= 1
                self._since = monotonic()
                self.notify_all()


# Of the calls that this thread is in.
_CALLS: ContextVar[tuple[_OwnTime, ...]] = ContextVar("calls", default=())


def waiting_for_others() -> AbstractContextManager[None]:
    """Let the calls that this thread is in stand still: whoever they wait for has a limit of its own."""
    # Mostly there are none, and each step waits some ten times.
    return _paused(calls) if (calls := _CALLS.get()) else nullcontext()


@contextmanager
def _paused(calls: Sequence[_OwnTime]) -> Iterator[None]:
    with ExitStack() as paused:
        for call in calls:
            paused.enter_context(call.paused())
        yield


def done_within(seconds: float, work: Callable[[], T], hangs: Exception, in_all: float | None = None) -> T:
    """Do ``work`` on a thread that is left alone when it takes longer; raises ``hangs`` then, or what it raises.

    Args:
        seconds: that it may take but for what it waits for others.
        work: to do.
        hangs: is raised where it takes longer.
        in_all: seconds that it may take with that; None for as many.
    """
    done: Future[T] = Future()
    call = _OwnTime(seconds, seconds if in_all is None else in_all)
    context = copy_context()
    context.run(_CALLS.set, (*_CALLS.get(), call))

    def run() -> None:
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)
        with call:
            call.notify_all()

    threading.Thread(target=run, name="plugin", daemon=True).start()
    with call:
        while not done.done():
            if (left := call.left()) <= 0:
                raise hangs
            call.wait(left)
    return done.result()
