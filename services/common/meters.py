"""Where time and bytes go: seconds by stage of a step, bytes on the wire by message."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias, TypeVar

T = TypeVar("T")
# Counts bytes of the messages of one name, to and from one peer.
PeerMeter: TypeAlias = Callable[[str, int], None]


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
    """Bytes of messages by name and by peer, as serialised, before TLS framing. Thread-safe.

    A party counts the calls that it makes, both ways: the parties' meters add up to all traffic, once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Counter[tuple[str, str]] = Counter()

    def of_peer(self, peer: str) -> PeerMeter:
        """Find what counts bytes of messages to and from ``peer``."""
        return partial(self._add, peer)

    def _add(self, peer: str, name: str, size: int) -> None:
        with self._lock:
            self._bytes[peer, name] += size

    def snapshot(self) -> dict[str, int]:
        """Count bytes by message so far."""
        return self._by(1)

    def by_peer(self) -> dict[str, int]:
        """Count bytes by peer so far."""
        return self._by(0)

    def _by(self, part: int) -> dict[str, int]:
        totals: Counter[str] = Counter()
        with self._lock:
            for key, size in self._bytes.items():
                totals[key[part]] += size
        return dict(totals)
