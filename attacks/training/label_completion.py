"""Completes what an attack believes of labels by few known ones.

Fu et al. (USENIX Security 2022, section 4) complete a party's bottom model to a whole one with some labelled records.
Of a linear model, or of a linear first layer, the completion is a regression on the own part of the score, with the own
columns to correct it. Where an attack tells classes apart but not which is which, known labels name them.
"""

from typing import Any

import numpy as np

from attacks.training_views import TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores

# Of the scores' spread.
_OWN, _TINY = 0.1, 1e-300
# Of expectation maximisation; and how far columns may say more than evidence does, which is never quite calibrated.
_ROUNDS, _HELD = 15, 0.1
UNNAMED = "Classes are told apart, but not which is which: give the attack's party a known label of each."


def completed(features: FloatArray, probabilities: FloatArray, rows: IntArray, labels: IntArray) -> FloatArray:
    """Complete an attack's estimate by few known labels: the class probabilities of all records.

    Args:
        features: (n, d), the adversary's own.
        probabilities: (n, k), what the attack believes.
        rows: (m,) rows whose labels are known.
        labels: (m,) their classes, of at least two kinds.

    Returns:
        (n, k); 0 for a class that no known label has.
    """
    believed = np.log(np.clip(probabilities, 1e-6, 1.0))
    scores = believed - believed.mean(axis=1, keepdims=True)
    return completed_by(features, scores, rows, labels, probabilities.shape[1])


def completed_by(
    features: FloatArray, scores: FloatArray, rows: IntArray, labels: IntArray, classes: int
) -> FloatArray:
    """Class probabilities, (n, classes), of all records from (n, m) scores that follow labels; arguments as above.

    Few labels tell little of many columns. So the regression is held to the scores in proportion to their spread, and
    to own columns in a tenth of it: standardised beside the scores, these would hide what the scores tell.
    """
    from sklearn.linear_model import LogisticRegression

    columns, centred = features - features.mean(axis=0), scores - scores.mean(axis=0)
    columns = _OWN * columns / np.maximum(columns.std(axis=0), _TINY)
    inputs = np.column_stack([columns, centred / max(float(centred.std(axis=0).max()), _TINY)])
    classifier = LogisticRegression(max_iter=1000).fit(inputs[rows], labels)
    completed_rows = np.zeros((len(inputs), classes))
    completed_rows[:, classifier.classes_] = classifier.predict_proba(inputs)
    return completed_rows


def with_columns(features: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Add to what is believed of each record what its own columns tell, as the same belief in all records teaches.

    The most likely regression of classes on columns, where beliefs are evidence and no label is known (EM).

    Args:
        features: (n, d), the adversary's own.
        probabilities: (n, k), by evidence that no column entered.

    Returns:
        (n, k).
    """
    from sklearn.linear_model import LogisticRegression

    n, classes = probabilities.shape
    evidence = np.log(np.maximum(probabilities, 1e-9))
    inputs = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), _TINY)
    repeated, named = np.tile(inputs, (classes, 1)), np.repeat(np.arange(classes), n)
    classifier, belief = LogisticRegression(C=_HELD, max_iter=200, warm_start=True), probabilities
    for _ in range(_ROUNDS):
        classifier.fit(repeated, named, sample_weight=belief.T.ravel() + 1e-9)
        belief = confidence_scores(evidence + classifier.predict_log_proba(inputs))
    return belief


def own_classifier() -> Any:
    """Make a logistic regression on standardised columns, as a party makes one of known labels."""
    # Slow to import: no command waits for it that ends with a mistake.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def known_among(view: TrainingView, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Places among (m,) rows of those whose labels the adversary knows anyway, and the labels."""
    if view.known_labels is None:
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    places = np.flatnonzero(view.known_labels[rows] >= 0)
    return places, view.known_labels[rows[places]]


def group_of_class(groups: FloatArray, labels: IntArray) -> IntArray | None:
    """Say which group is which class by records whose labels are known: as most of them have it.

    Args:
        groups: (t, k), how likely each of them belongs to each group.
        labels: (t,) their classes.

    Returns:
        (k,) the group of each class; None where more than one of more than two classes have no known label.
    """
    classes = groups.shape[1]
    # Of a class without a known label nothing is said: the assignment leaves it what others don't take.
    if classes > 2 and len(np.unique(labels)) < classes - 1:
        return None
    votes = np.zeros((classes, classes))
    np.add.at(votes, labels, np.log(np.maximum(groups, 1e-6)))
    from scipy.optimize import linear_sum_assignment

    order: IntArray = linear_sum_assignment(-votes)[1]
    return order


def named_classes(
    groups: FloatArray, view: TrainingView, rows: IntArray, sizes: FloatArray | None = None
) -> FloatArray | None:
    """Say which group is which class.

    Known labels decide, as most of them have it. Without any, the rarer of two classes is taken for class 1: the one
    with the larger values, as the error of a rarer class is larger, or the group with fewer members.

    Args:
        groups: (m, k), how likely each record belongs to each group.
        view: the adversary's.
        rows: (m,) which records.
        sizes: (m,) what is larger for the rarer class; None where only counting is left.

    Returns:
        (m, k), how likely each class is; None where more than two can't be named.
    """
    places, labels = known_among(view, rows)
    classes = groups.shape[1]
    if len(places):
        order = group_of_class(groups[places], labels)
        return None if order is None else groups[:, order]
    if classes > 2:
        return None
    members = groups.argmax(axis=1)
    counts = np.bincount(members, minlength=2)
    rarer = int(counts.argmin())
    if sizes is not None and counts.min() > 0:
        rarer = int(np.array([sizes[members == one].mean() for one in (0, 1)]).argmax())
    return groups[:, [1 - rarer, rarer]]
