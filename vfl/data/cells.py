"""A column's cells as a source has them, brought to few kinds: numbers, yes or no, moments, text."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray
from vfl.data.cell_words import days_since_1970, is_missing_word, iso_days
from vfl.data.record_ids import is_exact, is_missing

if TYPE_CHECKING:
    import pandas as pd

CellKind = Literal["number", "boolean", "date", "text", "other"]
_Kinds = tuple[type, ...]
# Booleans are whole numbers too: they come first.
_KINDS: tuple[tuple[CellKind, _Kinds], ...] = (
    ("text", (str,)),
    ("boolean", (bool, np.bool_)),
    ("number", (numbers.Real, Decimal)),
    ("date", (datetime.date, np.datetime64)),
)
_PART = 4096
_FLOAT_BYTES = 8


@dataclass(frozen=True, eq=False)
class Cells:
    """A column's cells, before it is decided what they mean.

    Attributes:
        kind: what the source has; ``other`` is neither of the four.
        values: (n,) numbers, 0 and 1, or days since 1970, NaN for gaps; empty for text and other things.
        texts: the distinct texts, without blanks around them; empty for all else.
        codes: (n,) which of them each row has, -1 for a gap; empty for all else.
    """

    kind: CellKind
    values: FloatArray = field(default_factory=lambda: np.empty(0))
    texts: tuple[str, ...] = ()
    codes: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def weights(self) -> IntArray:
        """How many rows have each of the texts."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.texts)).astype(np.int64)

    def of_texts(self, values: FloatArray) -> FloatArray:
        """A value for each row (n,), from one for each of the texts; NaN for gaps."""
        return np.append(values, np.nan)[self.codes]

    def without(self, gap_words: Collection[str]) -> Cells:
        """Take the same cells, of which some stand for a gap: as text, or as the numbers that the words write."""
        if not gap_words or self.kind not in ("number", "text"):
            return self
        numbers = [float(word) for word in gap_words if _is_number(word)]
        if self.kind == "text":
            is_gap = [one in gap_words or (_is_number(one) and float(one) in numbers) for one in self.texts]
            names = ["" if gap else one for one, gap in zip(self.texts, is_gap, strict=True)]
            # The last is for gaps, whose code is -1.
            return _texts([*names, ""], self.codes)
        return replace(self, values=np.where(np.isin(self.values, numbers), np.nan, self.values))

    def as_text(self) -> Cells:
        """The same cells as text, numbers by their digits."""
        if self.kind == "text":
            return self
        distinct, codes = np.unique(self.values, return_inverse=True)
        return _texts([text_of(value) for value in distinct.tolist()], codes.astype(np.int64))


def cells_in_parts(column: pd.Series[Any]) -> Iterator[object]:
    """A column's cells one by one; only some thousands of them are Python objects at a time.

    Floats of fewer bits keep their type: where their whole numbers end is known by it.
    """
    of_cells = column.cat.categories.dtype if hasattr(column, "cat") else column.dtype
    kind: Any = getattr(of_cells, "numpy_dtype", of_cells)
    is_short = isinstance(kind, np.dtype) and kind.kind == "f" and kind.itemsize < _FLOAT_BYTES
    for start in range(0, len(column), _PART):
        part = column.iloc[start : start + _PART]
        yield from part.to_numpy(kind.type, na_value=np.nan) if is_short else part.tolist()


def cells_of(column: pd.Series[Any]) -> Cells:
    """Bring a column of any type to one of few kinds."""
    import pandas as pd

    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        names = [text_of(name) for name in column.cat.categories]
        return _texts(names, np.asarray(column.cat.codes, dtype=np.int64))
    if types.is_bool_dtype(column.dtype):
        return Cells("boolean", _floats(column))
    if types.is_numeric_dtype(column.dtype):
        return Cells("other") if types.is_complex_dtype(column.dtype) else Cells("number", _floats(column))
    if types.is_datetime64_any_dtype(column.dtype):
        return Cells("date", days_since_1970(column))
    if types.is_timedelta64_dtype(column.dtype):
        return Cells("number", np.asarray(column.dt.total_seconds(), dtype=np.float64) / 86_400)
    return _of_strings(column) if isinstance(column.dtype, pd.StringDtype) else _of_objects(column)


def _of_objects(column: pd.Series[Any]) -> Cells:
    cells = column.tolist()
    # A float may be a gap, which says nothing of the others.
    present = set(map(type, cells)) if column.notna().all() else {type(one) for one in cells if not is_missing(one)}
    kinds: set[CellKind] = {
        next((name for name, types in _KINDS if issubclass(one, types)), "other") for one in present
    }
    if "other" in kinds:
        return Cells("other")
    if kinds == {"boolean"} or kinds == {"number"}:
        return Cells(kinds.pop(), np.array([np.nan if is_missing(one) else float(one) for one in cells]))
    if kinds == {"date"}:
        return Cells("date", iso_days(["" if is_missing(one) else str(one) for one in cells]))
    return _of_strings(column.map(text_of, na_action="ignore"))


def _of_strings(column: pd.Series[Any]) -> Cells:
    import pandas as pd

    codes, distinct = pd.factorize(column)
    return _texts([str(value) for value in distinct], codes.astype(np.int64))


def _texts(names: Sequence[str], codes: NDArray[np.int64]) -> Cells:
    """Text cells, from names that may be alike but for blanks, or say that there is no value."""
    stripped = [name.strip() for name in names]
    used = np.zeros(len(names) + 1, dtype=bool)
    used[codes] = True
    used_names = [name for name, is_used in zip(stripped, used, strict=False) if is_used and not is_missing_word(name)]
    number_of = {name: at for at, name in enumerate(dict.fromkeys(used_names))}
    # The last is for gaps, whose code is -1.
    numbered = np.array([*(number_of.get(name, -1) for name in stripped), -1], dtype=np.int64)
    return Cells("text", texts=tuple(number_of), codes=numbered[codes])


def text_of(value: object) -> str:
    """Write a cell of any kind as a person would: whole numbers by their digits, as far as they are exact."""
    if is_missing(value):
        return ""
    if isinstance(value, (float, np.floating)) and is_exact(value):
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _floats(column: pd.Series[Any]) -> FloatArray:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _is_number(word: str) -> bool:
    with suppress(ValueError):
        return bool(np.isfinite(float(word)))
    return False
