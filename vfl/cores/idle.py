"""Work for the time in which a process waits for others: small pieces, on a thread of their own."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)


class IdleTime:
    """Runs pieces of work while somebody waits and nobody computes. Thread-safe.

    A piece that has begun is finished, so pieces are small; where they hold the interpreter's lock, very small.
    """

    def __init__(self, piece: Callable[[], bool]) -> None:
        """Start nothing yet: the thread begins with the first wait.

        Args:
            piece: does one piece; tells whether there was something to do.
        """
        self._piece = piece
        self._condition = threading.Condition()
        self._waiting = self._computing = 0
        self._has_work = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let pieces run: while this context lasts its thread waits."""
        with self._condition:
            self._waiting += 1
            self._has_work = True
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="idle", daemon=True)
                self._thread.start()
            self._condition.notify_all()
        try:
            yield
        finally:
            with self._condition:
                self._waiting -= 1

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let no piece begin: while this context lasts somebody waits for its thread."""
        with self._condition:
            self._computing += 1
        try:
            yield
        finally:
            with self._condition:
                self._computing -= 1
                self._condition.notify_all()

    def close(self) -> None:
        """Begin no piece any more."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def _run(self) -> None:
        while self._is_time():
            try:
                has_work = self._piece()
            except Exception as error:
                # What it would have saved is done when it is needed, and fails there in its own words.
                _log.warning("Nothing is made ahead any more: %s", error)
                return
            with self._condition:
                self._has_work = self._has_work and has_work

    def _is_time(self) -> bool:
        """Wait until a piece may run; False when none may any more."""
        with self._condition:
            self._condition.wait_for(
                lambda: self._is_closed or (self._has_work and self._waiting > 0 and self._computing == 0)
            )
            return not self._is_closed
