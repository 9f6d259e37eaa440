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
    return basis @ basis.T


# --- any disclosed parameters -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DisclosedErrors:
    """Errors of an adversary that takes the disclosed parameters at their word, MSE per feature."""

    least_squares: float
    half_star: float


def disclosed_errors(matrix: FloatArray, disclosed: FloatArray, features: Moments) -> DisclosedErrors:
    """Compute the errors of ls and half* for any disclosed matrix A_n, (m, d), in place of A, (m, d).

    ls estimates A_n^+ A x, half* adds (I - A_n^+ A_n) 1/2. With B = I - A_n^+ A and N = I - A_n^+ A_n the errors are
    Tr(B K_0 B^T)/d and (Tr(B K_0 B^T) - 1^T N B mu + 1^T N 1 / 4)/d.

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


def worst_transform(matrix: FloatArray, second_moment: FloatArray) -> FloatArray:
    """Find the orthonormal H, (d, d), with the greatest error of ls: H* = -V U^T with P K_0 = U S V^T (Rassouli Theorem
    3).

    It is -I where P = I, which is where d < k. Where P K_0 lacks rank it is one of many.
    """
    left_vectors, _, right_vectors = np.linalg.svd(_projector(matrix) @ second_moment)
    worst: FloatArray = -(left_vectors @ right_vectors).T
    return worst
