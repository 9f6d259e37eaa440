"""Where time and bytes go: seconds by stage of a step, bytes on the wire by message."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class StageTimer:
    """Wall-clock seconds by stage, of one thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the seconds inside this context to stage ``name``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def waiting(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Give the items, and add the seconds until each is there to stage ``name``."""
        iterator = iter(items)
        while True:
            with self.stage(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


class TrafficMeter:
    """Bytes of messages by name, as serialised, before TLS framing. Thread-safe.

    A party counts the calls that it makes, both ways: the parties' meters add up to all traffic, once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Counter[str] = Counter()

    def add(self, name: str, size: int) -> None:
        """Count ``size`` bytes of messages called ``name``."""
        with self._lock:
            self._bytes[name] += size

    def snapshot(self) -> dict[str, int]:
        """Bytes by message so far."""
        with self._lock:
            return dict(self._bytes)
