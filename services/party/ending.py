"""How a session ends before its time: one reason, told at once to whoever waits in it. Knows no network."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Ending:
    """Why a session has ended, once it has. The first reason stays. Thread-safe.

    A peer that hangs holds whoever asks it something until the call's deadline. Who waits ``for_result`` is freed at
    once; the call itself is left to its thread and its deadline, and what it answers changes nothing any more.

    Attributes:
        is_finished: whether it has come to its own end, which nothing can take back.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ended: Future[None] = Future()
        self.is_finished = False

    @property
    def error(self) -> Exception | None:
        """Why it has ended; None while it goes on."""
        error = self._ended.exception() if self._ended.done() else None
        return error if isinstance(error, Exception) else None

    def finish(self) -> None:
        """Come to its own end: nothing can end it before its time any more. Raises the reason where something has."""
        with self.while_open():
            self.is_finished = True

    def end(self, error: Exception) -> bool:
        """End it. False when it had ended before: that reason stays. Or when it had finished."""
        with self._lock:
            if self.is_finished or self._ended.done():
                return False
            # Under the lock, its callbacks as well: what ``while_open`` guards is over before or never begins.
            self._ended.set_exception(error)
            return True

    def check(self) -> None:
        """Raise the reason once it has ended."""
        if error := self.error:
            raise error

    @contextmanager
    def while_open(self) -> Iterator[None]:
        """Keep it from ending inside, or raise the reason once it has ended. For what takes no time."""
        with self._lock:
            self.check()
            yield

    def guarded(self, chunks: Iterable[T]) -> Iterator[T]:
        """Pass chunks on until it ends; raises the reason then."""
        for chunk in chunks:
            self.check()
            yield chunk

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Call ``cancel`` if it ends inside: for a stream that the other side may never go on with."""
        inside = True

        def cancel_inside(_: Future[None]) -> None:
            if inside:
                cancel()

        self._ended.add_done_callback(cancel_inside)
        try:
            yield
        finally:
            inside = False

    def for_result(self, executor: Executor, work: Callable[[], T]) -> T:
        """Run ``work`` on another thread, and return what it returns; raises the reason as soon as it has ended."""
        self.check()
        return self.for_future(executor.submit(work))

    def for_future(self, working: Future[T]) -> T:
        """Wait for what ``working`` comes to; raises the reason as soon as it has ended."""
        either: list[Future[Any]] = [working, self._ended]
        wait(either, return_when=FIRST_COMPLETED)
        self.check()
        return working.result()
