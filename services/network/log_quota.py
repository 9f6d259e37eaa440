"""Keeps others from filling the log: of each kind of event a few lines a minute are written, the rest counted."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger(__name__)

_LINES_PER_MINUTE = 5
_MINUTE = 60.0
# Kinds that are told apart at once: no caller can make up more of them than there are methods and errors.
_MOST_KINDS = 1000


@dataclass
class _Minute:
    begin: float
    lines: int = 0


class LogQuota:
    """Says whether one more line about a kind of event may be written now. Thread-safe.

    A kind is a few words that a caller can't choose, such as its name, the method and the error's type.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, lines: int = _LINES_PER_MINUTE) -> None:
        """Let ``lines`` of each kind through in a minute."""
        self._clock = clock
        self._lines = lines
        self._lock = threading.Lock()
        self._minutes: dict[tuple[str, ...], _Minute] = {}

    def admits(self, *kind: str) -> bool:
        """Count an event of this kind; whether it is among the first of its minute."""
        self.tell_the_rest()
        with self._lock:
            if kind not in self._minutes and len(self._minutes) >= _MOST_KINDS:
                kind = ("further events",)
            minute = self._minutes.setdefault(kind, _Minute(self._clock()))
            minute.lines += 1
            return minute.lines <= self._lines

    def tell_the_rest(self) -> None:
        """Write how many events were counted in minutes that are over, and were not written."""
        now = self._clock()
        with self._lock:
            over = {kind: one for kind, one in self._minutes.items() if now - one.begin >= _MINUTE}
            for kind in over:
                del self._minutes[kind]
        for kind, minute in over.items():
            if (more := minute.lines - self._lines) > 0:
                _log.warning("%d more within a minute: %s.", more, ", ".join(kind))
