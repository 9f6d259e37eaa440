"""Labels from the sums of a network's backward signals over batches, where only X^T delta is read.

Zou et al. (2022) search for labels that explain the summed gradient of a batch. Ours solves for them. A record's signal
is its error p_i - y_i times a direction v that all records of two classes share, but for the activation's slope: the
sums X^T delta are nearly of rank one, and their part along v is X^T (p - y) of the batch, one number for each own
column. Where there are as many as rows the signals follow at once (``attacks.gradient_direction``). Otherwise sums of
many steps share their unknowns: y_i never changes and p_i moves smoothly, as shares of a linear model do, so
``attacks.trajectory_labels`` reads them from all epochs together. What sums leave open of a record the own columns
tell, as far as they tell it of others.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.gradient_direction import GradientDirection, check_passive
from attacks.label_completion import named_classes, with_columns
from attacks.recovered_labels import EstimatedLabels
from attacks.smooth_shares import whitening
from attacks.training_views import Equations, OwnStep, TrainingView
from attacks.trajectory_labels import TrajectoryLabels
from attacks.views import ViewError
from vfl.arrays import FloatArray
from vfl.learning import registry as learners

# How much of the direction is that of the step at hand, beside those before it.
_NEW = 0.3
# Residuals of a linear model are 4 (p - y) to first order: label terms 4 apart.
_APART = 4.0
# How a residual spreads where classes are equally frequent.
_EVEN = 0.5
# Below, which of two classes is which is a toss.
_LEAST_TOLD = 0.15
_WHY_NOTHING = "Not possible: the sums of all steps tell too little of labels; more epochs in other batches tell more."
_TINY = 1e-300


@dataclass(frozen=True)
class BatchInversion:
    """Inverts sums over batches: step by step where they determine signals, from all epochs together where they don't.

    Sums of the same batches in every epoch are too few; then nothing follows but ``own_part``. Of two classes.

    Attributes:
        rounds: looks at the sums, at most.
        seed: of the draws that tell how sure it is.
    """

    rounds: int = 12
    seed: int = 0

    name: ClassVar[str] = "batch_inversion"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        knowledge="agnostic",
        needs=("equations",),
        source="Zou et al. 2022 (batch-level label inference); from all epochs together: ours",
        learners=("network",),
        summary="reads labels from a network's gradients, summed over batches, of all epochs together",
        cost="seconds per 1,000 records; minutes at 40,000",
        seconds=lambda extent: 1.0 + 0.002 * extent.steps + 0.06 * extent.distinct_batches,
    )

    def attack(self, view: TrainingView) -> EstimatedLabels:
        """Estimate the labels of all rows in the view's batches.

        Raises:
            ViewError: for the active party's view, of more than two classes, or where a step has no sums.
        """
        require(self, view)
        check_passive(self.name, view)
        single = GradientDirection(seed=self.seed).attack(view)
        if single.details["steps_read"] == len(view.equations):
            return single
        if view.classes != 2:
            raise ViewError(f"batch_inversion tells two classes apart, and this training has {view.classes}.")
        # Backward signals are residuals nearly, not quite: classes that were believed of them led astray.
        joint = TrajectoryLabels(rounds=self.rounds, seed=self.seed, believed_from=np.inf)
        found = joint.attack(_as_linear(view, *_along_one_direction(view)))
        if found.reason or found.told < _LEAST_TOLD:
            return replace(found, reason=found.reason or _WHY_NOTHING)
        rows, probabilities = found.rows, found.probabilities.copy()
        probabilities[rows] = with_columns(view.features[rows], probabilities[rows])
        probabilities[rows] = named_classes(probabilities[rows], view, rows)
        return replace(found, probabilities=probabilities)


def _along_one_direction(view: TrainingView) -> tuple[list[FloatArray], FloatArray]:
    """The sums' part along the direction that all signals share, (D,) of each step, and its size per record.

    The direction is followed from step to step, so that its sign stays.
    """
    turn = whitening(view.features)
    before: FloatArray | None = None
    parts, sizes = [], []
    for one in view.equations:
        told = turn.T @ one.sums[: len(turn)]
        scaled = told / max(float(np.linalg.norm(told)), _TINY)
        stacked = scaled if before is None else np.vstack([scaled, before])
        axis = np.linalg.svd(stacked, full_matrices=False)[2][0]
        if before is None:
            before = axis
        axis = axis if axis @ before >= 0 else -axis
        before = (1 - _NEW) * before + _NEW * axis
        before = before / np.linalg.norm(before)
        parts.append(one.sums @ axis)
        sizes.append(float(((told @ axis) ** 2).mean()) / len(one.rows))
    return parts, np.array(sizes)


def _as_linear(view: TrainingView, parts: list[FloatArray], sizes: FloatArray) -> TrainingView:
    """The same steps as if a linear model had been trained, whose residuals 4 (p - y) the parts are sums of.

    The direction's length is in the parts. What is left is as large as residuals of two equally frequent classes are:
    sizes are even across an epoch on either side.
    """
    window = np.ones(2 * (view.steps_per_epoch or 1) + 1)
    smooth = _smoothed(sizes, window)
    scales = _APART * _EVEN / np.sqrt(np.maximum(smooth, _TINY))
    equations: list[Equations] = [
        replace(one, sums=(scale * part)[:, None])
        for one, part, scale in zip(view.equations, parts, scales, strict=True)
    ]
    steps = tuple(OwnStep(own.step, own.rows, np.zeros((len(own.rows), 1))) for own in view.steps)
    return replace(view, learner=learners.load("linear"), steps=steps, equations=tuple(equations), earlier=())


def _smoothed(values: FloatArray, window: FloatArray) -> FloatArray:
    """Means of (n,) values over a window that is cut at the ends."""
    centre = len(window) // 2
    sums = np.convolve(values, window)[centre : centre + len(values)]
    counts = np.convolve(np.ones(len(values)), window)[centre : centre + len(values)]
    smoothed: FloatArray = sums / counts
    return smoothed
