"""Excel workbooks: their XML is looked through as a stream before anything is built of it.

A workbook is an archive of XML, which openpyxl makes trees of. A thousand bytes may unpack to gigabytes, or name one
cell in the last row of the last column.
"""

from __future__ import annotations

import datetime
import warnings
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

import pandas as pd
from openpyxl.cell.cell import ERROR_CODES
from openpyxl.reader.excel import ExcelReader
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from vfl.data.faults import TableError, name_list, quoted, quoted_path
from vfl.data.selection import check_header
from vfl.data.table_limits import TableLimits
from vfl.suggestions import did_you_mean

# Bytes that are looked at together, and of one tag.
_PART, _MOST_OF_A_TAG = 1 << 16, 1 << 20
# Elements within one cell; those of styles, links and all else that is no cell; how deep they stand.
_MOST_IN_A_CELL, _MOST_ELEMENTS, _DEEPEST = 1_000, 200_000, 50
# Cells, rows of them, and texts that cells share; what stands in them.
_CELLS, _IN_CELLS = frozenset({"c", "row", "si"}), frozenset({"v", "f", "is", "t"})
# What XML may begin with: blanks, and a byte order mark.
_BEFORE_XML = b" \t\r\n\xef\xbb\xbf\xff\xfe\x00"
# Larger numbers are none of a table, and no float64.
_LARGEST = 10**300


def read_workbook(path: Path, limits: TableLimits, name: str = "") -> tuple[pd.DataFrame, str]:
    """Read a sheet of a workbook: its cells below the first row that has anything in it, and what was read, in words.

    Args:
        path: of the workbook.
        limits: how large it may be.
        name: of the sheet; empty for the first that isn't hidden.

    Raises:
        TableError: for what is no workbook, is damaged or too large, and for a sheet that isn't there or has no table.
    """
    limits = limits.of_workbook
    try:
        with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
            # openpyxl's, of styles and validations that a table has no need of.
            warnings.simplefilter("ignore")
            _look_through(archive, limits)
            reader = _OneSheet(path, read_only=True, data_only=True, keep_links=False)
            reader.wanted = name
            with reader.archive:
                reader.read()
                if reader.refusal:
                    raise TableError(reader.refusal)
                rows = _rows(reader.wb.worksheets[0], limits)
    except (TableError, MemoryError):
        raise
    except Exception as error:  # of a damaged archive the libraries stumble over anything
        raise TableError(
            f"Cannot read {quoted_path(path)} as an Excel workbook ({type(error).__name__}): open it and save it as "
            ".xlsx again, without a password."
        ) from None
    if not rows:
        raise TableError(f"The {reader.read_as}, is empty: put the table there, or name its sheet with --sheet.")
    return _frame_of(rows), reader.read_as


def _look_through(archive: zipfile.ZipFile, limits: TableLimits) -> None:
    parts = archive.infolist()
    # An archive gives no more of a part than it says here.
    limits.check_bytes(sum(part.file_size for part in parts))
    elements = 0
    for part in parts:
        with archive.open(part) as content:
            elements = _ElementCount(limits, elements).through(content)


@dataclass
class _ElementCount:
    """What stands in a part of a workbook, counted until it is too much.

    Attributes:
        limits: how much that is.
        others: elements that are no part of a cell, those of the parts before it included.
        counts: cells, rows, and texts that cells share.
        width: cells of the row at work.
        inside: elements of the cell at work.
        depth: of the element at work.
    """

    limits: TableLimits
    others: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_CELLS, 0))
    width: int = 0
    inside: int = 0
    depth: int = 0

    def through(self, content: IO[bytes]) -> int:
        """Look through a part, and say how many other elements there are now.

        Raises:
            TableError: for too much of anything, and what no workbook has.
        """
        part, position = content.read(_PART), 0
        if part.lstrip(_BEFORE_XML)[:1] not in (b"", b"<"):
            return self.others
        parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.StartDoctypeDeclHandler = self._refuse
        # What is no XML any more ends a reader as well.
        with suppress(expat.ExpatError):
            while part:
                parser.Parse(part)
                position += len(part)
                if position - parser.CurrentByteIndex > _MOST_OF_A_TAG:
                    self._refuse()
                part = content.read(_PART)
        return self.others

    def _start(self, name: str, _: Any) -> None:
        name = name.rpartition(":")[2]
        self.depth += 1
        if name in _CELLS:
            self.inside = 0
            self.width = self.width + 1 if name == "c" else 0
            self.counts[name] += 1
            self.limits.check_columns(self.width)
            self.limits.check_count(self.counts[name])
        elif name in _IN_CELLS:
            self.inside += 1
        else:
            self.others += 1
        if self.inside > _MOST_IN_A_CELL or self.others > _MOST_ELEMENTS or self.depth > _DEEPEST:
            self._refuse()

    def _end(self, _: str) -> None:
        self.depth -= 1

    def _refuse(self, *_: Any) -> None:
        raise TableError(
            "The workbook holds more styles, links and other things than a table has need of: save its table as CSV."
        )


class _OneSheet(ExcelReader):  # type: ignore[misc]
    """A workbook whose other sheets are not opened: a thousand of them may be the same part.

    Attributes:
        wanted: name of the one that is; empty for the first that isn't hidden.
        read_as: which it is, and how many there are besides.
        refusal: that there is no such sheet; said later, for who reads a workbook hides what is raised.
    """

    wanted = ""
    read_as = ""
    refusal = ""

    def read_worksheets(self) -> None:
        sheets = [
            (sheet, link)
            for sheet, link in self.parser.find_sheets()
            if "chartsheet" not in link.Type and link.target in self.valid_files
        ]
        names, hidden = [sheet.name for sheet, _ in sheets], [sheet.state != "visible" for sheet, _ in sheets]
        if self.wanted and self.wanted not in names:
            meant = did_you_mean(self.wanted, names)
            self.refusal = f"The workbook has no sheet {quoted(self.wanted)}; there are {name_list(names)}.{meant}"
        first = hidden.index(False) if not all(hidden) else 0
        index = names.index(self.wanted) if self.wanted in names else first
        sheet, link = sheets[index]
        remarks = [f"one of {len(names):,}"] if len(names) > 1 else []
        secret = [name for name, is_hidden in zip(names, hidden, strict=True) if is_hidden]
        remarks += [f"of which {len(secret):,} hidden ({name_list(secret)})"] if secret else []
        self.read_as = ", ".join([f"sheet {quoted(sheet.name)}", *remarks])
        self.wb._sheets.append(ReadOnlyWorksheet(self.wb, sheet.name, link.target, self.shared_strings))


def _rows(sheet: Any, limits: TableLimits) -> list[tuple[Any, ...]]:
    """List a sheet's rows from the first to the last that has anything in it, without the empty cells at their ends."""
    # What the file says of the size may be wrong.
    sheet.reset_dimensions()
    rows: list[tuple[Any, ...]] = []
    first, width = 0, 0
    for index, row in enumerate(sheet.iter_rows(values_only=True)):
        filled = max((place for place, cell in enumerate(row, start=1) if cell is not None and cell != ""), default=0)
        if filled:
            first, width = first if rows else index, max(width, filled)
            limits.check_cells(index - first + 1, width)
            rows += [()] * (index - first - len(rows))
            rows.append(row[:filled])
    return rows


def _frame_of(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    width = max(map(len, rows))
    header = [*("" if name is None else str(name).strip() for name in rows[0]), *[""] * (width - len(rows[0]))]
    check_header(header)
    columns = {
        at: pd.Series([_cell(row[at]) if at < len(row) else "" for row in rows[1:]], dtype=object)
        for at in range(width)
    }
    frame = pd.DataFrame(columns, index=range(len(rows) - 1), copy=False)
    return frame.set_axis([name or f"Unnamed: {at}" for at, name in enumerate(header)], axis="columns")


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        # A formula that failed has no value.
        return None if value in ERROR_CODES else value
    if isinstance(value, int) and abs(value) > _LARGEST:
        return None
    # Day 0 is no date, and comes as midnight.
    return "" if value is None or value == datetime.time() else value
