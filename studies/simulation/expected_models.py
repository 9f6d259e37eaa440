"""What model Hu's Algorithm 3 is expected to leave: the covariance of its weights, and how often it decides right."""

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.dp_noise import sign_success


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
    return (learning_rate / 4) ** 2 / rows * blocks * products


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
