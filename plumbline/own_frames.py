"""A person's data frames as files, which is how parties read their tables."""

from __future__ import annotations

import datetime
import numbers
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from services.common.settings import Settings
from services.party.features import own_table
from vfl.data import TableError
from vfl.data.cells import text_of
from vfl.data.faults import Problems, name_list, quoted
from vfl.data.record_ids import is_missing

_MOST_LETTERS = 60
# What a cell may be that is written as text beside others.
_PLAIN = (
    *(str, bool, numbers.Real, Decimal, datetime.date, datetime.time, datetime.timedelta, uuid.UUID),
    *(np.bool_, np.datetime64, np.timedelta64, pd.Interval, pd.Period),
)
_BOOLEAN = (bool, np.bool_)
# What other libraries' tables, and what is none, become by their own means.
_WAYS = {
    "LazyFrame": "collect() it first",
    "Series": "make a data frame of it with its ids, such as series.reset_index()",
    "ndarray": "name its columns: pd.DataFrame(array, columns=[...])",
    "list": "make a data frame of it: pd.DataFrame(records)",
    "dict": "make a data frame of it: pd.DataFrame(columns)",
    "str": "read it first, such as pd.read_csv(path)",
}


def named(frame: object) -> str:
    """Name a frame as a person does, fit for a file's name: ``frame.attrs["name"]``; empty where it has none."""
    return re.sub(r"[^\w -]", "_", str(getattr(frame, "attrs", {}).get("name", "")))[:_MOST_LETTERS]


def is_source(table: object) -> bool:
    """Tell whether this names a file or a database, rather than being a table."""
    return isinstance(table, (str, PathLike))


def write_frames(frames: Sequence[object], files: Sequence[Path], id_column: str = "") -> None:
    """Write each frame into its file: its columns, and of its index the level that is called as the id column.

    What no feature is made of (complex numbers, bytes, lists, objects) becomes a column of empty lists, so that whoever
    reads it says so by its name, or leaves it out as asked.

    Args:
        frames: of pandas, or of any library whose tables Arrow reads, such as polars.
        files: where to, for each of them; a file is called as its party is.
        id_column: holds the ids.

    Raises:
        TableError: for what is no data frame, or has a column that no file can hold: which, and what to do.
    """
    for frame, file in zip(frames, files, strict=True):
        owner = f"The table of {file.stem}"
        pq.write_table(_arrow_table(frame, owner, id_column), file)


def files_of(tables: Mapping[str, object], folder: Path, id_column: str = "id") -> tuple[list[str], tuple[str, ...]]:
    """Find where each party reads its table, and whose are frames, which are written into ``folder``."""
    frames = {party: table for party, table in tables.items() if not is_source(table)}
    paths = {party: folder / party / f"{named(frame) or party}.parquet" for party, frame in frames.items()}
    for path in paths.values():
        path.parent.mkdir()
    write_frames(list(frames.values()), list(paths.values()), id_column)
    return [str(paths.get(party, table)) for party, table in tables.items()], tuple(frames)


def check_tables(settings: Mapping[str, Settings]) -> None:
    """Read the table of each of these parties as its process will.

    Raises:
        TableError: a line for everything that is wrong with any of them, with its party.
    """
    problems = Problems()
    for party, party_settings in settings.items():
        try:
            own_table(party_settings)
        except TableError as error:
            problems.found.extend(f"{party}: {one}" for one in error.problems)
    problems.tell()


def _arrow_table(frame: object, owner: str, id_column: str) -> pa.Table:
    if isinstance(frame, np.ndarray) and frame.dtype.names:
        frame = pd.DataFrame.from_records(frame)
    if not isinstance(frame, pd.DataFrame):
        if not hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "to_frame"):
            kind = type(frame).__name__
            advice = _WAYS.get("str" if is_source(frame) else kind, "give a data frame")
            raise TableError(f"{owner} is no data frame but of the type {type(frame).__module__}.{kind}: {advice}.")
        try:
            table = pa.table(frame)
        except (pa.ArrowException, ValueError, TypeError) as error:
            kind = type(error).__name__
            raise TableError(f"{owner} can't be read by Arrow ({kind}): make a data frame of pandas of it.") from None
        _check_names(table.column_names, owner)
        return table
    if frame.columns.nlevels > 1:
        raise TableError(f"{owner} has column names of {frame.columns.nlevels} levels: give each column one name.")
    columns = [(_name_of(name, at), frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
    if id_column in frame.index.names and id_column not in [name for name, _ in columns]:
        columns.insert(0, (id_column, frame.index.get_level_values(id_column).to_series()))
    _check_names([name for name, _ in columns], owner)
    return pa.table({name: _arrow_column(column, name, owner) for name, column in columns})


def _name_of(name: object, index: int) -> str:
    """Write a column's name as text; one without is called as in a file without."""
    is_nameless = is_missing(name) or not str(name).strip()
    return f"Unnamed: {index}" if is_nameless else str(name)


def _check_names(names: Sequence[str], owner: str) -> None:
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise TableError(f"{owner} has two columns with the same name ({name_list(twice)}): rename one of them.")


def _arrow_column(column: pd.Series[Any], name: str, owner: str) -> pa.Array:
    """Bring a column to a type that files have; raises TableError where its text is none."""
    cells = _dense(column)
    if pd.api.types.is_complex_dtype(cells.dtype):
        return _nothing(len(cells))
    with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
        array = pa.Array.from_pandas(cells)
        # Of another library, or Arrow's own of a UUID, which no reader knows.
        if not isinstance(array.type, pa.BaseExtensionType):
            return array
    values = cells.tolist()
    if any(isinstance(value, _BOOLEAN) for value in values) and not any(map(_is_text, values)):
        # As pandas leaves columns of both that were put together.
        as_numbers = [int(value) if isinstance(value, _BOOLEAN) else value for value in values]
        return _arrow_column(pd.Series(as_numbers, dtype=object), name, owner)
    if any(not _is_plain(value) for value in values):
        return _nothing(len(cells))
    try:
        return pa.array([None if is_missing(value) else text_of(value) for value in values], pa.string())
    except ValueError:  # quotes the cell
        raise TableError(f"{owner} has text in column {quoted(name)} that is no valid Unicode: mend it.") from None


def _dense(column: pd.Series[Any]) -> pd.Series[Any]:
    """Give the same cells without what pandas alone has: sparse ones, periods, intervals, categories of any."""
    kind: Any = column.dtype
    of_cells = kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind
    if isinstance(kind, pd.SparseDtype):
        return column.astype(kind.subtype)
    if isinstance(of_cells, pd.PeriodDtype):
        return pd.Series(pd.PeriodIndex(column).to_timestamp())
    is_pandas_alone = isinstance(of_cells, pd.IntervalDtype) or (of_cells is not kind and of_cells.kind == "O")
    return column.astype(object) if is_pandas_alone else column


def _is_text(value: object) -> bool:
    """Tell whether a cell is neither a number, a boolean nor missing."""
    return not (is_missing(value) or isinstance(value, (*_BOOLEAN, numbers.Real, Decimal)))


def _is_plain(value: object) -> bool:
    return is_missing(value) or isinstance(value, _PLAIN)


def _nothing(rows: int) -> pa.Array:
    return pa.array([[]] * rows, pa.list_(pa.bool_()))
