"""How a process that is slow is told from one that is stopped: it computes."""

from collections.abc import Callable
from pathlib import Path

Spent = list[str]


def processor_time(process: int | None) -> Spent:
    """Read what Linux counts of a process; nothing elsewhere, where a busy one looks like one that is stopped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return []


def stands_still(is_done: Callable[[float], bool], spent: Callable[[], Spent], patience: float) -> bool:
    """Wait for a process; True when for so many seconds it has neither done what it should nor computed.

    Args:
        is_done: waits so many seconds for it.
        spent: the processor time that it has used.
        patience: seconds.
    """
    now = spent()
    while not is_done(patience):
        before, now = now, spent()
        if before == now:
            return True
    return False
