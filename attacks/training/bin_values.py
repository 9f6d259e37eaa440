"""Values of columns from places in the order of columns without a name, by who knows what is published of the former.

Which column is which is found by what is published as well. Of columns that take few values frequencies tell it.
Others look alike then: who can't tell some apart takes the mean over all that may be meant. Where covariances are
published, columns that vary together tell which they are (a quadratic assignment, by Frank and Wolfe as in Vogelstein
et al. 2015).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from attacks.views import PassiveMoments
from vfl.arrays import BoolArray, FloatArray, IntArray

# Points of a bin at which a quantile is taken.
_POINTS = (np.arange(5) + 0.5) / 5
# Shares of bins that differ by less in all are those of one column in other records.
_SAME = 0.02
# What all shares weigh beside a correlation; starts of an assignment, and when its swaps end.
_SHARES, _STARTS, _SETTLED = 4.0, 20, 1e-9
# Assignments of more columns take minutes.
_MOST_MATCHED = 40


@dataclass(frozen=True, eq=False)
class PlacedColumn:
    """Where records are in the order of a column of the session.

    Attributes:
        shares: (bins,) of all records in each bin.
        weights: (n, bins) how likely each record is in each bin; rows sum to 1.
    """

    shares: FloatArray
    weights: FloatArray

    @classmethod
    def placed(cls, shares: FloatArray, possible: BoolArray) -> Self:
        """Weigh (n, bins + 1) possible bins by (bins + 1,) shares of records in each; what is missing is anywhere."""
        shares = shares[:-1] / max(shares[:-1].sum(), 1e-12)
        weights = possible[:, :-1] * np.maximum(shares, 1e-9)
        nowhere = ~possible[:, :-1].any(axis=1)
        weights[nowhere] = np.maximum(shares, 1e-9)
        return cls(shares, weights / weights.sum(axis=1, keepdims=True))

    def of(self, rows: IntArray) -> Self:
        """Take some of the records alone."""
        return replace(self, weights=self.weights[rows])

    @property
    def levels(self) -> FloatArray:
        """Levels between 0 and 1 of each bin's places, (bins, points)."""
        ends = np.cumsum(self.shares)
        inside: FloatArray = (ends - self.shares)[:, None] + self.shares[:, None] * _POINTS
        return np.clip(inside, 1e-6, 1 - 1e-6)

    @property
    def resolved(self) -> float:
        """How much of the variance of levels is seen in places: 0 where nothing is known of any record."""
        middles = self.levels.mean(axis=1)
        spread = float(self.shares @ np.square(middles - self.shares @ middles))
        return float(self.places.var()) / spread if spread > 0 else 0.0

    @property
    def places(self) -> FloatArray:
        """Give each record's expected level, (n,)."""
        middles: FloatArray = self.weights @ self.levels.mean(axis=1)
        return middles


def estimated_values(
    columns: Sequence[PlacedColumn], moments: PassiveMoments, *, in_unit: bool, by_covariance: bool
) -> FloatArray:
    """Estimate one party's columns of all records, (n, d), from as many columns of the session.

    Args:
        columns: of the session, in any order.
        moments: what is published of the party's columns.
        in_unit: whether all values are from 0 to 1.
        by_covariance: whether what is published of pairs is used.
    """
    costs, places = _costs(columns, moments), range(len(columns))
    if by_covariance and moments.covariance is not None and len(columns) <= _MOST_MATCHED:
        likely = _likely(costs, columns, _correlations(moments.covariance))
    else:
        order = linear_sum_assignment(costs)[1]
        alike = costs <= costs[np.arange(len(costs)), order][:, None] + _SAME
        likely = alike / alike.sum(axis=1, keepdims=True)
    estimate = np.zeros((len(columns[0].weights), len(columns)))
    for named in places:
        for place in places:
            if likely[named, place] > 0:
                values = columns[place].weights @ _values_of_bins(moments, named, columns[place], in_unit)
                estimate[:, named] += likely[named, place] * values
    return estimate


def _costs(columns: Sequence[PlacedColumn], moments: PassiveMoments) -> FloatArray:
    """Say how far each session column's shares are from those that each named column would have, (d, d)."""
    shares = np.stack([column.shares for column in columns])
    bins = shares.shape[1]
    expected = np.full(shares.shape, 1.0 / bins)
    for named, frequencies in enumerate(moments.frequencies or [None] * len(columns)):
        if frequencies is not None and len(frequencies) <= bins:
            expected[named] = np.pad(frequencies, (0, bins - len(frequencies)))
    costs: FloatArray = np.abs(expected[:, None] - shares[None]).sum(axis=2) / 2
    return costs


def _values_of_bins(moments: PassiveMoments, named: int, column: PlacedColumn, in_unit: bool) -> FloatArray:
    """Give what a bin's values are on average, were the session's column this named one: (bins,).

    By its few values, one for each bin where there are as many, or by its mean and variance.
    """
    support, filled = moments.supports[named] if moments.supports else None, column.shares > 0
    if support is not None and filled.sum() == len(support):
        return np.asarray(support[np.maximum(np.cumsum(filled) - 1, 0)])
    return np.asarray(quantiles(moments, named, column.levels, in_unit=in_unit).mean(axis=1))


def quantiles(moments: PassiveMoments, column: int, levels: FloatArray, *, in_unit: bool) -> FloatArray:
    """Give a column's values at levels between 0 and 1, by its few values, or by its mean and variance."""
    from scipy.stats import beta, norm  # slow to import

    if moments.supports and (support := moments.supports[column]) is not None:
        ends = np.cumsum(np.asarray(moments.frequencies[column]))
        return np.asarray(support[np.minimum(np.searchsorted(ends, levels), len(support) - 1)])
    mean, variance = float(moments.mean[column]), float(moments.variance[column])
    if in_unit and 0 < variance < mean * (1 - mean):
        size = mean * (1 - mean) / variance - 1
        return np.asarray(beta.ppf(levels, mean * size, (1 - mean) * size))
    return np.asarray(norm.ppf(levels, mean, np.sqrt(max(variance, 1e-300))))


def _correlations(covariance: FloatArray) -> FloatArray:
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlations: FloatArray = covariance / np.outer(spread, spread)
    return correlations


def _likely(costs: FloatArray, columns: Sequence[PlacedColumn], published: FloatArray) -> FloatArray:
    """Say how likely each named column is each of the session's, (d, d), by how pairs vary together.

    What better and worse assignments say is averaged: columns that vary alike are not told apart.
    """
    places = np.column_stack([column.places for column in columns])
    varying = places.std(axis=0) > 0
    correlations = np.eye(len(costs))
    correlations[np.ix_(varying, varying)] = np.atleast_2d(np.corrcoef(places[:, varying], rowvar=False))
    resolved = np.array([column.resolved for column in columns])

    def misfit(order: IntArray) -> float:
        off = np.square(published - correlations[np.ix_(order, order)]) * np.outer(resolved[order], resolved[order])
        return float(off.sum()) + _SHARES * float(costs[np.arange(len(order)), order].sum())

    generator = np.random.default_rng(0)
    starts = [linear_sum_assignment(costs)[1], *(generator.permutation(len(costs)) for _ in range(_STARTS))]
    orders = [_swapped(np.asarray(start), misfit) for start in starts]
    misfits = np.array([misfit(order) for order in orders])
    likelihoods = np.exp(misfits.min() - misfits)
    pairings = np.stack([np.eye(len(costs))[order] for order in orders])
    likely: FloatArray = np.tensordot(likelihoods / likelihoods.sum(), pairings, axes=1)
    return likely


def _swapped(order: IntArray, misfit: Callable[[IntArray], float]) -> IntArray:
    """Swap two columns as long as that makes it better."""
    best, order = misfit(order), order.copy()
    improves = True
    while improves:
        improves = False
        for pair in combinations(range(len(order)), 2):
            order[list(pair)] = order[list(reversed(pair))]
            if (after := misfit(order)) < best - _SETTLED:
                best, improves = after, True
            else:
                order[list(pair)] = order[list(reversed(pair))]
    return order
