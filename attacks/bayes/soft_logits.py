"""A single guess at each record's logits with its width, from what was delivered: to fit and to compare models with.

Sampling never uses these; a rounded or noisy score is no Gaussian. A regression of parameters over many records, and
the choice between a few candidate models, can do with them.
"""

from dataclasses import dataclass

import numpy as np

from attacks.bayes.forward import Forward
from attacks.bayes.told import Differences, Exactly, Intervals, Told
from attacks.bayes.told_by_noise import NoisyIntervals, NoisyRow
from vfl.arrays import FloatArray
from vfl.theory.logit_schemes import logits_of

# Of logits that are known exactly: float64's own error.
EXACT_VARIANCE = 1e-18
# Of differences of which nothing is known.
_UNKNOWN_VARIANCE = 1e4


@dataclass(frozen=True, eq=False)
class SoftLogits:
    """Logits up to a constant per record, and how far off each may be.

    Attributes:
        middle: (n, k).
        variance: (n, k), as if errors of classes were independent.
    """

    middle: FloatArray
    variance: FloatArray

    def covariance(self) -> FloatArray:
        """Of errors of the differences of consecutive classes: (n, k - 1, k - 1)."""
        differences = np.diff(np.eye(self.variance.shape[1]), axis=0)
        covariance: FloatArray = (differences * self.variance[:, None, :]) @ differences.T
        return covariance


def soft_logits(forward: Forward, told: Told | Exactly) -> SoftLogits | None:
    """Guess logits; None where only a decision, or what a purifier left, is known."""
    match told:
        case Exactly(logits):
            return SoftLogits(logits, np.full(logits.shape, EXACT_VARIANCE))
        case Intervals(low, high):
            return _of_scores(forward, np.exp(low), np.minimum(np.exp(high), 1.0), 0.0)
        case NoisyRow(delivered, sigma):
            return _of_scores(forward, delivered, delivered, sigma)
        case NoisyIntervals(low, high, sigma):
            return _of_scores(forward, low, high, sigma)
        case Differences(_, low, high):
            bounded = np.isfinite(low)
            width = np.where(bounded, high - np.where(bounded, low, 0.0), 0.0)
            variance = np.where(bounded, width**2 / 12 + EXACT_VARIANCE, _UNKNOWN_VARIANCE)
            return _undone(forward, np.where(bounded, high - width / 2, high), variance)
    return None


def _of_scores(forward: Forward, low: FloatArray, high: FloatArray, sigma: float) -> SoftLogits | None:
    """By the width of scores: one that may be 0 as well tells next to nothing of its logarithm."""
    variance, middle = (high - low) ** 2 / 12 + sigma**2, (low + high) / 2
    safe = np.maximum(middle, np.sqrt(variance))
    unknown = (low <= 0.0) | (middle < 2 * sigma)
    return _undone(forward, logits_of(safe), np.where(unknown, _UNKNOWN_VARIANCE, variance / safe**2 + EXACT_VARIANCE))


def _undone(forward: Forward, log_scores: FloatArray, variance: FloatArray) -> SoftLogits | None:
    logits = forward.undone(log_scores)
    # Stages in between scale all errors alike, which weights don't mind.
    return None if logits is None else SoftLogits(logits, variance)
