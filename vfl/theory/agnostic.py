"""The error of the agnostic attack in closed form (Varasteh, section IV-C, eq. 21).

The attack estimates scores with a model of its own. It holds for estimates before they are clamped to [0, 1].
The matrix A = J W_pas takes differences of adjacent classes (eq. 4).
"""

import numpy as np

from vfl.arrays import FloatArray


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
    correlation: FloatArray = error.T @ error / len(error)
    return correlation


def half_star_error(weights_passive: FloatArray, features_about_half: FloatArray, score_error: FloatArray) -> float:
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
    matrix: FloatArray = np.diff(weights_passive, axis=0)
    return matrix
