"""A party's own Dask cluster as further cores for products.

Only products go there. A job of one has ciphertexts and features, which the party's machines may see; ``map`` takes
no other function and no other task, whatever they hold. This machine's cores compute at the same time, and whatever
the cluster leaves undone.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, TimeoutError
from functools import partial

from vfl.cores.cores import Cores
from vfl.crypto.cluster.dialogue import ClusterLost, Dialogue
from vfl.crypto.product_jobs import JobFunction, ProductJob, compute_product

_log = logging.getLogger(__name__)
# How much longer than this machine took for its own jobs a cluster may take for the rest.
_PATIENCE_SECONDS = 5.0


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
        """How many jobs are computed at once, here and there."""
        return self._local.count + self._dialogue.workers

    def begin_session(self) -> None:
        """Begin to connect anew to a cluster that was lost before. Waits for nothing."""
        with self._lock:
            if self._dialogue.is_over:
                self._dialogue = self._begun()

    def map(self, function: JobFunction, tasks: Iterable[ProductJob]) -> Iterator[list[int]]:
        """Compute jobs, here and on the cluster, and give their answers in order.

        Raises:
            TypeError: for anything but ``compute_product`` of a `ProductJob`.
        """
        if function is not compute_product:
            raise TypeError("A cluster computes products and nothing else: map compute_product over it.")
        shared = _Shared(tasks, self._dialogue)
        shared.fill()
        start = time.monotonic()
        for answers in self._local.map(compute_product, shared.feed()):
            shared.keep(answers)
        patience = _PATIENCE_SECONDS + time.monotonic() - start
        left = shared.await_cluster(patience)
        for number, answers in zip(left, self._local.map(compute_product, left.values()), strict=True):
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
    """The jobs of one product, dealt out to this machine and to a cluster as they come."""

    def __init__(self, tasks: Iterable[ProductJob], dialogue: Dialogue) -> None:
        self._tasks = enumerate(tasks)
        self._dialogue = dialogue
        self._lock = threading.Lock()
        self._here: deque[int] = deque()
        self._there: dict[int, tuple[ProductJob, Future[bytes]]] = {}
        self._failed: BaseException | None = None
        self.answers: dict[int, list[int]] = {}

    def fill(self) -> None:
        """Give the cluster a job for each of its threads."""
        for _ in range(self._dialogue.workers):
            self._ask()

    def feed(self) -> Iterator[ProductJob]:
        """The jobs that this machine computes: one after the other, as long as there are any."""
        while True:
            with self._lock:
                if (found := self._next()) is None:
                    return
            self._here.append(found[0])
            yield found[1]

    def keep(self, answers: list[int]) -> None:
        """Keep this machine's next answers."""
        self.answers[self._here.popleft()] = answers

    def await_cluster(self, seconds: float) -> dict[int, ProductJob]:
        """Wait for the cluster's answers; returns the jobs that it leaves undone, by number.

        Raises what making a task raised.
        """
        end, left = time.monotonic() + seconds, {}
        with self._lock:
            there = dict(self._there)
        for number, (job, future) in there.items():
            try:
                self.answers[number] = job.read_answers(future.result(max(0.0, end - time.monotonic())))
            except TimeoutError:
                self._dialogue.give_up("the Dask cluster has stopped answering.")
                left[number] = job
            except (ClusterLost, ValueError):
                left[number] = job
        if self._failed is not None:
            raise self._failed
        return left

    def _next(self) -> tuple[int, ProductJob] | None:
        found = next(self._tasks, None)
        if found is not None and type(found[1]) is not ProductJob:
            raise TypeError("A cluster computes products and nothing else: give it jobs of one.")
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
            number, job = found
            self._there[number] = job, answer
        self._dialogue.ask(job.to_bytes()).add_done_callback(partial(self._pass_on, answer))

    def _pass_on(self, answer: "Future[bytes]", told: "Future[bytes]") -> None:
        """Take a job's answers from the cluster, and give it another one."""
        if (error := told.exception()) is not None:
            answer.set_exception(error)
        else:
            self._ask()
            answer.set_result(told.result())
