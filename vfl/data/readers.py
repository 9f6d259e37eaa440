"""Reading a party's table from a file or a database.

Ids are personal data and so are cell values: no message of this module shows one, nor a password.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfl.data.databases import read_database
from vfl.data.faults import TableError
from vfl.data.selection import Selection, strict_features
from vfl.data.tables import Table, table_from_frame
from vfl.source_words import without_password

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (
    "a path ending in .csv, .csv.gz, .tsv, .txt, .parquet or .xlsx, or a database URL that begins with DIALECT:// "
    "and ends in ?table=NAME"
)
_PANDAS_INDEX_COLUMN = re.compile(r"__index_level_\d+__")
_TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
# Says which of a source's columns to read.
Chooser = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True, eq=False)
class Raw:
    """Columns of a source as it has them.

    Attributes:
        frame: n rows; of text files every cell is text.
        read_as: how the source was read, in words; empty for nothing to say.
        separator: of the cells of a text file; empty for other sources.
    """

    frame: pd.DataFrame
    read_as: str = ""
    separator: str = ""


def load_table(source: str, *, id_column: str, label_column: str | None, columns: list[str] | None = None) -> Table:
    """Read a party's table of numbers from a file or a database.

    Ids are strings: a CSV's leading zeros are kept, whole numbers become their digits, blanks around an id (a CHAR
        column's padding) are removed. Booleans become 0 and 1. Text, missing and infinite cells are refused.

    Args:
        source: one of `FORMATS`, for example `sqlite:///x.db?table=clients` (`?table=SCHEMA.NAME` too).
        id_column: holds the ids.
        label_column: holds the labels; None for a passive party.
        columns: the feature columns to use, in this order; None takes every column besides id and label.

    Raises:
        TableError: for a missing file or an unknown format; missing columns; duplicate or empty ids; cells that are not
            numbers; no rows or no features; labels that are missing, of one class, or amounts; a database that does not
            answer. A database URL is shown without its password.
    """
    selection = Selection(id_column, label_column, columns)

    def choose(present: Sequence[str]) -> list[str]:
        return [*selection.exact, *strict_features(list(present), selection)]

    frame = read_raw(source, choose).frame
    if _is_text_file(source):
        for name in frame.columns.difference(selection.exact):
            frame[name] = _plain_numbers(frame[name])
    return table_from_frame(frame, id_column=id_column, label_column=label_column, columns=columns)


def read_raw(source: str, choose: Chooser) -> Raw:
    """Read the chosen columns of a file or a database, as they are there.

    Raises:
        TableError: for a source that can't be read at all, in one sentence.
    """
    if "://" in source:
        return Raw(read_database(source, choose))
    path = Path(source)
    reader = next((read for endings, read in _READERS if path.name.lower().endswith(endings)), None)
    if reader is None:
        old = " Excel's old .xls can't be read: save it as .xlsx." if path.suffix.lower() == ".xls" else ""
        raise TableError(f"Cannot tell the format of {without_password(source)!r}: give {FORMATS}.{old}")
    try:
        if not path.is_file():
            raise TableError(f"There is no file {without_password(source)!r}: check the path.")
        return reader(path, choose)
    except OSError as error:
        raise TableError(
            f"Cannot read {without_password(source)!r} ({error.strerror or type(error).__name__}): check its rights."
        ) from None


def _is_text_file(source: str) -> bool:
    return "://" not in source and source.lower().endswith(_TEXT_ENDINGS)


def _read_text(path: Path, choose: Chooser) -> Raw:
    from vfl.data.delimited import read_delimited, separator_words

    frame, encoding, separator = read_delimited(path)
    read_as = f"{encoding} text separated by {separator_words(separator)}"
    return Raw(frame[choose(list(frame.columns))], read_as, separator)


def _read_parquet(path: Path, choose: Chooser) -> Raw:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        present = [name for name in pq.read_schema(path).names if not _PANDAS_INDEX_COLUMN.fullmatch(name)]
        # One by one, and what reading took is given back: all at once take four times what they hold.
        columns = {name: _parquet_column(path, name) for name in choose(present)}
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"Cannot read {str(path)!r} as Parquet ({type(error).__name__}): check that the file is complete."
        ) from None
    return Raw(pd.DataFrame(columns, copy=False))


def _parquet_column(path: Path, name: str) -> pd.Series[Any]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = pq.read_table(path, columns=[name], pre_buffer=False)
    if pa.types.is_integer(data.schema.types[0]) and data.column(0).null_count:
        # A column of integers with gaps would come back from to_pandas as floats.
        column = pd.Series(data.column(0).to_pylist(), dtype=object)
    else:
        # ignore_metadata: an id that was the index when pandas saved the file comes back as a column.
        column = data.to_pandas(ignore_metadata=True)[name]
    del data
    pa.default_memory_pool().release_unused()
    return column


def _read_excel(path: Path, choose: Chooser) -> Raw:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # openpyxl's, of styles and validations that a table has no need of.
            warnings.simplefilter("ignore")
            with pd.ExcelFile(path, engine="openpyxl") as book:
                sheets = [str(name) for name in book.sheet_names]
                cells = book.parse(0, header=None, dtype=object, keep_default_na=False, na_filter=False)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise TableError(
            f"Cannot read {str(path)!r} as an Excel workbook ({type(error).__name__}): open it and save it as .xlsx "
            "again, without a password."
        ) from None
    frame = _below_header(cells)
    others = f", the first of {len(sheets)}" if len(sheets) > 1 else ""
    return Raw(frame[choose(list(frame.columns))], f"sheet {sheets[0]!r}{others}")


def _below_header(cells: pd.DataFrame) -> pd.DataFrame:
    """The rows of a sheet under its first one that has anything in it, empty rows at the end left out."""
    filled = (cells.notna() & (cells != "")).any(axis="columns").to_numpy().nonzero()[0]
    if not len(filled):
        raise TableError("The first sheet of the workbook is empty: put the table there.")
    header = ["" if name is None else str(name).strip() for name in cells.iloc[filled[0]]]
    names = [name or f"Unnamed: {at}" for at, name in enumerate(header)]
    return cells.iloc[filled[0] + 1 : filled[-1] + 1].set_axis(names, axis="columns").reset_index(drop=True)


_READERS = (((".parquet",), _read_parquet), ((".xlsx",), _read_excel), (_TEXT_ENDINGS, _read_text))


def _plain_numbers(column: pd.Series[str]) -> pd.Series[float] | pd.Series[str]:
    """A column of text as the numbers it writes, gaps included; the same column where a cell is none."""
    import pandas as pd

    from vfl.data.cell_words import is_missing_word, yes_or_no

    distinct = [text for text in column.unique() if not is_missing_word(text)]
    booleans = yes_or_no(distinct) if {text.lower() for text in distinct} <= {"true", "false"} else None
    if booleans is not None and distinct:
        return column.map(dict(zip(distinct, booleans, strict=True)))
    numbers = pd.to_numeric(column.where(~column.map(is_missing_word), None), errors="coerce")
    return column if numbers[~column.map(is_missing_word)].isna().any() else numbers
