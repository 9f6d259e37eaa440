"""Tasks for worker processes: ordinary ones, some that die, and some that tell what a worker is like."""

import ctypes
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.harness.children import await_states
from vfl.crypto.kernels import PortableKernel, ProductTask

_PR_GET_DUMPABLE = 3


class Dying(NamedTuple):
    """A number to square, at a price.

    Attributes:
        number: what to square.
        deaths: how many workers it takes with it before it is done.
        folder: where it counts them.
    """

    number: int
    deaths: int
    folder: str


class Stopping(NamedTuple):
    """A number to square.

    Attributes:
        number: what to square.
        mark: a file; the worker that makes it stops.
        continues: whether it goes on as soon as its work is done elsewhere.
    """

    number: int
    mark: str
    continues: bool


def square(number: int) -> int:
    return number * number


def process_id_once_there(path: str) -> int:
    """Number of the process that waited until a file was there."""
    while not Path(path).exists():
        time.sleep(0.005)
    return os.getpid()


def die_then_square(task: Dying) -> int:
    """Square a number; a worker that does so dies as often as the task says. The calling process never does."""
    marks = Path(task.folder)
    deaths = len(list(marks.glob(f"{task.number}-*")))
    if deaths < task.deaths and is_worker():
        (marks / f"{task.number}-{deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(task.number)


def square_where_there_is_memory(number: int) -> int:
    """Square a number; workers have no memory for it."""
    if is_worker():
        raise MemoryError
    return square(number)


def stop_once_then_square(task: Stopping) -> int:
    """Square a number; the first worker that does so stops before it has."""
    _stop_once(task.mark)
    if task.continues and not is_worker():
        # While its work is done here the worker goes on, and sleeps when it has answered.
        worker = int(Path(task.mark).read_text())
        os.kill(worker, signal.SIGCONT)
        await_states("S", worker)
    return square(task.number)


@dataclass(frozen=True)
class StoppingKernel(PortableKernel):
    """The portable kernel; the first worker that begins a product stops there.

    Attributes:
        mark: a file that tells whether one has.
    """

    mark: str = ""

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        _stop_once(self.mark)
        return super().product(ciphertexts, task, modulus)


def _stop_once(mark: str) -> None:
    if is_worker():
        try:
            with Path(mark).open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGSTOP)


def compute_for(seconds: float) -> float:
    """Use so many seconds of a processor, however long that takes."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


def refuse(number: int) -> int:
    raise ValueError(f"{number} is refused.")


def is_worker() -> bool:
    return multiprocessing.parent_process() is not None


def process_id(_: object) -> int:
    return os.getpid()


def interrupt_then_process_id(_: object) -> int:
    """What Ctrl-C does to every process of a terminal, and what is left of this one."""
    os.kill(os.getpid(), signal.SIGINT)
    return os.getpid()


def core_dumps(_: object) -> tuple[tuple[int, int], int]:
    """The limit of core dumps, and whether the kernel would write or pipe one."""
    return resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)


def open_files(_: object) -> dict[str, str]:
    """What the process holds open: descriptor and what it is."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[link.name] = str(link.readlink())
        except OSError:
            continue
    return found
