"""The same training in one place and in plain float64: the yardstick that the federation is held against."""

from collections.abc import Sequence

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.approximation import ResidualScheme
from vfl.learning.schedule import BatchSchedule


def train_centrally(
    blocks: Sequence[FloatArray],
    labels: IntArray,
    weights: Sequence[FloatArray],
    *,
    classes: int,
    schedule: BatchSchedule,
    epochs: int,
    learning_rate: float,
    l2: float = 0.0,
    unpenalised: Sequence[BoolArray] | None = None,
) -> list[FloatArray]:
    """Mini-batch gradient descent (Hu eq. 3-6) on the joined feature blocks.

    ``blocks[j]``: (n, d_j) features of party j; ``weights[j]``: (d_j, columns) initial weights;
    ``labels``: (n,) class indices; ``unpenalised[j]``: (d_j,) mask of features that L2 spares (the bias).
    Returns the final (d_j, columns) blocks. This sees all the data: it exists for tests and simulation only.
    """
    scheme = ResidualScheme(classes)
    features = np.hstack(blocks)
    theta = np.vstack(weights).astype(np.float64)
    penalty = np.full((features.shape[1], 1), l2)
    if unpenalised is not None:
        penalty[np.concatenate(unpenalised)] = 0.0
    for epoch in range(epochs):
        for batch in schedule.epoch(epoch):
            rows = features[batch]
            residual = scheme.active_share(rows @ theta, labels[batch])
            gradient = scheme.gradient_scale(len(batch)) * (rows.T @ residual) + penalty * theta
            theta = theta - learning_rate * gradient
    return np.split(theta, np.cumsum([block.shape[1] for block in blocks])[:-1])
