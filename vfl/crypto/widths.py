"""Widths: how many binary digits the integers of a column take, in three public classes.

A party's column is integers on a grid of its own, x = D z. Only z meets ciphertexts, X^T g = D (Z^T g), and D stays
with the party. A 0/1 column takes one digit, a pixel eight, a real number as many as the session's fixed point. Columns
travel in the order of their classes: binary ones, then bytes, then full ones, each in the party's own order.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class EntryFormat:
    """Which integers the entries of a column may be; public.

    Attributes:
        bound: the largest magnitude.
        signed: whether entries may be negative.
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
    """

    binary: int = 0
    byte: int = 0
    full: int = 0

    @property
    def total(self) -> int:
        """All columns."""
        return self.binary + self.byte + self.full
