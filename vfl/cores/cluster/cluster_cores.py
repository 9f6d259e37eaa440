"""A party's own Dask cluster as further cores for products.

Only products go there. A chunk of one has ciphertexts and features, which the party's machines may see; ``map`` takes
no other function and no other task, whatever they hold. This machine's cores compute at the same time, and whatever
the cluster leaves undone.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, TimeoutError
from functools import partial
from typing import Protocol

from vfl.cores.cluster.dialogue import ClusterLost, Dialogue
from vfl.cores.cores import Cores
from vfl.crypto.product_chunks import ProductChunk, compute_chunk

_log = logging.getLogger(__name__)
# How much longer than this machine took for its own chunks a cluster may take for the rest.
_PATIENCE_SECONDS = 5.0

ChunkFunction = Callable[[ProductChunk], list[int]]


class ProductCores(Protocol):
    """Cores for products. All `Cores` are; a cluster's are no more than this."""

    @property
    def count(self) -> int:
        """How many chunks are computed at once, at least 1."""

    def map(self, function: ChunkFunction, tasks: Iterable[ProductChunk]) -> Iterator[list[int]]:
        """Compute chunks and give their answers in order."""


class ClusterCores:
    """This machine's cores and those of a Dask cluster, for products. Thread-safe.

    The log says once that a cluster can't be reached or has vanished, and the work goes on here. ``begin_session``
    tries again.
    """

    def __init__(self, address: str, local: Cores) -> None:
        """Begin to connect to a cluster, in the background.

        Args:
            address: of the scheduler, one that ``check_cluster`` lets pass.
            local: this machine's cores; whoever made them closes them.
        """
        self._address = address
        self._local = local
        self._lock = threading.Lock()
        self._dialogue = self._begun()

    @property
    def count(self) -> int:
        """How many chunks are computed at once, here and there."""
        return self._local.count + self._dialogue.workers

    def begin_session(self) -> None:
        """Begin to connect anew to a cluster that was lost before. Waits for nothing."""
        with self._lock:
            if self._dialogue.is_over:
                self._dialogue = self._begun()

    def map(self, function: ChunkFunction, tasks: Iterable[ProductChunk]) -> Iterator[list[int]]:
        """Compute chunks, here and on the cluster, and give their answers in order.

        Raises:
            TypeError: for anything but ``compute_chunk`` of a `ProductChunk`.
        """
        if function is not compute_chunk:
            raise TypeError("A cluster computes products and nothing else: map compute_chunk over it.")
        shared = _Shared(tasks, self._dialogue)
        shared.fill()
        start = time.monotonic()
        for answers in self._local.map(compute_chunk, shared.feed()):
            shared.keep(answers)
        patience = _PATIENCE_SECONDS + time.monotonic() - start
        left = shared.await_cluster(patience)
        for number, answers in zip(left, self._local.map(compute_chunk, left.values()), strict=True):
            shared.answers[number] = answers
        return (shared.answers[number] for number in range(len(shared.answers)))

    def close(self) -> None:
        """End the connection. The cluster goes on: it is the party's."""
        with self._lock:
            self._dialogue.close()

    def _begun(self) -> Dialogue:
        return Dialogue(self._address, self._say_ready, _say_lost)

    def _say_ready(self, threads: int) -> None:
        _log.info("The Dask cluster at %s computes products as well, in %d threads.", self._address, threads)


def _say_lost(sentence: str) -> None:
    _log.warning(
        "Products are computed on this machine's cores alone: %s The next session tries the cluster again.", sentence
    )


class _Shared:
    """The chunks of one product, dealt out to this machine and to a cluster as they come."""

    def __init__(self, tasks: Iterable[ProductChunk], dialogue: Dialogue) -> None:
        self._tasks = enumerate(tasks)
        self._dialogue = dialogue
        self._lock = threading.Lock()
        self._here: deque[int] = deque()
        self._there: dict[int, tuple[ProductChunk, Future[bytes]]] = {}
        self._failed: BaseException | None = None
        self.answers: dict[int, list[int]] = {}

    def fill(self) -> None:
        """Give the cluster a chunk for each of its threads."""
        for _ in range(self._dialogue.workers):
            self._ask()

    def feed(self) -> Iterator[ProductChunk]:
        """The chunks that this machine computes: one after the other, as long as there are any."""
        while True:
            with self._lock:
                if (found := self._next()) is None:
                    return
            self._here.append(found[0])
            yield found[1]

    def keep(self, answers: list[int]) -> None:
        """Keep this machine's next answers."""
        self.answers[self._here.popleft()] = answers

    def await_cluster(self, seconds: float) -> dict[int, ProductChunk]:
        """Wait for the cluster's answers; returns the chunks that it leaves undone, by number.

        Raises what making a task raised.
        """
        end, left = time.monotonic() + seconds, {}
        with self._lock:
            there = dict(self._there)
        for number, (chunk, future) in there.items():
            try:
                self.answers[number] = chunk.read_answers(future.result(max(0.0, end - time.monotonic())))
            except TimeoutError:
                self._dialogue.give_up("the Dask cluster has stopped answering.")
                left[number] = chunk
            except (ClusterLost, ValueError):
                left[number] = chunk
        if self._failed is not None:
            raise self._failed
        return left

    def _next(self) -> tuple[int, ProductChunk] | None:
        found = next(self._tasks, None)
        if found is not None and type(found[1]) is not ProductChunk:
            raise TypeError("A cluster computes products and nothing else: give it chunks of one.")
        return found

    def _ask(self) -> None:
        answer: Future[bytes] = Future()
        with self._lock:
            try:
                if (found := self._next()) is None:
                    return
            except Exception as error:  # of whoever makes the tasks: it is raised where they are waited for
                self._failed = error
                return
            # In one go: who finds no more tasks has to find this one here.
            number, chunk = found
            self._there[number] = chunk, answer
        self._dialogue.ask(chunk.to_bytes()).add_done_callback(partial(self._pass_on, answer))

    def _pass_on(self, answer: "Future[bytes]", told: "Future[bytes]") -> None:
        """Take a chunk's answers from the cluster, and give it another one."""
        if (error := told.exception()) is not None:
            answer.set_exception(error)
        else:
            self._ask()
            answer.set_result(told.result())
