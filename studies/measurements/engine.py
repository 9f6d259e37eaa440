"""Runs the measurements of a sweep: those that aren't in the store yet, on all cores or on a cluster."""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path

import pandas as pd

from studies.measurements.descriptions import (
    AttackMeasurement,
    DataChoice,
    Measurement,
    ModelChoice,
    Work,
    description,
    plain,
)
from studies.measurements.jobs import SharedThing, made
from studies.measurements.keys import canonical, data_of, digest_of_data, key_of, shared_of, versions_of
from studies.measurements.measuring import data_and_seed, load_table
from studies.measurements.outcomes import Outcome
from studies.measurements.pace import Pace
from studies.measurements.store import ResultStore, open_store
from studies.measurements.workers import Job, Workers, cluster_workers, local_workers
from studies.simulation.rounds import Done, unwatched
from studies.simulation.scaled_tables import ScaledTable
from vfl.data import DatasetError

_MOST_MEASUREMENTS = 64


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is run. None of it enters a result.

    Attributes:
        store: folder of finished measurements and trainings; None keeps none.
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


def measure_all(measurements: Sequence[Measurement], options: SweepOptions) -> pd.DataFrame:
    """Make the measurements that the store lacks, and return a row for each in their order.

    Columns: what describes the measurement (``description``), ``status`` (done, not applicable, failed), ``reason``,
    and every measure; one that a measurement doesn't have is NaN. A failed measurement stops nothing, and is tried
    again the next time.
    ``attrs["known"]`` is how many rows were there before.

    Raises:
        DatasetError: when raw files are missing or damaged.
        SweepStopped: when results can't be kept, or a cluster isn't there or vanishes. What is done stays.
        KeyboardInterrupt: for Ctrl-C. What is done stays.
    """
    with nullcontext() if options.store is None else open_store(options.store) as store:
        sweep = _Sweep(options, store)
        keys = [sweep.key(measurement) for measurement in measurements]
        missing = sweep.missing(dict(zip(keys, measurements, strict=True)))
        if missing:
            try:
                sweep.measure(missing)
            finally:
                made.cache_clear()
    options.done(1.0)
    done = zip(measurements, keys, strict=True)
    table = pd.DataFrame([description(measurement) | sweep.outcomes[key].columns for measurement, key in done])
    table.attrs["known"] = sum(key not in missing for key in keys)
    return table


@dataclass(eq=False)
class _Sweep:
    """One run over measurements; ``outcomes`` has what is done of them and of their models' trainings, by key."""

    options: SweepOptions
    store: ResultStore | None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    _pace: Pace = field(default_factory=Pace)
    _tables: dict[tuple[DataChoice, int], ScaledTable] = field(default_factory=dict)

    def key(self, work: Work) -> str:
        """Digest what a result depends on. Raises DatasetError when raw files are missing or damaged."""
        return key_of(work, digest_of_data(data_of(work), self.options.data_dir))

    def missing(self, work: Mapping[str, Work]) -> dict[str, Work]:
        """Take from the store what is there, and give the rest, which is planned."""
        stored = self.store.read(work) if self.store else {}
        for key, outcome in stored.items():
            self._pace.knows(kind_of(work[key]), outcome.elapsed)
        self.outcomes |= {key: outcome for key, outcome in stored.items() if outcome.status != "failed"}
        missing = {key: piece for key, piece in work.items() if key not in self.outcomes}
        self._pace.plan(kind_of(piece) for piece in missing.values())
        return missing

    def measure(self, missing: Mapping[str, Work]) -> None:
        """Train models that aren't there, then measure; keep and tell what is done."""
        models = [on for piece in missing.values() if isinstance(on := shared_of(piece), ModelChoice)]
        untrained = self.missing({self.key(on): on for on in models})
        dask, count = self.options.dask, self.options.workers
        with local_workers(count) if dask is None else cluster_workers(dask) as workers:
            self._work(workers, untrained)
            self._work(workers, missing)

    def _work(self, workers: Workers, work: Mapping[str, Work]) -> None:
        jobs: deque[Job] = deque()
        for _, pieces in groupby(sorted(work.items(), key=_place), lambda entry: _place(entry)[0]):
            group = dict(pieces)
            shared = self._shared(next(iter(group.values())))
            if isinstance(shared, Outcome):
                self._keep(dict.fromkeys(group, shared), work)
            else:
                jobs += Job(shared, group).parts(min(_MOST_MEASUREMENTS, len(group) // workers.most))
        for outcomes in workers.outcomes(jobs):
            self._keep(outcomes, work)

    def _shared(self, work: Work) -> SharedThing | Outcome:
        """Load what work is done on; what failed where it can't be had.

        Raises:
            DatasetError: when raw files are missing or damaged.
        """
        on = shared_of(work)
        if on is None:
            return SharedThing("")
        table = data_and_seed(on)
        try:
            if table not in self._tables:
                self._tables[table] = load_table(*table, self.options.data_dir)
        except DatasetError:
            raise
        except Exception as error:
            return Outcome("failed", f"{type(error).__name__}: {error}")
        if on is work or isinstance(on, DataChoice):
            return SharedThing(canonical(plain(table)), self._tables[table])
        key = self.key(on)
        training = self.outcomes[key]
        return SharedThing(key, self._tables[table], on, training) if training.status == "done" else training

    def _keep(self, outcomes: Mapping[str, Outcome], work: Mapping[str, Work]) -> None:
        if self.store:
            self.store.append(_row(key, work[key], outcome) for key, outcome in outcomes.items())
        self.outcomes |= outcomes
        for key, outcome in outcomes.items():
            self._pace.took(kind_of(work[key]), outcome.elapsed)
            self.options.done(self._pace.share)


def _place(entry: tuple[str, Work]) -> tuple[str, tuple[int, ...]]:
    """Order work by what it shares, and in it by window, whose views are made once."""
    _, work = entry
    on = data_and_seed(work) if isinstance(work, ModelChoice) else shared_of(work)
    return canonical(plain(on)), work.passive if isinstance(work, AttackMeasurement) else ()


def kind_of(measurement: Work) -> Hashable:
    """Name what measurements have in common that take about as long: attack or function, data set, access, records."""
    if isinstance(measurement, ModelChoice):
        return "training"
    data = data_of(measurement)
    name = data.name if data else ""
    if isinstance(measurement, AttackMeasurement):
        defences = tuple(choice.name for choice in measurement.defences)
        return measurement.attack.words, name, measurement.model.kind, measurement.access, measurement.records, defences
    return measurement.function, name


def _row(key: str, work: Work, outcome: Outcome) -> dict[str, object]:
    described = {"cell": canonical(plain(work)), "versions": canonical(versions_of(work))}
    return {"key": key} | described | asdict(outcome)
