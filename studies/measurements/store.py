"""Finished measurements on disk: a folder of Parquet parts, to which several processes may add at once.

Guarantee: a part is there whole or not at all, whoever is killed and whenever the disk is full, and is never changed.
Who works in the folder holds a shared lock on it. Whoever finds nobody else there joins small parts into one and takes
away what killed writers left; until the joined part is on disk, the small ones stay. Trained models lie beside: arrays
only, a file each, by the key of what trained them.
"""

import io
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from services.common.durable import make_folder, write_durably
from studies.measurements.model_parameters import Parameters
from studies.measurements.outcomes import RANKED, Outcome
from vfl.arrays import BROKEN_ARRAYS, read_arrays, write_arrays

_log = logging.getLogger(__name__)
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("cell", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("measures", pa.string()),
        ("seconds", pa.float64()),
        ("elapsed", pa.float64()),
        ("versions", pa.string()),
    ]
)
_READ = ["key", "status", "reason", "measures", "seconds", "elapsed"]
_MOST_PARTS = 32
_ROWS_OF_A_GROUP = 8192
_LOCK, _UNFINISHED = "lock", "*.unfinished"


class SweepStopped(OSError):
    """A sweep can't go on: the message says why, what is kept, and what to do."""


class ResultStore:
    """A folder of finished measurements, while this process works in it (``open_store``)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._named: set[Path] = set()

    def read(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """Read the outcomes of those keys that are kept."""
        wanted = pc.field("key").isin(pa.array(sorted(set(keys)), pa.string()))
        outcomes: dict[str, Outcome] = {}
        for part in self._tables(_READ, wanted):
            for row in part.to_pylist():
                outcome = Outcome(**{name: row[name] for name in _READ[1:]})
                before = outcomes.get(row["key"])
                if before is None or RANKED.index(outcome.status) > RANKED.index(before.status):
                    outcomes[row["key"]] = outcome
        return outcomes

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add finished measurements, all of them or none.

        Args:
            rows: with a value for each column.

        Raises:
            SweepStopped: when the folder can't be written.
        """
        self._write(pa.Table.from_pylist([dict(row) for row in rows], _SCHEMA))

    def tidy(self) -> None:
        """Join small parts and remove what killed writers left; for whoever is alone in the folder."""
        for leftover in self.folder.rglob(_UNFINISHED):
            leftover.unlink(missing_ok=True)
        if len(list(self._parts())) <= _MOST_PARTS:
            return
        before = [part for part in self._parts() if self._readable(part)]
        tables = list(self._tables(_SCHEMA.names, None))
        if not tables:
            return
        self._write(_best_of_each(pa.concat_tables(tables)))
        for part in before:
            part.unlink()

    def _write(self, table: pa.Table) -> None:
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd", row_group_size=_ROWS_OF_A_GROUP)
        try:
            write_durably(self.folder / f"{uuid.uuid4().hex}.parquet", content.getvalue(), private=False)
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def _parts(self) -> Iterator[Path]:
        return iter(sorted(self.folder.glob("*.parquet")))

    def _tables(self, columns: list[str], wanted: pc.Expression | None) -> Iterator[pa.Table]:
        for part in self._parts():
            if self._readable(part):
                with self._naming(part):
                    yield pq.read_table(part, columns=columns, filters=wanted)

    def _readable(self, part: Path) -> bool:
        with self._naming(part):
            schema = pq.read_schema(part)
            if schema.equals(_SCHEMA):
                return True
            raise pa.ArrowInvalid("it has other columns")
        return False

    @contextmanager
    def _naming(self, part: Path) -> Iterator[None]:
        """Says once of a file that it can't be read, and goes on."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            if part not in self._named:
                self._named.add(part)
                _log.warning(
                    "%s is no readable part of the finished measurements and is left out: remove it. (%s)",
                    part,
                    " ".join(str(error).split())[:200],
                )


def _best_of_each(table: pa.Table) -> pa.Table:
    """Keep one row per key, sorted by key, so that a reader of few keys skips most of the file."""
    rank = pa.compute.index_in(table["status"], pa.array(RANKED, pa.string()))
    ordered = table.append_column("rank", rank).sort_by([("key", "ascending"), ("rank", "descending")])
    keys = ordered["key"].combine_chunks()
    first = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)) if len(keys) > 1 else pa.array([], pa.bool_())
    return ordered.filter(pa.concat_arrays([pa.array([True][: len(keys)]), first])).drop_columns(["rank"])


@contextmanager
def open_store(folder: Path) -> Iterator[ResultStore]:
    """Open a folder of finished measurements, and make it when it isn't there.

    Raises:
        SweepStopped: when it can't be made or written.
    """
    import fcntl  # Windows has none

    try:
        make_folder(folder, private=False)
        lock = (folder / _LOCK).open("ab")
    except OSError as error:
        raise unwritable(folder, error) from error
    with lock:
        store = ResultStore(folder)
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            store.tidy()
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield store


def unwritable(folder: Path, error: OSError) -> SweepStopped:
    """Say what a person reads when the folder of finished measurements can't be written."""
    return SweepStopped(
        f"Finished measurements can't be kept in {folder} ({error.strerror or error}). Those that were kept stay: free "
        "the disk or choose another folder, and start again; none of them is computed twice."
    )


_FOLDER = "models"


def read_model(store: Path, key: str) -> Parameters | None:
    """Read what training found; None where it isn't kept, or the file is damaged."""
    path = store / _FOLDER / f"{key}.npz"
    try:
        return read_arrays(path)
    except FileNotFoundError:
        return None
    except BROKEN_ARRAYS as error:
        _log.warning("%s is no readable model and is trained again. (%s)", path, error)
        return None


def write_model(store: Path, key: str, parameters: Parameters) -> None:
    """Keep what training found; raises SweepStopped when the folder can't be written."""
    try:
        path = store / _FOLDER / f"{key}.npz"
        write_durably(path, lambda file: write_arrays(file, parameters), private=False)
    except OSError as error:
        raise unwritable(store, error) from error
