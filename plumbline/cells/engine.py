"""Runs the cells of a sweep: those that aren't in the store yet, on all cores or on a cluster."""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.cells.cells import AttackCell, Cell, Choice, DataChoice, ModelChoice, plain
from plumbline.cells.jobs import Job, Result, SharedThing, forget
from plumbline.cells.keys import canonical, data_of, digest_of_data, key_of, key_of_model, shared_of, versions_of
from plumbline.cells.measuring import data_and_seed, load_table
from plumbline.cells.outcomes import Outcome
from plumbline.cells.pace import Pace
from plumbline.cells.store import ResultStore, open_store, read_model, write_model
from plumbline.cells.workers import cluster_workers, local_workers
from plumbline.simulation.rounds import Done, unwatched
from plumbline.simulation.scaled_tables import ScaledTable
from vfl.data import DatasetError

_MOST_CELLS = 64


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is run. None of it enters a result.

    Attributes:
        store: folder of finished cells and trained models; None keeps none.
        data_dir: of raw files.
        workers: processes, 1 for this one; None for the processors of this process.
        dask: address of a Dask scheduler, as tcp://host:8786; None for this machine.
        done: told which share is done of what was missing when the sweep began, by the time that it takes.
    """

    store: Path | None = None
    data_dir: Path | None = None
    workers: int | None = None
    dask: str | None = None
    done: Done = unwatched


def run_cells(cells: Sequence[Cell], options: SweepOptions) -> pd.DataFrame:
    """Measure the cells that the store lacks, and return a row per cell in their order.

    Columns: what describes the cell (``description``), ``status`` (done, not applicable, failed), ``reason``, and every
    measure; a measure that a cell doesn't have is NaN. A failed cell stops nothing, and is tried again the next time.
    ``attrs["known"]`` is how many rows were there before.

    Raises:
        DatasetError: when raw files are missing or damaged.
        SweepStopped: when finished cells can't be kept, or a cluster isn't there or vanishes. What is done stays.
        KeyboardInterrupt: for Ctrl-C. What is done stays.
    """
    keys = [key_of(cell, digest_of_data(data_of(cell), options.data_dir)) for cell in cells]
    with _opened(options.store) as store:
        stored = store.read(keys) if store else {}
        outcomes_by_key = {key: one for key, one in stored.items() if one.status != "failed"}
        missing = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in outcomes_by_key}
        known_count = sum(key in outcomes_by_key for key in keys)
        pace = Pace()
        for key, cell in zip(keys, cells, strict=True):
            if key in stored:
                pace.knows(kind_of(cell), stored[key].elapsed)
        if missing:
            sweep = _Sweep(missing, options, store, pace)
            try:
                sweep.run()
            finally:
                forget()
            outcomes_by_key |= sweep.outcomes
    options.done(1.0)
    table = pd.DataFrame(
        [description(cell) | outcomes_by_key[key].columns for key, cell in zip(keys, cells, strict=True)]
    )
    table.attrs["known"] = known_count
    return table


def _opened(folder: Path | None) -> AbstractContextManager[ResultStore | None]:
    return nullcontext() if folder is None else open_store(folder)


@dataclass(eq=False)
class _Sweep:
    """One run over missing cells; ``outcomes`` has those that are measured."""

    missing: Mapping[str, Cell]
    options: SweepOptions
    store: ResultStore | None
    pace: Pace
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    _tables: dict[tuple[DataChoice, int], ScaledTable] = field(default_factory=dict)

    def run(self) -> None:
        """Measure, keep, and tell what was kept."""
        self.pace.plan(kind_of(cell) for cell in self.missing.values())
        dask, count = self.options.dask, self.options.workers
        with local_workers(count) if dask is None else cluster_workers(dask) as workers:
            jobs = deque(job for cells in _by_share(self.missing) for job in self._prepared(cells, workers.most))
            self.pace.plan("training" for job in jobs if job.trains)
            for job, result in workers.results(jobs):
                jobs.extendleft(reversed(self._followed(job, result, workers.most)))

    def _prepared(self, cells: Mapping[str, Cell], most: int) -> list[Job]:
        """Load what cells share; those whose data set or model can't be had have failed.

        Raises:
            DatasetError: when raw files are missing or damaged.
        """
        on, data_dir = shared_of(next(iter(cells.values()))), self.options.data_dir
        if on is None:
            return _parts(Job(SharedThing(""), cells), most)
        try:
            wanted = data_and_seed(on)
            if wanted not in self._tables:
                self._tables[wanted] = load_table(*wanted, data_dir)
        except DatasetError:
            raise
        except Exception as error:
            self._keep(dict.fromkeys(cells, Outcome("failed", f"{type(error).__name__}: {error}")))
            return []
        key = canonical(plain(on))
        if isinstance(on, ModelChoice):
            key = key_of_model(on, digest_of_data(on.data, data_dir))
        kept = read_model(self.store.folder, key) if self.store and isinstance(on, ModelChoice) else None
        job = Job(SharedThing(key, on, self._tables[wanted], kept), cells)
        return [job] if job.trains else _parts(job, most)

    def _followed(self, job: Job, result: Result, most: int) -> list[Job]:
        """Keep what a job computed; what comes after it."""
        if not job.trains:
            # Fewer than its cells where its time was over.
            self._keep(dict(zip(job.cells, result.outcomes, strict=False)))
            return job.rest(len(result.outcomes))
        self._tell("training", result.outcomes[0])
        if result.parameters is None:
            self._keep(dict.fromkeys(job.cells, result.outcomes[0]))
            return []
        if self.store:
            write_model(self.store.folder, job.shared.key, result.parameters)
        return _parts(replace(job, shared=replace(job.shared, parameters=result.parameters)), most)

    def _keep(self, outcomes: dict[str, Outcome]) -> None:
        if self.store:
            self.store.append(_row(key, self.missing[key], outcome) for key, outcome in outcomes.items())
        self.outcomes |= outcomes
        for key, outcome in outcomes.items():
            self._tell(kind_of(self.missing[key]), outcome)

    def _tell(self, kind: Hashable, outcome: Outcome) -> None:
        self.pace.took(kind, outcome.elapsed)
        self.options.done(self.pace.share)


def _by_share(cells: Mapping[str, Cell]) -> list[dict[str, Cell]]:
    """Gather cells by what they share, in it by window, both as they first appear."""
    shares: dict[str, dict[tuple[int, ...], dict[str, Cell]]] = {}
    for key, cell in cells.items():
        window = cell.passive if isinstance(cell, AttackCell) else ()
        shares.setdefault(canonical(plain(shared_of(cell))), {}).setdefault(window, {})[key] = cell
    return [{key: cell for part in windows.values() for key, cell in part.items()} for windows in shares.values()]


def _parts(job: Job, most: int) -> list[Job]:
    """Divide a job among those who compute."""
    cells = list(job.cells.items())
    size = min(_MOST_CELLS, max(1, len(cells) // most))
    return [replace(job, cells=dict(cells[start : start + size])) for start in range(0, len(cells), size)]


def kind_of(cell: Cell) -> Hashable:
    """Name what cells have in common that take about as long: attack or function, data set, access, records."""
    data = data_of(cell)
    name = data.name if data else ""
    if isinstance(cell, AttackCell):
        defences = tuple(choice.name for choice in cell.defences)
        return cell.attack.words, name, cell.model.kind, cell.access, cell.records, defences
    return cell.function, name


def _row(key: str, cell: Cell, outcome: Outcome) -> dict[str, object]:
    return {"key": key, "cell": canonical(plain(cell)), "versions": canonical(versions_of(cell))} | asdict(outcome)


def description(cell: Cell) -> dict[str, Any]:
    """Give the columns that describe a cell in a table of results.

    Of an attack: dataset, data_options, model, trainer, model_options, seed, d, start (its first column), attack (with
    options), defence (all of them, "none" without), access, records, auxiliary, moments, delivered, undo. Of a task:
    function, what it is on, and its options.
    """
    if isinstance(cell, AttackCell):
        return {
            **_of_model(cell.model),
            "d": len(cell.passive),
            "start": cell.passive[0],
            "attack": cell.attack.words,
            "defence": " + ".join(one.words for one in cell.defences) or "none",
            "access": cell.access,
            "records": cell.records,
            "auxiliary": cell.auxiliary,
            "moments": cell.moments,
            "delivered": cell.delivered,
            "undo": cell.undo,
        }
    return {"function": cell.function.partition(":")[2], **_of_model(cell.on), **dict(cell.options)}


def _of_model(on: ModelChoice | DataChoice | None) -> Mapping[str, Any]:
    if on is None:
        return {}
    if isinstance(on, DataChoice):
        return {"dataset": on.name}
    options = Choice("", on.options).words[1:-1]
    rows = (("rows", on.data.rows),) if on.data.rows is not None else ()
    return {
        "dataset": on.data.name,
        "data_options": Choice("", (*rows, *on.data.options)).words[1:-1],
        "model": on.kind,
        "trainer": on.trainer,
        "model_options": options,
        "seed": on.seed,
    }
