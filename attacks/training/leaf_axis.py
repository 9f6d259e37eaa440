"""Labels from the leaves of boosted trees, by who is told the routes of records and knows no label (ours).

Every division of every tree sets records apart by one thing, their label, whichever column it is made on. So leaves of
different trees agree along that one direction more than along any other: the first axis of their correspondence
analysis. It orders records by label as the trees' own scores do, without a weight of them.

A tree mends what those before it got wrong, and divides the later the more by chance: the t-th weighs 1 / t, and those
behind the thirtieth nothing.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.stats import skew

from attacks.training.label_completion import completed_by
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores

_MOST_TREES = 30
# Of more leaves in all trees together, products of all pairs take gigabytes.
_FEW_LEAVES = 2_000
# A logistic distribution's standard deviation: scores in units of it become probabilities.
_LOGISTIC = np.pi / np.sqrt(3)
# How much stronger than the second the first axis is at least, or neither is the first.
_AHEAD = 1 + 1e-6


def label_axis(leaves: NDArray[Any]) -> FloatArray:
    """Order records along the direction in which trees agree; the rarer class is where the longer tail is.

    Args:
        leaves: (n, trees), the leaf of each record in each tree, in the order in which they were grown.

    Returns:
        (n,), mean 0 and variance 1. Zeros where nothing orders leaves: those of a single tree are only told apart.

    Raises:
        ViewError: without a record or a tree.

    Examples:
        >>> leaves = np.array([[1, 3], [1, 3], [1, 4], [1, 3], [2, 4]])
        >>> label_axis(leaves).round(1)
        array([-0.6, -0.6, -0. , -0.6,  1.9])
    """
    if leaves.ndim != 2 or not leaves.size:
        raise ViewError("leaves must be (n, trees), of at least one record and one tree: grow one before the attack.")
    indicators, weights = _indicators(leaves[:, :_MOST_TREES])
    shares = indicators.mean(axis=0)
    scales = np.sqrt(weights / shares)
    strengths, directions = _axes(indicators, shares, scales)
    if len(strengths) < 2 or strengths[-1] <= _AHEAD * strengths[-2]:
        return np.zeros(len(leaves))
    along = scales * directions[:, -1]
    values: FloatArray = indicators @ along - shares @ along
    values = values / values.std()
    return values if skew(values) >= 0 else -values


def _axes(indicators: Any, shares: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the strengths of the axes, ascending, and their directions; of very many leaves the last two alone."""
    n, count = indicators.shape
    if count <= _FEW_LEAVES:
        together = (indicators.T @ indicators).toarray() / n - np.outer(shares, shares)
        strengths, directions = eigh(scales[:, None] * together * scales)
        return strengths, directions

    def product(vector: FloatArray) -> FloatArray:
        scaled = scales * vector.ravel()
        multiplied: FloatArray = scales * (indicators.T @ (indicators @ scaled) / n - shares * (shares @ scaled))
        return multiplied

    start = np.random.default_rng(0).normal(size=count)
    operator = LinearOperator((count, count), matvec=product, dtype=np.float64)
    strengths, directions = eigsh(operator, k=2, v0=start)
    return strengths, directions


def class_probabilities(axis: FloatArray) -> FloatArray:
    """Take records' places along the axis, (n,), for log odds of the rarer class: (n, 2)."""
    return confidence_scores(_LOGISTIC * axis[:, None])


def labels_by_leaves(leaves: NDArray[Any], features: FloatArray, rows: IntArray, labels: IntArray) -> FloatArray:
    """Estimate how likely each record is of either class, from leaves, own columns and known labels.

    Args:
        leaves: (n, trees), as above.
        features: (n, d), the adversary's own.
        rows: (m,) rows whose labels are known.
        labels: (m,) their classes, of both kinds.

    Returns:
        (n, 2).
    """
    return completed_by(features, label_axis(leaves)[:, None], rows, labels, classes=2)


def _indicators(leaves: NDArray[Any]) -> tuple[Any, FloatArray]:
    """Say of each record in which leaves it is, (n, all leaves) of 0 and 1, and how much each leaf's tree weighs."""
    n, trees = leaves.shape
    columns, weights, count = np.empty((n, trees), dtype=np.int64), [], 0
    for tree in range(trees):
        values, columns[:, tree] = np.unique(leaves[:, tree], return_inverse=True)
        columns[:, tree] += count
        weights.append(np.full(len(values), 1 / (1 + tree)))
        count += len(values)
    ones = np.ones(n * trees)
    return csr_array((ones, columns.ravel(), np.arange(0, n * trees + 1, trees)), (n, count)), np.concatenate(weights)
