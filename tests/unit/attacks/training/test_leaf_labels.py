"""Labels from the routes of boosted trees: what a passive party's view of a session tells, and what it doesn't."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from attacks.training.leaf_labels import LeafLabels
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_views import OwnStep, TrainingView
from attacks.views import ViewError
from tests.harness.tree_tables import made_table
from vfl.arrays import IntArray
from vfl.learning.trees import TreeOptions
from vfl.learning.trees.boosted_trees import BoostedTrees

ROWS, TREES, UNSEEN = 300, 6, 40


def seen(trees: int = TREES) -> tuple[TrainingView, IntArray]:
    """What a passive party is told of trees, in which the last rows are in none; and the labels."""
    table = made_table(ROWS, (3, 3))
    options = TreeOptions(n_estimators=trees, max_depth=3, min_rows_of_a_node=10)
    model, owned = table.train(table.plan(options))
    leaves = model.reached(table.tables, [one.splits for one in owned])
    leaves[-UNSEEN:] = 0
    rows = np.arange(ROWS - UNSEEN)
    view = TrainingView(
        role="passive",
        features=table.tables[1],
        steps=tuple(OwnStep(tree, rows, np.zeros((len(rows), 1))) for tree in range(trees)),
        equations=(),
        peer_features={"bank": 4},
        label_party="bank",
        learner=BoostedTrees(n_estimators=trees),
        classes=2,
        batch_size=len(rows),
        steps_per_epoch=1,
        leaves=leaves,
    )
    return view, table.labels


def test_leaves_order_labels_and_rows_in_no_tree_are_left_open() -> None:
    view, labels = seen()
    found = LeafLabels().attack(view)
    likely = found.probabilities[: ROWS - UNSEEN, 1]
    # Without a known label the ends may be taken for each other.
    area = roc_auc_score(labels[: ROWS - UNSEEN], likely)
    assert max(area, 1 - area) > 0.7
    assert np.isnan(found.probabilities[-UNSEEN:]).all()
    assert (found.labels[-UNSEEN:] == UNRESOLVED).all()
    assert found.epoch == TREES - 1


def test_known_labels_name_the_classes() -> None:
    view, labels = seen()
    known = np.full(ROWS, UNRESOLVED)
    known[:20] = labels[:20]
    found = LeafLabels().attack(replace(view, known_labels=known))
    assert roc_auc_score(labels[20 : ROWS - UNSEEN], found.probabilities[20 : ROWS - UNSEEN, 1]) > 0.7
    assert found.facts()["known_labels"] == 20


def test_leaves_that_nothing_orders_are_said_to_tell_nothing() -> None:
    view, _ = seen(trees=1)
    assert view.leaves is not None
    found = LeafLabels().attack(replace(view, leaves=np.minimum(view.leaves, 1)))
    assert "told apart, and not ordered" in found.reason
    assert (found.labels == UNRESOLVED).all()


def test_other_views_are_refused() -> None:
    view, _ = seen()
    with pytest.raises(ViewError, match="give leaves"):
        LeafLabels().attack(replace(view, leaves=None))
    with pytest.raises(ViewError, match=r"leaves has shape \(3, 2\)"):
        replace(view, leaves=np.ones((3, 2), dtype=np.int64))
