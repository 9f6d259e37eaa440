"""Trees that the label party grows first on its own columns, of which no other party hears."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from attacks.training.leaf_axis import label_axis
from tests.harness.tree_tables import TreeTable, made_table
from vfl.arrays import FloatArray, IntArray
from vfl.learning.trees import TreeOptions
from vfl.learning.trees.own_trees import NO_TREES, added_weights

OPTIONS = TreeOptions(n_estimators=4, max_depth=3, min_rows_of_a_node=5)
OWN = 5


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_they_are_those_of_the_label_party_alone_and_the_others_go_on_from_them(missing: float) -> None:
    table = made_table(400, (4, 3), missing=missing)
    model, owned = table.train(table.plan(replace(OPTIONS, own_trees=OWN)))
    alone = TreeTable(table.tables[:1], table.labels)
    first, theirs = alone.train(alone.plan(replace(OPTIONS, n_estimators=OWN)))
    assert model.before.trees == first.trees
    assert list(model.before.splits) == theirs[0].splits
    assert {party for tree in model.before.trees for party, _ in tree.splits.values()} == {0}
    own = first.margins(alone.tables, [theirs[0].splits]) - first.first_margin
    before = added_weights(model.before.trees, model.before.reached(table.tables[0]), np.zeros(400))
    np.testing.assert_allclose(before, own)
    together = replace(model, before=NO_TREES).margins(table.tables, [one.splits for one in owned])
    np.testing.assert_allclose(model.margins(table.tables, [one.splits for one in owned]), own + together)
    assert together.std() > 0


def test_a_label_party_without_columns_has_trees_of_one_leaf() -> None:
    drawn = made_table(200, (3,))
    table = TreeTable((np.zeros((200, 0)), *drawn.tables), drawn.labels)
    model, _ = table.train(table.plan(replace(OPTIONS, own_trees=OWN)))
    assert [tree.splits for tree in model.before.trees] == [{}] * OWN
    assert not model.before.reached(table.tables[0]).any()
    assert model.trees[0].splits


def routes(table: TreeTable, own_trees: int) -> tuple[IntArray, FloatArray]:
    model, owned = table.train(table.plan(replace(OPTIONS, n_estimators=10, own_trees=own_trees)))
    splits = [one.splits for one in owned]
    return model.reached(table.tables, splits), model.margins(table.tables, splits)


def test_routes_tell_less_of_labels_and_the_model_is_as_good() -> None:
    """The label party's columns say most of the label: what is left to the others is little."""
    generator = np.random.default_rng(1)
    own, other = generator.integers(0, 16, (2_000, 2)), generator.integers(0, 16, (2_000, 2))
    logits = (own.sum(axis=1) - 15) + 0.2 * (other.sum(axis=1) - 15)
    labels = (logits + generator.normal(size=2_000) > 8).astype(np.int64)
    table = TreeTable((own.astype(np.float64), other.astype(np.float64)), labels)
    told, margins = routes(table, 0)
    left, behind = routes(table, 30)
    assert roc_auc_score(labels, label_axis(told)) > 0.95
    assert abs(roc_auc_score(labels, label_axis(left)) - 0.5) < 0.25
    assert roc_auc_score(labels, behind) > roc_auc_score(labels, margins) - 0.005


def test_leaves_that_a_tree_hasnt_are_refused() -> None:
    model, _ = made_table(200, (3, 2)).train(made_table(200, (3, 2)).plan(OPTIONS))
    with pytest.raises(ValueError, match="a leaf that its tree hasn't"):
        added_weights(model.trees, np.full((1, len(model.trees)), 99), np.zeros(1))
