"""Finished measurements on disk: a folder of Parquet parts, to which several processes may add at once.

Guarantee: a part is there whole or not at all, whoever is killed and whenever the disk is full, and is never changed.
Who works in the folder holds a shared lock on it. Whoever finds nobody else there joins small parts into one and takes
away what killed writers left; until the joined part is on disk, the small ones stay. What a training found is kept
as what a measurement did.
"""

import io
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from services.common.durable import make_folder, write_durably
from studies.measurements.outcomes import RANKED, Outcome

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
_OF_OUTCOMES = [field.name for field in fields(Outcome)]
_MOST_PARTS = 32
_ROWS_OF_A_GROUP = 8192
_LOCK, _PARTS, _UNFINISHED = "lock", "*.parquet", "*.unfinished"


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
        if not (parts := self._parts(wanted, ["key", *_OF_OUTCOMES])):
            return {}
        rows: list[dict[str, Any]] = _best_of_each(parts).to_dict("records")  # type: ignore[assignment]
        return {row.pop("key"): Outcome(**row) for row in rows}

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
        if len(list(self.folder.glob(_PARTS))) > _MOST_PARTS and (parts := self._parts()):
            best = _best_of_each(parts)
            self._write(pa.Table.from_pandas(best, _SCHEMA, preserve_index=False))
            for part in parts:
                part.unlink()

    def _write(self, table: pa.Table) -> None:
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd", row_group_size=_ROWS_OF_A_GROUP)
        try:
            write_durably(self.folder / f"{uuid.uuid4().hex}.parquet", content.getvalue(), private=False)
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def _parts(self, wanted: pc.Expression | None = None, columns: list[str] | None = None) -> dict[Path, pa.Table]:
        """Read the parts, or what is wanted of them; says once of a file that it can't be read, and goes on."""
        tables = {}
        for part in sorted(self.folder.glob(_PARTS)):
            try:
                if not pq.read_schema(part).equals(_SCHEMA):
                    raise pa.ArrowInvalid("it has other columns")
                tables[part] = pq.read_table(part, columns=columns, filters=wanted)
            except (pa.ArrowException, OSError) as error:
                if part not in self._named:
                    self._named.add(part)
                    _log.warning(
                        "%s is no readable part of the finished measurements and is left out: remove it. (%s)",
                        part,
                        " ".join(str(error).split())[:200],
                    )
        return tables


def _best_of_each(parts: Mapping[Path, pa.Table]) -> pd.DataFrame:
    """Keep one row per key, sorted by key, so that a reader of few keys skips most of the file."""
    rows: pd.DataFrame = pa.concat_tables(parts.values()).to_pandas()
    ranked = rows.assign(rank=rows.status.map(RANKED.index)).sort_values(["key", "rank"], kind="stable")
    return ranked.drop_duplicates("key", keep="last").drop(columns="rank")


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
