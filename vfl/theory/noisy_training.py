"""What the noise of Hu's Algorithm 3 does to the trained model (section 6): gradient errors, weights, accuracy.

The label party A adds N(0, sigma_A^2) to its shares of the residual, every other party B N(0, sigma_B^2). Each party's
part of the gradient carries the other's noise. `vfl.theory.dp_noise` computes both sigmas.
"""

import math

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.dp_noise import sign_success

# Lemma 6.3 leaves c open. Laurent and Massart (2000, Lemma 1) bound a Gaussian quadratic form with Tr P <= s by
# s (1 + 2 sqrt(x) + 2 x) except with probability exp(-x); at x = c k this is below 4 k s for all k >= 1 with this c.
TAIL_CONSTANT = (math.sqrt(7) - 1) ** 2 / 4


def error_bound(sigma: float, rows: int, steps: int, failure: float, *, constant: float = TAIL_CONSTANT) -> float:
    """Bound ||e_t|| at all T steps, except with probability ``failure``: u = sqrt(ln(2 T / failure) / (c s)) sigma (eq.
    48).

    It holds for ||x|| <= 1; otherwise ||e_t|| <= u max ||x||.

    Args:
        sigma: the larger one.
        rows: s.
        steps: T.
        failure: in (0, 1).
        constant: c of Lemma 6.3, unspecified there; the default is proved (see TAIL_CONSTANT).

    Raises:
        ValueError: for numbers out of range, or so large a failure that Lemma 6.3 (k >= 1) says nothing.
    """
    if not (sigma >= 0 and rows >= 1 and steps >= 1 and 0 < failure < 1 and constant > 0):
        raise ValueError(
            f"Expected sigma >= 0, rows >= 1, steps >= 1, failure in (0, 1), constant > 0; "
            f"got {sigma}, {rows}, {steps}, {failure}, {constant}."
        )
    k = math.log(2 * steps / failure) / constant
    if k < 1:
        raise ValueError(f"Lemma 6.3 needs 2 T / failure >= e^c, got T = {steps}, failure = {failure}, c = {constant}.")
    return math.sqrt(k / rows) * sigma


def mean_noise_covariance(
    second_moment: FloatArray,
    active: BoolArray,
    *,
    rows: int,
    steps: int,
    learning_rate: float,
    sigma_active: float,
    sigma_passive: float,
) -> FloatArray:
    """Compute the covariance (d, d) of what the noise has added to theta after T steps, in the eigenbasis of S.

    Training is linear in theta (43), so the noisy theta is the one without noise plus a Gaussian of this covariance:
    C <- M C M + N with M = I - eta X^T X / (4 s) and N the covariance of eta e_t. Here every batch's X^T X / s is
    replaced by its mean, which leaves out what is of second order in the learning rate.

    Args:
        second_moment: S, (d, d), the mean of X^T X / s.
        active: (d,), the label party's columns.
        rows: s.
        steps: T.
        learning_rate: eta.
        sigma_active: of A's noise.
        sigma_passive: of B's noise.
    """
    values, vectors = np.linalg.eigh(second_moment)
    keep = 1 - learning_rate / 4 * values
    products = np.outer(keep, keep)
    # 1 + r + ... + r^(T-1), which is T at r = 1: directions that no record has.
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = np.where(np.abs(1 - products) < 1e-13, float(steps), (1 - products**steps) / (1 - products))
    added = _step_covariance(second_moment, active, rows, learning_rate, sigma_active, sigma_passive)
    covariance: FloatArray = vectors @ ((vectors.T @ added @ vectors) * sums) @ vectors.T
    return covariance


def _step_covariance(
    products: FloatArray,
    active: BoolArray,
    rows: int,
    learning_rate: float,
    sigma_active: float,
    sigma_passive: float,
) -> FloatArray:
    """Covariance of eta e_t for X^T X / s = ``products``: each party's block carries the other's noise (eq. 45)."""
    blocks = sigma_passive**2 * np.outer(active, active) + sigma_active**2 * np.outer(~active, ~active)
    covariance: FloatArray = (learning_rate / 4) ** 2 / rows * blocks * products
    return covariance


def product_variance(features: FloatArray, covariance: FloatArray) -> FloatArray:
    """Compute the variance (n,) of theta^T x over the noise, of (n, d) records: x^T C x."""
    variance: FloatArray = np.einsum("ij,ij->i", features @ covariance, features)
    return np.maximum(variance, 0.0)


def expected_accuracy(products: FloatArray, labels: IntArray, variances: FloatArray) -> float:
    """Compute the mean accuracy over the noise of a model. Exact where the variances are: theta^T x is Gaussian.

    Args:
        products: (n,), theta^T x without noise.
        labels: (n,), 0 or 1.
        variances: (n,), of ``product_variance``.
    """
    return float(sign_success(-products, labels, np.sqrt(variances)).mean())
