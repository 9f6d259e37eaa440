"""Memory, descriptors, threads and children of processes, round by round, and whether they grow."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median

from tests.harness.children import children_of

# A process's first rounds load what later ones use, and fill what it remembers.
WARM_UP = 8
# Rounds further apart show growth, closer ones noise; of fewer pairs nothing is said.
APART, LEAST_PAIRS = 4, 20


@dataclass(frozen=True)
class Resource:
    """Something that a process may hold, and must give back.

    Attributes:
        name: as the table shows it.
        most: by how much it may grow a round, in the median over all pairs of rounds that are apart.
    """

    name: str
    most: float


MEMORY = Resource("memory (KiB)", 256)
DESCRIPTORS = Resource("descriptors", 0.1)
THREADS = Resource("threads", 0.1)
CHILDREN = Resource("children", 0.05)
RESOURCES = (MEMORY, DESCRIPTORS, THREADS, CHILDREN)


def held_by(process: int) -> dict[Resource, int]:
    """What a process holds now, as Linux tells."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return {
        MEMORY: int(status["VmRSS"].split()[0]),
        DESCRIPTORS: sum(1 for _ in Path(f"/proc/{process}/fd").iterdir()),
        THREADS: int(status["Threads"]),
        CHILDREN: len(children_of(process)),
    }


@dataclass(frozen=True)
class Trend:
    """What became of one resource of one party, over all processes that it had.

    Attributes:
        first: what it was at first after a warm-up, in the median over processes.
        last: what it was at last, likewise.
        slope: median growth a round; None for too few rounds to tell.
        more: of the pairs of rounds, the share in which it is more at last, less the share in which it is less.
        most: by how much it may grow.
    """

    first: float
    last: float
    slope: float | None
    more: float
    most: float

    @property
    def grows(self) -> bool:
        """Whether it grows by more than it may, and does so all the time."""
        return self.slope is not None and self.slope > self.most and self.more > 0.5


@dataclass
class Samples:
    """What parties' processes held at the end of each round, when nothing was at work."""

    _of: dict[tuple[str, Resource], dict[int, list[tuple[int, int]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    def add(self, round_: int, party: str, process: int, held: dict[Resource, int]) -> None:
        """Note what one process held."""
        for resource, count in held.items():
            self._of[party, resource][process].append((round_, count))

    def trends(self) -> dict[tuple[str, Resource], Trend]:
        """By party and resource, what became of it."""
        return {key: _trend(list(processes.values()), key[1].most) for key, processes in self._of.items()}


def _trend(processes: Sequence[Sequence[tuple[int, int]]], most: float) -> Trend:
    """Theil and Sen's slope: one round that is far off moves it by nothing. Processes are told apart."""
    settled = [one[WARM_UP:] or one[-1:] for one in processes]
    pairs = [pair for one in settled for pair in combinations(one, 2) if pair[1][0] - pair[0][0] >= APART]
    slopes = [(after - before) / (later - now) for (now, before), (later, after) in pairs]
    first, last = (median(one[place][1] for one in settled) for place in (0, -1))
    if len(slopes) < LEAST_PAIRS:
        return Trend(first, last, None, 0, most)
    more = sum((one > 0) - (one < 0) for one in slopes) / len(slopes)
    return Trend(first, last, median(slopes), more, most)
