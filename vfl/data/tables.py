"""A party's own table, with checks that refuse whatever the protocol cannot use.

Ids and cell values are personal data: no message of this module shows one. Messages name columns and row numbers
(counted from 1, a header line not counted).
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vfl.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


Features = FloatArray
Labels = npt.NDArray[np.object_]
# How pandas names a row index that was saved as if it were a column.
_NAMELESS_COLUMN = re.compile(r"Unnamed: \d+")


class TableError(ValueError):
    """A table cannot be used as it is; the message says where the fault is and what to do."""


@dataclass(frozen=True, eq=False)
class Table:
    """One party's rows.

    Attributes:
        ids: n distinct non-empty strings.
        features: (n, d) float64, finite, n >= 1 and d >= 1.
        feature_names: d names.
        labels: (n,) object array of str or int, as they are in the source; None for a passive party.

    Raises:
        TableError: when the parts do not fit together.
    """

    ids: tuple[str, ...]
    features: Features
    feature_names: tuple[str, ...]
    labels: Labels | None = None

    def __post_init__(self) -> None:
        rows = len(self.ids)
        if rows == 0:
            raise TableError("The table has no rows: check the file or the query.")
        if not self.feature_names:
            raise TableError("The table has no feature columns: name at least one column besides id and label.")
        if self.features.shape != (rows, len(self.feature_names)) or self.features.dtype != np.float64:
            raise TableError(
                f"Expected features of shape {(rows, len(self.feature_names))} in float64, "
                f"got {self.features.shape} in {self.features.dtype}: give one row per id and one column per "
                "name."
            )
        _check_ids(self.ids)
        for column, name in enumerate(self.feature_names):
            _check_finite(self.features[:, column], name)
        if self.labels is not None:
            if self.labels.shape != (rows,):
                raise TableError(f"Expected {rows} labels, got shape {self.labels.shape}: give one label per row.")
            if len(class_names(self.labels)) < 2:
                raise TableError("The table has labels with one class only: training needs two or more classes.")


def table_from_frame(
    frame: pd.DataFrame, *, id_column: str, label_column: str | None, columns: Sequence[str] | None = None
) -> Table:
    """Make a Table from a DataFrame; the frame's index is ignored. Arguments are those of `load_table`.

    Raises:
        TableError: as `load_table`.
    """
    names = [str(name) for name in frame.columns]
    check_distinct(names)
    frame = frame.set_axis(names, axis="columns")
    features = feature_columns(names, id_column, label_column, columns)
    if len(frame) == 0:
        raise TableError("The table has no rows: check the file or the query.")
    ids, labels = ids_and_labels(frame, id_column, label_column)
    matrix = np.column_stack([_numeric_column(frame[name], name) for name in features])
    return Table(ids, matrix, tuple(features), labels)


def ids_and_labels(
    frame: pd.DataFrame, id_column: str, label_column: str | None
) -> tuple[tuple[str, ...], Labels | None]:
    """Read the ids and the labels of a frame.

    Raises:
        TableError: for ids that are missing, twice there or not exact, and labels that are missing.
    """
    ids = tuple(_id_string(value, row) for row, value in enumerate(frame[id_column].astype(object), start=1))
    _check_ids(ids)
    labels = None if label_column is None else _label_array(frame[label_column].astype(object), label_column)
    return ids, labels


def class_names(labels: Iterable[object]) -> tuple[str, ...]:
    """List the distinct label values as strings: in numeric order when all are numbers, else alphabetically.

    1, 1.0, np.int64(1), True and "1" name the same class.
    """
    names = {str(_label_value(label)) for label in labels}
    if all(_reads_as_number(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def encode_labels(labels: Iterable[object]) -> tuple[IntArray, tuple[str, ...]]:
    """Turn labels into class indices (n,) in 0..k-1, and list the k class names that they index."""
    values = list(labels)
    names = class_names(values)
    index_of = {name: index for index, name in enumerate(names)}
    return np.array([index_of[str(_label_value(value))] for value in values], dtype=np.int64), names


# --- columns ------------------------------------------------------------------------------------------------


def exact_columns(id_column: str, label_column: str | None) -> list[str]:
    """Name the columns whose values are kept as the source writes them."""
    return [id_column] if label_column is None else [id_column, label_column]


def feature_columns(
    present: list[str], id_column: str, label_column: str | None, columns: Sequence[str] | None
) -> list[str]:
    """Name the feature columns.

    Raises:
        TableError: when a column that was asked for is missing.
    """
    _check_present(id_column, "id", present)
    if label_column is not None:
        _check_present(label_column, "label", present)
        if label_column == id_column:
            raise TableError(f"Column {id_column!r} cannot be both the id and the label: name two columns.")
    reserved = {id_column, label_column}
    if columns is None:
        features = [name for name in present if name not in reserved]
        nameless = [name for name in features if _NAMELESS_COLUMN.fullmatch(name) or not name.strip()]
        if nameless:
            raise TableError(
                "A column has no name in the header (often a row index saved with the data): "
                "remove it, name it, or list the columns to use."
            )
    else:
        features = list(columns)
        for name in features:
            _check_present(name, "feature", present)
            if name in reserved:
                raise TableError(f"Column {name!r} is the id or the label: take it off the list of features.")
        if len(set(features)) < len(features):
            raise TableError("The list of feature columns names a column twice: name each once.")
    if not features:
        raise TableError("The table has no feature columns: name at least one column besides id and label.")
    return features


def check_distinct(names: Sequence[str]) -> None:
    """Accept column names only if all differ.

    Raises:
        TableError: when two columns have the same name.
    """
    if len(set(names)) < len(names):
        raise TableError("Two columns have the same name: rename one of them.")


def _check_present(name: str, role: str, present: Sequence[str]) -> None:
    if name in present:
        return
    shown = ", ".join(repr(column) for column in present[:20])
    if len(present) > 20:
        shown += f" and {len(present) - 20} more"
    close = difflib.get_close_matches(name, present, n=1)
    if close:
        hint = f" Did you mean {close[0]!r}?"
    elif len(present) == 1 and ";" in present[0]:
        hint = " The file seems to be separated by semicolons: save it with commas."
    else:
        hint = " Name one of these."
    raise TableError(f"There is no {role} column {name!r}; the columns are {shown or 'none'}.{hint}")


# --- cells --------------------------------------------------------------------------------------------------


def _is_missing(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _id_string(value: object, row: int) -> str:
    """An id as text; a missing one as the empty string, which `_check_ids` counts."""
    if _is_missing(value):
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (numbers.Integral, Decimal, float)) and not isinstance(value, (bool, np.bool_)):
        # Beyond 2**53 neighbouring ids share a float: two people would become one.
        exact = not isinstance(value, float) or abs(value) < 2**53
        if exact and math.isfinite(value) and value == int(value):
            return str(int(value))
    raise TableError(
        f"The id in row {row} is neither text nor an exact whole number: store the ids as text or as integers."
    )


def _check_ids(ids: tuple[str, ...]) -> None:
    empty = [row for row, value in enumerate(ids, start=1) if not value.strip()]
    if empty:
        raise TableError(
            f"{_count(len(empty), 'row')} without an id ({_row_list(empty)}): give every row an id or remove it."
        )
    first_row: dict[str, int] = {}
    repeated = [row for row, value in enumerate(ids, start=1) if first_row.setdefault(value, row) != row]
    if repeated:
        raise TableError(
            f"{_count(len(repeated), 'row')} with the id of an earlier row ({_row_list(repeated)}): "
            "keep one row per id."
        )


def _count(number: int, noun: str) -> str:
    return f"There is 1 {noun}" if number == 1 else f"There are {number} {noun}s"


def _row_list(rows: list[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:3])
    return f"row {shown}" if len(rows) == 1 else f"rows {shown}" + (", ..." if len(rows) > 3 else "")


def _check_finite(values: Features, name: str) -> None:
    for fault, at, advice in (
        ("is empty (or NaN)", np.isnan(values), "fill in or remove such rows"),
        ("is infinite", np.isinf(values), "replace it by a finite number"),
    ):
        if at.any():
            rows = np.flatnonzero(at) + 1
            raise TableError(
                f"Column {name!r} {fault} in row {rows[0]} ({len(rows)} in all): {advice}, or leave the column out."
            )


def _numeric_column(column: pd.Series[Any], name: str) -> Features:
    """A column as float64; NaN and infinities are left for the Table to refuse."""
    import pandas as pd

    advice = "encode it as numbers first, or leave the column out"
    if isinstance(column.dtype, pd.CategoricalDtype):
        raise TableError(f"Column {name!r} is categorical: {advice}.")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.empty(len(column))
    not_numbers: list[int] = []
    for row, value in enumerate(column.astype(object)):
        if _is_missing(value):
            values[row] = np.nan
        elif isinstance(value, (bool, np.bool_, numbers.Real, Decimal)):
            values[row] = float(value)
        else:
            not_numbers.append(row)
    if not_numbers:
        # A CSV column with one word in it arrives as text throughout: point at the word, not at the first
        # number.
        words = (row for row in not_numbers if not _reads_as_number(column.iloc[row]))
        row = next(words, not_numbers[0]) + 1
        raise TableError(f"Column {name!r} holds text, not a number, in row {row}: {advice}.")
    return values


def _reads_as_number(value: object) -> bool:
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def _label_array(values: Iterable[object], name: str) -> Labels:
    """Labels as str or int objects; text that is digits throughout (a CSV's) becomes int."""
    labels = list(values)
    for row, label in enumerate(labels, start=1):
        if _is_missing(label) or (isinstance(label, str) and not label.strip()):
            raise TableError(f"Label column {name!r} is empty in row {row}: give every row a label or remove it.")
    labels = [_label_value(label) for label in labels]
    distinct = set(labels)
    # "01" stays text: as a number it would merge with "1".
    if all(isinstance(label, str) and re.fullmatch(r"0|-?[1-9]\d*", label) for label in distinct):
        labels = [int(str(label)) for label in labels]
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _label_value(label: object) -> str | int:
    """One label as int (booleans and whole numbers of any type) or str (everything else)."""
    if isinstance(label, (numbers.Integral, np.bool_)):
        return int(label)
    if isinstance(label, (float, np.floating, Decimal)):
        return int(label) if math.isfinite(label) and label == int(label) else str(label)
    return str(label).strip()
