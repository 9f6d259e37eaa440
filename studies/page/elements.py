"""Elements of pages of experiments: tables, heat maps, numbers in words."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class PageTable:
    """A table of text.

    Attributes:
        caption: above it.
        headings: of the columns.
        rows: a row whose first cell is empty belongs to the one above it; a row of one cell is a heading of those below
            it.
        right: indices of the columns that are set flush right.
    """

    caption: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True)
class HeatMap:
    """A table whose cells are shaded by shares.

    Attributes:
        caption: above it, in a few words.
        note: below it: how to read it.
        headings: of all columns; the first stands over the names of the rows.
        rows: of text; the first cell names the row.
        shares: (rows, columns but the first) in [0, 1], the darker the larger; None without a shade.
    """

    caption: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shares: tuple[tuple[float | None, ...], ...]


# A number below this is written with a power of ten, as is a larger one than the other.
_SMALLEST, _LARGEST = 1e-5, 1e9
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_words(value: float, digits: int = 2) -> str:
    """Write a number for reading, with so many digits that count: 0.00076, 34, 1,200,000, 6.1 × 10⁻¹⁴, ∞."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if value and not _SMALLEST <= abs(value) < _LARGEST:
        return f"{value:.{digits - 1}e}".partition("e")[0] + " × 10" + str(exponent).translate(_RAISED)
    decimals = max(0, digits - 1 - exponent) if value else 0
    return f"{round(value, digits - 1 - exponent):,.{decimals}f}"
