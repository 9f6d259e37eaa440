"""Passive columns from a network's hidden sums, on every rung and with no record known (ours).

``training.gram_fit`` finds all inner products of records, and ``solving.gram_rotation`` the rotation that these leave
open, by what is public or published of the columns.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args
from weakref import WeakKeyDictionary

import numpy as np

from attacks.base import NEEDS, AttackSpec, require
from attacks.solving.gram_rotation import ColumnKnowledge, procrustes, rotated
from attacks.training.binary_columns import BinaryValues, binary_values
from attacks.training.gram_fit import GradientSteps, GramFit, fit_gram
from attacks.training.recovered_values import EstimatedFeatures, by_peer
from attacks.training_views import KnownRecords, TrainingView
from attacks.views import PassiveMoments, ViewError
from vfl.adversary_words import Level
from vfl.arrays import FloatArray
from vfl.learning.network import Network
from vfl.learning.network.optimisers import MOMENTUM

Prior = Literal["nothing", "marginals", "covariance", "records"]
# One session's sums are fitted once, whatever is known beforehand.
_FITS: "WeakKeyDictionary[TrainingView, GramFit]" = WeakKeyDictionary()
# Directions of known records that are rounding; and the share of sums unexplained from which on something was added.
_RANK, _NOISY = 1e-6, 1e-9


@dataclass(frozen=True)
class GramSpace:
    """Fits all hidden sums of a training up to a rotation of the columns, then rotates to what is known of these.

    It needs units times epochs to reach the columns that don't follow from others, of all passive parties together, and
    gradient steps of which the label party knows all but the columns: ``sgd`` and ``momentum``. ``adam`` divides by
    what it doesn't know.

    Attributes:
        prior: what is known beforehand, besides public ranges. nothing: columns of 0 and 1 come out, whosever they are.
            marginals: means and variances. covariance: of all columns. records: complete ones, and statistics if any.
        seed: of the searches for the rotation.
    """

    prior: Prior = "covariance"
    seed: int = 0

    name: ClassVar[str] = "gram_space"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=("forwarded",),
        source="ours",
        learners=("network",),
        summary="reads passive columns off a network's forwarded first layer, on every rung, with no record known",
        cost="seconds; of more than 20 columns, minutes",
        level="covariance",
        at_level={level: {"prior": level} for level in get_args(Prior)},
        seconds=lambda extent: 2.0 + 0.0003 * extent.records + 0.07 * min(extent.features, 50) ** 2,
    )

    @property
    def level(self) -> Level:
        """What its adversary knows beforehand."""
        return self.prior

    def attack(self, view: TrainingView) -> EstimatedFeatures | BinaryValues:
        """Estimate the passive columns of all records that training used.

        Raises:
            ViewError: for a passive party's view, without what ``prior`` says is known, and where steps are missing.
        """
        require(self, view)
        needed = {"nothing": "", "records": "known_records"}.get(self.prior, "moments")
        if needed and getattr(view, needed) is None:
            raise ViewError(f"gram_space(prior={self.prior}) needs {needed}: {NEEDS['training'][needed]}.")
        if self.prior == "covariance" and view.moments is not None and view.moments.covariance is None:
            raise ViewError("gram_space(prior=covariance) needs a covariance: PLUMBLINE_PRIOR_KNOWLEDGE has none.")
        if view not in _FITS:
            _FITS[view] = _fitted(view)
        fit = _FITS[view]
        if self.prior == "nothing":
            binary = binary_values(fit.rows, fit.points)
            return BinaryValues(fit.rows, binary.values, fit.rank, fit.reason or binary.reason)
        if fit.reason:
            return EstimatedFeatures(fit.rows[:0], {}, {}, reason=fit.reason)
        records = _of_fit(view.known_records, fit) if self.prior == "records" else None
        if self.prior == "records" and records is None:
            raise ViewError("None of known_records was trained on: give some that were.")
        values, guess = self._turned(view, fit, records)
        if fit.residual > _NOISY and view.moments is not None:
            # What is defended spreads estimates: they are drawn to the mean until they vary as columns do.
            centre, spread = values.mean(axis=0), np.maximum(values.var(axis=0), 1e-300)
            values = guess + np.minimum(1.0, view.moments.variance / spread) * (values - centre)
        estimated = (
            np.arange(len(fit.rows)) if records is None else np.setdiff1d(np.arange(len(fit.rows)), records.rows)
        )
        return EstimatedFeatures(
            fit.rows[estimated],
            by_peer(view.peer_features, values[estimated]),
            by_peer(view.peer_features, np.broadcast_to(guess, values.shape)[estimated]),
            numbers={"rank": fit.rank, "unexplained": fit.residual},
        )

    def _turned(self, view: TrainingView, fit: GramFit, records: KnownRecords | None) -> tuple[FloatArray, FloatArray]:
        """Find all columns, (m, D), and the (D,) means that are guessed without the federation."""
        moments = view.moments
        if records is not None:
            guess = records.features.mean(axis=0) if moments is None else moments.mean
            sizes = np.linalg.svd(fit.points[records.rows], compute_uv=False)
            is_settled = int((sizes > _RANK * sizes[0]).sum()) == fit.rank
            if is_settled or moments is None:
                return procrustes(fit.points, records.rows, records.features), guess
        if moments is None:
            raise AssertionError  # attack has refused such views; this tells the type checker
        knowledge = _knowledge(view, moments, len(fit.rows), is_marginal=self.prior == "marginals")
        if records is not None:
            knowledge.low[records.rows] = knowledge.high[records.rows] = records.features
        return rotated(fit.points, knowledge, np.random.default_rng(self.seed)), moments.mean


def _fitted(view: TrainingView) -> GramFit:
    learner, columns = view.learner, sum(view.peer_features.values())
    if not isinstance(learner, Network) or learner.optimiser == "adam":
        reason = (
            "Not tried: adam divides gradients by what the label party doesn't know, and this fit is of steps it does."
        )
        return GramFit(np.zeros(0, dtype=np.int64), np.zeros((0, 0)), np.nan, reason)
    momentum = MOMENTUM if learner.optimiser == "momentum" else 0.0
    return fit_gram(view.forwarded, GradientSteps(learner.learning_rate, momentum), columns)


def _of_fit(records: KnownRecords | None, fit: GramFit) -> KnownRecords | None:
    """Find the known records that were trained on, as places in the fit's rows; None without any."""
    if records is None or not (used := np.isin(records.rows, fit.rows)).any():
        return None
    return KnownRecords(np.searchsorted(fit.rows, records.rows[used]), records.features[used])


def _knowledge(view: TrainingView, moments: PassiveMoments, records: int, *, is_marginal: bool) -> ColumnKnowledge:
    """Put together what is known. Ranges are [0, 1] where the label party's own columns have them: all encode alike."""
    has_range = bool((view.features >= 0).all() and (view.features <= 1).all())
    shape = (records, len(moments.mean))
    low, high = np.full(shape, 0.0 if has_range else -np.inf), np.full(shape, 1.0 if has_range else np.inf)
    covariance = np.diag(moments.variance)
    if not is_marginal and moments.covariance is not None:
        covariance = moments.covariance
    is_marginal = is_marginal or moments.covariance is None
    return ColumnKnowledge(low, high, moments.mean, covariance, is_marginal, moments.supports)
