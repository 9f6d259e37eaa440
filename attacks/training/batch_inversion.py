"""Labels from the sums of a network's backward signals over batches, where only X^T delta is read.

Zou et al. (2022) search for labels that explain the summed gradient of a batch. Ours solves for them. A record's signal
is its error p_i - y_i times a direction v that all records of two classes share, but for the activation's slope: the
sums X^T delta are nearly of rank one, and their part along v is X^T (p - y) of the batch, one number for each own
column. Where there are as many as rows the signals follow at once (``training.gradient_direction``). Otherwise sums of
many steps share their unknowns: y_i never changes and p_i moves smoothly, as shares of a linear model do, so
``training.trajectory_labels`` reads them from all epochs together. What sums leave open of a record the own columns
tell, as far as they tell it of others. The same batches in every epoch tell less, most of it in the first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.training.gradient_direction import GradientDirection, check_passive
from attacks.training.label_completion import UNNAMED, named_classes, with_columns
from attacks.training.least_norm import by_batch, least_norm, told_share
from attacks.training.recovered_labels import EstimatedLabels, last_epoch
from attacks.training.smooth_shares import whitening
from attacks.training.trajectory_labels import TrajectoryLabels, draws_anew, label_terms, places
from attacks.training_views import Equations, OwnStep, TrainingView
from vfl.arrays import FloatArray
from vfl.learning import registry as learners
from vfl.learning.confidence import confidence_scores
from vfl.theory.training import residual

# How much of the direction is that of the step at hand, beside those before it.
_NEW = 0.3
# Looks at the sums of more classes than two; and how much of the scatter of points without groups theirs may have
# (the gap statistic of Tibshirani et al. 2001).
_LOOKS, _GROUPED = 4, 0.85
# How many standard deviations by chance two sessions must agree by to be about the same labels.
_AGREED = 3.0
_WHY_NOTHING = "Not possible: the sums of all steps tell too little of labels; more epochs in other batches tell more."
_TINY = 1e-300


@dataclass(frozen=True)
class BatchInversion:
    """Inverts sums over batches: step by step where they determine signals, from all epochs together where they don't.

    Of more than two classes records are grouped, where the batches of epochs differ, and known labels name the groups.
    Which of two classes is which known labels tell as well; without any it is a guess where little is told.

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
            ViewError: for the active party's view, or where a step has no sums.
        """
        require(self, view)
        check_passive(self.name, view)
        single = GradientDirection(seed=self.seed).attack(view)
        if single.details["steps_read"] == len(view.equations):
            return single
        estimate = self._joined(view, _as_linear(view, *_along_directions(view)))
        if estimate.reason:
            return estimate
        rows, probabilities = estimate.rows, estimate.probabilities.copy()
        believed = with_columns(view.features[rows], probabilities[rows])
        named = named_classes(believed, view, rows)
        probabilities[rows] = believed if named is None else named
        return replace(estimate, probabilities=probabilities, reason=UNNAMED if named is None else "")

    def _joined(self, view: TrainingView, linear: TrainingView) -> EstimatedLabels:
        """Find what the sums of all epochs say of groups of records; which is which class is open.

        Backward signals are residuals nearly, not quite: classes that were believed of them led astray.
        """
        if linear.classes == 2:
            earlier = [_as_linear(one, *_along_directions(one)) for one in view.earlier if one.classes == 2]
            sessions = [_with_first_columns(one) for one in (linear, *earlier)]
            sessions = [sessions[0], *_turned_alike(sessions[0], sessions[1:])]
            attack = TrajectoryLabels(rounds=self.rounds, seed=self.seed, believed_from=np.inf)
            return attack.attack(replace(sessions[0], earlier=tuple(sessions[1:])))
        terms = label_terms(linear, looks=_LOOKS, seed=self.seed)
        points = terms.terms[terms.rows]
        centres, scatter = _clusters(points, linear.classes, self.seed)
        # Points of no groups: as far apart along each of their axes, and along each by chance.
        sizes = np.linalg.svd(points - points.mean(axis=0), compute_uv=False) / math.sqrt(len(points))
        blob = np.random.default_rng(self.seed).standard_normal(points.shape) * sizes
        grouped = scatter / max(_clusters(blob, linear.classes, self.seed)[1], _TINY)
        apart = terms.precision * ((points[:, None] - centres) ** 2).sum(axis=2)
        probabilities = np.full((linear.n, linear.classes), np.nan)
        probabilities[terms.rows] = likely = confidence_scores(-apart / 2)
        details = {**terms.details, "scatter_within_groups": round(grouped, 4)}
        reason = "" if grouped <= _GROUPED else _WHY_NOTHING
        if reason:
            probabilities[:] = np.nan
        return EstimatedLabels(probabilities, terms.rows, last_epoch(linear), told_share(likely), details, reason)


def _clusters(points: FloatArray, count: int, seed: int) -> tuple[FloatArray, float]:
    """Centres of so many clusters of (m, c) points, and the sum of squares about them."""
    from sklearn.cluster import KMeans  # slow to import

    clusters = KMeans(count, n_init=10, random_state=seed).fit(points)
    return clusters.cluster_centers_, float(clusters.inertia_)


def _along_directions(view: TrainingView) -> tuple[list[FloatArray], FloatArray]:
    """Find the sums' part along the directions that all signals share, (D, c) of each step, and its size per record.

    Of k classes these are k - 1. They are followed from step to step, so that signs and turns stay.
    """
    turn = whitening(view.features)
    count = min(view.classes - 1, view.columns, turn.shape[1])
    before: FloatArray | None = None
    parts, sizes = [], []
    for step in view.equations:
        turned = turn.T @ step.sums[: len(turn)]
        scaled = turned / max(float(np.linalg.norm(turned)), _TINY)
        stacked = scaled if before is None else np.vstack([scaled, before.T])
        axes = np.linalg.svd(stacked, full_matrices=False)[2][:count].T
        before = axes if before is None else before
        axes = axes @ _rotation(axes.T @ before)
        before = _rotation((1 - _NEW) * before + _NEW * axes)
        parts.append(step.sums @ axes)
        sizes.append(float(((turned @ axes) ** 2).sum(axis=1).mean()) / len(step.rows))
    return parts, np.array(sizes)


def _rotation(matrix: FloatArray) -> FloatArray:
    """Find the matrix with orthonormal columns that is nearest."""
    left_vectors, _, right = np.linalg.svd(matrix, full_matrices=False)
    nearest: FloatArray = left_vectors @ right
    return nearest


def _as_linear(view: TrainingView, parts: list[FloatArray], sizes: FloatArray) -> TrainingView:
    """Make the steps of a linear model, of whose residuals, turned somehow, the parts are sums.

    The directions' length is in the parts. What is left is as large as residuals of equally frequent classes are:
    sizes are even across an epoch on either side.
    """
    linear = learners.load("linear")
    columns, classes = linear.columns(view.classes), view.classes
    codes = residual("first_order", np.zeros((classes, columns)), np.arange(classes), classes)
    smooth = _smoothed(sizes, np.ones(2 * (view.steps_per_epoch or 1) + 1))
    scales = np.sqrt((codes**2).sum(axis=1).mean() / np.maximum(smooth, _TINY))
    # Residuals of several classes' columns add up to 0.
    turn = np.linalg.qr(np.column_stack([np.ones(columns), np.eye(columns)[:, 1:]]))[0].T
    spread = turn[1:] if columns > 1 else np.ones((1, 1))
    equations: list[Equations] = [
        replace(one, sums=scale * part @ spread[: part.shape[1]])
        for one, part, scale in zip(view.equations, parts, scales, strict=True)
    ]
    steps = tuple(OwnStep(own.step, own.rows, np.zeros((len(own.rows), columns))) for own in view.steps)
    return replace(view, learner=linear, steps=steps, equations=tuple(equations), earlier=())


def _with_first_columns(linear: TrainingView) -> TrainingView:
    """Put what own columns say of residuals back to what it was in the first epoch, where all have the same batches.

    Training takes out of residuals what columns tell of labels; the first epoch's have all of it. Sums over all batches
    tell exactly what the own columns explain of residuals by least squares.
    """
    if draws_anew(linear):
        return linear
    batches = by_batch(linear.equations)
    features = linear.features[np.concatenate([same[0].rows for same in batches])]
    moved = np.sum([same[0].sums - np.mean([one.sums for one in same], axis=0) for same in batches], axis=0)
    weights = np.linalg.pinv(features.T @ features, hermitian=True) @ moved
    return replace(
        linear,
        equations=tuple(
            replace(one, sums=one.sums + one.matrix.T @ (one.matrix @ weights)) for one in linear.equations
        ),
    )


def _turned_alike(linear: TrainingView, earlier: Sequence[TrainingView]) -> list[TrainingView]:
    """Turn the residuals of other sessions, whose sign is open, as this one's are; leave out those of other labels."""
    turned = []
    for other in earlier:
        here, there = places([linear, other])
        n = 1 + max(int(here.max()), int(there.max()))
        first, second = (
            least_norm([one.equations], [own], n).residuals[:, 0] for one, own in ((linear, here), (other, there))
        )
        product = first * second
        agreed = float(product.sum()) / max(float(np.linalg.norm(product)), _TINY)
        if abs(agreed) >= _AGREED:
            equations = tuple(replace(one, sums=np.sign(agreed) * one.sums) for one in other.equations)
            turned.append(replace(other, equations=equations))
    return turned


def _smoothed(values: FloatArray, window: FloatArray) -> FloatArray:
    """Means of (n,) values over a window that is cut at the ends."""
    centre = len(window) // 2
    sums = np.convolve(values, window)[centre : centre + len(values)]
    counts = np.convolve(np.ones(len(values)), window)[centre : centre + len(values)]
    return sums / counts
