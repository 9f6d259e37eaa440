"""What is tried on received columns beside regressions: on linear scores, leaf numbers and gradients of labels.

Scores that follow exactly from all columns are equations (``posterior``). Records in the same leaves are alike.
Gradients of records of one class point the same way (``gradient_direction``), and leaves of trees agree along the
direction in which they were grown (``leaf_axis``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from attacks.base import Reconstruction, level_of, reconstruct
from attacks.registry import ADAPTIVE, load_prediction
from attacks.training.gradient_direction import Signals, labels_of_signals
from attacks.training.label_completion import completed
from attacks.training.leaf_axis import class_probabilities, label_axis, labels_by_leaves
from attacks.training_views import OwnStep, TrainingView
from attacks.views import PassiveMoments, PredictionView
from vfl.adversary_words import Level
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.confidence import confidence_scores
from vfl.learning.registry import load as load_learner

# Received columns are from 0 to 1: what a linear model is off by less of is floating point's.
_EXACT = 1e-7
# Weights follow from so many records more than there are; fewer fit anything.
_MORE = 5
# Of more columns the posterior isn't cut to the box, which takes minutes.
_WIDE = 100
# How much more the records with nearly all leaves in common count.
_SHARPNESS = 4
# Of more leaf numbers so many are compared.
_MOST_LEAVES = 200
# All known records together weigh as much as so many leaves in common, of all.
_LEAST_ALIKE = 0.05
# What a sender of gradients is called in the view of an attack on labels.
_SENDER = "sender"


@dataclass(frozen=True, eq=False)
class Tried:
    """What one adversary estimates.

    Attributes:
        attack: its name.
        level: what it knows beforehand.
        found: of the judged records.
    """

    attack: str
    level: Level
    found: Reconstruction


def posteriors(
    view: PredictionView,
    groups: tuple[IntArray, ...],
    weights: FloatArray,
    moments: PassiveMoments,
    *,
    is_told: bool,
) -> Iterator[Tried]:
    """Condition what is known beforehand on received columns that follow exactly from own and secret ones.

    Args:
        view: of the judged records and the known ones, with what was received of both.
        groups: which secret columns are the one-hot features of one category.
        weights: (1 + d_a + d, m) constants and weights of each received column, NaN for those that don't follow.
        moments: means and variances of the secret columns, for who knows them.
        is_told: whether the receiver was given the weights; else its known records taught them.
    """
    auxiliary, received = view.auxiliary, np.asarray(view.received)
    if auxiliary is None or auxiliary.received is None:
        return
    first = 1 + view.features_active.shape[1]
    independent = _independent(weights[first:])
    if not len(independent):
        return

    def scores(columns: FloatArray) -> FloatArray:
        # Beside a class whose logit is 0, differences of logits are the columns.
        return confidence_scores(np.hstack([np.zeros((len(columns), 1)), columns[:, independent]]))

    rows = np.hstack([np.zeros((len(weights), 1)), weights[:, independent]]).T
    attacked = replace(
        view,
        scores=scores(received),
        weights_active=rows[:, 1:first],
        weights_passive=rows[:, first:],
        bias=rows[:, 0],
        passive_features=None,
        received=None,
        moments=replace(moments, groups=groups),
        auxiliary=replace(auxiliary, scores=scores(auxiliary.received), received=None),
    )
    for prior in ("half", "mean", "imputation") if is_told else ("imputation",):
        if prior == "imputation" and not len(auxiliary.features_passive):
            continue
        attack = load_prediction(ADAPTIVE, prior=prior, box=view.d <= _WIDE)
        with threadpool_limits(1):
            yield Tried(f"{ADAPTIVE}(received, prior={prior})", level_of(attack), reconstruct(attack, attacked))


def without_own_share(view: PredictionView, weights: FloatArray) -> PredictionView:
    """Receive besides what is left of columns that follow exactly, without what own columns make of them.

    Args:
        view: of the judged records and the known ones, with what was received of both.
        weights: as of ``posteriors``.
    """
    auxiliary, first = view.auxiliary, 1 + view.features_active.shape[1]
    shared = _independent(weights[first:])
    shared = shared[np.abs(weights[1:first, shared]).max(axis=0, initial=0.0) > _EXACT]
    if auxiliary is None or auxiliary.received is None or view.received is None or not len(shared):
        return view
    received = np.vstack([auxiliary.received, view.received])
    features = np.vstack([auxiliary.features_active, view.features_active])
    remainder = received[:, shared] - features @ weights[1:first, shared]
    low, width = remainder.min(axis=0), np.ptp(remainder, axis=0)
    received = np.hstack([received, np.clip((remainder - low) / np.where(width > 0, width, 1.0), 0.0, 1.0)])
    t = len(auxiliary.received)
    return replace(view, received=received[t:], auxiliary=replace(auxiliary, received=received[:t]))


def linear_weights(features: FloatArray, secret: FloatArray, received: FloatArray) -> FloatArray:
    """Solve for how received columns follow from all others, NaN for those that don't: (1 + d_a + d, m).

    Args:
        features: (t, d_a).
        secret: (t, d).
        received: (t, m).
    """
    inputs = np.hstack([np.ones((len(features), 1)), features, secret])
    weights, _, rank, _ = np.linalg.lstsq(inputs, received)
    off = np.abs(inputs @ weights - received).max(axis=0, initial=0.0)
    follows: BoolArray = (off <= _EXACT) & (len(inputs) >= rank + _MORE)
    return np.where(follows, weights, np.nan)


def _independent(weights: FloatArray) -> IntArray:
    """Choose, of (d, m) weights of secret columns, received columns that tell something each beside the others."""
    there = np.flatnonzero(np.isfinite(weights).all(axis=0))
    if not len(there) or not len(weights):
        return np.zeros(0, dtype=np.int64)
    _, triangle, order = qr(weights[:, there], mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    return np.sort(there[order[: int((sizes > 1e3 * _EXACT * max(1.0, sizes.max(initial=0.0))).sum())]])


def leaf_neighbours(view: PredictionView, leaves: FloatArray, attacked_leaves: FloatArray) -> Iterator[Tried]:
    """Take a record for the mean of the known ones that fall into the same leaves, which count by how many they share.

    Args:
        view: of the judged records and the known ones.
        leaves: (t, c) leaf numbers of these.
        attacked_leaves: (n, c) of the judged records; NaN for none.
    """
    if view.auxiliary is None or not leaves.shape[1] or not len(leaves):
        return
    passive, estimate = view.auxiliary.features_passive, np.empty((len(attacked_leaves), view.d))
    compared = np.unique(np.linspace(0, leaves.shape[1] - 1, min(leaves.shape[1], _MOST_LEAVES)).astype(np.int64))
    leaves, attacked_leaves, mean = leaves[:, compared], attacked_leaves[:, compared], passive.mean(axis=0)
    # In blocks, as n times t numbers would be much.
    for rows in np.array_split(np.arange(len(attacked_leaves)), len(attacked_leaves) // 1_000 + 1):
        alike = np.zeros((len(rows), len(leaves)))
        for theirs, ours in zip(leaves.T, attacked_leaves[rows].T, strict=True):
            alike += ours[:, None] == theirs
        weights = (alike / leaves.shape[1]) ** _SHARPNESS
        least = _LEAST_ALIKE**_SHARPNESS
        estimate[rows] = (weights @ passive + least * mean) / (weights.sum(axis=1, keepdims=True) + least)
    yield Tried("leaf_neighbours(received)", "records", Reconstruction(estimate))


def loss_threshold(scores: FloatArray, labels: IntArray, share: float) -> FloatArray:
    """Take the records of whose labels scores are surest for those that were trained on (Yeom et al. 2018): (n,).

    Args:
        scores: (n, s), on any scale: how sure they are is read off a logistic regression of the labels on them.
        labels: (n,) classes; negative for none.
        share: of the records that is thought to be trained on; so many get more than one half.
    """
    from sklearn.linear_model import LogisticRegression  # slow to import

    there, spread = labels >= 0, scores.std(axis=0)
    scaled = (scores - scores.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    sure = np.zeros(len(labels))
    if len(np.unique(labels[there])) > 1:
        model = LogisticRegression().fit(scaled[there], labels[there])
        odds = model.predict_log_proba(scaled[there])
        sure[there] = odds[np.arange(len(odds)), np.searchsorted(model.classes_, labels[there])]
        sure[~there] = np.median(sure[there])
    rank = (rankdata(sure) - 0.5) / len(sure)
    share = min(max(share, 0.01), 0.99)
    above = rank > 1 - share
    believed: FloatArray = np.where(above, 0.5 + (rank - 1 + share) / share / 2, rank / (1 - share) / 2)
    return believed


@dataclass(frozen=True, eq=False)
class Believed:
    """What one adversary believes of labels.

    Attributes:
        attack: its name.
        level: what it knows beforehand.
        probabilities: (n, k) of the judged records.
    """

    attack: str
    level: Level
    probabilities: FloatArray


def label_directions(
    view: PredictionView, labels: IntArray, classes: int, gradients_known: FloatArray, gradients_attacked: FloatArray
) -> Iterator[Believed]:
    """Group records by the directions of their gradients, and name the groups by size or by known labels.

    Of more than two classes none is named without known records.

    Args:
        view: of the judged records and the known ones.
        labels: (t,) classes of the known records.
        classes: k.
        gradients_known: (t, g) gradients of the known records.
        gradients_attacked: (n, g) of the judged ones.
    """
    features, t = view.features_active, len(labels)
    if view.auxiliary is not None and t:
        features = np.vstack([view.auxiliary.features_active, features])
    gradients = np.vstack([gradients_known, gradients_attacked])
    rows, named, learner = np.arange(len(gradients)), np.full(len(gradients), -1), load_learner("linear")
    named[:t] = labels
    batch = TrainingView(
        role="passive",
        features=features,
        steps=(OwnStep(0, rows, np.zeros((len(rows), learner.columns(classes)))),),
        equations=(),
        peer_features={_SENDER: 1},
        label_party=_SENDER,
        learner=learner,
        classes=classes,
        batch_size=len(rows),
        known_labels=named if t else None,
    )
    groups = labels_of_signals(batch, [Signals(rows, gradients)], "", seed=0)
    if groups.reason:
        return
    believed = np.full((len(rows), classes), 1.0 / classes)
    believed[groups.rows] = groups.probabilities[groups.rows]
    yield Believed("gradient_direction(received)", "records" if t else "nothing", believed[t:])
    if len(np.unique(labels)) > 1:
        full = completed(features, believed, np.arange(t), labels)
        yield Believed("label_completion(received)", "records", full[t:])


def label_order(
    view: PredictionView, labels: IntArray, classes: int, leaves_known: FloatArray, leaves_attacked: FloatArray
) -> Iterator[Believed]:
    """Order records along the direction in which trees agree, of which the rarer of two classes has the longer tail.

    Nothing of a label of more classes, and nothing where leaves are in no order.

    Args:
        view: of the judged records and the known ones.
        labels: (t,) classes of the known records.
        classes: k.
        leaves_known: (t, trees) leaf numbers of the known records, in the order in which trees were grown.
        leaves_attacked: (n, trees) of the judged ones.
    """
    leaves, t = np.vstack([leaves_known, leaves_attacked]), len(labels)
    if classes > 2 or not leaves.shape[1]:
        return
    axis = label_axis(leaves)
    if not axis.any():
        return
    yield Believed("leaf_axis(received)", "nothing", class_probabilities(axis)[t:])
    if view.auxiliary is not None and len(np.unique(labels)) > 1:
        features = np.vstack([view.auxiliary.features_active, view.features_active])
        completed_order = labels_by_leaves(leaves, features, np.arange(t), labels)
        yield Believed("leaf_axis(received, known labels)", "records", completed_order[t:])
