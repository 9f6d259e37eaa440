"""The Gaussian mechanism, exactly: epsilon, delta and sigma from each other (Balle and Wang 2018, Theorem 8).

Everything about it follows from one number, mu = Delta / sigma. Several releases on the same records, each with noise
of its own, are one mechanism of the root of the sum of their mu^2: the likelihood ratio of Gaussians is Gaussian.
Releases that depend on earlier ones compose the same way (Dong, Roth and Su 2022, Corollary 3.3).

With a = mu / 2 - epsilon / mu and b = a - mu, delta = Phi(a) - exp(epsilon) Phi(b), and exp(epsilon) phi(b) = phi(a).
Hence delta = phi(a) (R(a) - R(b)) with R = Phi / phi, which needs no exponential of a large epsilon, and, where both
are nearly the same, no difference either: R' = 1 + x R.
"""

import math
from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr

# Below this mu, R(a) - R(b) is integrated: subtracting would lose the digits that both share.
_SMALL = 0.5
# Below -_FAR, R is its asymptote to float64's precision; the square of _FARTHEST is no float64.
_FAR, _FARTHEST = 1e8, 1e154
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# sigma is taken this much larger than what the search ends with: delta is then kept, not met on average.
_SAFE_SIDE = 1e-13


def gaussian_delta(sensitivity: float, sigma: float, epsilon: float) -> float:
    """Compute the smallest delta of the Gaussian mechanism at epsilon >= 0, to 1e-9 of it."""
    return math.exp(_log_delta(sensitivity / sigma, epsilon))


def gaussian_epsilon(sensitivity: float, sigma: float, delta: float) -> float:
    """Compute the smallest epsilon >= 0 of the Gaussian mechanism at delta, to 1e-9 of it; the inverse of
    ``gaussian_delta``.

    Raises:
        ValueError: unless sensitivity and sigma are positive and delta is in (0, 1).
    """
    if not (sensitivity > 0 and sigma > 0 and 0 < delta < 1):
        raise ValueError(
            f"Expected sensitivity > 0, sigma > 0 and 0 < delta < 1, got {sensitivity}, {sigma} and {delta}."
        )
    mu, target = sensitivity / sigma, math.log(delta)
    low, high = 0.0, 1.0
    if _log_delta(mu, low) <= target:
        return 0.0
    while _log_delta(mu, high) > target:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _log_delta(mu, middle) > target else (low, middle)
    return high


def gaussian_sigma(sensitivity: float, epsilon: float, delta: float) -> float:
    """Compute the smallest sigma with which the Gaussian mechanism is (epsilon, delta)-private, to 1e-9 of it.

    Raises:
        ValueError: unless sensitivity is positive, epsilon positive and finite, and delta in (0, 1).
    """
    if not (sensitivity > 0 and 0 < epsilon < math.inf and 0 < delta < 1):
        raise ValueError(
            f"Expected sensitivity > 0, a finite epsilon > 0 and 0 < delta < 1, got {sensitivity}, {epsilon} and "
            f"{delta}."
        )
    target = math.log(delta)
    # Lemma D.4's sigma is enough for epsilon up to 1, and so it is for any larger one.
    least = math.log(min(epsilon, 1.0)) - math.log(2 * (math.log(1.25) - target)) / 2
    most = least + 1.0
    while _log_delta(math.exp(most), epsilon) < target:
        least, most = most, most + 1.0
    logarithm = brentq(lambda mu: _log_delta(math.exp(mu), epsilon) - target, least, most, xtol=1e-15, rtol=1e-15)
    return sensitivity / math.exp(logarithm) * (1 + _SAFE_SIDE)


def composed(ratios: Iterable[float]) -> float:
    """Compute mu of several Gaussian mechanisms on the same records from theirs: the root of the sum of squares."""
    return math.hypot(*ratios)


def _log_delta(mu: float, epsilon: float) -> float:
    """ln delta for mu > 0 and epsilon >= 0; -inf where it is below every float64's logarithm."""
    a = mu / 2 - epsilon / mu
    b = a - mu
    if a > 0 and mu >= _SMALL:
        return math.log(float(ndtr(a)) - math.exp(_log_phi(a)) * _ratio(b))
    if a < -_FAR:
        # R(x) is 1 / |x| there, to 1 / x^2 of it, and a and b may be the same number.
        return _log_phi(a) + math.log(mu) - math.log(-a) - math.log(-b) if a > -_FARTHEST else -math.inf
    if mu >= _SMALL:
        # R(b) / R(a), of which at least the part 1 / (1 + a^2) is missing from 1.
        return float(log_ndtr(a)) + math.log1p(-_ratio(b) / _ratio(a))
    x = a - mu / 2 * (1 - _NODES)
    mean_slope = float(_WEIGHTS @ (1 + x * np.sqrt(math.pi / 2) * erfcx(-x / math.sqrt(2)))) / 2
    return _log_phi(a) + math.log(mu) + math.log(mean_slope) if mean_slope > 0 else -math.inf


def _log_phi(x: float) -> float:
    return -x * x / 2 - math.log(2 * math.pi) / 2


def _ratio(x: float) -> float:
    """R(x) = Phi(x) / phi(x), for x far below 0 as well."""
    return math.sqrt(math.pi / 2) * float(erfcx(-x / math.sqrt(2)))
