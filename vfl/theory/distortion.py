"""The error of attacks that are given other parameters than the model's (Rassouli Theorem 3, Varasteh section V).

The adversary solves A_n x = b, while the truth is A x = b. A and A_n are differences of consecutive class rows
(`vfl.theory.prediction.equations`), and P = A^+ A. There are two conventions for the same disclosure: features H x and
parameters W H^T (Rassouli), parameters W R with R = H^T (Varasteh).

All errors are MSE per feature. With exact scores they are exact for the records that the moments were taken over, and
expectations for fresh ones. The papers' slips are corrected.
"""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray
from vfl.theory.prediction import Moments, row_space


def _projector(matrix: FloatArray) -> FloatArray:
    basis = row_space(matrix).basis
    projector: FloatArray = basis @ basis.T
    return projector


# --- any disclosed parameters -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DisclosedErrors:
    """Errors of an adversary that takes the disclosed parameters at their word, MSE per feature."""

    least_squares: float
    half_star: float


def disclosed_errors(matrix: FloatArray, disclosed: FloatArray, features: Moments) -> DisclosedErrors:
    """Compute the errors of ls and half* for any disclosed matrix A_n, (m, d), in place of A, (m, d).

    ls estimates A_n^+ A x, half* adds (I - A_n^+ A_n) 1/2. With B = I - A_n^+ A and N = I - A_n^+ A_n the errors are
    Tr(B K_0 B^T)/d and (Tr(B K_0 B^T) - 1^T N B mu + 1^T N 1 / 4)/d. `half_star_error_rotated`, `ls_error_rotated`,
    `single_feature_error` and `binary_error` are what this becomes in the papers' cases.

    Raises:
        ValueError: for matrices that don't fit each other or the moments.
    """
    d = len(features.mean)
    if matrix.shape != disclosed.shape or matrix.shape[1:] != (d,):
        raise ValueError(f"Expected two matrices over {d} features, got shapes {matrix.shape} and {disclosed.shape}.")
    space = row_space(disclosed)
    missed = np.eye(d) - space.pseudoinverse @ matrix
    silent = space.null_projector.sum(axis=1)
    least_squares = float(np.sum((missed @ features.about_zero) * missed))
    half_star = least_squares - float(silent @ missed @ features.mean) + float(silent.sum()) / 4
    return DisclosedErrors(least_squares / d, half_star / d)


def interpretability(weights: FloatArray, disclosed: FloatArray) -> float:
    """Compute g, the mean squared difference of (k, d) parameters and those disclosed (Varasteh eq. 33); 0 is best."""
    return float(np.mean((weights - disclosed) ** 2))


# --- an orthonormal transform of the features (Rassouli VII-A) ----------------------------------------------------


def ls_error_transformed(matrix: FloatArray, second_moment: FloatArray, transform: FloatArray) -> float:
    """Compute the error of ls under an orthonormal H, (d, d): (Tr((I + P) K_0) - 2 Tr(H P K_0))/d (Rassouli eq. 82)."""
    seen = _projector(matrix) @ second_moment
    return float(np.trace(second_moment) + np.trace(seen) - 2 * np.sum(transform.T * seen)) / len(second_moment)


def worst_transform(matrix: FloatArray, second_moment: FloatArray) -> FloatArray:
    """Find the orthonormal H, (d, d), with the greatest error of ls: H* = -V U^T with P K_0 = U S V^T (Rassouli Theorem
    3).

    It is -I where P = I, which is where d < k. Where P K_0 lacks rank it is one of many.
    """
    left, _, right = np.linalg.svd(_projector(matrix) @ second_moment)
    worst: FloatArray = -(left @ right).T
    return worst


def greatest_ls_error(matrix: FloatArray, second_moment: FloatArray) -> float:
    """Compute the error of ls under H*: (Tr((I + P) K_0) + 2 ||P K_0||_*)/d (Rassouli eq. 81 over d)."""
    seen = _projector(matrix) @ second_moment
    singular_values = np.linalg.svd(seen, compute_uv=False)
    return float(np.trace(second_moment) + np.trace(seen) + 2 * singular_values.sum()) / len(second_moment)


# --- a rotation of the parameters (Varasteh cases i and ii) -------------------------------------------------------


def interpretability_rotated(weights: FloatArray, rotation: FloatArray) -> float:
    """Compute g of W R for an orthonormal R, (d, d): 2 Tr((I - R) W^T W)/(d k) (Varasteh eq. 34)."""
    gram = weights.T @ weights
    return float(2 * (np.trace(gram) - np.sum(rotation * gram)) / weights.size)


def half_star_error_rotated(matrix: FloatArray, features: Moments, rotation: FloatArray) -> float:
    """Compute the error of half* given A R: (Tr(K_1/2) + Tr(P (K_0 - 2 K_0 R^T + R M R^T)))/d (Varasteh eq. 38)."""
    turned = features.about_zero - 2 * features.about_zero @ rotation.T + rotation @ _shift(features) @ rotation.T
    return float(np.trace(features.about_half) + np.sum(_projector(matrix) * turned.T)) / len(features.mean)


def ls_error_rotated(second_moment: FloatArray, rotation: FloatArray) -> float:
    """Compute the error of ls given A R when A has full column rank, as for d < k: 2 Tr(K_0 - R K_0)/d (Varasteh eq.
    45).

    R = -I is the greatest: 4 Tr(K_0)/d.
    """
    return float(2 * (np.trace(second_moment) - np.sum(rotation.T * second_moment))) / len(second_moment)


def _shift(features: Moments) -> FloatArray:
    """M = 1 (mu - 1/4 1)^T (Varasteh, after eq. 38)."""
    return np.outer(np.ones_like(features.mean), features.mean - 0.25)


# --- free parameters (Varasteh cases iii and iv) ------------------------------------------------------------------


def single_feature_error(matrix: FloatArray, disclosed: FloatArray, second_moment: float) -> float:
    """Compute the error of ls for d = 1: E[x^2] (1 - A_n^T A / A_n^T A_n)^2 with A, A_n (m, 1) (Varasteh eq. 47).

    For more than two classes it depends on how the adversary combines class rows: here they are consecutive
        differences. Without any equation left (A_n = 0) ls estimates 0, with error E[x^2].
    """
    norm = float(np.sum(disclosed**2))
    ratio = float(np.sum(matrix * disclosed)) / norm if norm > 0 else 0.0
    return second_moment * (1 - ratio) ** 2


def binary_error(matrix: FloatArray, disclosed: FloatArray, features: Moments) -> float:
    """Compute the error of half* for two classes, A and A_n (1, d) (Varasteh eq. 51); that of half where A_n = 0."""
    d = len(features.mean)
    true, given = matrix[0], disclosed[0]
    norm = float(given @ given)
    half = float(np.trace(features.about_half)) / d
    if norm == 0:
        return half
    correlated = features.about_zero @ true
    excess = float(true @ correlated - 2 * given @ correlated + given @ _shift(features) @ given)
    return half + excess / (d * norm)
