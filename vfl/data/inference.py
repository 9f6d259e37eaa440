"""What a column is, from its own cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vfl.data.columns import ColumnPlan

if TYPE_CHECKING:
    import pandas as pd


def typed_columns(frame: pd.DataFrame, _encode: Mapping[str, str]) -> tuple[pd.DataFrame, tuple[ColumnPlan, ...]]:
    """Give every column of a frame a type."""
    import pandas as pd

    plans, typed = [], {}
    for name in frame.columns:
        series, plan = _typed(frame[name], name)
        plans.append(plan)
        typed[name] = series
    return pd.DataFrame(typed), tuple(plans)


def _typed(column: pd.Series[Any], name: str) -> tuple[pd.Series[Any], ColumnPlan]:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        numbers = column.astype("float64")
        return numbers, ColumnPlan(
            name, f"numbers from {numbers.min():.6g} to {numbers.max():.6g}", "number", "1 feature"
        )
    categories = column.astype(str).where(column.notna()).astype("category")
    count = len(categories.cat.categories)
    return categories, ColumnPlan(name, f"{count} categories", "onehot", f"{count} features, one per category")
