"""Vertical training in one place and in plain float64: the yardstick of the encrypted one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.linear.own_moments import OwnMoments, OwnMomentsDescent, PlainDescent
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
        own_moments: whether each party's gradient is multiplied by the inverse of its own second moments.
    """

    schedule: BatchSchedule
    epochs: int
    learning_rate: float
    own_moments: bool = False


class BlockDescent:
    """All parties' steps in one place: where their gradients are taken, and where these move their weights.

    Raises:
        ValueError: for steps by own moments where the label party's last column isn't the constant 1.
    """

    def __init__(self, data: VerticalData, descent: GradientDescent, penalties: Sequence[FloatArray]) -> None:
        """Take every party's features, and the (d_j, 1) strength of the penalty on its weights."""
        self._label_party, rate = data.label_party, descent.learning_rate
        self._intercept: FloatArray | None = None
        self._descents: list[PlainDescent | OwnMomentsDescent]
        if not descent.own_moments:
            self._descents = [PlainDescent(rate) for _ in data.blocks]
            return
        if not (data.blocks[data.label_party][:, -1] == 1).all():
            raise ValueError("Steps by own moments need the label party's bias: make its last column 1 throughout.")
        scheme, rows = ResidualScheme(data.classes), descent.schedule.train_rows
        self._intercept = scheme.intercept(data.labels[rows])
        self._descents = [
            OwnMomentsDescent(OwnMoments(block, rows, scheme.gradient_scale(1), penalty), rate)
            for block, penalty in zip(data.blocks, penalties, strict=True)
        ]

    def ahead(self, weights: Sequence[FloatArray], batch: IntArray) -> list[FloatArray]:
        """Give the weights at which a batch's gradient is taken."""
        return [descent.ahead(block, batch) for descent, block in zip(self._descents, weights, strict=True)]

    def sent(self, share: FloatArray) -> FloatArray:
        """Give what is sent of a share of a batch's residuals, or of all shares added up; (s, columns)."""
        return self._descents[0].sent(share)

    def trained(self, weights: Sequence[FloatArray]) -> list[FloatArray]:
        """Give the model's weights: of centred columns, with the intercept at the label party's bias."""
        constants = [descent.constant(block) for descent, block in zip(self._descents, weights, strict=True)]
        if self._intercept is None:
            return list(weights)
        model, own = list(weights), weights[self._label_party]
        bias = self._intercept + own[-1:] + np.add.reduce([one for one in constants if one is not None])
        model[self._label_party] = np.vstack([own[:-1], bias])
        return model

    def moved(
        self,
        weights: Sequence[FloatArray],
        ahead: Sequence[FloatArray],
        gradients: Sequence[FloatArray],
        batch: IntArray,
    ) -> list[FloatArray]:
        """Move every party's weights against its gradient, which was taken at ``ahead``."""
        return [
            descent.moved(block, carried, gradient, batch)
            for descent, block, carried, gradient in zip(self._descents, weights, ahead, gradients, strict=True)
        ]


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

    Examples:
        >>> data = VerticalData([np.array([[0.0], [1.0]]), np.ones((2, 1))], labels=np.array([0, 1]), label_party=1)
        >>> descent = GradientDescent(BatchSchedule(np.arange(2), batch_size=2, seed=0), epochs=200, learning_rate=1.0)
        >>> [block.round(1).tolist() for block in train_centrally(data, [np.zeros((1, 1))] * 2, descent)]
        [[[4.0]], [[-2.0]]]
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
    """Train as ``train_centrally`` does, and give the weights after each epoch.

    Raises:
        ValueError: for steps by own moments where the label party's last column isn't the constant 1.

    Examples:
        >>> data = VerticalData([np.array([[0.0], [1.0]])], labels=np.array([0, 1]))
        >>> descent = GradientDescent(BatchSchedule(np.arange(2), batch_size=2, seed=0), epochs=3, learning_rate=1.0)
        >>> [theta.item() for theta, in train_by_epoch(data, [np.zeros((1, 1))], descent)]
        [0.25, 0.46875, 0.66015625]
    """
    scheme = ResidualScheme(data.classes)
    features = np.hstack(data.blocks)
    thetas = [block.astype(np.float64) for block in weights]
    penalty = np.full((features.shape[1], 1), l2)
    if unpenalised is not None:
        penalty[np.concatenate(unpenalised)] = 0.0
    ends = np.cumsum([block.shape[1] for block in data.blocks])[:-1]
    steps = BlockDescent(data, descent, np.split(penalty, ends))
    for epoch in range(descent.epochs):
        for batch in descent.schedule.epoch(epoch):
            rows, ahead = features[batch], steps.ahead(thetas, batch)
            theta = np.vstack(ahead)
            residual = steps.sent(scheme.active_share(rows @ theta, data.labels[batch]))
            gradient = scheme.gradient_scale(len(batch)) * (rows.T @ residual) + penalty * theta
            thetas = steps.moved(thetas, ahead, np.split(gradient, ends), batch)
        yield steps.trained(thetas)


def train_by_sums(data: VerticalData, weights: FloatArray, descent: GradientDescent, penalty: FloatArray) -> FloatArray:
    """Train as ``train_centrally``, many times faster where every epoch has the same batches.

    The residual is linear, so that all that enters of a batch are sums of products over its records (Hu eq. 4-6). Where
    features are as many as records, or more, the records are kept instead.

    Args:
        data: every party's features, and the labels.
        weights: (d, columns) initial weights, over all parties' features side by side; returned are the final ones.
        descent: batches, epochs and learning rate.
        penalty: (d, 1) strength of the penalty on each feature's weights.

    Raises:
        ValueError: for steps by own moments, which are few.

    Examples:
        >>> data = VerticalData([np.array([[0.0], [1.0]])], labels=np.array([0, 1]))
        >>> descent = GradientDescent(BatchSchedule(np.arange(2), batch_size=2, seed=0), epochs=3, learning_rate=1.0)
        >>> train_by_sums(data, np.zeros((1, 1)), descent, penalty=np.zeros((1, 1)))
        array([[0.66015625]])
    """
    if descent.own_moments:
        raise ValueError("Sums are kept for plain steps: train by own moments with train_centrally.")
    scheme, features = ResidualScheme(data.classes), np.hstack(data.blocks)

    def kept(batch: IntArray) -> tuple[list[FloatArray], FloatArray]:
        """Make what weights are multiplied by for a batch's gradient, in this order, and what it has by labels."""
        rows, scale = features[batch], scheme.gradient_scale(len(batch))
        of_labels = scheme.active_share(np.zeros((len(batch), scheme.columns)), data.labels[batch])
        factors = [scale * (rows.T @ rows)] if rows.shape[0] > rows.shape[1] else [rows, scale * rows.T]
        return factors, scale * (rows.T @ of_labels)

    batches: list[tuple[list[FloatArray], FloatArray]] = []
    for epoch in range(descent.epochs):
        if descent.schedule.reshuffled or not batches:
            batches = [kept(batch) for batch in descent.schedule.epoch(epoch)]
        for factors, of_labels in batches:
            products = scheme.passive_share(weights)
            for factor in factors:
                products = factor @ products
            weights = weights - descent.learning_rate * (products + of_labels + penalty * weights)
    return weights
