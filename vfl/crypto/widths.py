"""Widths: how many binary digits the integers of a column take, in three public classes.

A party's column is integers on a grid of its own, x = D z. Only z meets ciphertexts, X^T g = D (Z^T g), and D stays
with the party. A 0/1 column takes one digit, a pixel eight, a real number as many as the session's fixed point. Columns
travel in the order of their classes: binary ones, then bytes, then full ones, each in the party's own order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.crypto.errors import FixedPointOverflow


@dataclass(frozen=True)
class EntryFormat:
    """Which integers the entries of a column may be; public.

    Attributes:
        bound: the largest magnitude.
        signed: whether entries may be negative.

    Examples:
        >>> EntryFormat(255).digits, EntryFormat(255, signed=True).digits
        (8, 9)
    """

    bound: int
    signed: bool = False

    @property
    def offset(self) -> int:
        """What to add so that every entry is >= 0; it depends on the format, never on data."""
        return self.bound if self.signed else 0

    @property
    def digits(self) -> int:
        """Binary digits of an entry plus offset."""
        return (self.bound + self.offset).bit_length()


BINARY = EntryFormat(1)
BYTE = EntryFormat(255)


@dataclass(frozen=True)
class ColumnWidths:
    """How many of a party's columns are of each width; public.

    Attributes:
        binary: columns whose entries are 0 or 1.
        byte: columns whose entries are 0 to 255.
        full: columns in the session's fixed point.

    Examples:
        >>> ColumnWidths(binary=2, full=1).formats(RESIDUAL.entries).total
        3
    """

    binary: int = 0
    byte: int = 0
    full: int = 0

    @property
    def total(self) -> int:
        """All columns."""
        return self.binary + self.byte + self.full

    def formats(self, full: EntryFormat) -> "ColumnFormats":
        """List the formats of the columns in wire order, where full columns hold integers of this format."""
        runs = ((BINARY, self.binary), (BYTE, self.byte), (full, self.full))
        return ColumnFormats(tuple((entry, count) for entry, count in runs if count))


@dataclass(frozen=True)
class ColumnFormats:
    """Which integers each of some columns holds, in the order in which they travel; public.

    Attributes:
        runs: (format, how many consecutive columns have it); at least one column in each.

    Examples:
        >>> columns = ColumnFormats(((BINARY, 2), (BYTE, 1)))
        >>> columns.total, columns.digits
        (3, 10)
    """

    runs: tuple[tuple[EntryFormat, int], ...]

    @property
    def total(self) -> int:
        """All columns."""
        return sum(count for _, count in self.runs)

    @property
    def widest(self) -> EntryFormat:
        """The format with the largest bound, signed if any is."""
        bound = max(entry.bound for entry, _ in self.runs)
        return EntryFormat(bound, any(entry.signed for entry, _ in self.runs))

    @property
    def digits(self) -> int:
        """Binary digits of a row."""
        return sum(count * entry.digits for entry, count in self.runs)

    def each(self) -> Iterator[EntryFormat]:
        """Give the format of every column, one after the other."""
        for entry, count in self.runs:
            yield from (entry for _ in range(count))

    def encode(self, matrix: FloatArray) -> IntArray:
        """Take (s, d) whole numbers as int64.

        Raises:
            FixedPointOverflow: for an entry that isn't a whole number in its column's range. It names no value.
        """
        lowest = np.array([-entry.offset for entry in self.each()], dtype=np.float64)
        highest = np.array([entry.bound for entry in self.each()], dtype=np.float64)
        fits = (matrix >= lowest) & (matrix <= highest) & (matrix == np.rint(matrix))
        if not fits.all():
            row, column = (int(index) for index in np.argwhere(~fits)[0])
            raise FixedPointOverflow(f"Value at index ({row}, {column}) is no whole number of its column's width.")
        return matrix.astype(np.int64)
