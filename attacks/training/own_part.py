"""What a passive party's own part of the model says of labels, alone and completed by few known ones.

Training makes each party's part of the score follow the labels as far as its columns can: who labels nothing itself is
handed a classifier. ``training.label_completion`` completes it by known labels. Of a network the own part is a layer's:
X times what the first epochs moved its weights by has a column of labels for every class but one, in unknown
directions.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import lsmr

from attacks.base import AttackSpec, require
from attacks.training.label_completion import UNNAMED, completed_by, known_among
from attacks.training.recovered_labels import EstimatedLabels, last_epoch, nothing_told
from attacks.training_views import TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores

# A logistic distribution's standard deviation: scores in units of it become probabilities.
_LOGISTIC = np.pi / np.sqrt(3)
# Of more columns than this the weights are found step by step, which takes a tenth of the time and a few digits less.
_WIDE, _ROUNDS = 256, 300
# Of a network: while its weights move as labels have it; later they make up for each other.
_EARLY_EPOCHS = 2
# A share is uniform, whatever the weights are: cut at its mean, it is as often the wrong way round as the right one.
NONE_SHARED = "has no part of its own where weights stay shared"


@dataclass(frozen=True)
class OwnPart:
    """Cuts the adversary's own part of the score, as the last epoch left it, at its mean.

    Of several classes the one with the largest score about its mean is named. Nothing of another party is read but what
    training made of the own weights. Probabilities put records in order; where the mean is no good cut, they are off.

    Known labels complete it: a regression on the own part, with the own columns to correct it. Of a network the own
    part is what all of training moved the layer by, each direction by its length. Without known labels, of its two
    classes the longer tail of what the first epochs moved most is taken for class 1, the rarer; that is a guess, and
    names the wrong class where own columns have longer tails than labels give them.
    """

    name: ClassVar[str] = "own_part"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=(),
        source="Fu et al. 2022, section 4 (model completion); without labels: ours",
        learners=("linear", "network"),
        summary="reads labels off the party's own part of the model that training made",
        cost="milliseconds",
        obstacle=lambda scenario: "" if scenario.knows_own_weights else NONE_SHARED,
    )

    def attack(self, view: TrainingView) -> EstimatedLabels:
        """Estimate the labels of all records that the party has. Raises ViewError for the active party's view."""
        require(self, view)
        if view.role != "passive" or not view.linear:
            raise ViewError("own_part is a passive party's attack: the active party has the labels.")
        if not view.knows_own_weights:
            raise ViewError(f"own_part {NONE_SHARED}.")
        if view.learner.spec.answers == "sums":
            return _of_layer(view)
        latest = np.zeros((view.n, view.columns))
        for step in view.steps:
            latest[step.rows] = step.share
        rows = np.unique(np.concatenate([own.rows for own in view.steps]))
        # About their means, since steps by own moments send shares without theirs.
        centred = view.features - view.features[rows].mean(axis=0)
        scores = centred @ _weights(centred[rows], latest[rows] - latest[rows].mean(axis=0))
        spread = scores[rows].std(axis=0)
        if not spread.max() > 0:
            return nothing_told(view, "Not possible: the own part of the score is the same for all records.")
        places, labels = known_among(view, np.arange(view.n))
        if len(np.unique(labels)) > 1:
            return _completed(view, scores, places, labels)
        scores = _LOGISTIC * (scores - scores[rows].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        columns = np.column_stack([np.zeros(view.n), scores]) if view.columns == 1 else scores
        return EstimatedLabels(confidence_scores(columns), rows, last_epoch(view), float("nan"), {})


def _of_layer(view: TrainingView) -> EstimatedLabels:
    """Say what the first layer's movement tells of labels."""
    early = min(len(view.steps), _EARLY_EPOCHS * (view.steps_per_epoch or len(view.steps))) - 1
    first, later, last = (
        _weights(view.features[own.rows], own.share) for own in (view.steps[at] for at in (0, early, -1))
    )
    rows = np.unique(np.concatenate([own.rows for own in view.steps]))
    if not np.abs(last - first).max(initial=0.0) > 0:
        return nothing_told(view, "Not possible: training left the own weights where they were.")
    places, labels = known_among(view, np.arange(view.n))
    if len(np.unique(labels)) > 1:
        return _completed(view, view.features @ (last - first), places, labels)
    if view.classes > 2:
        return nothing_told(view, UNNAMED)
    moved = view.features @ (later - first)
    if not np.ptp(moved[rows], axis=0).any():
        return nothing_told(view, "Not possible: training moved the own part of all records alike.")
    left_vectors, _, _ = np.linalg.svd(moved - moved.mean(axis=0), full_matrices=False)
    tail = np.sqrt(view.n) * left_vectors[:, 0] * np.sign((left_vectors[:, 0] ** 3).mean())
    believed = confidence_scores(_LOGISTIC * tail[:, None])
    return EstimatedLabels(believed, rows, last_epoch(view), float("nan"), {"known_labels": 0})


def _completed(view: TrainingView, scores: FloatArray, places: IntArray, labels: IntArray) -> EstimatedLabels:
    """Complete the own part of the score by labels that are known at these places."""
    rows = np.unique(np.concatenate([own.rows for own in view.steps]))
    probabilities = completed_by(view.features, scores, places, labels, view.classes)
    return EstimatedLabels(probabilities, rows, last_epoch(view), float("nan"), {"known_labels": len(places)})


def _weights(features: FloatArray, shares: FloatArray) -> FloatArray:
    """Weights that make (n, d) features have (n, columns) shares: records that no step used have a score with them."""
    if features.shape[1] <= _WIDE:
        return np.asarray(np.linalg.lstsq(features, shares, rcond=None)[0], dtype=np.float64)
    return np.column_stack([lsmr(features, share, maxiter=_ROUNDS)[0] for share in shares.T])
