"""Runs the measurements of a sweep: those that aren't in the store yet, on all cores or on a cluster."""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from studies.measurements.descriptions import AttackMeasurement, Choice, DataChoice, Measurement, ModelChoice, plain
from studies.measurements.jobs import Job, Result, SharedThing, forget
from studies.measurements.keys import canonical, data_of, digest_of_data, key_of, key_of_model, shared_of, versions_of
from studies.measurements.measuring import data_and_seed, load_table
from studies.measurements.outcomes import Outcome
from studies.measurements.pace import Pace
from studies.measurements.store import ResultStore, open_store, read_model, write_model
from studies.measurements.workers import cluster_workers, local_workers
from studies.simulation.rounds import Done, unwatched
from studies.simulation.scaled_tables import ScaledTable
from vfl.data import DatasetError

_MOST_MEASUREMENTS = 64


@dataclass(frozen=True)
class SweepOptions:
    """How a sweep is run. None of it enters a result.

    Attributes:
        store: folder of finished measurements and trained models; None keeps none.
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
    keys = [key_of(measurement, digest_of_data(data_of(measurement), options.data_dir)) for measurement in measurements]
    with _opened(options.store) as store:
        stored = store.read(keys) if store else {}
        outcomes_by_key = {key: one for key, one in stored.items() if one.status != "failed"}
        missing = {
            key: measurement for key, measurement in zip(keys, measurements, strict=True) if key not in outcomes_by_key
        }
        known_count = sum(key in outcomes_by_key for key in keys)
        pace = Pace()
        for key, measurement in zip(keys, measurements, strict=True):
            if key in stored:
                pace.knows(kind_of(measurement), stored[key].elapsed)
        if missing:
            sweep = _Sweep(missing, options, store, pace)
            try:
                sweep.run()
            finally:
                forget()
            outcomes_by_key |= sweep.outcomes
    options.done(1.0)
    table = pd.DataFrame(
        [
            description(measurement) | outcomes_by_key[key].columns
            for key, measurement in zip(keys, measurements, strict=True)
        ]
    )
    table.attrs["known"] = known_count
    return table


def _opened(folder: Path | None) -> AbstractContextManager[ResultStore | None]:
    return nullcontext() if folder is None else open_store(folder)


@dataclass(eq=False)
class _Sweep:
    """One run over missing measurements; ``outcomes`` has those that are made."""

    missing: Mapping[str, Measurement]
    options: SweepOptions
    store: ResultStore | None
    pace: Pace
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    _tables: dict[tuple[DataChoice, int], ScaledTable] = field(default_factory=dict)

    def run(self) -> None:
        """Measure, keep, and tell what was kept."""
        self.pace.plan(kind_of(measurement) for measurement in self.missing.values())
        dask, count = self.options.dask, self.options.workers
        with local_workers(count) if dask is None else cluster_workers(dask) as workers:
            jobs = deque(
                job for measurements in _by_share(self.missing) for job in self._prepared(measurements, workers.most)
            )
            self.pace.plan("training" for job in jobs if job.trains)
            for job, result in workers.results(jobs):
                jobs.extendleft(reversed(self._followed(job, result, workers.most)))

    def _prepared(self, measurements: Mapping[str, Measurement], most: int) -> list[Job]:
        """Load what measurements share; those whose data set or model can't be had have failed.

        Raises:
            DatasetError: when raw files are missing or damaged.
        """
        on, data_dir = shared_of(next(iter(measurements.values()))), self.options.data_dir
        if on is None:
            return _parts(Job(SharedThing(""), measurements), most)
        try:
            wanted = data_and_seed(on)
            if wanted not in self._tables:
                self._tables[wanted] = load_table(*wanted, data_dir)
        except DatasetError:
            raise
        except Exception as error:
            self._keep(dict.fromkeys(measurements, Outcome("failed", f"{type(error).__name__}: {error}")))
            return []
        key = canonical(plain(on))
        if isinstance(on, ModelChoice):
            key = key_of_model(on, digest_of_data(on.data, data_dir))
        kept = read_model(self.store.folder, key) if self.store and isinstance(on, ModelChoice) else None
        job = Job(SharedThing(key, on, self._tables[wanted], kept), measurements)
        return [job] if job.trains else _parts(job, most)

    def _followed(self, job: Job, result: Result, most: int) -> list[Job]:
        """Keep what a job computed; what comes after it."""
        if not job.trains:
            # Fewer than its measurements where its time was over.
            self._keep(dict(zip(job.measurements, result.outcomes, strict=False)))
            return job.rest(len(result.outcomes))
        self._tell("training", result.outcomes[0])
        if result.parameters is None:
            self._keep(dict.fromkeys(job.measurements, result.outcomes[0]))
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


def _by_share(measurements: Mapping[str, Measurement]) -> list[dict[str, Measurement]]:
    """Gather measurements by what they share, in it by window, both as they first appear."""
    shares: dict[str, dict[tuple[int, ...], dict[str, Measurement]]] = {}
    for key, measurement in measurements.items():
        window = measurement.passive if isinstance(measurement, AttackMeasurement) else ()
        shares.setdefault(canonical(plain(shared_of(measurement))), {}).setdefault(window, {})[key] = measurement
    return [
        {key: measurement for part in windows.values() for key, measurement in part.items()}
        for windows in shares.values()
    ]


def _parts(job: Job, most: int) -> list[Job]:
    """Divide a job among those who compute."""
    measurements = list(job.measurements.items())
    size = min(_MOST_MEASUREMENTS, max(1, len(measurements) // most))
    return [
        replace(job, measurements=dict(measurements[start : start + size]))
        for start in range(0, len(measurements), size)
    ]


def kind_of(measurement: Measurement) -> Hashable:
    """Name what measurements have in common that take about as long: attack or function, data set, access, records."""
    data = data_of(measurement)
    name = data.name if data else ""
    if isinstance(measurement, AttackMeasurement):
        defences = tuple(choice.name for choice in measurement.defences)
        return measurement.attack.words, name, measurement.model.kind, measurement.access, measurement.records, defences
    return measurement.function, name


def _row(key: str, measurement: Measurement, outcome: Outcome) -> dict[str, object]:
    return {
        "key": key,
        "cell": canonical(plain(measurement)),
        "versions": canonical(versions_of(measurement)),
    } | asdict(outcome)


def description(measurement: Measurement) -> dict[str, Any]:
    """Give the columns that describe a measurement in a table of results.

    Of an attack: dataset, data_options, model, trainer, model_options, seed, d, start (its first column), attack (with
    options), defence (all of them, "none" without), access, records, auxiliary, moments, delivered, undo. Of a task:
    function, what it is on, and its options.
    """
    if isinstance(measurement, AttackMeasurement):
        return {
            **_of_model(measurement.model),
            "d": len(measurement.passive),
            "start": measurement.passive[0],
            "attack": measurement.attack.words,
            "defence": " + ".join(one.words for one in measurement.defences) or "none",
            "access": measurement.access,
            "records": measurement.records,
            "auxiliary": measurement.auxiliary,
            "moments": measurement.moments,
            "delivered": measurement.delivered,
            "undo": measurement.undo,
        }
    return {
        "function": measurement.function.partition(":")[2],
        **_of_model(measurement.on),
        **dict(measurement.options),
    }


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
