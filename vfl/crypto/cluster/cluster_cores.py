"""A party's own Dask cluster as further cores for products.

Only products go there. A job of one has ciphertexts and features, which the party's machines may see; ``map`` takes
no other function and no other task, whatever they hold. This machine's cores compute at the same time, and whatever
the cluster leaves undone.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, TimeoutError
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import vfl
from vfl.cores.child_environment import child_environment
from vfl.cores.cores import Cores
from vfl.crypto.cluster.frames import Frame, Kind, read_frame, write_frame
from vfl.crypto.product_jobs import JobFunction, ProductJob, compute_product

# What the other process says is a cluster's word, which may be anything.
_MOST_WORKERS = 1024
_MOST_LETTERS = 500
_ENDED = "the process that speaks with the Dask cluster has ended."


class ClusterLost(RuntimeError):
    """A cluster that doesn't compute what it was asked to."""


class Dialogue:
    """One connection to a cluster, from its first try to its loss. Thread-safe.

    Attributes:
        workers: threads of the cluster; 0 until it has answered, and when it is lost.
    """

    def __init__(self, address: str, on_ready: Callable[[int], None], on_lost: Callable[[str], None]) -> None:
        """Begin to connect, in the background.

        Args:
            address: of the scheduler.
            on_ready: is told how many threads compute there, as soon as they can.
            on_lost: is told once, in a sentence, why the cluster can't be used; not of ``close``.
        """
        self.workers = 0
        self._on_ready = on_ready
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._asked: dict[int, Future[bytes]] = {}
        self._number = 0
        self._is_over = False
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and an address that was checked
            [sys.executable, "-P", "-m", "vfl.crypto.cluster.client", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
        )
        # Written by a thread of its own: whoever asks mustn't wait for a process that doesn't read.
        self._outgoing: SimpleQueue[Frame | None] = SimpleQueue()
        for target in (self._listen, self._speak):
            threading.Thread(target=target, name="cluster", daemon=True).start()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes from it."""
        return self._is_over

    def ask(self, job: bytes) -> "Future[bytes]":
        """Have a job computed. The future raises ClusterLost where it isn't."""
        future: Future[bytes] = Future()
        with self._lock:
            if self._is_over:
                future.set_exception(ClusterLost())
                return future
            self._number += 1
            number = self._number
            self._asked[number] = future
        self._outgoing.put(Frame(Kind.JOB, number, job))
        return future

    def give_up(self, sentence: str) -> None:
        """End a dialogue with a cluster that doesn't answer, and say so."""
        self._end(sentence)
        self._process.kill()

    def close(self) -> None:
        """End the dialogue and its process."""
        self._end("")
        self._process.kill()
        self._process.wait()

    def _speak(self) -> None:
        assert self._process.stdin is not None  # noqa: S101 - asked for above
        try:
            while (frame := self._outgoing.get()) is not None:
                write_frame(self._process.stdin, frame)
        except (OSError, ValueError):
            self._end(_ENDED)

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - asked for above
        sentence = _ENDED
        try:
            while (frame := read_frame(self._process.stdout)) is not None:
                if frame.kind is Kind.LOST:
                    sentence = _printable(frame.data)
                    break
                self._take(frame)
        except (OSError, ValueError):
            pass
        self._end(sentence)
        self._process.kill()
        self._process.wait()

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.READY:
            self.workers = min(frame.number, _MOST_WORKERS)
            self._on_ready(self.workers)
            return
        with self._lock:
            future = self._asked.pop(frame.number, None)
        if future is None:
            return
        if frame.kind is Kind.ANSWERS:
            future.set_result(frame.data)
        else:
            future.set_exception(ClusterLost(frame.data.decode(errors="replace")))

    def _end(self, sentence: str) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over, self.workers = True, 0
            asked, self._asked = self._asked, {}
        self._outgoing.put(None)
        if sentence:
            self._on_lost(sentence)
        for future in asked.values():
            future.set_exception(ClusterLost())


def _printable(data: bytes) -> str:
    """Put a sentence for the log in one line."""
    letters = data[: 4 * _MOST_LETTERS].decode(errors="replace")[:_MOST_LETTERS]
    return "".join(letter if letter.isprintable() else " " for letter in letters)


def _environment() -> dict[str, str]:
    """Make what a child gets, and what Dask is configured by."""
    places = [str(Path(vfl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**child_environment("DASK_", "SSL_"), "PYTHONPATH": os.pathsep.join(filter(None, places))}


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
        """Give the jobs that this machine computes: one after the other, as long as there are any."""
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
