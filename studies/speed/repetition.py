"""How things are timed: on one pinned core, in turns, as often as asked, and only where the result is right.

Processor time and memory of processes of this machine with those that they started, as Linux tells them.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Name = TypeVar("Name")
Clock = Callable[[], float]


class WrongResult(ArithmeticError):
    """A variant computed something else than it had to: its time means nothing."""


def timed(work: Callable[[], T], clock: Clock = time.process_time) -> tuple[float, T]:
    """Do the work once: its seconds by the clock, this process's CPU by default, and its result."""
    start = clock()
    result = work()
    return clock() - start, result


def in_turns(variants: Mapping[Name, Callable[[], T]], repetitions: int) -> dict[Name, list[T]]:
    """Run every variant once, then every one again: a machine that slows down slows all of them down."""
    found: dict[Name, list[T]] = {name: [] for name in variants}
    for _ in range(repetitions):
        for name, run in variants.items():
            found[name].append(run())
    return found


def doubled(most: int) -> list[int]:
    """1, 2, 4 ... and so many; none of 0."""
    return sorted({min(most, 1 << power) for power in range(most.bit_length() + 1)}) if most else []


def require_equal(variant: str, found: Sequence[object], expected: Sequence[object]) -> None:
    """Raises WrongResult where a variant's results aren't exactly the expected ones."""
    if list(found) != list(expected):
        raise WrongResult(f"{variant} found another result than integer arithmetic: its time means nothing.")


@contextmanager
def one_core() -> Iterator[None]:
    """Pin this process to one of its cores, where the system can, and release it afterwards."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# Of /proc/PID/stat behind the name: user and system time, and of children that have ended.
_TIMES = slice(11, 15)


def cpu_seconds(process: int) -> float:
    """Processor seconds of a process and all that it started. Raises OSError where the system doesn't say."""
    stats = (Path(f"/proc/{one}/stat").read_text() for one in family(process))
    return sum(int(ticks) for stat in stats for ticks in stat.rpartition(")")[2].split()[_TIMES]) / _TICK


def peak_bytes(process: int | None = None) -> int:
    """Most memory of a process (this one) and of those that it started and that are alive, each at its own peak."""
    if not Path("/proc/self/status").exists():
        import resource  # Windows has none

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return sum(_peak(one) for one in family(process or os.getpid()))


def family(process: int) -> Iterator[int]:
    """A process and all that it started, those that have ended left out."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


def _peak(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    # A process that has just ended has none.
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 if "VmHWM:" in status else 0
