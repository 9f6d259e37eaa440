"""What an adversary's guesses prove of a mechanism's epsilon: a lower bound, from trials in two worlds.

Under (epsilon, delta)-differential privacy P(S | one world) <= e^epsilon P(S | the other) + delta for every event S.
An event that is more frequent in one world than in the other therefore gives epsilon >= log((p - delta) / q), with p
below the one frequency and q above the other, each by Clopper and Pearson's exact interval (Jagielski et al. 2020,
section 4). The event is chosen on the first half of the trials and counted on the second: no choice is judged by what
it was chosen on.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from vfl.arrays import FloatArray

# Thresholds tried: quantiles of all trials together.
_THRESHOLDS = 512


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound of epsilon and what it rests on.

    Attributes:
        epsilon: at least this much, with the stated confidence; 0 where nothing was proved.
        delta: that it is at.
        confidence: of the bound, in (0, 1).
        trials: judged in each world.
        hits: of the event in the world where it is frequent.
        false_alarms: of the event in the other world.
    """

    epsilon: float
    delta: float
    confidence: float
    trials: int
    hits: int
    false_alarms: int


def epsilon_lower_bound(one: FloatArray, other: FloatArray, *, delta: float, confidence: float = 0.95) -> EpsilonBound:
    """Bound epsilon from below by what an adversary computed in trials of two neighbouring worlds.

    Args:
        one: (n,) the adversary's statistic in one world, one per independent trial.
        other: (n,) in the other world.
        delta: in [0, 1).
        confidence: in (0, 1).

    Raises:
        ValueError: for fewer than two trials per world, different numbers of them, or numbers out of range.
    """
    if not (0 <= delta < 1 and 0 < confidence < 1):
        raise ValueError(f"Expected delta in [0, 1) and confidence in (0, 1), got {delta} and {confidence}.")
    if one.ndim != 1 or one.shape != other.shape or len(one) < 2 or not np.isfinite([one, other]).all():
        raise ValueError(
            f"Expected as many finite numbers from both worlds, 2 or more: got {one.shape}, {other.shape}."
        )
    half, miss = len(one) // 2, (1 - confidence) / 2
    worlds = (one, other)
    best, rule = -math.inf, (0, 1.0, 0.0)
    thresholds = np.unique(
        np.quantile(np.concatenate([world[:half] for world in worlds]), np.linspace(0, 1, _THRESHOLDS))
    )
    for frequent in (0, 1):
        for sign in (1.0, -1.0):
            hits, alarms = (
                _counts(sign * world[:half], sign * thresholds) for world in (worlds[frequent], worlds[1 - frequent])
            )
            bounds = _bound(hits, alarms, half, delta, miss)
            if (bound := float(bounds.max())) > best:
                best, rule = bound, (frequent, sign, float(thresholds[bounds.argmax()]))
    frequent, sign, threshold = rule
    rest = len(one) - half
    hits, alarms = (
        _counts(sign * worlds[world][half:], np.array([sign * threshold])) for world in (frequent, 1 - frequent)
    )
    epsilon = max(0.0, float(_bound(hits, alarms, rest, delta, miss)[0]))
    return EpsilonBound(epsilon, delta, confidence, rest, int(hits[0]), int(alarms[0]))


def _counts(values: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Count the values that reach each threshold."""
    return np.asarray((values[:, None] >= thresholds).sum(axis=0), dtype=np.float64)


def _bound(hits: FloatArray, alarms: FloatArray, trials: int, delta: float, miss: float) -> FloatArray:
    """log((p - delta) / q) with p and q at the ends of exact intervals, each missed with probability ``miss``."""
    lowest = np.where(hits == 0, 0.0, beta.ppf(miss, np.maximum(hits, 1), trials - hits + 1))
    highest = np.where(alarms == trials, 1.0, beta.ppf(1 - miss, alarms + 1, np.maximum(trials - alarms, 1)))
    with np.errstate(divide="ignore"):
        bound: FloatArray = np.log(np.maximum(lowest - delta, 0.0) / highest)
    return bound
