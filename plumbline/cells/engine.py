"""Runs the cells of a sweep: those that aren't in the store yet, on all cores or on a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.cells.cells import AttackCell, Cell, Choice, DataChoice, ModelChoice, plain
from plumbline.cells.job_queue import JobQueue, Pace, kind_of
from plumbline.cells.jobs import forget
from plumbline.cells.keys import canonical, data_of, digest_of_data, key_of, shared_of, versions_of
from plumbline.cells.outcomes import Outcome
from plumbline.cells.shared import SharedThings
from plumbline.cells.store import ResultStore, open_store
from plumbline.cells.sweep_workers import Workers, local_workers
from plumbline.simulation.rounds import Done, unwatched


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
        try:
            for outcomes in _Sweep(missing, options, store, pace).outcomes():
                outcomes_by_key |= outcomes
        finally:
            forget()
    options.done(1.0)
    table = pd.DataFrame(
        [description(cell) | outcomes_by_key[key].columns for key, cell in zip(keys, cells, strict=True)]
    )
    table.attrs["known"] = known_count
    return table


def _opened(folder: Path | None) -> AbstractContextManager[ResultStore | None]:
    return nullcontext() if folder is None else open_store(folder)


@contextmanager
def _workers_of(count: int | None, dask: str | None) -> Iterator[Workers]:
    """Gathers those who compute: processes of this machine, or a Dask cluster by its scheduler's address."""
    if dask is None:
        yield local_workers(count)
        return
    from plumbline.cells.cluster import cluster_workers  # needs the extra dask

    with cluster_workers(dask) as workers:
        yield workers


@dataclass(frozen=True, eq=False)
class _Sweep:
    """One run over missing cells."""

    missing: Mapping[str, Cell]
    options: SweepOptions
    store: ResultStore | None
    pace: Pace

    def outcomes(self) -> Iterator[dict[str, Outcome]]:
        """Measure, keep, and tell what was kept."""
        if not self.missing:
            return
        shared = SharedThings(self.options.store, self.options.data_dir)
        self.pace.plan(kind_of(cell) for cell in self.missing.values())
        with _workers_of(self.options.workers, self.options.dask) as workers:
            failures = dict[str, Outcome]()
            for key, cell in self.missing.items():
                if failure := shared.load(shared_of(cell)):
                    failures[key] = failure
            trainings = shared.trainings()
            self.pace.plan("training" for _ in trainings)
            for job, result in workers.results(iter(trainings), shared.tables):
                shared.learn(job, result)
                self._tell("training", result.outcomes[0])
            failures |= {key: one for key, cell in self.missing.items() if (one := shared.failure(shared_of(cell)))}
            if failures:
                yield self._kept(failures)
            yield from self._measured(workers, shared, {k: c for k, c in self.missing.items() if k not in failures})

    def _measured(
        self, workers: Workers, shared: SharedThings, cells: Mapping[str, Cell]
    ) -> Iterator[dict[str, Outcome]]:
        queue = JobQueue(cells, self.pace, shared.job)
        for job, result in workers.results(iter(queue), [*shared.tables, *shared.parameters]):
            yield self._kept(dict(zip(job.keys, result.outcomes, strict=True)))

    def _kept(self, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
        if self.store:
            self.store.append(_row(key, self.missing[key], outcome) for key, outcome in outcomes.items())
        for key, outcome in outcomes.items():
            self._tell(kind_of(self.missing[key]), outcome)
        return outcomes

    def _tell(self, kind: Any, outcome: Outcome) -> None:
        self.pace.took(kind, outcome.elapsed)
        self.options.done(self.pace.share)


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
