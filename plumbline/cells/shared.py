"""What cells share: data sets are loaded and models trained once, and travel as arrays."""

from pathlib import Path

from plumbline.cells.cells import DataChoice, ModelChoice
from plumbline.cells.job_queue import CellJob, share_key
from plumbline.cells.jobs import Result, Task
from plumbline.cells.keys import digest_of_data, key_of_model, versions_of_model
from plumbline.cells.measuring import Shared, load_table
from plumbline.cells.outcomes import Outcome
from plumbline.cells.packed_arrays import KeyedArray, pack_table
from plumbline.cells.store import read_model, write_model
from vfl.data import DatasetError


class SharedThings:
    """The data sets and models of one sweep, as arrays.

    What can't be loaded or trained fails the cells that need it; missing raw files stop the sweep.
    """

    def __init__(self, store: Path | None, data_dir: Path | None) -> None:
        self._store, self._data_dir = store, data_dir
        self._on: dict[str, Shared] = {}
        self._tables: dict[str, KeyedArray] = {}
        self._models: dict[str, KeyedArray] = {}
        self._failures: dict[str, Outcome] = {}

    def load(self, on: Shared | None) -> Outcome | None:
        """Load a data set, and the model where it is kept; an outcome where that fails.

        Raises:
            DatasetError: when raw files are missing or damaged.
        """
        if on is None:
            return None
        share = share_key(on)
        if share not in self._on:
            self._on[share] = on
            try:
                self._load(share, on)
            except DatasetError:
                raise
            except Exception as error:
                self._failures[share] = Outcome("failed", f"{type(error).__name__}: {error}")
        return self._failures.get(share)

    def trainings(self) -> list[CellJob]:
        """Jobs for the models that aren't kept."""
        return [
            CellJob((share,), self._task(on), self._tables[share])
            for share, on in self._on.items()
            if isinstance(on, ModelChoice) and share not in self._models and share not in self._failures
        ]

    def learn(self, job: CellJob, result: Result) -> None:
        """Keep what a training found, or why it failed; raises SweepStopped when it can't be written."""
        (share,), (outcome,) = job.keys, result.outcomes
        if result.parameters is None:
            self._failures[share] = outcome
            return
        self._models[share] = KeyedArray(job.task.model, result.parameters)
        if self._store:
            write_model(self._store, job.task.model, result.parameters)

    def failure(self, on: Shared | None) -> Outcome | None:
        """Say what became of cells whose model couldn't be trained."""
        return None if on is None else self._failures.get(share_key(on))

    def job(self, on: Shared | None) -> CellJob:
        """Make an empty job for cells that share this."""
        if on is None:
            return CellJob((), Task(None, ()))
        share = share_key(on)
        return CellJob((), self._task(on), self._tables[share], self._models.get(share))

    @property
    def tables(self) -> list[KeyedArray]:
        """All data sets, each once."""
        return list({array.key: array for array in self._tables.values()}.values())

    @property
    def parameters(self) -> list[KeyedArray]:
        """What all trainings found."""
        return list(self._models.values())

    def _load(self, share: str, on: Shared) -> None:
        table = pack_table(load_table(on, self._data_dir))
        # Equal content is one object, which travels once.
        same = next((one for one in self._tables.values() if one.key == table.key), table)
        self._tables[share] = same
        if isinstance(on, ModelChoice) and self._store and (parameters := read_model(self._store, self._key(on))):
            self._models[share] = parameters

    def _task(self, on: Shared) -> Task:
        model = self._key(on) if isinstance(on, ModelChoice) else ""
        return Task(on, (), self._tables[share_key(on)].key, model, versions_of_model(on))

    def _key(self, on: ModelChoice) -> str:
        data: DataChoice = on.data
        return key_of_model(on, digest_of_data(data, self._data_dir))
