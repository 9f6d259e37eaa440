"""A party's own table of numbers, with checks that refuse whatever the protocol cannot use.

Ids and cell values are personal data: no message of this module shows one. Messages name columns and row numbers
(counted from 1, a header line not counted).
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from vfl.arrays import FloatArray
from vfl.data.cells import cells_in_parts
from vfl.data.faults import TableError, quoted
from vfl.data.labels import Labels, class_names, label_array, reads_as_number
from vfl.data.record_ids import check_ids, id_array, is_missing, record_ids
from vfl.data.selection import Selection, strict_features

if TYPE_CHECKING:
    import pandas as pd


Features = FloatArray


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

    Examples:
        >>> Table(ids=("a", "b"), features=np.array([[31.0], [45.0]]), feature_names=("age",)).labels is None
        True
    """

    ids: Sequence[str]
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
        check_ids(id_array(self.ids))
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

    Examples:
        >>> frame = pd.DataFrame({"id": ["a", "b"], "age": [31, 45], "bought": ["no", "yes"]})
        >>> table_from_frame(frame, id_column="id", label_column="bought").labels
        array(['no', 'yes'], dtype=object)
    """
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    features = strict_features(list(frame.columns), Selection(id_column, label_column, columns))
    if len(frame) == 0:
        raise TableError("The table has no rows: check the file or the query.")
    ids = record_ids(cells_in_parts(frame[id_column]), id_column)
    labels = None if label_column is None else label_array(cells_in_parts(frame[label_column]), label_column)
    matrix = np.column_stack([_numeric_column(frame[name], name) for name in features])
    return Table(ids, matrix, tuple(features), labels)


def _check_finite(values: Features, name: str) -> None:
    for fault, is_faulty, advice in (
        ("is empty (or NaN)", np.isnan(values), "fill in or remove such rows"),
        ("is infinite", np.isinf(values), "replace it by a finite number"),
    ):
        if is_faulty.any():
            rows = np.flatnonzero(is_faulty) + 1
            raise TableError(
                f"Column {quoted(name)} {fault} in row {rows[0]} ({len(rows)} in all): {advice}, or leave the "
                "column out."
            )


def _numeric_column(column: pd.Series[Any], name: str) -> Features:
    """Read a column as float64; NaN and infinities are left for the Table to refuse."""
    import pandas as pd

    advice = "encode it as numbers first, or leave the column out"
    if isinstance(column.dtype, pd.CategoricalDtype):
        raise TableError(f"Column {quoted(name)} is categorical: {advice}.")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.empty(len(column))
    not_numbers: list[int] = []
    for row, value in enumerate(column.astype(object)):
        if is_missing(value):
            values[row] = np.nan
        elif isinstance(value, (bool, np.bool_, numbers.Real, Decimal)):
            values[row] = float(value)
        else:
            not_numbers.append(row)
    if not_numbers:
        # A CSV column with one word in it arrives as text throughout: point at the word, not at the first
        # number.
        text_rows = (row for row in not_numbers if not reads_as_number(column.iloc[row]))
        row = next(text_rows, not_numbers[0]) + 1
        raise TableError(f"Column {quoted(name)} holds text, not a number, in row {row}: {advice}.")
    return values
