"""Elements of pages of experiments: tables, heat maps, numbers in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from studies.number_words import number_words

__all__ = ["HeatMap", "PageTable", "number_words"]


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


WIDE, _KEPT_LEADING = 12, 2
# Of an interval.
_ENDS = ("_low", "_high")
# What is below this in magnitude is what rounding left.
_ROUNDING = 1e-12


def frame_table(frame: pd.DataFrame, caption: str = "") -> PageTable:
    """Turn a frame into text. Numbers are short and flush right; the leading columns of text show a value once per run.

    A column NAME_se, a standard error, goes into the cells of NAME; so do NAME_low and NAME_high, an interval's ends.
    Of a wide frame, all leading columns of text but the last two go into rows of one cell, above the rows that they
    hold for.
    """
    names = [str(name) for name in frame.columns if not _belongs_to_another(str(name), frame)]
    numeric = [_is_numeric(frame[name]) for name in names]
    cells = [_cells_with_error(frame, name) for name in names]
    leading = numeric.index(True) if True in numeric else max(len(names) - 1, 0)
    above = max(0, leading - _KEPT_LEADING) if len(names) > WIDE else 0
    rows: list[tuple[str, ...]] = []
    previous: tuple[str, ...] = ()
    for values in zip(*cells, strict=True):
        same = 0
        while previous and same < leading and values[same] == previous[same]:
            same += 1
        if same < above:
            rows.append((", ".join(values[:above]),))
        rows.append((("",) * same + values[same:])[above:])
        previous = values
    headings = tuple(name if " " in name else name.replace("_", " ") for name in names[above:])
    return PageTable(caption, headings, rows, frozenset(np.flatnonzero(numeric[above:]).tolist()))


def _is_numeric(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _belongs_to_another(name: str, frame: pd.DataFrame) -> bool:
    return any(name.endswith(ending) and name.removesuffix(ending) in frame for ending in ("_se", *_ENDS))


def _cells_with_error(frame: pd.DataFrame, name: str) -> list[str]:
    cells = _column_cells(frame[name])
    low, high = (f"{name}{end}" for end in _ENDS)
    if low in frame and high in frame:
        ends = zip(cells, _column_cells(frame[low]), _column_cells(frame[high]), strict=True)
        return [cell if cell == least == most else f"{cell} ({least} to {most})" for cell, least, most in ends]
    if f"{name}_se" not in frame:
        return cells
    errors = _column_cells(frame[f"{name}_se"])
    return [f"{cell} ± {error}" if error else cell for cell, error in zip(cells, errors, strict=True)]


def _column_cells(column: "pd.Series[Any]") -> list[str]:
    if pd.api.types.is_bool_dtype(column):
        return ["yes" if value else "no" for value in column]
    if not _is_numeric(column):
        return ["" if pd.isna(value) else str(value) for value in column]
    known = column[np.isfinite(column.astype(np.float64))]
    whole = bool((known == known.round()).all())
    return [_number(float(value), whole=whole) for value in column]


def _number(value: float, *, whole: bool) -> str:
    """Short: four decimals below 1, fewer above, none where the whole column has none."""
    size = abs(value)
    if not np.isfinite(value):
        return number_words(value)
    if whole and size < 1e9:
        return f"{value:,.0f}"
    if size < _ROUNDING:
        return "0"
    if size < 1e-3 or size >= 1e6:
        return number_words(value)
    decimals = 4 if size < 1 else 3 if size < 10 else 1 if size < 1000 else 0
    return f"{value:,.{decimals}f}"
