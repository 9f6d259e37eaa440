"""Trainings from several starts side by side in float64, and the label attack on each (SIMULATION)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning import GradientDescent
from vfl.theory.training import Approximation, gradient_scale, residual

Advance = Callable[[], object]
Observe = Callable[[IntArray, FloatArray, FloatArray, FloatArray], object]
BATCH_SIZE = 256
LEARNING_RATE = 0.01
FAILURE = 0.01
MEASURES = ("accuracy_train", "accuracy_test", "success_step", "success_kept", "theta_norm")


class KeptLabels:
    """Keeps ``LabelRecovery``'s overall estimate without noise: a row's guaranteed label, else what most steps say.

    One column per training. Tests compare it with ``LabelRecovery`` itself.
    """

    def __init__(self, rows: int, guaranteed: IntArray) -> None:
        shape = (rows, len(guaranteed))
        self._limits = guaranteed
        self._sure = np.zeros(shape, dtype=np.bool_)
        self._seen = np.zeros(shape, dtype=np.bool_)
        # The guaranteed label, or the one that the earliest step gave: it decides ties.
        self._first = np.zeros(shape, dtype=np.bool_)
        self._votes = np.zeros(shape, dtype=np.int64)

    def add(self, rows: IntArray, steps: IntArray, labels: BoolArray, has_label: BoolArray | None = None) -> None:
        """Add one epoch's labels.

        Args:
            rows: (m,), each at most once.
            steps: (m,), at which each was told.
            labels: (m, c).
            has_label: (m, c), where anything was told; None for everywhere.
        """
        if has_label is None:
            has_label = np.ones_like(labels)
        guaranteed = steps[:, None] < self._limits
        self._first[rows] = np.where(self._seen[rows] | ~has_label, self._first[rows], labels)
        self._seen[rows] |= has_label
        self._sure[rows] |= guaranteed & has_label
        self._votes[rows] += np.where(has_label, np.where(labels, 1, -1), 0)

    @property
    def answered(self) -> BoolArray:
        """Whether anything was told of each row so far, (rows, c)."""
        return self._seen.copy()

    @property
    def labels(self) -> BoolArray:
        """Whether each label is 1, (rows, c)."""
        # T_eps ends a run of first steps: a guaranteed row's first label is its guaranteed one.
        by_vote = np.where(self._votes == 0, self._first, self._votes > 0)
        return np.where(self._sure, self._first, by_vote)


@dataclass(frozen=True, eq=False)
class ResidualNoise:
    """The noise of Algorithm 3 on c trainings side by side, and the norm that each keeps.

    Attributes:
        active: (d,), the columns of the label party.
        sigma_active: (c,), of the noise Z^A on the label party's shares of f.
        sigma_passive: (c,), of the noise Z^B on the other's.
        generator: of the noise.
        norm_bounds: (c,), of ||theta||, of which each party keeps its share as ``dp_noise`` does; infinite for none.
            None for none anywhere.
    """

    active: BoolArray
    sigma_active: FloatArray
    sigma_passive: FloatArray
    generator: np.random.Generator
    norm_bounds: FloatArray | None = None

    def disturb(self, batch: FloatArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add noise: f + Z^A (s, c), what the other party can solve for, and the sums (d, c) behind the gradient."""
        solved = residual + self.sigma_active * self.generator.standard_normal(residual.shape)
        noisy = residual + self.sigma_passive * self.generator.standard_normal(residual.shape)
        return solved, np.where(self.active[:, None], batch.T @ noisy, batch.T @ solved)

    def kept(self, theta: FloatArray) -> FloatArray:
        """Shorten each party's part of (d, c) weights to its share of the bounds."""
        if self.norm_bounds is None:
            return theta
        theta = theta.copy()
        for is_own in (self.active, ~self.active):
            norms = np.linalg.norm(theta[is_own], axis=0)
            shares = self.norm_bounds * np.sqrt(is_own.mean())
            theta[is_own] *= np.minimum(1.0, shares / np.maximum(norms, np.finfo(np.float64).tiny))
        return theta


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What c trainings side by side measured. Measures are (epochs, c), after each epoch.

    Attributes:
        accuracy_train: on training rows.
        accuracy_test: on test rows.
        success_step: share of the epoch's training rows whose label is -sign(f) at the step that uses them (Criterion
            4.2). An f of 0 tells nothing.
        success_kept: share of training rows whose label ``LabelRecovery`` has after this epoch where it sees no noise,
            from all steps so far: the votes of the signs.
        theta_norm: ||theta||.
        first_wrong_step: (c,), the first step, from 0, at which Criterion 4.2 errs or tells nothing; -1 when it never
            does.
        weights: (d, c), final.
    """

    accuracy_train: FloatArray
    accuracy_test: FloatArray
    success_step: FloatArray
    success_kept: FloatArray
    theta_norm: FloatArray
    first_wrong_step: IntArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Starts:
    """Where c trainings side by side start.

    Attributes:
        weights: (d, c), initial.
        guaranteed: (c,), T_eps: the first steps whose labels are certain.
        approximations: c of them, how each expands its gradient; empty for the first order everywhere.
    """

    weights: FloatArray
    guaranteed: IntArray
    approximations: tuple[Approximation, ...] = ()

    @property
    def expansions(self) -> dict[Approximation, IntArray]:
        """The columns of each approximation."""
        named = np.array(self.approximations or ("first_order",) * self.weights.shape[1])
        return {name: np.flatnonzero(named == name) for name in dict.fromkeys(self.approximations or ("first_order",))}

    def residuals(self, products: FloatArray, labels: IntArray) -> FloatArray:
        """Compute every training's f, (s, c), of its (s, c) products and the (s,) labels."""
        values = np.empty_like(products)
        for name, columns in self.expansions.items():
            values[:, columns] = residual(name, products[:, columns], labels)
        return values

    def gradient_scales(self, rows: int) -> FloatArray:
        """Give every training's factor between sum_i f_i x_i and its gradient of a batch of ``rows`` records, (c,)."""
        scales = np.empty(self.weights.shape[1])
        for name, columns in self.expansions.items():
            scales[columns] = gradient_scale(name, rows)
        return scales


@dataclass(frozen=True, eq=False)
class Watch:
    """Who is told how far trainings are.

    Attributes:
        step: gets every step's rows (s,), their f and what the attack has of it, both (s, c), and the weights, (d, c).
        epoch: is called after every epoch.
    """

    step: Observe | None = None
    epoch: Advance | None = None


_UNWATCHED = Watch()


def train_side_by_side(
    features: FloatArray,
    labels: IntArray,
    starts: Starts,
    descent: GradientDescent,
    *,
    test: IntArray,
    noise: ResidualNoise | None = None,
    watch: Watch = _UNWATCHED,
) -> Trajectory:
    """Train a linear model from every start on the same batches (Hu eq. 3-6), and attack the labels at each step.

    Args:
        features: (n, d), an intercept's column included.
        labels: (n,), 0 or 1.
        starts: initial weights.
        descent: batches, epochs and learning rate.
        test: rows of the test set.
        noise: of Algorithm 3; the attack then has f with it.
        watch: who is told after each step and epoch.
    """
    theta = starts.weights.copy() if noise is None else noise.kept(starts.weights)
    schedule = descent.schedule
    train = schedule.train_rows
    label_record = KeptLabels(len(labels), starts.guaranteed)
    first_wrong = np.full(theta.shape[1], -1, dtype=np.int64)
    measures: dict[str, list[FloatArray]] = {name: [] for name in MEASURES}
    truth = labels[:, None] == 1
    for epoch in range(descent.epochs):
        batches = list(schedule.epoch(epoch))
        order, ends = np.concatenate(batches), np.cumsum([len(rows) for rows in batches])
        shuffled, targets = features[order], labels[order]
        step_labels = np.empty((len(order), theta.shape[1]), dtype=np.bool_)
        has_label = np.empty_like(step_labels)
        for rows, end in zip(batches, ends, strict=True):
            part = slice(end - len(rows), end)
            batch = shuffled[part]
            true = starts.residuals(batch @ theta, targets[part])
            noisy, sums = (true, batch.T @ true) if noise is None else noise.disturb(batch, true)
            if watch.step is not None:
                watch.step(rows, true, noisy, theta)
            step_labels[part], has_label[part] = noisy < 0, noisy != 0
            theta = theta - descent.learning_rate * starts.gradient_scales(len(batch)) * sums
            theta = theta if noise is None else noise.kept(theta)
        steps = np.repeat(epoch * len(batches) + np.arange(len(batches)), np.diff(ends, prepend=0))
        label_record.add(order, steps, step_labels, has_label)
        right = (step_labels == truth[order]) & has_label
        for column in np.flatnonzero((first_wrong < 0) & ~right.all(axis=0)):
            first_wrong[column] = steps[right[:, column].argmin()]
        decided = (features @ theta > 0) == truth
        measures["accuracy_train"].append(decided[train].mean(axis=0))
        measures["accuracy_test"].append(decided[test].mean(axis=0))
        measures["success_step"].append(right.mean(axis=0))
        measures["success_kept"].append(((label_record.labels == truth) & label_record.answered)[train].mean(axis=0))
        measures["theta_norm"].append(np.linalg.norm(theta, axis=0))
        if watch.epoch is not None:
            watch.epoch()
    arrays = {name: np.array(values) for name, values in measures.items()}
    return Trajectory(**arrays, first_wrong_step=first_wrong, weights=theta)
