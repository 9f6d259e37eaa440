"""Hands out the cells of a sweep as jobs of a second or two: those that share a model and a window together."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from plumbline.cells.cells import AttackCell, Cell, plain
from plumbline.cells.jobs import Result, Task
from plumbline.cells.keys import canonical, shared_of, versions_of
from plumbline.cells.measuring import Shared
from plumbline.cells.outcomes import Outcome
from plumbline.cells.pace import Pace, kind_of
from plumbline.cells.parcels import Parcel

_SECONDS_OF_A_JOB = 1.5
_MOST_CELLS = 500


@dataclass(frozen=True, eq=False)
class Job:
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
    table: Parcel | None = None
    parameters: Parcel | None = None
    suspect: bool = False

    @property
    def suspects(self) -> "list[Job]":
        """A job for each cell, so that one that kills its worker takes no other with it."""
        if not self.task.cells:
            return [replace(self, suspect=True)]
        return [
            replace(self, keys=(key,), task=replace(self.task, cells=(cell,)), suspect=True)
            for key, cell in zip(self.keys, self.task.cells, strict=True)
        ]

    def lost(self, reason: str) -> Result:
        """What came of it where no worker survived it."""
        return Result((Outcome("failed", reason),) * len(self.keys))


class JobQueue:
    """The cells that wait, in the order of what they share. Several threads may take jobs."""

    def __init__(self, cells: Mapping[str, Cell], pace: Pace, job: Callable[[Shared | None], Job]) -> None:
        """``job`` makes an empty job on what cells share, with its parcels."""
        self._lock = threading.Lock()
        self._pace, self._job = pace, job
        self._waiting = deque(sorted(cells.items(), key=_order(cells)))

    def __iter__(self) -> Iterator[Job]:
        while job := self._next():
            yield job

    def _next(self) -> Job | None:
        with self._lock:
            if not self._waiting:
                return None
            taken = self._take()
        first = self._job(shared_of(taken[0][1]))
        cells = tuple(cell for _, cell in taken)
        versions = dict[str, str]()
        for cell in cells:
            versions |= versions_of(cell)
        task = replace(first.task, cells=cells, versions=versions)
        return replace(first, keys=tuple(key for key, _ in taken), task=task)

    def _take(self) -> list[tuple[str, Cell]]:
        """Cells that share a model, until they are expected to take long enough."""
        taken, seconds, unknown = [self._waiting.popleft()], 0.0, set()
        share = _share_of(taken[0][1])
        while True:
            kind = kind_of(taken[-1][1])
            expected = self._pace.expected(kind)
            # Of work that may take minutes, a job has one piece until it is known better.
            if expected is None:
                unknown.add(kind)
            seconds += expected or 0.0
            if seconds >= _SECONDS_OF_A_JOB or len(taken) == _MOST_CELLS or not self._waiting:
                return taken
            following = self._waiting[0][1]
            kind = kind_of(following)
            late = seconds + (self._pace.expected(kind) or 0.0) > 2 * _SECONDS_OF_A_JOB
            if late or kind in unknown or _share_of(following) != share:
                return taken
            taken.append(self._waiting.popleft())


def _order(cells: Mapping[str, Cell]) -> "Callable[[tuple[str, Cell]], tuple[int, int]]":
    """By what they share, then by window, both as they first appear."""
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
