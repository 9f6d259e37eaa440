"""Labels from the backward signals of a network's records (Li et al. 2022): by their direction and by their size.

With softmax and cross-entropy the gradient of record i's loss by the logits is p_i - e_y, so that the signal of the
layer below, delta_i, points in a direction of its class: of two classes in opposite ones. These directions turn slowly
as the layers above are trained, so clusters of one step are followed to the next. A passive party reads delta_i itself
where it comes in the clear, and where its sums X^T delta have as many independent columns as rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.training.label_completion import UNNAMED, named_classes
from attacks.training.recovered_labels import EstimatedLabels, last_epoch
from attacks.training_views import Equations, TrainingView, solve_shares
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores

# Signals shorter than this part of a step's longest have no direction but rounding's.
_SHORTEST = 1e-9
# Directions of so many rows make the first clusters.
_FIRST_ROWS = 512
# How much of a cluster's direction is that of the step at hand.
_NEW = 0.5
# As much of a record's signals lies with one class, unless they are noisy.
_STEADY = 0.95
# Cosines times this are logarithms of how likely classes are: they put records in order, no more.
_SHARPNESS = 5.0


@dataclass(frozen=True)
class GradientDirection:
    """Groups records by the directions of their backward signals, and names the groups by what is known of labels.

    Without a known label, of two classes the one with the longer signals is the rarer (Li et al.'s norm attack), or the
    one with fewer records where noise hides lengths, and is taken for class 1; of more classes none is named.

    Attributes:
        seed: of the first clusters.
    """

    seed: int = 0

    name: ClassVar[str] = "gradient_direction"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=("equations",),
        source="Li et al. 2022 (norm and direction)",
        learners=("network",),
        summary="reads labels off the directions of a network's backward signals, in the clear or solved for",
        cost="milliseconds per 1,000 records",
        seconds=lambda extent: 0.5 + 0.002 * extent.steps,
    )

    def attack(self, view: TrainingView) -> EstimatedLabels:
        """Estimate the labels of all records whose signals are read. Raises ViewError for the active party's view."""
        require(self, view)
        check_passive(self.name, view)
        signals, reason = [], ""
        for equations in view.equations:
            values, why = _solved(equations)
            reason = reason or why
            if values is not None:
                signals.append(Signals(equations.rows, values))
        return labels_of_signals(view, signals, reason, self.seed)


def check_passive(attack: str, view: TrainingView) -> None:
    """Raise ViewError for the view of the party that has the labels."""
    if view.role != "passive":
        raise ViewError(f"{attack} is a passive party's attack: the active party has the labels.")


@dataclass(frozen=True, eq=False)
class Signals:
    """Backward signals of one step: rows (s,), values (s, h)."""

    rows: IntArray
    values: FloatArray


def _solved(equations: Equations) -> tuple[FloatArray | None, str]:
    """Solve for the signals of a step, (s, h), or say why there are none."""
    rows, columns = equations.matrix.shape
    # In the clear: as many decompositions of identities would take longer than all else.
    if rows == columns and np.array_equal(equations.matrix, np.eye(rows)):
        return equations.sums, ""
    solved = solve_shares(equations)
    return solved.values, solved.reason


def labels_of_signals(view: TrainingView, signals: Sequence[Signals], reason: str, seed: int) -> EstimatedLabels:
    """Group records by the directions of their signals, over all steps.

    Args:
        view: of a passive party.
        signals: of the steps where they are read.
        reason: why there are none.
        seed: of the first clusters.
    """
    alike, along, votes = (np.zeros((view.n, view.classes)) for _ in range(3))
    sizes = np.zeros(view.n)
    for rows, cosines, lengths in _followed(signals, view.classes, seed):
        alike[rows] += cosines
        along[rows] += cosines * lengths[:, None]
        votes[rows, cosines.argmax(axis=1)] += 1
        sizes[rows] += lengths
    visits = votes.sum(axis=1)
    records = np.flatnonzero(visits)
    # A defence's noise and rounding turn signals round from step to step; summed projections average them away.
    turns = votes.max(axis=1).sum() < _STEADY * visits.sum()
    if turns:
        alike = along
    probabilities = np.full((view.n, view.classes), np.nan)
    if len(records):
        believed = confidence_scores(_SHARPNESS * alike[records] / visits[records, None])
        named = named_classes(believed, view, records, None if turns else sizes[records] / visits[records])
        reason = "" if named is not None else UNNAMED
        probabilities[records] = believed if named is None else named
    else:
        records = np.unique(np.concatenate([own.rows for own in view.steps]))
        reason = reason or "Not possible: every backward signal is 0."
    details = {"signals_read": int(visits.sum()), "steps_read": len(signals)}
    return EstimatedLabels(probabilities, records, last_epoch(view), float("nan"), details, reason)


def _followed(signals: Sequence[Signals], classes: int, seed: int) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Give each step's rows, their cosines with each class's direction, (s, k), and their lengths over the mean."""
    steps = []
    for signal in signals:
        lengths = np.linalg.norm(signal.values, axis=1)
        long = lengths > _SHORTEST * lengths.max(initial=0.0)
        if long.any():
            steps.append((signal.rows[long], signal.values[long] / lengths[long, None], lengths[long] / lengths.mean()))
    if not steps:
        return
    directions = _first_directions(steps, classes, seed)
    for rows, units, lengths in steps:
        nearest = (units @ directions.T).argmax(axis=1)
        directions = _turned(directions, units, nearest)
        yield rows, units @ directions.T, lengths


def _first_directions(steps: Sequence[tuple[IntArray, FloatArray, FloatArray]], classes: int, seed: int) -> FloatArray:
    """Find a direction for each class, (k, h): of two classes opposite ones, of more the centres of clusters."""
    first = steps[0][1]
    if classes == 2:
        axis = np.linalg.svd(first, full_matrices=False)[2][0]
        return np.stack([-axis, axis])
    from sklearn.cluster import KMeans  # slow to import

    blocks, count = [], 0
    for _, units, _ in steps:
        blocks.append(units)
        count += len(units)
        if count >= _FIRST_ROWS:
            break
    units = np.concatenate(blocks)
    clusters = min(classes, len(np.unique(units, axis=0)))
    centres: FloatArray = KMeans(clusters, n_init=10, random_state=seed).fit(units).cluster_centers_
    # Fewer clusters than classes leave directions that no signal has.
    return np.vstack([_unit(centres), np.zeros((classes - clusters, centres.shape[1]))])


def _turned(directions: FloatArray, units: FloatArray, nearest: IntArray) -> FloatArray:
    """Directions moved towards the step's signals that are nearest to each."""
    turned = directions.copy()
    for direction in np.unique(nearest):
        turned[direction] = (1 - _NEW) * directions[direction] + _NEW * units[nearest == direction].mean(axis=0)
    if len(directions) == 2:
        axis = turned[1] - turned[0]
        turned = np.stack([-axis, axis])
    return _unit(turned)


def _unit(rows: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
