"""Quantile bins: a party's own columns as small whole numbers, by thresholds that never leave it."""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray

_ROUNDING = 1e-9
# The cap falls to its limit; what is missing to it after so many is of no account.
_ROUNDS = 50


@dataclass(frozen=True, eq=False)
class ColumnBins:
    """The thresholds of one party's columns.

    Attributes:
        thresholds: for each column, ascending; bin t has the values in (threshold t - 1, threshold t].
        max_bin: bins that every column is said to have, however few it fills. Bin `max_bin` has what is missing.

    Examples:
        >>> bins = ColumnBins.of(np.array([[1.0], [2.0], [np.nan], [8.0]]), max_bin=4)
        >>> bins.thresholds, bins.apply(np.array([[1.4], [1.6], [np.nan]])).ravel()
        ((array([1.5, 5. ]),), array([0, 1, 4]))
    """

    thresholds: tuple[FloatArray, ...]
    max_bin: int

    @classmethod
    def of(cls, table: FloatArray, max_bin: int) -> "ColumnBins":
        """Choose thresholds for (n, d) training rows: between all values where they are few, else between quantiles."""
        return cls(tuple(_thresholds(column[~np.isnan(column)], max_bin) for column in table.T), max_bin)

    def apply(self, table: FloatArray) -> IntArray:
        """Put (n, d) values into bins, (n, d) of 0 to `max_bin`."""
        bins = np.empty(table.shape, dtype=np.int64)
        for index, thresholds in enumerate(self.thresholds):
            bins[:, index] = np.searchsorted(thresholds, table[:, index])
        bins[np.isnan(table)] = self.max_bin
        return bins

    def upper(self, column: int, bin_: int) -> float:
        """Give the largest value of a bin; infinity for a column's last ones."""
        thresholds = self.thresholds[column]
        return float(thresholds[bin_]) if bin_ < len(thresholds) else np.inf


def _thresholds(values: FloatArray, max_bin: int) -> FloatArray:
    largest = np.finfo(np.float64).max
    distinct, counts = np.unique(np.clip(values, -largest, largest), return_counts=True)
    if len(distinct) <= max_bin:
        # Halves first: the sum of two large values may be infinite, and the middle of two neighbours the upper one.
        middles = np.minimum(distinct[:-1] / 2 + distinct[1:] / 2, np.nextafter(distinct[1:], -np.inf))
        return np.asarray(np.maximum(middles, distinct[:-1]), dtype=np.float64)
    weights = _capped(counts, max_bin)
    shares = np.cumsum(weights) / weights.sum() * max_bin
    # Values themselves: a threshold belongs to the bin below it, and the largest value bounds nothing.
    ends = np.searchsorted(shares, np.arange(1, max_bin) - _ROUNDING)
    return np.asarray(distinct[np.unique(ends[ends < len(distinct) - 1])], dtype=np.float64)


def _capped(counts: IntArray, max_bin: int) -> FloatArray:
    """Let no value weigh more than one bin of many: else most rows' zero would leave few bins for all others."""
    cap = float(counts.max())
    for _ in range(_ROUNDS):
        lower = float(np.minimum(counts, cap).sum()) / max_bin
        if lower >= cap:
            break
        cap = lower
    return np.minimum(counts, cap).astype(np.float64)
