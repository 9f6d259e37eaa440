"""What a passive party that grows boosted trees reads of labels in the routes that it is told (``training.leaf_axis``).

Which rows go left at each split is told to all parties, so that each knows the leaf of every training row. Nothing is
decrypted, and no message is other than the protocol's.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.training.label_completion import known_among
from attacks.training.leaf_axis import class_probabilities, label_axis, labels_by_leaves
from attacks.training.recovered_labels import EstimatedLabels, last_epoch
from attacks.training_views import TrainingView
from attacks.views import ViewError


@dataclass(frozen=True)
class LeafLabels:
    """Orders records along the one direction in which trees agree, and cuts them at its mean.

    The longer tail is taken for class 1, the rarer; that is a guess, and names the wrong class where class 0 is rarer.
    Known labels of both classes complete it, with the own columns beside.
    """

    name: ClassVar[str] = "leaf_labels"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=(),
        source="ours",
        learners=("boosted_trees",),
        summary="reads labels off the leaves of boosted trees, whose routes all parties are told",
        cost="seconds",
    )

    def attack(self, view: TrainingView) -> EstimatedLabels:
        """Estimate the labels of all training records. Raises ViewError for a view without leaves."""
        require(self, view)
        if view.leaves is None or view.role != "passive":
            raise ViewError("leaf_labels is on what a passive party is told of trees: give leaves, (n, trees).")
        rows = np.flatnonzero((view.leaves > 0).all(axis=1))
        leaves = view.leaves[rows]
        axis = label_axis(leaves)
        places, labels = known_among(view, rows)
        is_named = len(np.unique(labels)) > 1
        reason = (
            "" if is_named or axis.any() else "Not possible: leaves of these trees are told apart, and not ordered."
        )
        probabilities = np.full((view.n, view.classes), np.nan)
        if is_named:
            probabilities[rows] = labels_by_leaves(leaves, view.features[rows], places, labels)
        elif not reason:
            probabilities[rows] = class_probabilities(axis)
        details = {"known_labels": len(places), "trees": leaves.shape[1]}
        return EstimatedLabels(probabilities, rows, last_epoch(view), float("nan"), details, reason)
