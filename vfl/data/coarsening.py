"""Coarser columns: of a number, a date or a code a federation gets its bin, or the nearest of a few equal steps.

bins2, bins4, bins10: bins of as many training records each; a value becomes the mean of its bin. A value that more
records have than a bin holds makes bins fewer.
round4, round10: the nearest quarter or tenth of the training records' range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_lowercase

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.data.columns import COARSENINGS, ColumnPlan, EncodedColumn
from vfl.data.faults import TableError, quoted


def coarser_plan(plan: ColumnPlan, choice: str) -> ColumnPlan:
    """Make the plan of a column whose values become coarser as asked; raises TableError for one of categories."""
    if plan.encoding == "onehot":
        raise TableError(
            f"Column {quoted(plan.name)} is of categories, and only numbers, dates and codes become coarser: group "
            "its categories, or leave it out."
        )
    coarsening = next(one for one in COARSENINGS if one == choice)
    return replace(plan, coarsening=coarsening, becomes=f"{plan.becomes}, coarser ({choice})")


def coarsened(
    features: FloatArray, rows: IntArray, columns: Sequence[EncodedColumn], plans: Sequence[ColumnPlan]
) -> FloatArray:
    """Make those encoded columns coarser whose plans say so; the same array where none does.

    Args:
        features: (n, d) as they are encoded.
        rows: (m,) those that bins and ranges are learned from, m >= 1.
        columns: (d,) what each feature is of.
        plans: of the source columns.
    """
    choices = {plan.name: plan.coarsening for plan in plans if plan.coarsening}
    if not choices:
        return features
    coarse = features.copy()
    for index, column in enumerate(columns):
        if column.source in choices and column.kind in ("number", "date", "code"):
            coarse[:, index] = _coarser(features[:, index], features[rows, index], choices[column.source])
    return coarse


def _coarser(values: FloatArray, fitted_on: FloatArray, coarsening: str) -> FloatArray:
    """Values (n,) in bins or steps that are learned from (m,) others."""
    parts = int(coarsening.lstrip(ascii_lowercase))
    low, high = fitted_on.min(), fitted_on.max()
    if coarsening.startswith("round"):
        step = (high - low) / parts or 1.0
        rounded: FloatArray = low + step * np.rint((values - low) / step)
        return rounded
    # Every bin begins with a value that there is, so that none is empty.
    begins = np.unique(np.quantile(fitted_on, np.arange(1, parts) / parts, method="higher"))
    begins = begins[begins > low]
    bins = np.searchsorted(begins, fitted_on, side="right")
    means = np.bincount(bins, fitted_on) / np.bincount(bins)
    binned: FloatArray = means[np.searchsorted(begins, values, side="right")]
    return binned
