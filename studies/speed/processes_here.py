"""Processor time and memory of processes of this machine, with those that they started, as Linux tells them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# Of /proc/PID/stat behind the name: user and system time, and of children that have ended.
_TIMES = slice(11, 15)


def cpu_seconds(process: int) -> float:
    """Processor seconds of a process and all that it started. Raises OSError where the system doesn't say."""
    return sum(_ticks(one) for one in family(process)) / _TICK


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


def _ticks(process: int) -> int:
    stat = Path(f"/proc/{process}/stat").read_text()
    return sum(map(int, stat.rpartition(")")[2].split()[_TIMES]))


def _peak(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    # A process that has just ended has none.
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 if "VmHWM:" in status else 0
