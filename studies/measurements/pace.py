"""How far a sweep is, in time: learnt of what is done, and of earlier sweeps."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable


class Pace:
    """How much of what is planned is behind, weighted by how long work of each kind takes."""

    def __init__(self) -> None:
        self._planned: Counter[Hashable] = Counter()
        self._done: Counter[Hashable] = Counter()
        self._known: Counter[Hashable] = Counter()
        self._seconds: defaultdict[Hashable, float] = defaultdict(float)
        self._share = 0.0

    def plan(self, kinds: Iterable[Hashable]) -> None:
        """Work to be done, a kind for each piece."""
        self._planned.update(kinds)

    def knows(self, kind: Hashable, seconds: float) -> None:
        """Note a piece of work that took so long in an earlier sweep."""
        self._known[kind] += 1
        self._seconds[kind] += seconds

    def took(self, kind: Hashable, seconds: float) -> None:
        """Note that a planned piece of work is done."""
        self.knows(kind, seconds)
        self._done[kind] += 1

    @property
    def share(self) -> float:
        """The share of planned work that is done, in [0, 1], weighted by how long each kind takes; it never falls."""
        average = sum(self._seconds.values()) / max(1, self._known.total())
        weights = {kind: max(self._seconds[kind] / known, 1e-6) for kind, known in self._known.items() if known}
        planned = sum(count * weights.get(kind, average) for kind, count in self._planned.items())
        behind = sum(count * weights[kind] for kind, count in self._done.items())
        self._share = max(self._share, min(behind / planned, 0.999))
        return self._share
