"""Vertical training in one place and in plain float64: the yardstick of the encrypted one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, eq=False)
class PlainStep:
    """One training step as nobody in a federation sees it whole.

    Attributes:
        rows: (s,).
        weights: per party (d_j, columns), at which its gradient is taken.
        shares: per party (s, columns), adding up to f; of an expansion that has no shares every party's product.
        residual: f, (s, columns).
    """

    rows: IntArray
    weights: tuple[FloatArray, ...]
    shares: tuple[FloatArray, ...]
    residual: FloatArray


# Makes of parties' products (s, columns) and of a batch's rows the shares and f.
Expand = Callable[[Sequence[FloatArray], IntArray], tuple[Sequence[FloatArray], FloatArray]]


class PlainTraining:
    """The linear model's training on all parties' blocks in one place: the one loop of it in float64 (Hu eq. 3-6).

    Attributes:
        weights: per party, as they stand, (d_j, columns); of centred columns where steps are by own moments.
    """

    def __init__(
        self,
        data: VerticalData,
        weights: Sequence[FloatArray],
        descent: GradientDescent,
        *,
        l2: float = 0.0,
        unpenalised: Sequence[BoolArray] | None = None,
    ) -> None:
        """Begin at ``weights``; arguments are those of ``train_centrally``.

        Raises:
            ValueError: for steps by own moments where the label party's last column isn't the constant 1.
        """
        self._data, self._schedule, self._scheme = data, descent.schedule, ResidualScheme(data.classes)
        self.weights: list[FloatArray] = [np.array(block, dtype=np.float64) for block in weights]
        self._penalties = [np.full((len(block), 1), l2) for block in self.weights]
        for penalty, spared in zip(self._penalties, unpenalised or [], strict=unpenalised is not None):
            penalty[spared] = 0.0
        self._intercept: FloatArray | None = None
        self._descents: list[PlainDescent | OwnMomentsDescent]
        if not descent.own_moments:
            self._descents = [PlainDescent(descent.learning_rate) for _ in data.blocks]
            return
        if not (data.blocks[data.label_party][:, -1] == 1).all():
            raise ValueError("Steps by own moments need the label party's bias: make its last column 1 throughout.")
        rows, curvature = descent.schedule.train_rows, self._scheme.gradient_scale(1)
        self._intercept = self._scheme.intercept(data.labels[rows])
        self._descents = [
            OwnMomentsDescent(OwnMoments(block, rows, curvature, penalty), descent.learning_rate)
            for block, penalty in zip(data.blocks, self._penalties, strict=True)
        ]

    def epoch(
        self, number: int, expand: Expand | None = None, scale: Callable[[int], float] | None = None
    ) -> Iterator[PlainStep]:
        """Take the steps of an epoch.

        Args:
            number: of the epoch.
            expand: makes f; None for the first order.
            scale: of a gradient of so many records; None for the first order's.
        """
        expand, scale = expand or self.first_order, scale or self._scheme.gradient_scale
        for rows in self._schedule.epoch(number):
            ahead = [descent.ahead(block, rows) for descent, block in zip(self._descents, self.weights, strict=True)]
            products = [block[rows] @ theta for block, theta in zip(self._data.blocks, ahead, strict=True)]
            shares, f = expand(products, rows)
            yield PlainStep(rows, tuple(ahead), tuple(shares), f)
            parts = zip(self._descents, self.weights, ahead, self._data.blocks, self._penalties, strict=True)
            self.weights = [
                descent.moved(theta, at, scale(len(rows)) * (block[rows].T @ f) + penalty * at, rows)
                for descent, theta, at, block, penalty in parts
            ]

    def first_order(self, products: Sequence[FloatArray], rows: IntArray) -> tuple[list[FloatArray], FloatArray]:
        """Make shares as parties send them, and their sum."""
        shares = [self._scheme.passive_share(product) for product in products]
        labelled = self._data.label_party
        shares[labelled] = self._scheme.active_share(products[labelled], self._data.labels[rows])
        shares = [self._descents[0].sent(share) for share in shares]
        return shares, np.add.reduce(shares)

    @property
    def model(self) -> list[FloatArray]:
        """The model's weights: with the intercept at the label party's bias, where columns are centred."""
        if self._intercept is None:
            return list(self.weights)
        constants = [descent.constant(block) for descent, block in zip(self._descents, self.weights, strict=True)]
        model, block_weights = list(self.weights), self.weights[self._data.label_party]
        bias = self._intercept + block_weights[-1:] + np.add.reduce([one for one in constants if one is not None])
        model[self._data.label_party] = np.vstack([block_weights[:-1], bias])
        return model


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
    ends = np.cumsum([block.shape[1] for block in data.blocks])[:-1]
    if not descent.own_moments:
        # As one block, which is faster: whose columns are whose doesn't matter to plain steps.
        data = replace(data, blocks=[np.hstack(data.blocks)], label_party=0)
        weights, unpenalised = [np.vstack(weights)], None if unpenalised is None else [np.concatenate(unpenalised)]
    training = PlainTraining(data, weights, descent, l2=l2, unpenalised=unpenalised)
    for epoch in range(descent.epochs):
        for _ in training.epoch(epoch):
            continue
        yield training.model if descent.own_moments else np.split(training.weights[0], ends)


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
