"""Random powers made ahead, in a party's idle time: obfuscators of its own values, and fresh rho**n for others' keys.

Guarantee: each of them serves once, whoever takes it. There are never more than one step took (or one batch of the
kernel's). They are made by this process, or by its own children, stay in its memory, and are forgotten when the session
ends. What is computed with them doesn't depend on whether they were made ahead.
"""

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self

from vfl.cores import Cores, OneCore
from vfl.crypto.engine import Engine, Task
from vfl.crypto.kernels import ProductTask
from vfl.crypto.keys import PrivateKey

# A kernel that releases the interpreter's lock works on so many at once in the time of one.
_BATCH = 8


class Pool:
    """Random numbers of one kind. Thread-safe.

    Arguments:
        draw: makes so many fresh ones.
        batch: how many are made ahead in one piece.
    """

    def __init__(self, draw: Callable[[int], list[int]], batch: int) -> None:
        self._draw = draw
        self._batch = batch
        self._lock = threading.Lock()
        self._ready: list[int] = []
        self._asked = self._most = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._ready)

    def take(self, count: int) -> list[int]:
        """Give out so many, and forget them: those that are there, and what is missing made now."""
        with self._lock:
            self._asked += count
            split = max(0, len(self._ready) - count)
            numbers, self._ready = self._ready[split:], self._ready[:split]
        missing = count - len(numbers)
        return numbers + (self._draw(missing) if missing else [])

    def top_up(self) -> bool:
        """Make a batch ahead; returns whether there was room for it. One thread at a time."""
        with self._lock:
            if self._asked:
                self._most, self._asked = max(self._most, self._asked, self._batch), 0
            room = 0 if self._is_closed else self._most - len(self._ready)
        if room <= 0:
            return False
        numbers = self._draw(min(room, self._batch))
        with self._lock:
            if not self._is_closed:
                self._ready += numbers
        return True

    def close(self) -> None:
        """Forget all, and keep nothing any more."""
        with self._lock:
            self._is_closed = True
            self._ready = []


@dataclass(frozen=True, eq=False)
class PooledEngine(Engine):
    """An engine of one session that takes random powers from pools, which ``make_ahead`` fills."""

    # Those of its peers, however many.
    _most_keys: ClassVar[int] = sys.maxsize
    _pools: dict[Hashable, Pool] = field(init=False, repr=False, default_factory=dict)
    _closed: threading.Event = field(init=False, repr=False, default_factory=threading.Event)

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """Take the same kernel and cores, with pools that are empty."""
        return cls(**{one.name: getattr(engine, one.name) for one in fields(Engine) if one.init})

    def obfuscators(self, private_key: PrivateKey, count: int) -> list[int]:
        """Take fresh obfuscators for one's own values; each serves once."""
        return self._pool(private_key, lambda missing: Engine.obfuscators(self, private_key, missing)).take(count)

    def rerandomisers(self, n: int, count: int) -> list[int]:
        """Take fresh rho**n mod n**2; each serves once."""
        return self._pool(n, lambda missing: Engine.rerandomisers(self, n, missing)).take(count)

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute an encrypted matrix product; raises InvalidCiphertext as `Kernel.product` does."""
        with self._then_forgotten():
            return super().product(ciphertexts, task, modulus)

    def make_ahead(self) -> bool:
        """Make one small piece of what the next step will take; returns whether anything was missing."""
        # The youngest kind first: the few that masks take are needed before the many of the next encryption.
        return any(pool.top_up() for pool in reversed(list(self._pools.values())))

    def close(self) -> None:
        """Forget what was made ahead. From here on everything is made when it is needed, by the process that calls."""
        self._closed.set()
        for pool in list(self._pools.values()):
            pool.close()
        super().close()

    def _mapped(
        self, function: Callable[[Task], list[int]], tasks: Sequence[Task], cores: Cores | None = None
    ) -> list[int]:
        with self._then_forgotten():
            return super()._mapped(function, tasks, OneCore() if self._closed.is_set() else cores)

    @contextmanager
    def _then_forgotten(self) -> Iterator[None]:
        """Whoever was computing when the session ended may have started workers again: none of them is left."""
        try:
            yield
        finally:
            if self._closed.is_set():
                self.cores.forget()

    def _pool(self, kind: Hashable, draw: Callable[[int], list[int]]) -> Pool:
        pool = self._pools.get(kind)
        if pool is None:
            pool = self._pools.setdefault(kind, Pool(draw, _BATCH if self.kernel.releases_gil else 1))
        if self._closed.is_set():
            pool.close()
        return pool
