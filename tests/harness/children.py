"""The processes that a party has started, as Linux tells."""

from pathlib import Path


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
