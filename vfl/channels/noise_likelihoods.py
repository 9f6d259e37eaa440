"""Likelihoods of rows that Gaussian noise was added to: clipped to [0, 1] and divided by their sum (Jiang 6.1.3.2).

Noise makes y = clip(p + sigma e, 0, 1) of scores p, and q = y / s with s = sum(y) is delivered. Entries of 0 tell only
p_i + sigma e_i <= 0. s isn't delivered: all y = s q below 1 are possible, and s = 1 / max(q) where the largest was
clipped to 1. Both are densities over the same rows q (Jacobians s^(m-1) and s^m, for m positive entries), and add up.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.channels.likelihoods import Likelihood, diagonal, moments_of_scores

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_DEVIATIONS = 5.0
# No noise moves a score further, what clipping adds to the sum included.
_FARTHEST = 12.0
# Scores below this were clipped, or have gone through a temperature since.
_NOTHING = 1e-200
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class NoisyRow(Likelihood):
    """The delivered row, noise and all.

    Attributes:
        delivered: (n, k), rows that sum to 1.
        sigma: of the noise, in units of a score.
    """

    delivered: FloatArray
    sigma: float

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Integrate out what is unknown of the row before it was normalised: the likelihood is exact."""
        before, row, sigma = np.exp(log_scores), self.delivered[rows], np.maximum(self.sigma, slack)[:, None]
        positive = row > _NOTHING
        largest = row.max(axis=1, keepdims=True)
        full = positive & (row >= largest * (1 - 1e-12))
        terms = [_clipped_at_one(before, row, full, sigma)]
        terms.append(np.where(full.sum(axis=1) > 1, -np.inf, _unclipped(before, row, sigma)))
        nothing = log_ndtr(-before / sigma)
        # Where clipping left nothing at all the row is uniform.
        terms.append(np.where(full.all(axis=1), nothing.sum(axis=1), -np.inf))
        zeros = np.where(positive, 0.0, nothing).sum(axis=1)
        density: FloatArray = np.logaddexp(np.logaddexp(terms[0], terms[1]), terms[2]) + zeros
        return density

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Give 0, as every row is possible, but where none is as near as noise ever comes."""
        return _far(np.abs(np.exp(log_scores) - self.delivered[rows]).max(axis=1), self.sigma)

    def precision(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Take the precision of the noise alone, of the scores that weren't clipped."""
        row = self.delivered[rows]
        sigma = np.maximum(self.sigma, slack)[:, None]
        return diagonal(np.where(row > _NOTHING, (np.exp(log_scores) / sigma) ** 2, 0.0))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Take the moments of the noise alone."""
        return moments_of_scores(self.delivered, self.delivered, self.sigma)


@dataclass(frozen=True, eq=False)
class NoisyIntervals(Likelihood):
    """A row that was rounded after noise: what ``NoisyRow`` tells, of intervals in place of numbers.

    The entries of a row are taken as if they needn't sum to 1, which is right as long as the interval is narrow beside
    the noise.

    Attributes:
        low: (n, k) ends of the delivered scores' intervals.
        high: (n, k).
        sigma: of the noise, in units of a score.
    """

    low: FloatArray
    high: FloatArray
    sigma: float

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Integrate the likelihood over the unknown sum s, with weight 1 / s."""
        sigma = np.maximum(self.sigma, slack)
        before, low, high = np.exp(log_scores), self.low[rows], np.minimum(self.high[rows], 1.0)
        middle, widths = (low + high) / 2, high - low
        length = np.linalg.norm(middle, axis=1)
        centre = (middle * before).sum(axis=1) / length**2
        spread = (sigma + centre * np.linalg.norm(widths, axis=1)) / length
        least = np.full(len(low), 1.0 / low.shape[1])
        # From the first of these sums on the largest entry may have been clipped to 1; beyond the second it can't be 1.
        full, most = 1.0 / high.max(axis=1), 1.0 / np.maximum(low.max(axis=1), least)
        start, end = _window(centre, spread, full)
        density: FloatArray = np.logaddexp(
            _integrated(before / sigma[:, None], (low / sigma[:, None], high / sigma[:, None]), start, end, sigma),
            _integrated(before / sigma[:, None], (low / sigma[:, None], high / sigma[:, None]), full, most, sigma),
        )
        return np.maximum(density, -1e300)

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Give 0, as every row is possible, but where none is as near as noise ever comes."""
        scores = np.exp(log_scores)
        return _far(np.maximum(self.low[rows] - scores, scores - self.high[rows]).max(axis=1), self.sigma)

    def precision(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Take the precision of the noise alone, of the scores that weren't clipped."""
        wide = (np.maximum(self.sigma, slack)[:, None]) ** 2 + (self.high[rows] - self.low[rows]) ** 2 / 12
        return diagonal(np.where(self.low[rows] > 0.0, np.exp(2 * log_scores) / wide, 0.0))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Take the moments of the noise alone."""
        return moments_of_scores(self.low, self.high, self.sigma)


@dataclass(frozen=True, eq=False)
class NoisyArgMax(Likelihood):
    """The decision of a row with noise, the first of several that tie.

    Attributes:
        chosen: (n,) classes.
        sigma: of the noise, in units of a score.
    """

    chosen: IntArray
    sigma: float

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Compute how probably this class wins: inside [0, 1], clipped to 1, or as the first of a row of nothing."""
        before, decision = np.exp(log_scores), self.chosen[rows, None]
        winner = np.take_along_axis(before, decision, axis=1)
        rivals = np.arange(before.shape[1]) != decision
        earlier = np.arange(before.shape[1]) < decision
        low, high = (
            np.maximum(0.0, winner - _DEVIATIONS * self.sigma),
            np.minimum(1.0, winner + _DEVIATIONS * self.sigma),
        )
        tops = (low + high) / 2 + (high - low) / 2 * _NODES
        behind = np.where(rivals[:, None], log_ndtr((tops[:, :, None] - before[:, None]) / self.sigma), 0.0).sum(axis=2)
        inside = _log_integral(behind + _log_normal(tops - winner, self.sigma), (high - low)[:, 0])
        at_one = np.where(earlier, log_ndtr((1.0 - before) / self.sigma), 0.0).sum(axis=1)
        at_one += log_ndtr((winner[:, 0] - 1.0) / self.sigma)
        nothing = np.where(decision[:, 0] == 0, log_ndtr(-before / self.sigma).sum(axis=1), -np.inf)
        density: FloatArray = np.logaddexp(np.logaddexp(inside, at_one), nothing)
        return density


def _clipped_at_one(before: FloatArray, row: FloatArray, full: BoolArray, sigma: FloatArray) -> FloatArray:
    """log likelihood where the largest entries were clipped to 1: then the sum is known."""
    scale, positive = 1.0 / row.max(axis=1, keepdims=True), row > _NOTHING
    between = _log_normal(row * scale - before, sigma)
    above = log_ndtr((before - 1.0) / sigma)
    entries = np.where(full, above, np.where(positive, between, 0.0)).sum(axis=1)
    term: FloatArray = entries + positive.sum(axis=1) * np.log(scale[:, 0])
    return term


def _unclipped(before: FloatArray, row: FloatArray, sigma: FloatArray) -> FloatArray:
    """log of the integral over s from 0 to 1 / max(q) of s^(m-1) prod N(s q_i; p_i, sigma)."""
    positive = row > _NOTHING
    values, width = np.where(positive, row, 0.0), sigma[:, 0]
    squared = (values**2).sum(axis=1)
    centre, spread = (values * before).sum(axis=1) / squared, width / np.sqrt(squared)
    low, high = _window(centre, spread, 1.0 / row.max(axis=1))
    sums = ((low + high) / 2)[:, None] + ((high - low) / 2)[:, None] * _NODES
    count = positive.sum(axis=1)[:, None]
    exponent = (count - 1) * np.log(np.maximum(sums, _TINY)) - 0.5 * ((sums - centre[:, None]) / spread[:, None]) ** 2
    rest = np.where(positive, before - centre[:, None] * values, 0.0)
    constant = -0.5 * (rest**2).sum(axis=1) / width**2 - count[:, 0] * np.log(width * np.sqrt(2 * np.pi))
    total: FloatArray = _log_integral(exponent, high - low) + constant
    return total


def _integrated(
    before: FloatArray, ends: tuple[FloatArray, FloatArray], start: FloatArray, end: FloatArray, sigma: FloatArray
) -> FloatArray:
    """log of the integral over s of prod P(s low <= y <= s high) / s; scores and ends in units of the noise."""
    sums = (((start + end) / 2)[:, None] + ((end - start) / 2)[:, None] * _NODES)[:, :, None]
    low, high, scores = ends[0][:, None], ends[1][:, None], before[:, None]
    below = np.where(low <= 0.0, -np.inf, sums * low - scores)
    above = np.where(sums * high >= 1.0 / sigma[:, None, None], np.inf, sums * high - scores)
    entries = _log_between(below, above).sum(axis=2) - np.log(np.maximum(sums[:, :, 0], _TINY))
    return _log_integral(entries, end - start)


def _far(distance: FloatArray, sigma: float) -> FloatArray:
    return np.where(distance > _FARTHEST * sigma, distance, 0.0)


def _log_normal(deviation: FloatArray, sigma: FloatArray | float) -> FloatArray:
    logarithm: FloatArray = -0.5 * (deviation / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi))
    return logarithm


def _log_integral(log_values: FloatArray, length: FloatArray) -> FloatArray:
    """log of an integral from log values at the nodes of an interval of this length: (m,)."""
    largest = np.maximum(log_values.max(axis=1), -1e300)
    total = np.exp(log_values - largest[:, None]) @ _WEIGHTS
    integral: FloatArray = largest + np.log(np.maximum(total, _TINY)) + np.log(np.maximum(length / 2, _TINY))
    return integral


def _window(centre: FloatArray, spread: FloatArray, bound: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find where a Gaussian cut to [0, bound] has its mass: beyond the bound it falls off exponentially."""
    high = np.minimum(bound, np.maximum(centre + _DEVIATIONS * spread, 2 * _DEVIATIONS * spread))
    tail = 8 * _DEVIATIONS * spread**2 / np.maximum(centre - high, _TINY)
    low = high - np.minimum(2 * _DEVIATIONS * spread, np.where(centre > high, tail, np.inf))
    return np.clip(np.minimum(low, np.maximum(centre, 0)), 0.0, high), high


def _log_between(below: FloatArray, above: FloatArray) -> FloatArray:
    """log of the normal probability of an interval, from the tail that resolves it."""
    turned = below > 0
    low, high = np.where(turned, -above, below), np.where(turned, -below, above)
    upper = log_ndtr(high)
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithm: FloatArray = upper + np.log1p(-np.exp(np.minimum(log_ndtr(low) - upper, 0.0)))
    return np.where(above > below, logarithm, -np.inf)
