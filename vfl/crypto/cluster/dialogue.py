"""A party's side of its dialogue with a cluster: a process of its own in between, and bytes to and from it."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue

import vfl
from vfl.cores.child_environment import child_environment
from vfl.crypto.cluster.frames import Frame, Kind, read_frame, write_frame

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
    """A sentence for the log, in one line."""
    letters = data[: 4 * _MOST_LETTERS].decode(errors="replace")[:_MOST_LETTERS]
    return "".join(letter if letter.isprintable() else " " for letter in letters)


def _environment() -> dict[str, str]:
    """What a child gets, and what Dask is configured by."""
    places = [str(Path(vfl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**child_environment("DASK_", "SSL_"), "PYTHONPATH": os.pathsep.join(filter(None, places))}
