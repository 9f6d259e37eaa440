"""Values of columns from places in the order of columns without a name, by who knows what is published of the former.

Which column is which is found by what is published as well. Of columns that take few values frequencies tell it.
Others look alike then: who can't tell some apart takes the mean over all that may be meant. Where covariances are
published, columns that vary together tell which they are (a quadratic assignment, by Frank and Wolfe as in Vogelstein
et al. 2015).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from attacks.told_bins import ToldColumn
from attacks.views import PassiveMoments
from vfl.arrays import BoolArray, FloatArray, IntArray

# Points of a bin at which a quantile is taken.
_POINTS = (np.arange(5) + 0.5) / 5
# Shares of bins that differ by less in all are those of one column in other records.
_SAME = 0.02
# What all shares weigh beside a correlation; starts and steps of an assignment.
_SHARES, _STARTS, _STEPS, _SETTLED = 4.0, 10, 40, 1e-9
# Assignments of more columns take minutes, and so do all swaps of two.
_MOST_MATCHED, _MOST_SWAPPED = 150, 40


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
    def placed(cls, column: ToldColumn, possible: BoolArray) -> Self:
        """Weigh (n, bins + 1) possible bins by how many records are in each; what is missing is anywhere."""
        shares = column.shares[:-1] / max(column.shares[:-1].sum(), 1e-12)
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
        order = _assigned(costs, columns, _correlations(moments.covariance))
        meant = np.eye(len(columns), dtype=np.bool_)[order]
    else:
        order = linear_sum_assignment(costs)[1]
        meant = costs <= costs[np.arange(len(costs)), order][:, None] + _SAME
    estimate = np.empty((len(columns[0].weights), len(columns)))
    for named, candidates in enumerate(meant.tolist()):
        guesses = [
            columns[place].weights @ _values_of_bins(moments, named, columns[place], in_unit)
            for place in places
            if candidates[place]
        ]
        estimate[:, named] = np.mean(guesses, axis=0)
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


def _assigned(costs: FloatArray, columns: Sequence[PlacedColumn], published: FloatArray) -> IntArray:
    """Choose which session column each named one is, so that pairs vary together as published."""
    places = np.column_stack([column.places for column in columns])
    varying = places.std(axis=0) > 0
    correlations = np.eye(len(costs))
    correlations[np.ix_(varying, varying)] = np.atleast_2d(np.corrcoef(places[:, varying], rowvar=False))
    # Whatever order columns are in, what each varies with is as much.
    profiles = np.abs(np.sort(published, axis=1)[:, None] - np.sort(correlations, axis=1)[None]).mean(axis=2)
    first = linear_sum_assignment(profiles + costs)[1]
    generator = np.random.default_rng(0)
    starts = [first, *(generator.permutation(len(costs)) for _ in range(_STARTS))]
    climbed = [_climbed(np.eye(len(costs))[start], costs, published, correlations) for start in starts]
    orders = [_swapped(order, costs, published, correlations) for order in climbed]
    return min(orders, key=lambda order: _misfit(order, costs, published, correlations))


def _misfit(order: IntArray, costs: FloatArray, published: FloatArray, correlations: FloatArray) -> float:
    off = float(np.square(published - correlations[np.ix_(order, order)]).sum())
    return off + _SHARES * float(costs[np.arange(len(order)), order].sum())


def _climbed(start: FloatArray, costs: FloatArray, published: FloatArray, correlations: FloatArray) -> IntArray:
    """Follow the slope between permutations, from between one of them and all."""
    mixture = (start + 1.0 / len(costs)) / 2
    for _ in range(_STEPS):
        slope = 4 * published @ mixture @ correlations - _SHARES * costs
        step = np.eye(len(costs))[linear_sum_assignment(slope, maximize=True)[1]] - mixture
        curve, rise = 2 * float((published @ step @ correlations * step).sum()), float((slope * step).sum())
        if rise <= _SETTLED:
            break
        mixture = mixture + (1.0 if curve >= 0 else min(1.0, -rise / (2 * curve))) * step
    return np.asarray(linear_sum_assignment(mixture, maximize=True)[1])


def _swapped(order: IntArray, costs: FloatArray, published: FloatArray, correlations: FloatArray) -> IntArray:
    """Swap two columns as long as that makes it better."""
    best, order = _misfit(order, costs, published, correlations), order.copy()
    improves = True
    while improves:
        improves = False
        for one, other in combinations(range(len(order)) if len(order) <= _MOST_SWAPPED else (), 2):
            order[[one, other]] = order[[other, one]]
            if (misfit := _misfit(order, costs, published, correlations)) < best - _SETTLED:
                best, improves = misfit, True
            else:
                order[[one, other]] = order[[other, one]]
    return order
