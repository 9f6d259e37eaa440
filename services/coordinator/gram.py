"""Gram matrices of passive parties' parameters, for score defences that need them."""

from collections.abc import Sequence

import numpy as np

from services.common.errors import InvalidMessage
from vfl.arrays import FloatArray

# Of the largest entry of a Gram matrix.
_GRAM_TOLERANCE = 1e-9


def total_gram(grams: Sequence[FloatArray | None]) -> FloatArray | None:
    """The Gram matrix of all passive parameters side by side; None unless every party gave its own."""
    given = [gram for gram in grams if gram is not None]
    total: FloatArray = np.sum(given, axis=0)
    return total if len(given) == len(grams) else None


def check_gram(gram: FloatArray, classes: int) -> None:
    """Refuse what can't be W W^T: that is symmetric and, but for rounding, has no negative eigenvalue."""
    if gram.shape != (classes, classes):
        raise InvalidMessage(f"Expected a Gram matrix of {classes} classes, got {gram.shape}.")
    unit = float(np.abs(gram).max()) or 1.0
    if not np.allclose(gram / unit, gram.T / unit) or np.linalg.eigvalsh(gram / unit)[0] < -_GRAM_TOLERANCE:
        raise InvalidMessage("Expected a Gram matrix: symmetric, without negative eigenvalues.")
