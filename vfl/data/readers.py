"""Reading a party's table from a file or a database.

Ids are personal data and so are cell values: no message of this module shows one, nor a password.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vfl.data.databases import read_database
from vfl.data.faults import Problems, TableError, counted, quoted_path
from vfl.data.reading_rules import ReadingRules
from vfl.data.selection import Selection, strict_features
from vfl.data.table_limits import TableLimits, in_memory
from vfl.data.tables import Table, table_from_frame
from vfl.source_words import without_password

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (
    "a path ending in .csv, .csv.gz, .tsv, .txt, .parquet or .xlsx, a folder of such parts, or a database URL that "
    "begins with DIALECT:// and ends in ?table=NAME"
)
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
        faults: sentences on rows that don't fit the header, and were made to, so that all faults are found at once.
        note: a sentence on what was guessed; empty for nothing.
    """

    frame: pd.DataFrame
    read_as: str = ""
    separator: str = ""
    faults: tuple[str, ...] = ()
    note: str = ""


def load_table(
    source: str,
    *,
    id_column: str,
    label_column: str | None,
    columns: list[str] | None = None,
    limits: TableLimits | None = None,
) -> Table:
    """Read a party's table of numbers from a file or a database.

    Ids are strings: a CSV's leading zeros are kept, whole numbers become their digits, blanks around an id (a CHAR
        column's padding) are removed. Booleans become 0 and 1. Text, missing and infinite cells are refused.

    Args:
        source: one of `FORMATS`, for example `sqlite:///x.db?table=clients` (`?table=SCHEMA.NAME` too).
        id_column: holds the ids.
        label_column: holds the labels; None for a passive party.
        columns: the feature columns to use, in this order; None takes every column besides id and label.
        limits: how large a table may be.

    Raises:
        TableError: for a missing file or an unknown format; missing columns; duplicate or empty ids; cells that are not
            numbers; no rows or no features; labels that are missing, of one class, or amounts; a database that does not
            answer. A database URL is shown without its password.

    Examples:
        >>> clients = pd.DataFrame({"id": ["a", "b"], "age": [31, 45], "city": ["Bern", "Basel"]})
        >>> clients.to_csv("clients.csv", index=False)
        >>> load_table("clients.csv", id_column="id", label_column=None, columns=["age"]).features
        array([[31.],
               [45.]])
        >>> load_table("clients.csv", id_column="id", label_column=None, columns=["city"])
        Traceback (most recent call last):
            ...
        vfl.data.faults.TableError: Column 'city' holds text, not a number, in row 1: encode it as numbers first, ...
    """
    selection = Selection(id_column, label_column, columns)

    def choose(present: Sequence[str]) -> list[str]:
        return [*selection.exact, *strict_features(list(present), selection)]

    with in_memory():
        raw = read_raw(source, choose, limits)
        frame, problems = raw.frame, Problems(list(raw.faults))
        if "://" not in source and source.lower().endswith(_TEXT_ENDINGS):
            for name in frame.columns.difference(selection.exact):
                frame[name] = _plain_numbers(frame[name])
        with problems.noted():
            table = table_from_frame(frame, id_column=id_column, label_column=label_column, columns=columns)
        problems.tell()
        return table


def read_raw(source: str, choose: Chooser, limits: TableLimits | None = None, rules: ReadingRules | None = None) -> Raw:
    """Read the chosen columns of a file, a folder of part files or a database, as they are there.

    Raises:
        TableError: for a source that can't be read at all, in one sentence.
    """
    limits, rules = limits or TableLimits(), rules or ReadingRules()
    if "://" in source:
        return Raw(read_database(source, choose, limits))
    path, address = Path(source), quoted_path(without_password(source))
    try:
        if path.is_dir():
            return _read_parts(path, choose, limits, rules)
        reader = _reader_of(path)
        if not path.is_file():
            raise TableError(f"There is no file {address}: check the path.")
        return reader(path, choose, limits, rules)
    except OSError as error:
        raise TableError(
            f"Cannot read {address} ({error.strerror or type(error).__name__}): check its rights."
        ) from None


def _reader_of(path: Path) -> Callable[[Path, Chooser, TableLimits, ReadingRules], Raw]:
    reader = next((read for endings, read in _READERS if path.name.lower().endswith(endings)), None)
    if reader is None:
        address = quoted_path(without_password(str(path)))
        old = " Excel's old .xls can't be read: save it as .xlsx." if path.suffix.lower() == ".xls" else ""
        raise TableError(f"Cannot tell the format of {address}: give {FORMATS}.{old}")
    return reader


def _read_parts(folder: Path, choose: Chooser, limits: TableLimits, rules: ReadingRules) -> Raw:
    from vfl.data.part_files import joined, part_files, same_columns

    files, problems = part_files(folder), Problems()
    choose_of, parts = same_columns(choose, files[0]), list[Raw]()
    for file in files:
        with problems.noted():
            parts.append(_reader_of(file)(file, choose_of(file), limits, rules))
    problems.tell()
    # Rows have numbers of their own in each part.
    Problems([fault for part in parts for fault in part.faults]).tell()
    first = parts[0]
    read_as = ", ".join(filter(None, [first.read_as, counted(len(files), "part file")]))
    return Raw(joined([part.frame for part in parts], limits), read_as, first.separator, note=first.note)


def _read_text(path: Path, choose: Chooser, limits: TableLimits, rules: ReadingRules) -> Raw:
    from vfl.data.delimited import read_delimited, separator_words

    text = read_delimited(path, limits, rules.encoding)
    read_as = f"{text.encoding} text separated by {separator_words(text.separator)}"
    problems = Problems(text.faults)
    with problems.noted():
        frame = text.frame[choose(list(text.frame.columns))]
        return Raw(frame, read_as, text.separator, tuple(text.faults), text.note)
    raise TableError(*problems.found)


def _read_parquet(path: Path, choose: Chooser, limits: TableLimits, _: ReadingRules) -> Raw:
    from vfl.data.parquet_files import read_parquet

    return Raw(read_parquet(path, choose, limits))


def _read_excel(path: Path, choose: Chooser, limits: TableLimits, rules: ReadingRules) -> Raw:
    from vfl.data.workbooks import read_workbook

    frame, read_as = read_workbook(path, limits, rules.sheet)
    return Raw(frame[choose(list(frame.columns))], read_as)


_READERS = (((".parquet",), _read_parquet), ((".xlsx",), _read_excel), (_TEXT_ENDINGS, _read_text))


def _plain_numbers(column: pd.Series[str]) -> pd.Series[float] | pd.Series[str]:
    """Read a column of text as the numbers it writes, gaps included; the same column where a cell is none."""
    import pandas as pd

    from vfl.data.cell_words import is_missing_word, yes_or_no

    distinct = [text for text in column.unique() if not is_missing_word(text)]
    booleans = yes_or_no(distinct) if {text.lower() for text in distinct} <= {"true", "false"} else None
    if booleans is not None and distinct:
        return column.map(dict(zip(distinct, booleans, strict=True)))
    numbers = pd.to_numeric(column.where(~column.map(is_missing_word), None), errors="coerce")
    return column if numbers[~column.map(is_missing_word)].isna().any() else numbers
