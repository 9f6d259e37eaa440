"""How large a table may be once it is unpacked: known from its headers or counted before anything is built of it.

A file of a thousand bytes can name a cell a billion cells away, and one of a megabyte unpacks to a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from vfl.data.faults import TableError, counted

_MEGABYTE = 1 << 20
# A workbook's cells are read one by one, in Python: each takes as long as 20 of a text file, and 4 times its bytes; one
# of a database takes twice as long.
_WORKBOOK_CELLS, _WORKBOOK_BYTES, _DATABASE_CELLS = 20, 4, 2


@dataclass(frozen=True)
class TableLimits:
    """The largest table that is read.

    Attributes:
        megabytes: of its cells, unpacked.
        columns: of its header, used or not.
        cells: rows times columns.
        advice: what to do about a table that is larger.
    """

    megabytes: int = 256
    columns: int = 5_000
    cells: int = 25_000_000
    advice: str = "leave out what isn't needed"

    @property
    def bytes(self) -> int:
        """The megabytes in bytes."""
        return self.megabytes * _MEGABYTE

    @property
    def of_workbook(self) -> TableLimits:
        """The same for an Excel workbook, which takes more time and memory for a cell."""
        return TableLimits(
            max(1, self.megabytes // _WORKBOOK_BYTES),
            self.columns,
            max(1, self.cells // _WORKBOOK_CELLS),
            "save a large workbook as CSV or Parquet, delete what stands far from the table",
        )

    @property
    def of_database(self) -> TableLimits:
        """The same for a database, whose values are Python objects."""
        return replace(self, cells=max(1, self.cells // _DATABASE_CELLS))

    def check_bytes(self, size: int) -> None:
        """Raise TableError for a table of more bytes."""
        if size > self.bytes:
            raise TableError(
                f"The table unpacks to more than {self.megabytes:,} MB: {self.advice}, or raise "
                "PLUMBLINE_TABLE_MEGABYTES."
            )

    def check_columns(self, count: int) -> None:
        """Raise TableError for a table of more columns."""
        if count > self.columns:
            raise TableError(
                f"The table has {counted(count, 'column')}, and {self.columns:,} are read: {self.advice}, or raise "
                "PLUMBLINE_TABLE_COLUMNS."
            )

    def check_cells(self, rows: int, columns: int) -> None:
        """Raise TableError for a table of more rows times columns."""
        self.check_columns(columns)
        if rows * columns > self.cells:
            self._refuse(f"The table has {counted(rows, 'row')} of {counted(columns, 'column')}")

    def check_count(self, cells: int) -> None:
        """Raise TableError for a table of which so many cells were counted, and more may come."""
        if cells > self.cells:
            self._refuse(f"The table has more than {self.cells:,} cells")

    def _refuse(self, what: str) -> None:
        raise TableError(f"{what}, and {self.cells:,} cells are read: {self.advice}, or raise PLUMBLINE_TABLE_CELLS.")


@contextmanager
def in_memory() -> Iterator[None]:
    """Turn the end of memory into a sentence."""
    try:
        yield
    except MemoryError:
        raise TableError(
            "The table doesn't fit into this machine's memory: leave out rows or columns, or read it where there is "
            "more."
        ) from None
