"""Hands out the cells of a sweep as jobs of a second or two: those that share a model and a window together.

How long cells take is learnt from those that are done, for the jobs' size and for the time that is left.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from plumbline.cells.cells import AttackCell, Cell, plain
from plumbline.cells.jobs import Result, Task
from plumbline.cells.keys import canonical, data_of, shared_of, versions_of
from plumbline.cells.measuring import Shared
from plumbline.cells.outcomes import Outcome
from plumbline.cells.packed_arrays import KeyedArray

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
        """Note a piece of work that took so long in an earlier sweep."""
        with self._lock:
            self._known[kind] += 1
            self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds

    def took(self, kind: Hashable, seconds: float) -> None:
        """Note that a planned piece of work is done."""
        self.knows(kind, seconds)
        with self._lock:
            self._done[kind] += 1

    def expected(self, kind: Hashable) -> float | None:
        """Foretell the seconds that a piece of this kind takes on average; None while none was done."""
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
    """Name what cells have in common that take about as long: attack or function, data set, access, records."""
    data = data_of(cell)
    name = data.name if data else ""
    if isinstance(cell, AttackCell):
        defences = tuple(one.name for one in cell.defences)
        return cell.attack.words, name, cell.model.kind, cell.access, cell.records, defences
    return cell.function, name


_SECONDS_OF_A_JOB = 1.5
_MOST_CELLS = 500


@dataclass(frozen=True, eq=False)
class CellJob:
    """A task with what travels along.

    Attributes:
        keys: of its cells, in their order; of the model that is trained.
        task: what is computed.
        table: its data set, None for none.
        parameters: of its model, None for none.
        suspect: whether a worker that had it was lost.
    """

    keys: tuple[str, ...]
    task: Task
    table: KeyedArray | None = None
    parameters: KeyedArray | None = None
    suspect: bool = False

    @property
    def suspects(self) -> "list[CellJob]":
        """A job for each cell, so that one that kills its worker takes no other with it."""
        if not self.task.cells:
            return [replace(self, suspect=True)]
        return [
            replace(self, keys=(key,), task=replace(self.task, cells=(cell,)), suspect=True)
            for key, cell in zip(self.keys, self.task.cells, strict=True)
        ]

    def lost(self, reason: str) -> Result:
        """Say what came of it where no worker survived it."""
        return Result((Outcome("failed", reason),) * len(self.keys))


class JobQueue:
    """The cells that wait, in the order of what they share. Several threads may take jobs."""

    def __init__(self, cells: Mapping[str, Cell], pace: Pace, job: Callable[[Shared | None], CellJob]) -> None:
        """``job`` makes an empty job on what cells share, with its arrays."""
        self._lock = threading.Lock()
        self._pace, self._job = pace, job
        self._waiting = deque(sorted(cells.items(), key=_order(cells)))

    def __iter__(self) -> Iterator[CellJob]:
        while job := self._next():
            yield job

    def _next(self) -> CellJob | None:
        with self._lock:
            if not self._waiting:
                return None
            batch = self._take()
        first = self._job(shared_of(batch[0][1]))
        cells = tuple(cell for _, cell in batch)
        versions = dict[str, str]()
        for cell in cells:
            versions |= versions_of(cell)
        task = replace(first.task, cells=cells, versions=versions)
        return replace(first, keys=tuple(key for key, _ in batch), task=task)

    def _take(self) -> list[tuple[str, Cell]]:
        """Cells that share a model, until they are expected to take long enough."""
        batch, seconds, unknown = [self._waiting.popleft()], 0.0, set()
        share = _share_of(batch[0][1])
        while True:
            kind = kind_of(batch[-1][1])
            expected = self._pace.expected(kind)
            # Of work that may take minutes, a job has one piece until it is known better.
            if expected is None:
                unknown.add(kind)
            seconds += expected or 0.0
            if seconds >= _SECONDS_OF_A_JOB or len(batch) == _MOST_CELLS or not self._waiting:
                return batch
            following = self._waiting[0][1]
            kind = kind_of(following)
            late = seconds + (self._pace.expected(kind) or 0.0) > 2 * _SECONDS_OF_A_JOB
            if late or kind in unknown or _share_of(following) != share:
                return batch
            batch.append(self._waiting.popleft())


def _order(cells: Mapping[str, Cell]) -> "Callable[[tuple[str, Cell]], tuple[int, int]]":
    """Sort by what they share, then by window, both as they first appear."""
    shares: dict[str, int] = {}
    windows: dict[tuple[int, ...], int] = {}
    places = {}
    for key, cell in cells.items():
        window = cell.passive if isinstance(cell, AttackCell) else ()
        share = shares.setdefault(_share_of(cell), len(shares))
        places[key] = (share, windows.setdefault(window, len(windows)))
    return lambda item: places[item[0]]


def _share_of(cell: Cell) -> str:
    on = shared_of(cell)
    return "" if on is None else share_key(on)


def share_key(on: Shared) -> str:
    """Name what cells share by its content."""
    return canonical(plain(on))
