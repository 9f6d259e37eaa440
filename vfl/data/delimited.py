"""Text files with separated cells as people export them: whatever the encoding and the separator, every cell as text.

Cells are personal data: no message of this module shows one.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import string
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vfl.data.cell_forms import INVISIBLE
from vfl.data.encodings import BYTE_ORDER_MARKS, decoded, recoded
from vfl.data.faults import TableError, quoted_path, row_list
from vfl.data.selection import check_header
from vfl.data.table_limits import TableLimits

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_OTHER_FORMATS = {b"PK\x03\x04": ("an Excel workbook or another archive", ".xlsx"), b"PAR1": ("Parquet", ".parquet")}
_GZIP = b"\x1f\x8b"
# As they stand in UTF-8.
_INVISIBLE = tuple(mark.encode() for mark in INVISIBLE)
# Bytes and rows that a separator is guessed from.
_SAMPLE, _SAMPLE_ROWS = 1_000_000, 100
# Bytes of a file that are looked at together.
_PART = 1 << 20
# Letters of a name and of a cell; longer ones are what an open quote has swallowed.
_MOST_OF_A_NAME, _MOST_OF_A_CELL = 1_000, 1_000_000
# Cells of rows that don't fit the header, from which on nothing else is looked at.
_MOST_MENDED = 1_000_000


def separator_words(separator: str) -> str:
    """Name a separator to a person."""
    return _SEPARATORS.get(separator, repr(separator))


@dataclass(frozen=True, eq=False)
class Delimited:
    """What a file of separated cells holds.

    Attributes:
        frame: text without blanks around it.
        encoding: its name.
        separator: of cells.
        faults: sentences on lines that don't fit the header: who has looked for others as well must refuse the table.
        note: a sentence on an encoding that was guessed; empty for nothing to say.
    """

    frame: pd.DataFrame
    encoding: str
    separator: str
    faults: list[str]
    note: str = ""


def read_delimited(path: Path, limits: TableLimits | None = None, encoding: str = "") -> Delimited:
    """Read a file of separated cells.

    The encoding (UTF-8, UTF-16, UTF-32; any other is guessed) and the separator are found out. Columns without a name
    in the header are called as pandas calls them, `Unnamed: 0`; rows at the end without anything in them are left out.

    Args:
        path: of the file.
        limits: how large a table may be.
        encoding: as its owner says; empty to find out. A byte order mark wins.

    Raises:
        TableError: for a file that is empty, damaged, too large, of another format or in an encoding that nobody can
            tell.
    """
    limits = limits or TableLimits()
    content, encoding, note = _as_utf8(_content(path, limits), path, encoding)
    limits.check_bytes(len(content))
    for mark in _INVISIBLE:
        content = content.replace(mark, b"") if mark in content else content
    sample = content[:_SAMPLE].decode("utf-8", errors="ignore")
    start, separator = _separated(sample, path)
    rows = _first_rows(sample[start:], separator)
    if len(rows) == 1 and len(content) > _SAMPLE:
        raise TableError(
            f"The first line of {quoted_path(path)} is too long for a header: put the columns' names there, a line end "
            "behind them, and check that quotes are closed."
        )
    header = [name.strip() or f"Unnamed: {at}" for at, name in enumerate(rows[0])]
    if max(map(len, header)) > _MOST_OF_A_NAME:
        raise TableError(
            f"A name in the first line of {quoted_path(path)} has more than {_MOST_OF_A_NAME:,} letters: check that "
            "quotes are closed there, and that the file is whole."
        )
    check_header(header)
    _check_size(content, separator, len(header), limits)
    frame, faults = _cells(content, start, separator, len(header), path)
    return Delimited(frame.set_axis(header, axis="columns"), encoding, separator, faults, note)


def _content(path: Path, limits: TableLimits) -> bytes:
    with path.open("rb") as file:
        start = file.read(4)
    for beginning, (what, ending) in _OTHER_FORMATS.items():
        if start.startswith(beginning):
            raise TableError(
                f"The file {quoted_path(path)} is {what}, whatever its name: rename it to end in {ending}."
            )
    if not start.startswith(_GZIP):
        limits.check_bytes(path.stat().st_size)
        return path.read_bytes()
    try:
        # Counted before it is kept.
        with gzip.open(path) as file:
            unpacked = 0
            while part := file.read(_PART):
                unpacked += len(part)
                limits.check_bytes(unpacked)
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error):
        raise TableError(f"Cannot unpack {quoted_path(path)}: check that the file is complete.") from None
    if content.startswith((_GZIP, *_OTHER_FORMATS)):
        raise TableError(
            f"What {quoted_path(path)} unpacks to is packed again: unpack it once, and give what is inside."
        )
    return content


def _as_utf8(content: bytes, path: Path, encoding: str) -> tuple[bytes | bytearray, str, str]:
    """The text in UTF-8, the name of the encoding that it was in, and a sentence where that is a guess."""
    for mark, (codec, name) in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return _recoded_wide(content[len(mark) :], codec, name, path), name, ""
    if encoding:
        return decoded(content, path, encoding)
    if codec := _wide_codec(content):
        return _recoded_wide(content, codec, "UTF-16", path), "UTF-16", ""
    zero = content.find(0)
    if zero >= 0:
        line = content.count(b"\n", 0, zero) + 1
        raise TableError(
            f"The file {quoted_path(path)} isn't text: line {line:,} has a zero byte, which is in no text. Export the "
            "table again, as CSV in UTF-8."
        )
    return decoded(content, path, encoding)


def _recoded_wide(content: bytes, codec: str, name: str, path: Path) -> bytes | bytearray:
    """The same for text that says it is of this encoding: what else it is would be one name of wild letters."""
    with suppress(UnicodeDecodeError):
        text = recoded(content, codec)
        if 0 not in text and (not text or b"\n" in text or b"\r" in text):
            return text
    raise TableError(f"The file {quoted_path(path)} begins as {name} text and isn't: save it again, as UTF-8.")


def _wide_codec(content: bytes) -> str:
    """The form of UTF-16 of text without a byte order mark, told by its header; empty for all else.

    The header's letters are mostly Latin: the zero bytes are the high halves of letters, and no low half.
    """
    for high, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        highs, lows = content[high:_SAMPLE:2], content[1 - high : _SAMPLE : 2]
        letters = next((at for at in (lows.find(b"\n"), lows.find(b"\r")) if at >= 0), 0)
        zeros = highs[: letters + 1].count(0)
        if letters and 0 not in lows[:letters] and highs[letters : letters + 1] == b"\x00" and 2 * zeros > letters:
            header = content[: 2 * letters].decode(codec, errors="replace")
            return codec if all(letter.isprintable() or letter in "\t\r" for letter in header) else ""
    return ""


def _separated(text: str, path: Path) -> tuple[int, str]:
    """Where the header begins, and what separates its cells."""
    header = text.lstrip("\r\n")
    if not header.strip():
        raise TableError(f"The file {quoted_path(path)} is empty: check the path.")
    # Excel writes this line, and reads it.
    if header[:4].lower() == "sep=" and header[4:5] in string.punctuation + "\t" and header[5:6] in ("\r", "\n"):
        separator, header = header[4], header[5:].lstrip("\r\n")
    else:
        separator = max(_SEPARATORS, key=lambda one: _fit(header, one))
    # What was left out is one byte a letter.
    return len(text) - len(header), separator


def _fit(text: str, separator: str) -> tuple[float, int]:
    """How well a separator explains the first lines: the header's cells, if most lines have as many."""
    try:
        rows = _first_rows(text, separator)
    except TableError:
        return 0.0, 0
    # The last row may be cut.
    counts = [len(row) for row in rows[:-1] or rows if row]
    alike = Counter(counts)[counts[0]] / len(counts)
    return (alike >= 0.5 and counts[0] > 1) * counts[0] * alike, counts[0]


def _first_rows(text: str, separator: str) -> list[list[str]]:
    # newline: old line ends are ends too.
    lines = csv.reader(io.StringIO(text, newline=None), delimiter=separator)
    rows: list[list[str]] = []
    try:
        for row in itertools.islice(lines, _SAMPLE_ROWS):
            rows.append(row)
    except csv.Error:
        if not rows:
            raise TableError("The file's first lines are no table: check that quotes are closed.") from None
    return rows or [[""]]


def _check_size(content: bytes | bytearray, separator: str, columns: int, limits: TableLimits) -> None:
    """Count cells before any is built; those within quotes count as well where there are so many that it matters."""
    limits.check_columns(columns)
    rows = max(content.count(b"\n"), content.count(b"\r")) + 1
    if rows + content.count(separator.encode()) > limits.cells:
        limits.check_cells(rows, columns)


def _cells(
    content: bytes | bytearray, start: int, separator: str, columns: int, path: Path
) -> tuple[pd.DataFrame, list[str]]:
    """The rows below the header, all made as wide as it, and what is wrong with those that weren't."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv

    counts: dict[int, int] = {}
    mended: list[list[str]] = []

    def note(row: Any) -> str:
        counts[row.number - 1] = row.actual_columns
        try:
            cells = next(csv.reader([row.text], delimiter=separator), [])
        except csv.Error:
            cells = []
        mended.append([cell.strip() for cell in [*cells, *[""] * columns][:columns]])
        return "skip" if len(mended) * columns < _MOST_MENDED else "error"

    names = [str(at) for at in range(columns)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(content).slice(start)),
            # One thread: only then rows have numbers. One block: no row is longer.
            arrow_csv.ReadOptions(use_threads=False, block_size=len(content) + 1, column_names=names, skip_rows=0),
            arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowException as error:
        if counts:
            raise TableError(_uneven(counts, columns, path, all_of_it=True)) from None
        # Only the kind of fault: a parser's message may quote a cell.
        raise TableError(
            f"Cannot read {quoted_path(path)} as text with cells separated by {separator_words(separator)} "
            f"({type(error).__name__}): check that every line has as many cells as the header and that quotes are "
            "closed."
        ) from None
    lines = max(content.count(b"\n"), content.count(b"\r"))
    # The first row is the header. What isn't trimmed is given back column by column.
    cells, filled, rows = table.slice(1).columns, 0, table.num_rows - 1
    has_formulas = b'="' in content
    del table
    for index, column in enumerate(cells):
        column = pc.utf8_trim_whitespace(column)
        # ="0123" keeps a spreadsheet from taking a text for a number.
        cells[index] = column = pc.replace_substring_regex(column, '^="(.*)"$', r"\1") if has_formulas else column
        lengths = pc.binary_length(column).to_numpy()
        if len(lengths) and lengths.max() > _MOST_OF_A_CELL:
            raise TableError(
                f"In {quoted_path(path)}, a cell of column {index + 1:,} has more than {_MOST_OF_A_CELL:,} letters: "
                "check that quotes are closed, or leave the column out of the file."
            )
        filled = max(filled, int(np.flatnonzero(lengths).max(initial=-1)) + 1)
    # Spreadsheets write rows of separators below the table.
    frame: pd.DataFrame = pa.table(cells, names=names).slice(0, filled).to_pandas(self_destruct=True)
    has_line_ends = lines > rows + len(counts) + 1 and b'"' in content
    open_quotes = _open_quotes(content[start:], separator) if has_line_ends else []
    faults = []
    if open_quotes:
        have = "1 row has" if len(open_quotes) == 1 else f"{len(open_quotes):,} rows have"
        faults.append(
            f"In {quoted_path(path)}, {have} a quote that isn't closed where its cell ends ({row_list(open_quotes)}), "
            "and the lines below ran into it: close the quote, or take it away."
        )
    if uneven := {row: count for row, count in counts.items() if row not in open_quotes}:
        faults.append(_uneven(uneven, columns, path, all_of_it=2 * len(uneven) > lines))
    if counts:
        # In their places, so that the rows of all other faults have their numbers.
        places = np.setdiff1d(np.arange(1, rows + len(counts) + 1), list(counts))[:filled]
        mended_rows = pd.DataFrame(mended, index=list(counts), columns=names)
        frame = pd.concat([frame.set_axis(places), mended_rows]).sort_index().reset_index(drop=True)
    return frame, faults


def _uneven(counts: Mapping[int, int], columns: int, path: Path, *, all_of_it: bool) -> str:
    """A sentence on rows that have as many cells, by their numbers, and the header has others."""
    rows_of: dict[int, list[int]] = {}
    for row, count in counts.items():
        rows_of.setdefault(count, []).append(row)
    listing = "; ".join(f"{count:,} in {row_list(rows)}" for count, rows in itertools.islice(rows_of.items(), 3))
    why = (
        "name every column in the first line, put nothing above it and no separator at the end of rows."
        if all_of_it
        else "a separator within a number or a text needs quotes around the cell; remove what isn't of the table."
    )
    more = " or more" if len(counts) * columns >= _MOST_MENDED else ""
    have = "1 row has" if len(counts) == 1 else f"{len(counts):,} rows{more} have"
    return f"In {quoted_path(path)}, {have} more or fewer cells than the header's {columns:,} ({listing}): {why}"


def _open_quotes(content: bytes | bytearray, separator: str) -> list[int]:
    """Rows with a quote that is closed lines below, in another row's cell, or never: nothing else tells of them."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="")
    lines, row = csv.reader(text, delimiter=separator, strict=True), 0
    open_rows: list[int] = []
    while True:
        before = lines.line_num
        try:
            row += bool(next(lines))
        except StopIteration:
            return open_rows
        except csv.Error:
            row += 1
            if lines.line_num > before + 1:
                open_rows.append(row - 1)
