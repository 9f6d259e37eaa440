"""Vertical training in one place and in plain float64: the yardstick of the encrypted one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.linear.scheme import ResidualScheme
from vfl.learning.schedule import BatchSchedule


@dataclass(frozen=True, eq=False)
class VerticalData:
    """A labelled table whose columns are divided among parties. It shows all data: for tests and simulation only.

    Attributes:
        blocks: per party j, its features, (n, d_j).
        labels: (n,) class indices.
        classes: k, at least 2.
        label_party: index of the party that holds the labels.
    """

    blocks: Sequence[FloatArray]
    labels: IntArray
    classes: int = 2
    label_party: int = 0


@dataclass(frozen=True, eq=False)
class GradientDescent:
    """Mini-batch gradient descent with a constant learning rate.

    Attributes:
        schedule: the batches of each epoch.
        epochs: how often every training row is used.
        learning_rate: eta.
    """

    schedule: BatchSchedule
    epochs: int
    learning_rate: float


def train_centrally(
    data: VerticalData,
    weights: Sequence[FloatArray],
    descent: GradientDescent,
    *,
    l2: float = 0.0,
    unpenalised: Sequence[BoolArray] | None = None,
) -> list[FloatArray]:
    """Train the linear model on the joined feature blocks (Hu eq. 3-6).

    Args:
        data: every party's features, and the labels.
        weights: per party, its initial weights, (d_j, columns).
        descent: batches, epochs and learning rate.
        l2: strength of the penalty on weights.
        unpenalised: per party, a mask (d_j,) of features that the penalty spares, such as the intercept's.

    Returns:
        Per party, its final weights, (d_j, columns).
    """
    *_, trained = (list(weights), *train_by_epoch(data, weights, descent, l2=l2, unpenalised=unpenalised))
    return trained


def train_by_epoch(
    data: VerticalData,
    weights: Sequence[FloatArray],
    descent: GradientDescent,
    *,
    l2: float = 0.0,
    unpenalised: Sequence[BoolArray] | None = None,
) -> Iterator[list[FloatArray]]:
    """Train as ``train_centrally`` does, and give the weights after each epoch."""
    scheme = ResidualScheme(data.classes)
    features = np.hstack(data.blocks)
    theta = np.vstack(weights).astype(np.float64)
    penalty = np.full((features.shape[1], 1), l2)
    if unpenalised is not None:
        penalty[np.concatenate(unpenalised)] = 0.0
    ends = np.cumsum([block.shape[1] for block in data.blocks])[:-1]
    for epoch in range(descent.epochs):
        for batch in descent.schedule.epoch(epoch):
            rows = features[batch]
            residual = scheme.active_share(rows @ theta, data.labels[batch])
            gradient = scheme.gradient_scale(len(batch)) * (rows.T @ residual) + penalty * theta
            theta = theta - descent.learning_rate * gradient
        yield np.split(theta, ends)
