"""The processes that a party has started, as Linux tells."""

import os
import signal
import time
from multiprocessing import forkserver
from pathlib import Path

_SECONDS = 20


def state_of(process: int) -> str:
    """A letter of Linux's: T is stopped; X where there is none any more."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_running(process: int) -> bool:
    """Whether a process runs, or could; one that has ended may wait for its parent to notice."""
    return state_of(process) not in "ZX"


def await_states(states: str, *processes: int) -> None:
    deadline = time.monotonic() + _SECONDS
    while any(state_of(process) not in states for process in processes):
        assert time.monotonic() < deadline, f"processes are not in any of the states {states}"
        time.sleep(0.01)


def await_end(processes: list[int]) -> None:
    await_states("ZX", *processes)


def stop(*processes: int) -> None:
    """Stop processes, and return when they are."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    await_states("T", *processes)


def fork_server() -> int:
    """The server that this process's workers are forks of."""
    found: int = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return found


def children_of(*processes: int) -> set[int]:
    """Processes that run, and that these have started."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in "ZX" and int(parent) in processes:
            found.add(int(stat.parent.name))
    return found


def workers_of(party: int) -> set[int]:
    """A party's workers: forks of the server that it has started."""
    return children_of(*children_of(party))
