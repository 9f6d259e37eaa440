"""Vertical training in one place and in plain float64: the yardstick of the encrypted one."""

from collections.abc import Sequence
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
    scheme = ResidualScheme(data.classes)
    features = np.hstack(data.blocks)
    theta = np.vstack(weights).astype(np.float64)
    penalty = np.full((features.shape[1], 1), l2)
    if unpenalised is not None:
        penalty[np.concatenate(unpenalised)] = 0.0
    for epoch in range(descent.epochs):
        for batch in descent.schedule.epoch(epoch):
            rows = features[batch]
            residual = scheme.active_share(rows @ theta, data.labels[batch])
            gradient = scheme.gradient_scale(len(batch)) * (rows.T @ residual) + penalty * theta
            theta = theta - descent.learning_rate * gradient
    return np.split(theta, np.cumsum([block.shape[1] for block in data.blocks])[:-1])


def train_side_by_side(
    data: VerticalData,
    weights: FloatArray,
    members: IntArray,
    descent: GradientDescent,
    *,
    penalty: FloatArray,
) -> FloatArray:
    """Train several models at once, each on records of its own, as ``train_centrally`` trains one.

    Args:
        data: every party's features, and the labels.
        weights: (models, d, columns) initial weights, over all parties' features side by side.
        members: (models, m) the records that each is trained on.
        descent: batches, epochs and learning rate; the schedule's rows are places in ``members``, from 0.
        penalty: (d,) strength of the penalty on each feature's weights.

    Returns:
        (models, d, columns) final weights.
    """
    scheme, features, theta = ResidualScheme(data.classes), np.hstack(data.blocks), weights
    for epoch in range(descent.epochs):
        for batch in descent.schedule.epoch(epoch):
            rows = members[:, batch]
            inputs = features[rows]
            products = (inputs @ theta).reshape(rows.size, -1)
            residual = scheme.active_share(products, data.labels[rows.ravel()]).reshape(*rows.shape, -1)
            gradient = scheme.gradient_scale(len(batch)) * (inputs.swapaxes(1, 2) @ residual)
            theta = theta - descent.learning_rate * (gradient + penalty[:, None] * theta)
    return theta
