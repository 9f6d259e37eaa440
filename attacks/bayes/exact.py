"""Conditions Gaussian beliefs on linear equations A x = b in closed form, for many right-hand sides at once.

Answers win over beliefs. Where the equations ask for what a singular covariance rules out, the posterior is the limit
of beliefs N(mean, covariance + e^2 I) for e to 0: what lies in the covariance's range is moved as the prior says, and
only what is left is met by the smallest step outside of it. Equations that contradict each other are met in the sense
of least squares, as A^+ b meets them. Rassouli's half* is the posterior mean of N(1/2, I/12).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtri

from attacks.bayes.prior import GaussianPrior, Posterior
from vfl.arrays import BoolArray, FloatArray

# Standard deviations from the middle to the ends of a 90 % interval.
REACH = float(ndtri(0.95))
# Variances below this part of the largest are rounding: there the belief is sure.
_SURE = 1e-12
# Answers less likely than this under the prior contradict it, and so do steps outside its range longer than that.
_UNLIKELY, _STEP = 1e-6, 1e-6
# Equations outside the covariance's range with less than this part of the largest weight are rounding.
_OUTSIDE = 1e-9


@dataclass(frozen=True, eq=False)
class Conditioning:
    """A covariance and equations, factorised once for all records that share them. x = mean + root z, z ~ N(0, I).

    Attributes:
        matrix: A, (m, d).
        root: (d, r), of the covariance.
        informed: (r, q), orthonormal directions of z that the equations tell.
        gain: (q, m), what the equations' sides say about them.
        outside: (d, m), the step outside the covariance's range, for what the gain leaves.
    """

    matrix: FloatArray
    root: FloatArray
    informed: FloatArray
    gain: FloatArray
    outside: FloatArray

    def posterior(self, mean: FloatArray, sides: FloatArray) -> Posterior:
        """Condition N(mean_i, covariance) on A x = b_i: the exact posterior, not confined to the box.

        Args:
            mean: (n, d).
            sides: b, (n, m).
        """
        steps, coordinates = self._steps(mean, sides)
        middle = mean + steps + coordinates @ (self.root @ self.informed).T
        free = self.root - self.root @ self.informed @ self.informed.T
        spread = np.broadcast_to(np.sqrt((free**2).sum(axis=1)), middle.shape)
        return Posterior(middle, middle - REACH * spread, middle + REACH * spread, spread)

    def contradicts(self, mean: FloatArray, sides: FloatArray) -> BoolArray:
        """Tell for which records the answers are all but impossible beforehand: (n,). Arguments as ``posterior``."""
        steps, coordinates = self._steps(mean, sides)
        surprising = chdtrc(max(1, self.informed.shape[1]), (coordinates**2).sum(axis=1)) < _UNLIKELY
        contradicting: BoolArray = surprising | (np.abs(steps).max(axis=1, initial=0.0) > _STEP)
        return contradicting

    def _steps(self, mean: FloatArray, sides: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Find steps outside the covariance's range, (n, d), and informed coordinates of z within it, (n, q)."""
        residuals = sides - mean @ self.matrix.T
        steps = residuals @ self.outside.T
        return steps, (residuals - steps @ self.matrix.T) @ self.gain.T


def factorise(covariance: FloatArray, matrix: FloatArray) -> Conditioning:
    """Factorise a covariance (d, d), which may be singular, and equations (m, d), which may depend on each other."""
    root = square_root(covariance)
    effect = matrix @ root
    left_vectors, values, right = np.linalg.svd(effect, full_matrices=False)
    rounding = 16 * max(matrix.shape, default=1) * np.finfo(np.float64).eps * _norm(matrix) * _norm(root)
    informative = values > rounding
    left_vectors, values, right = left_vectors[:, informative], values[informative], right[informative]
    unmet = np.eye(len(matrix)) - left_vectors @ left_vectors.T
    outside = _pseudoinverse(unmet @ matrix, _OUTSIDE * _norm(matrix)) @ unmet
    return Conditioning(matrix, root, right.T, (left_vectors / values).T, outside)


def condition(prior: GaussianPrior, matrix: FloatArray, sides: FloatArray) -> Posterior:
    """Condition a prior on equations A x = b_i; matrix: A, (m, d); sides: b, (n, m). ``Conditioning`` says more."""
    return factorise(prior.covariance, matrix).posterior(prior.mean, sides)


def square_root(covariance: FloatArray) -> FloatArray:
    """Compute L with L L^T = covariance, (d, r), r the covariance's numerical rank."""
    values, vectors = np.linalg.eigh(covariance)
    positive = values > _SURE * max(values.max(initial=0.0), 0.0)
    root: FloatArray = vectors[:, positive] * np.sqrt(values[positive])
    return root


def _pseudoinverse(matrix: FloatArray, smallest: float) -> FloatArray:
    """Invert over singular values above ``smallest`` (pseudoinverse)."""
    left_vectors, values, right = np.linalg.svd(matrix, full_matrices=False)
    large = values > smallest
    inverse: FloatArray = (right[large].T / values[large]) @ left_vectors[:, large].T
    return inverse


def _norm(matrix: FloatArray) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0
