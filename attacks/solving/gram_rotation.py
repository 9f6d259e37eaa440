"""The rotation that inner products leave open, from what is known of the columns anyway (ours).

Points whose inner products are those of the records are X Q for an orthogonal Q. It is chosen by what X must be: within
its public range, of the known means, variances or covariance, and what it is in records that are known. Where these are
as many as there are directions, Procrustes gives Q at once. Else a search turns two directions at a time (Givens), all
angles and reflections on a grid that narrows, from where the eigenvectors of both covariances lie on each other: turns
of nearly equal eigenvalues, and signs, are what a covariance doesn't settle. From the best of several it is thrown off
by a few directions again and again (basin hopping, Wales and Doye 1997).
"""

from copy import copy
from dataclasses import dataclass
from itertools import combinations
from typing import Self

import numpy as np

from vfl.arrays import FloatArray, IntArray

# Records whose ranges are looked at; searches, of so many columns together and at most; and how much worse than the
# best one may be to have a say in the mean.
_LOOKED_AT, _STARTS, _MOST_STARTS, _SAY = 80, 45, 12, 20.0
# Throws: so many of a column, and of all together; of so many directions at most, and how often of neighbours by size.
_THROWS, _MOST_THROWS, _THROWN, _NEIGHBOURS = 10, 420, 4, 0.6
# Angles of a turn at once; where the grid ends, how it narrows, and how little a sweep gains before it does.
_ANGLES, _FINEST, _NARROWER, _GAIN = 17, 0.01, 0.4, 1e-2
_MOST_SWEEPS = 8
# How far beyond a public range, or off a known record, a value may be; and from which square on an oddity counts less,
# one search after the other, as moments of heavy tails are odd by themselves.
_OFF, _ODD = 0.05, (1000.0, 30.0)
# Variances below this share of the largest tell nothing by themselves.
_SMALLEST = 1e-4
_REFLECTED = 0.3


@dataclass(frozen=True, eq=False)
class ColumnKnowledge:
    """What is known of (n, d) columns beforehand.

    Attributes:
        low: (n, d) what values are at least; minus infinity where nothing is known.
        high: (n, d) what they are at most; a record that is known has both alike.
        mean: (d,).
        covariance: (d, d); only its diagonal is looked at where ``is_marginal``.
        is_marginal: whether nothing is known of pairs of columns.
        supports: of each column the values that it takes, ascending; None, or no entry, where it takes many.
    """

    low: FloatArray
    high: FloatArray
    mean: FloatArray
    covariance: FloatArray
    is_marginal: bool = False
    supports: tuple[FloatArray | None, ...] = ()


def procrustes(points: FloatArray, rows: IntArray, values: FloatArray) -> FloatArray:
    """Turn (n, r) points so that those of ``rows`` rows come nearest to their (m, d) values; (n, d), d >= r."""
    left_vectors, _, right_vectors = np.linalg.svd(points[rows].T @ values, full_matrices=False)
    turned: FloatArray = points @ (left_vectors @ right_vectors)
    return turned


def rotated(points: FloatArray, knowledge: ColumnKnowledge, generator: np.random.Generator) -> FloatArray:
    """Turn (n, r) points to where they fit (n, d) columns best: the mean of several searches, weighed by their fit."""
    d = len(knowledge.mean)
    points = np.pad(points, ((0, 0), (0, d - points.shape[1])))
    searches = [
        _Search(points, knowledge, generator, is_first=start == 0)
        for start in range(min(_MOST_STARTS, max(3, _STARTS // d)))
    ]
    costs = [search.run() for search in searches]
    estimates = [search.columns(points) for search in searches]
    best = searches[int(np.argmin(costs))]
    for _ in range(min(_THROWS * (d - 1), _MOST_THROWS // d)):
        thrown = best.thrown(generator)
        costs.append(thrown.run())
        estimates.append(thrown.columns(points))
        if costs[-1] == min(costs):
            best = thrown
    weights = np.exp(-(np.array(costs) - min(costs)) / _SAY)
    mean: FloatArray = np.tensordot(weights / weights.sum(), np.array(estimates), axes=1)
    return np.clip(mean, knowledge.low, knowledge.high)


class _Search:
    """One search. Points are C = points A R, in coordinates in which columns are C U^T; it chooses R."""

    def __init__(
        self, points: FloatArray, knowledge: ColumnKnowledge, generator: np.random.Generator, *, is_first: bool
    ) -> None:
        d = points.shape[1]
        covariance = np.atleast_2d(np.cov(points.T, bias=True))
        _, axes = np.linalg.eigh(covariance)
        if knowledge.is_marginal:
            order = np.argsort(np.diag(knowledge.covariance), kind="stable")
            self._sizes, self._axes = np.diag(knowledge.covariance)[order], np.eye(d)[:, order]
            if not is_first:
                axes = axes @ np.linalg.qr(generator.standard_normal((d, d)))[0]
        else:
            self._sizes, self._axes = np.linalg.eigh(knowledge.covariance)
        floor = max(_SMALLEST * float(self._sizes.max()), 1e-12)
        self._spread = np.sqrt(np.maximum(self._sizes, floor))
        self._mean = knowledge.mean @ self._axes
        signs = np.where((points.mean(axis=0) @ axes) * self._mean < 0, -1.0, 1.0)
        if not is_first:
            signs = np.where(generator.random(d) < _REFLECTED, -signs, signs)
        self._turn = axes * signs
        self._pairs = np.eye(d) if knowledge.is_marginal else np.ones((d, d))
        # Moments of as many other records are as uncertain.
        self._records = len(points) / 2
        fixed = np.flatnonzero((knowledge.low == knowledge.high).all(axis=1))
        free = np.setdiff1d(np.arange(len(points)), fixed)
        looked = np.concatenate([fixed, generator.permutation(free)[:_LOOKED_AT]])
        self._low, self._high = knowledge.low[looked], knowledge.high[looked]
        self._values = {
            column: (values, (values[1:] + values[:-1]) / 2)
            for column, values in enumerate(knowledge.supports)
            if values is not None
        }
        self._looked = points[looked] @ self._turn
        self._m, self._s = points.mean(axis=0) @ self._turn, self._turn.T @ covariance @ self._turn

    def columns(self, points: FloatArray) -> FloatArray:
        """Turn all points as was found."""
        turned: FloatArray = points @ self._turn @ self._axes.T
        return turned

    def thrown(self, generator: np.random.Generator) -> Self:
        """Begin another search from where this one ended, but for a few directions, which are turned anyhow."""
        d = len(self._m)
        count = int(generator.integers(2, min(d, _THROWN) + 1))
        first = int(generator.integers(0, d - count + 1))
        drawn_directions = generator.permutation(d)[:count]
        directions = first + np.arange(count) if generator.random() < _NEIGHBOURS else drawn_directions
        other = copy(self)
        other._looked, other._turn, other._m, other._s = (
            one.copy() for one in (self._looked, self._turn, self._m, self._s)
        )
        other._turn_by(directions, np.linalg.qr(generator.standard_normal((count, count)))[0])
        return other

    def run(self) -> float:
        """Sweep over all pairs until the grid is fine; returns how odd what is found is."""
        for self._forgiven in _ODD:
            cost, step = np.inf, np.pi / 2
            for _ in range(_MOST_SWEEPS):
                for first, second in combinations(range(len(self._m)), 2):
                    self._turn_pair(first, second, step)
                before, cost = cost, self._cost()
                if np.isinf(before) or before - cost < _GAIN * before:
                    step *= _NARROWER
                if step < _FINEST:
                    break
        return self._cost()

    def _cost(self) -> float:
        spread = self._spread
        off = (self._s - np.diag(self._sizes)) / np.outer(spread, spread)
        odd = self._odd(self._records * ((self._m - self._mean) / spread) ** 2).sum()
        odd += 0.5 * (self._pairs * self._odd(self._records * off**2 / (1 + np.eye(len(off))))).sum()
        return float(odd + self._beyond(self._looked @ self._axes.T).sum())

    def _odd(self, squares: FloatArray) -> FloatArray:
        """Weigh squares of standard scores, large ones less."""
        return self._forgiven * np.log1p(squares / self._forgiven)

    def _beyond(self, columns: FloatArray) -> FloatArray:
        over = np.maximum(np.maximum(self._low - columns, columns - self._high), 0.0)
        beyond: FloatArray = (over / _OFF) ** 2
        for column, (values, middles) in self._values.items():
            off = columns[..., column] - values[np.searchsorted(middles, columns[..., column])]
            beyond[..., column] += np.minimum((off / _OFF) ** 2, 1.0)
        return beyond

    def _turn_pair(self, first: int, second: int, step: float) -> None:
        """Turn two directions to the angle of the grid that fits best, with a reflection where it is coarse."""
        angles = np.linspace(-step, step, _ANGLES)
        turns = np.stack([np.cos(angles), np.sin(angles), -np.sin(angles), np.cos(angles)], axis=1).reshape(-1, 2, 2)
        if step > 1:
            turns = np.concatenate([turns, turns * np.array([[1.0], [-1.0]])])
        pair = [first, second]
        rest_of_axes = np.delete(np.arange(len(self._m)), pair)
        records, spread, block = self._records, self._spread[pair], np.ix_(pair, pair)
        means = (turns @ self._m[pair] - self._mean[pair]) / spread
        costs = self._odd(records * means**2).sum(axis=1)
        if self._pairs[first, second]:
            across = turns @ self._s[pair][:, rest_of_axes] / (spread[:, None] * self._spread[rest_of_axes])
            costs += self._odd(records * across**2).sum(axis=(1, 2))
        within = turns @ self._s[block] @ turns.transpose(0, 2, 1)
        off = (within - np.diag(self._sizes[pair])) / np.outer(spread, spread)
        costs += 0.5 * (self._pairs[block] * self._odd(records * off**2 / (1 + np.eye(2)))).sum(axis=(1, 2))
        two, axes = self._looked[:, pair], self._axes[:, pair].T
        rest = (self._looked @ self._axes.T) - two @ axes
        costs += self._beyond(rest + two @ (turns.transpose(0, 2, 1) @ axes)).sum(axis=(1, 2))
        best = turns[int(costs.argmin())]
        if costs.min() < costs[_ANGLES // 2]:
            self._turn_by(np.array(pair), best.T)

    def _turn_by(self, directions: IntArray, turn: FloatArray) -> None:
        for matrix in (self._looked, self._turn, self._s):
            matrix[:, directions] = matrix[:, directions] @ turn
        self._m[directions] = self._m[directions] @ turn
        self._s[directions] = turn.T @ self._s[directions]
