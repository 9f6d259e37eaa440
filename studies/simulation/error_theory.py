"""What papers' experiments are held against: closed forms of errors, and which attack errs less on a record."""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray
from vfl.theory.prediction import row_space
from vfl.theory.training import sortable_epochs


def score_error_correlation(estimated_scores: FloatArray, scores: FloatArray) -> FloatArray:
    """Measure how far the adversary's scores are from the real ones: K = E[(c_hat' - c')(c_hat' - c')^T], (k-1, k-1).

    c' holds the log ratios of adjacent classes (eq. 3-6).

    Args:
        estimated_scores: (n, k), of the adversary's model.
        scores: (n, k), real.

    Raises:
        ValueError: when shapes differ or a score isn't positive: such scores have no log ratio.
    """
    if estimated_scores.shape != scores.shape or scores.ndim != 2 or not len(scores):
        raise ValueError(f"Expected two (n, k) matrices of scores, got {estimated_scores.shape} and {scores.shape}.")
    if min(estimated_scores.min(), scores.min()) <= 0:
        raise ValueError("A score of 0 has no log ratio: leave such records out or floor their scores.")
    error = np.diff(np.log(estimated_scores) - np.log(scores), axis=1)
    return error.T @ error / len(error)


def agnostic_error(weights_passive: FloatArray, features_about_half: FloatArray, score_error: FloatArray) -> float:
    """Compute the MSE per feature of agnostic half*: (Tr((I - A^+ A) K_half) + Tr((A^+)^T A^+ K)) / d (Varasteh eq.
    21).

    The first term is half*'s own error with exact scores, the second is what not having them costs.

    Args:
        weights_passive: (k, d) class rows.
        features_about_half: K_half = E[(X - 1/2)(X - 1/2)^T], (d, d).
        score_error: K, (k-1, k-1).

    Raises:
        ValueError: when shapes don't fit.
    """
    matrix = _matrix(weights_passive, score_error)
    d = matrix.shape[1]
    if features_about_half.shape != (d, d):
        raise ValueError(f"Expected features_about_half of shape {(d, d)}, got {features_about_half.shape}.")
    inverse = np.linalg.pinv(matrix)
    unseen = np.trace((np.eye(d) - inverse @ matrix) @ features_about_half)
    return float((unseen + np.trace(inverse @ score_error @ inverse.T)) / d)


def _matrix(weights_passive: FloatArray, score_error: FloatArray) -> FloatArray:
    k = len(weights_passive)
    if weights_passive.ndim != 2 or score_error.shape != (k - 1, k - 1):
        raise ValueError(
            f"Weights of shape {weights_passive.shape} and a score error of shape {score_error.shape} don't fit: "
            "they must be (k, d) and (k-1, k-1)."
        )
    return np.diff(weights_passive, axis=0)


def greatest_ls_error(matrix: FloatArray, second_moment: FloatArray) -> float:
    """Compute the error of ls under H*: (Tr((I + P) K_0) + 2 ||P K_0||_*)/d (Rassouli eq. 81 over d)."""
    basis = row_space(matrix).basis
    projected = basis @ (basis.T @ second_moment)
    singular_values = np.linalg.svd(projected, compute_uv=False)
    return float(np.trace(second_moment) + np.trace(projected) + 2 * singular_values.sum()) / len(second_moment)


def exact_epochs(batches: int) -> int:
    """Count the epochs after which its values are known up to sign: at least 2, to see theta move (Theorem 3.5)."""
    return max(sortable_epochs(batches), 2)


@dataclass(frozen=True, eq=False)
class SampleOrdering:
    """Theorem 1 record by record, each (n,): squared errors ||x - estimate||^2, summed over the features.

    In exact arithmetic rcc2 <= half_star <= half for every record whose scores and parameters are undistorted.
    """

    rcc2: FloatArray
    half_star: FloatArray
    half: FloatArray

    def violation(self) -> float:
        """Measure by how much a record breaks either inequality at most; rounding only when the theorem applies."""
        return float(max((self.rcc2 - self.half_star).max(initial=0.0), (self.half_star - self.half).max(initial=0.0)))


def sample_ordering(truth: FloatArray, rcc2: FloatArray, half_star: FloatArray) -> SampleOrdering:
    """Measure the three errors that Theorem 1 orders (Rassouli eq. 44 and 48); all arguments (n, d)."""
    return SampleOrdering(
        rcc2=((truth - rcc2) ** 2).sum(axis=1),
        half_star=((truth - half_star) ** 2).sum(axis=1),
        half=((truth - 0.5) ** 2).sum(axis=1),
    )
