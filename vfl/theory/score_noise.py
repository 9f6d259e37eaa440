"""What noise on the logits costs the adversary, and which noise costs most (Rassouli VII-B, eq. 83-90, Theorem 4).

The adversary solves A x = b + J n for the noise n on the logits, A = J W with J as in eq. 4 (differences of adjacent
classes). For d >= k - 1 and W of full rank no figure here depends on that choice (Lemma 3). For d < k - 1, where A is
tall, the pseudoinverse does, and with it all of them.
"""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray
from vfl.theory.prediction import RowSpace, equations, row_space

# The Gram matrix holds squares: singular values of A below 1e-6 of the largest drown in its rounding.
_RANK_TOLERANCE = 1e-12
# Eigenvalues closer than this to the largest span one eigenspace with it.
_DEGENERACY = 1e-9
_EQUAL_ENTRIES = 1e-6


@dataclass(frozen=True, eq=False)
class StrongestNoise:
    """The noise on the logits that the adversary's least squares amplify most (Theorem 4).

    Attributes:
        direction: v_1, (k,), of norm 1 and sum 0.
        amplification: sigma_1^2, by which ||A^+ J n||^2 exceeds ||n||^2.
    """

    direction: FloatArray
    amplification: float


def strongest_noise(parameter_gram: FloatArray) -> StrongestNoise:
    """Find v_1 and sigma_1^2 of A^+ J from G = W W^T alone, (k, k), without W (Rassouli eq. 88).

    They are the top eigenpair of (A^+ J)^T (A^+ J) = J^T (J G J^T)^+ J, since (A^+)^T A^+ = (A A^T)^+.

    The sign of v_1 is free: its entry of largest magnitude is made positive, the first such entry where several tie.
        Where sigma_1 is degenerate, v_1 is the unit vector of the eigenspace closest to a coordinate axis, the first
        such axis. W = 0,
    or rows all equal, leaves nothing to amplify: any direction will do, and the same rule picks one.

    Raises:
        ValueError: unless G is a square matrix of finite numbers for at least two classes.
    """
    if parameter_gram.ndim != 2 or not 2 <= len(parameter_gram) == parameter_gram.shape[1]:
        raise ValueError(f"Expected a (k, k) Gram matrix of at least 2 classes, got shape {parameter_gram.shape}.")
    if not np.isfinite(parameter_gram).all():
        raise ValueError("Expected a Gram matrix of finite numbers.")
    k = len(parameter_gram)
    J = np.diff(np.eye(k), axis=0)
    # In its own unit: the direction has none, and no square under- or overflows.
    unit = float(np.abs(parameter_gram).max()) or 1.0
    gram = (parameter_gram / unit + parameter_gram.T / unit) / 2
    values, vectors = np.linalg.eigh(J @ gram @ J.T)
    # What all classes share cancels in J G J^T, but its rounding stays.
    large = values > _RANK_TOLERANCE * max(values[-1], 1e-2 * float(np.trace(gram)))
    half_power = (vectors[:, large] / np.sqrt(values[large])).T @ J
    response = half_power.T @ half_power
    # The same for all classes changes no score: that direction is put below all others.
    scale = float(np.trace(response)) or 1.0
    gains, directions = np.linalg.eigh(response - scale / k)
    top = directions[:, gains >= gains[-1] - _DEGENERACY * scale]
    projector = top @ top.T
    closeness = np.diagonal(projector)
    axis = int(np.flatnonzero(closeness >= (1 - _EQUAL_ENTRIES) * closeness.max())[0])
    direction: FloatArray = projector[axis] / np.linalg.norm(projector[axis])
    # Of what amplifies nothing, the decomposition's rounding is left, another one on each processor.
    strongest = float(gains[-1]) if gains[-1] > _DEGENERACY * scale else 0.0
    return StrongestNoise(direction, strongest / unit)


def largest_noisy_error(weights_passive: FloatArray, moment: FloatArray, budget: float) -> float:
    """Compute the largest MSE per feature that noise on the logits gives unclamped least squares (Theorem 4, eq. 88).

    Of all S = E[n n^T] with Tr(S) <= budget, S* = budget v_1 v_1^T attains it. It is exact for every joint distribution
    of noise and features, since A^+ J n and what A doesn't see of x are orthogonal.

    Args:
        weights_passive: W, (k, d) class rows.
        moment: (d, d), E[X X^T] for ls; E[(X - 1/2)(X - 1/2)^T] gives half* instead, whose error splits in the same
            way.
        budget: of the noise.

    Raises:
        ValueError: when shapes don't fit or the budget is negative or not finite.
    """
    if not 0 <= budget < np.inf:
        raise ValueError(f"Expected a noise budget of at least 0, got {budget}.")
    space, J = _space_and_differences(weights_passive, moment)
    amplification = float(np.linalg.norm(space.pseudoinverse @ J, 2)) ** 2 if space.rank else 0.0
    return (float(np.sum(space.null_projector * moment)) + amplification * budget) / len(moment)


def _space_and_differences(weights_passive: FloatArray, moment: FloatArray) -> tuple[RowSpace, FloatArray]:
    """A's row space and J; raises ValueError when the moment isn't (d, d)."""
    k, d = weights_passive.shape
    if moment.shape != (d, d):
        raise ValueError(f"Expected a moment of shape {(d, d)}, got {moment.shape}.")
    return row_space(equations(weights_passive)), np.diff(np.eye(k), axis=0)
