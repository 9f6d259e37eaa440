"""How long cells take, learnt from those that are done: for jobs of a good size, and for the time left."""

import threading
from collections import Counter
from collections.abc import Hashable, Iterable

from plumbline.cells.cells import AttackCell, Cell
from plumbline.cells.keys import data_of

# Of a cell, while nothing is known.
_GUESS = 0.1


class Pace:
    """Seconds by kind of work, and how much of what is planned is behind. Several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._planned: Counter[Hashable] = Counter()
        self._done: Counter[Hashable] = Counter()
        self._known: Counter[Hashable] = Counter()
        self._seconds: dict[Hashable, float] = {}
        self._share = 0.0

    def plan(self, kinds: Iterable[Hashable]) -> None:
        """Work to be done, a kind for each piece."""
        with self._lock:
            self._planned.update(kinds)

    def knows(self, kind: Hashable, seconds: float) -> None:
        """A piece of work that took so long in an earlier sweep."""
        with self._lock:
            self._known[kind] += 1
            self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds

    def took(self, kind: Hashable, seconds: float) -> None:
        """A planned piece of work is done."""
        self.knows(kind, seconds)
        with self._lock:
            self._done[kind] += 1

    def expected(self, kind: Hashable) -> float | None:
        """Seconds that a piece of this kind takes on average; None while none was done."""
        with self._lock:
            return self._expected(kind)

    @property
    def share(self) -> float:
        """The share of planned work that is done, in [0, 1], weighted by how long each kind takes; it never falls."""
        with self._lock:
            everything, pieces = sum(self._seconds.values()), sum(self._known.values())
            guess = everything / pieces if pieces else _GUESS
            weights = {kind: max(self._expected(kind) or guess, 1e-6) for kind in self._planned}
            planned = sum(count * weights[kind] for kind, count in self._planned.items())
            behind = sum(self._done[kind] * weights[kind] for kind in self._planned)
            done = self._done.total() >= self._planned.total()
            self._share = 1.0 if done else max(self._share, min(behind / planned, 0.999))
            return self._share

    def _expected(self, kind: Hashable) -> float | None:
        return self._seconds[kind] / self._known[kind] if self._known[kind] else None


def kind_of(cell: Cell) -> Hashable:
    """What cells that take about as long have in common: attack or function, data set, access, records."""
    data = data_of(cell)
    name = data.name if data else ""
    if isinstance(cell, AttackCell):
        defences = tuple(one.name for one in cell.defences)
        return cell.attack.words, name, cell.model.kind, cell.access, cell.records, defences
    return cell.function, name
