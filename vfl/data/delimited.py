"""Text files with separated cells as people export them: whatever the encoding and the separator, every cell as text.

Cells are personal data: no message of this module shows one.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfl.data.faults import TableError, row_list

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: ("utf-8", "UTF-8"),
    # Before those of UTF-16, which are their beginnings.
    codecs.BOM_UTF32_LE: ("utf-32-le", "UTF-32"),
    codecs.BOM_UTF32_BE: ("utf-32-be", "UTF-32"),
    codecs.BOM_UTF16_LE: ("utf-16-le", "UTF-16"),
    codecs.BOM_UTF16_BE: ("utf-16-be", "UTF-16"),
}
_OTHER_FORMATS = {b"PK\x03\x04": ("an Excel workbook or another archive", ".xlsx"), b"PAR1": ("Parquet", ".parquet")}
_GZIP = b"\x1f\x8b"
# Letters and rows that a separator is guessed from.
_SAMPLE, _SAMPLE_ROWS = 1_000_000, 100


def separator_words(separator: str) -> str:
    """Name a separator to a person."""
    return _SEPARATORS.get(separator, repr(separator))


def read_delimited(path: Path) -> tuple[pd.DataFrame, str, str]:
    """Read a file of separated cells: a frame of text without blanks around it, its encoding and its separator.

    The encoding (UTF-8, UTF-16, UTF-32, else Windows-1252) and the separator are found out. Columns without a name in
    the header are called as pandas calls them, `Unnamed: 0`; rows at the end without anything in them are left out.

    Raises:
        TableError: for a file that is empty, damaged or of another format, and lines that don't fit the header.
    """
    content = _content(path)
    text, encoding = _decoded(content, path)
    text, separator = _separated(text, path)
    header = _first_rows(text, separator)[0]
    frame = _cells(text, separator, len(header), path).set_axis(_names(header), axis="columns")
    return _without_empty_end(frame), encoding, separator


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            raise TableError(f"Cannot unpack {str(path)!r}: check that the file is complete.") from None
    for start, (what, ending) in _OTHER_FORMATS.items():
        if content.startswith(start):
            raise TableError(f"The file {str(path)!r} is {what}, whatever its name: rename it to end in {ending}.")
    return content


def _decoded(content: bytes, path: Path) -> tuple[str, str]:
    """The text and the name of its encoding."""
    for mark, (codec, name) in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            try:
                return content[len(mark) :].decode(codec), name
            except UnicodeDecodeError:
                raise TableError(
                    f"The file {str(path)!r} begins as {name} text and isn't: save it again, as UTF-8."
                ) from None
    if b"\x00" in content[:1000]:
        # Of plain letters in UTF-16 every other byte is 0.
        codec = "utf-16-le" if content[1:2] == b"\x00" else "utf-16-be"
        try:
            return content.decode(codec), "UTF-16"
        except UnicodeDecodeError:
            raise TableError(f"The file {str(path)!r} isn't text: check the path, or save the table as CSV.") from None
    try:
        return content.decode("utf-8"), "UTF-8"
    except UnicodeDecodeError:
        # Five bytes mean nothing in Windows-1252; in Latin-1 every byte is a letter.
        try:
            return content.decode("cp1252"), "Windows-1252"
        except UnicodeDecodeError:
            return content.decode("latin-1"), "Latin-1"


def _separated(text: str, path: Path) -> tuple[str, str]:
    """The text from its header on, and what separates its cells."""
    text = text.lstrip("\r\n")
    if not text.strip():
        raise TableError(f"The file {str(path)!r} is empty: check the path.")
    # Excel writes this line, and reads it.
    if text[:4].lower() == "sep=" and text[5:6] in ("\r", "\n"):
        return text[5:].lstrip("\r\n"), text[4]
    return text, max(_SEPARATORS, key=lambda separator: _fit(text, separator))


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
    lines = csv.reader(io.StringIO(text[:_SAMPLE], newline=None), delimiter=separator)
    try:
        return list(itertools.islice(lines, _SAMPLE_ROWS)) or [[""]]
    except csv.Error:
        raise TableError("The file's first lines are no table: check that quotes are closed.") from None


def _cells(text: str, separator: str, cells: int, path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv as arrow_csv

    uneven: list[int] = []

    def note(row: Any) -> str:
        uneven.append(row.number - 1)
        return "skip"

    names = [str(at) for at in range(cells)]
    content = text.encode("utf-8", errors="replace")
    try:
        read = arrow_csv.read_csv(
            pa.BufferReader(content),
            # One thread: only then rows have numbers. One block: no row is longer.
            arrow_csv.ReadOptions(use_threads=False, block_size=len(content) + 1, column_names=names, skip_rows=0),
            arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=note),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
    except pa.ArrowException as error:
        # Only the kind of fault: a parser's message may quote a cell.
        raise TableError(
            f"Cannot read {str(path)!r} as text with cells separated by {separator_words(separator)} "
            f"({type(error).__name__}): check that every line has as many cells as the header and that quotes are "
            "closed."
        ) from None
    if uneven:
        rows = "1 row has" if len(uneven) == 1 else f"{len(uneven):,} rows have"
        raise TableError(
            f"In {str(path)!r}, {rows} more or fewer cells than the header's {cells} ({row_list(uneven)}): a separator "
            "within a number or a text needs quotes around the cell."
        )
    # The first row is the header.
    trimmed = [pc.utf8_trim_whitespace(column) for column in read.slice(1).columns]
    frame: pd.DataFrame = pa.table(trimmed, names=names).to_pandas()
    return frame


def _names(header: list[str]) -> list[str]:
    return [name.strip() or f"Unnamed: {at}" for at, name in enumerate(header)]


def _without_empty_end(frame: pd.DataFrame) -> pd.DataFrame:
    """Spreadsheets write rows of separators below the table."""
    rows = len(frame)
    while rows and not any(frame.iloc[rows - 1]):
        rows -= 1
    return frame.iloc[:rows]
