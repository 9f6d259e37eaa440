"""Likelihoods of delivered rows, given the log scores that a channel was given: intervals, a decision, differences.

Inside a region the log density is 0. Outside it is minus infinity, or falls off with the distance where ``slack`` is
positive: that is how a sampler finds the region, and what it stays with where there is none to be found.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.theory.logit_schemes import logits_of

# Half of the narrowest interval of a log score: what float64 tells of one, with a margin.
NARROWEST = 1e-9
# Of logits that are known exactly: float64's own error.
EXACT_VARIANCE = 1e-18
# Of differences of which nothing is known.
_UNKNOWN_VARIANCE = 1e4


class Likelihood(ABC):
    """The likelihood of delivered rows, given (m, k) log scores of the records ``rows``: indices of the rows, (m,).

    A frozen dataclass, whose arrays have a row per record. All but ``log_density`` helps a sampler to be quick.
    """

    @abstractmethod
    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Compute the log likelihood up to a constant per record, (m,); ``slack`` (m,) softens it, 0 does not."""

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Measure how far, in log scores, the delivered row is from being possible: (m,), 0 inside or for densities."""
        return np.zeros(len(rows))

    def nearest(self, log_scores: FloatArray, rows: IntArray) -> FloatArray | None:
        """Possible log scores near these, (m, k); None where that is no simple question."""
        return None

    def precision(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Roughly the inverse covariance of the log scores that the row tells, (m, k, k); 0 where it has no width."""
        return np.zeros((*log_scores.shape, log_scores.shape[1]))

    def moments(self) -> tuple[FloatArray, FloatArray] | None:
        """Guess the log scores of all records, once, with a variance, both (n, k); None where there is none.

        As if errors were Gaussian and those of classes independent: to fit parameters to, never to sample from.
        """
        return None


@dataclass(frozen=True, eq=False)
class Intervals(Likelihood):
    """Each log score lies in an interval, as rounding tells.

    Attributes:
        low: (n, k), minus infinity where the score may be 0.
        high: (n, k).
    """

    low: FloatArray
    high: FloatArray

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """0 inside."""
        return softened(self.distance(log_scores, rows), slack)

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Tell by how much the worst log score leaves its interval."""
        beyond: FloatArray = np.maximum(self.low[rows] - log_scores, log_scores - self.high[rows]).max(axis=1)
        return np.maximum(beyond, 0.0)

    def nearest(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Give each log score moved into its interval."""
        return moved_inside(log_scores, self.low[rows], self.high[rows])

    def precision(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Take the precision of independent uniform errors."""
        return diagonal(12.0 / ((self.high[rows] - self.low[rows]) ** 2 + slack[:, None] ** 2))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Take the moments of uniform scores."""
        return moments_of_scores(np.exp(self.low), np.minimum(np.exp(self.high), 1.0))


@dataclass(frozen=True, eq=False)
class DifferenceIntervals(Likelihood):
    """Each log score lies in an interval above that of a reference class, as scheme 2 tells where it raised a decision.

    Attributes:
        reference: (n,) classes.
        low: (n, k), may be minus infinity.
        high: (n, k).
    """

    reference: IntArray
    low: FloatArray
    high: FloatArray

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """0 inside."""
        return softened(self.distance(log_scores, rows), slack)

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Tell by how much the worst difference leaves its interval."""
        lead = log_scores - np.take_along_axis(log_scores, self.reference[rows, None], axis=1)
        beyond: FloatArray = np.maximum(self.low[rows] - lead, lead - self.high[rows]).max(axis=1)
        return np.maximum(beyond, 0.0)

    def nearest(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Give each difference moved into its interval."""
        base = np.take_along_axis(log_scores, self.reference[rows, None], axis=1)
        return base + moved_inside(log_scores - base, self.low[rows], self.high[rows])

    def precision(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Take the precision of independent uniform errors of the differences."""
        k = self.low.shape[1]
        lead = np.eye(k)[None] - np.eye(k)[self.reference[rows]][:, None, :]
        precision = 12.0 / ((self.high[rows] - self.low[rows]) ** 2 + slack[:, None] ** 2 + NARROWEST**2)
        return np.swapaxes(lead, 1, 2) @ (precision[:, :, None] * lead)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Take the moments of uniform differences."""
        bounded = np.isfinite(self.low)
        width = np.where(bounded, self.high - np.where(bounded, self.low, 0.0), 0.0)
        variance = np.where(bounded, width**2 / 12 + EXACT_VARIANCE, _UNKNOWN_VARIANCE)
        return np.where(bounded, self.high - width / 2, self.high), variance


@dataclass(frozen=True, eq=False)
class ArgMax(Likelihood):
    """One class has the largest score, the first of several that tie.

    Attributes:
        chosen: (n,) classes.
    """

    chosen: IntArray

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """0 where the class wins."""
        return softened(self.distance(log_scores, rows), slack)

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Tell by how much another class is ahead."""
        decision = self.chosen[rows, None]
        lead = log_scores - np.take_along_axis(log_scores, decision, axis=1)
        earlier = np.arange(lead.shape[1]) < decision
        ahead: FloatArray = np.where(np.where(earlier, lead >= 0.0, lead > 0.0), lead + NARROWEST, 0.0).max(axis=1)
        return ahead


@dataclass(frozen=True, eq=False)
class NearEquality(Likelihood):
    """Log scores are what was delivered, but for a Gaussian error: the stand-in for equality where none can be solved.

    Attributes:
        log_scores: (n, k), normalised.
        width: standard deviation of the error of each. The narrower, the closer to equality and the slower.
    """

    log_scores: FloatArray
    width: float = 3e-3

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Gaussian, as wide as the slack where that is wider."""
        width = np.maximum(self.width, slack)
        density: FloatArray = -0.5 * (((log_scores - self.log_scores[rows]) / width[:, None]) ** 2).sum(axis=1)
        return density

    def distance(self, log_scores: FloatArray, rows: IntArray) -> FloatArray:
        """Beyond five standard deviations."""
        off = np.abs(log_scores - self.log_scores[rows]).max(axis=1)
        return np.where(off > 5 * self.width, off, 0.0)

    def precision(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Take the precision of the Gaussian."""
        width = np.maximum(self.width, slack)[:, None]
        return diagonal(np.broadcast_to(1.0 / width**2, log_scores.shape))


def moved_inside(values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Values moved into [low, high], and a little away from its ends."""
    margin = np.minimum(0.1 * (high - low), 0.1)
    return np.clip(values, low + margin, high - margin)


def softened(distance: FloatArray, slack: FloatArray) -> FloatArray:
    """Compute the log density of a region at a distance from it: (m,)."""
    outside = np.where(slack > 0.0, -0.5 * (distance / np.where(slack > 0.0, slack, 1.0)) ** 2, -np.inf)
    return np.where(distance > 0.0, outside, 0.0)


def diagonal(values: FloatArray) -> FloatArray:
    """(m, k) values on the diagonals of (m, k, k) matrices."""
    return values[:, :, None] * np.eye(values.shape[1])


def moments_of_scores(low: FloatArray, high: FloatArray, sigma: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Middle and variance of the logarithms of scores in [low, high] with noise, all (n, k).

    By the width of scores: one that may be 0 as well tells next to nothing of its logarithm.
    """
    variance, middle = (high - low) ** 2 / 12 + sigma**2, (low + high) / 2
    safe = np.maximum(middle, np.sqrt(variance))
    unknown = (low <= 0.0) | (middle < 2 * sigma)
    return logits_of(safe), np.where(unknown, _UNKNOWN_VARIANCE, variance / safe**2 + EXACT_VARIANCE)
