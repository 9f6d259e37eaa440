"""Finds all sign vectors that satisfy linear equations, by meeting in the middle (Hu, section 4, eq. 82)."""

import numpy as np
from scipy.linalg import qr

from vfl.arrays import FloatArray

# How closely a sign vector must fit. Tighter loses true ones to the rounding of a bias, wider lets chance ones in.
_FIT = 1e-7
_MOST_CANDIDATES = 1 << 20
_BLOCK = 1 << 15


class TooManyCandidates(ValueError):
    """The equations hardly tell sign vectors apart; the text says how many agree."""


def sign_solutions(matrix: FloatArray, target: FloatArray, *, limit: int = 2) -> list[FloatArray]:
    """Find all z in {-1, 1}^s with matrix^T z = target (Hu eq. 82).

    The equations give r signs as linear functions of the s - r others. Those are run through by meeting in the middle:
    2^((s - r)/2) sums for each half, joined where the first of the r signs is +-1 to ``_FIT``. Time and memory grow
    with that, so s - r should stay below 40.

    Args:
        matrix: (s, D) of rank r.
        target: (D,).
        limit: the most solutions to return.

    Raises:
        TooManyCandidates: where more than 2^20 joins would have to be looked at.
    """
    rows = len(matrix)
    _, triangle, order = qr(matrix.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int((diagonal > max(matrix.shape) * 2.0**-52 * diagonal.max(initial=0.0)).sum())
    bound, free = order[:rank], order[rank:]
    inverse = np.linalg.pinv(matrix[bound].T)
    # z_bound = constant - coupling z_free
    constant, coupling = inverse @ target, inverse @ matrix[free].T
    half = len(free) // 2
    left, right = sign_vectors(half), sign_vectors(len(free) - half)
    if rank:
        sums_left = constant[0] - left @ coupling[0, :half]
        sums_right = right @ coupling[0, half:]
        by_size = np.argsort(sums_right)
        ordered = sums_right[by_size]
    found: list[FloatArray] = []
    for sign in (-1.0, 1.0) if rank else ():
        first = np.searchsorted(ordered, sums_left - sign - _FIT)
        counts = np.searchsorted(ordered, sums_left - sign + _FIT) - first
        # Few distinct values (0/1 features) make many pairs agree in one sign: a block of them at a time.
        joined = np.concatenate([[0], np.cumsum(counts)])
        if joined[-1] > _MOST_CANDIDATES:
            raise TooManyCandidates(f"{joined[-1]:,} sign vectors agree with the first equation alone")
        for start in range(0, int(joined[-1]), _BLOCK):
            pairs = np.arange(start, min(start + _BLOCK, joined[-1]))
            lefts = np.searchsorted(joined, pairs, side="right") - 1
            rights = by_size[first[lefts] + pairs - joined[lefts]]
            candidates = np.empty((len(pairs), rows))
            candidates[:, free] = np.hstack([left[lefts], right[rights]])
            candidates[:, bound] = constant - candidates[:, free] @ coupling.T
            fits = (np.abs(np.abs(candidates[:, bound]) - 1) < _FIT).all(axis=1)
            candidates = np.where(candidates[fits] > 0, 1.0, -1.0)
            fits = (np.abs(candidates @ matrix - target) < _FIT * max(1.0, float(np.abs(target).max()))).all(axis=1)
            found += list(candidates[fits][: limit - len(found)])
            if len(found) == limit:
                return found
    return found


def sign_vectors(length: int) -> FloatArray:
    """List all 2^length sign vectors, (2^length, length)."""
    digits = np.arange(1 << length)[:, None] >> np.arange(length) & 1
    return np.where(digits == 1, 1.0, -1.0)
