"""Boosted trees in one place: beside scikit-learn and XGBoost, by hand, and on tables at the edges."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from tests.harness.tree_tables import TreeTable, made_table
from vfl.arrays import IntArray
from vfl.learning.score_quality import area_under_curve
from vfl.learning.trees import Candidate, TreeOptions
from vfl.learning.trees.split_gains import best_division

# As scikit-learn and XGBoost are asked for too.
PLAIN = TreeOptions(n_estimators=4, max_depth=4, min_rows_of_a_node=1, min_child_weight=1e-3, gradient_bits=30)


def same_groups(one: IntArray, other: IntArray) -> bool:
    """Tell whether two numberings of leaves, (n,), put the same rows together."""
    pairs = len(np.unique(np.column_stack([one, other]), axis=0))
    return len(np.unique(one)) == len(np.unique(other)) == pairs


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_trees_are_scikit_learns(missing: float) -> None:
    table = made_table(1_000, (4, 3), missing=missing)
    model, owned = table.train(table.plan(PLAIN))
    theirs = HistGradientBoostingClassifier(
        learning_rate=PLAIN.learning_rate,
        max_iter=PLAIN.n_estimators,
        max_leaf_nodes=None,
        max_depth=PLAIN.max_depth,
        min_samples_leaf=1,
        l2_regularization=PLAIN.reg_lambda,
        max_bins=PLAIN.max_bin,
        early_stopping=False,
    ).fit(table.joined, table.labels)
    margins = model.margins(table.tables, [one.splits for one in owned])
    np.testing.assert_allclose(margins, theirs.decision_function(table.joined), atol=2e-5)


@pytest.mark.parametrize(
    ("missing", "values", "options"),
    [
        (0.0, 16, PLAIN),
        (0.9, 16, PLAIN),
        (0.1, 250, replace(PLAIN, max_bin=255, max_depth=6)),
        (0.1, 16, replace(PLAIN, gamma=1.5, reg_lambda=0.0, min_child_weight=2.0)),
    ],
    ids=["no gaps", "gaps", "255 bins", "gamma"],
)
def test_trees_are_xgboosts(missing: float, values: int, options: TreeOptions) -> None:
    xgboost: Any = pytest.importorskip("xgboost", reason="needs xgboost-cpu")
    table = made_table(1_000, (4, 3), values=values, missing=missing)
    model, owned = table.train(table.plan(options))
    joined = xgboost.DMatrix(table.joined, label=table.labels)
    asked = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "base_score": 0.5,
        "max_bin": options.max_bin,
        "eta": options.learning_rate,
        "max_depth": options.max_depth,
        "lambda": options.reg_lambda,
        "gamma": options.gamma,
        "min_child_weight": options.min_child_weight,
        "nthread": 1,
    }
    theirs = xgboost.train(asked, joined, num_boost_round=options.n_estimators)
    splits = [one.splits for one in owned]
    np.testing.assert_allclose(
        model.margins(table.tables, splits), theirs.predict(joined, output_margin=True), atol=2e-4
    )
    reached, leaves = model.reached(table.tables, splits), theirs.predict(joined, pred_leaf=True).astype(np.int64)
    assert all(same_groups(reached[:, tree], leaves[:, tree]) for tree in range(options.n_estimators))


def test_one_division_by_hand() -> None:
    """Six rows of h = 1/4 and g = +-1/2: the gain of the division and both weights are fractions."""
    table = TreeTable((np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]),), np.array([0, 0, 0, 1, 1, 1]))
    options = TreeOptions(n_estimators=1, learning_rate=1.0, min_rows_of_a_node=3, min_child_weight=0.0)
    model, (owned,) = table.train(table.plan(options))
    assert [(one.threshold, one.missing_left) for one in owned.splits] == [(3.5, False)]
    assert model.trees[0].weights == pytest.approx({2: -1.5 / 1.75, 3: 1.5 / 1.75})


def test_equal_gains_go_to_the_lowest_party_column_and_bin() -> None:
    column = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [5.0]])
    labels = np.array([0, 0, 0, 1, 1, 1])
    options = TreeOptions(n_estimators=1, min_rows_of_a_node=1, min_child_weight=0.0)
    # The mirrored column gains the same, and so do all empty bins between 0 and 5.
    table = TreeTable((np.hstack([5 - column, column]), column), labels)
    model, owned = table.train(table.plan(options))
    assert model.trees[0].splits == {1: (0, 0)}
    assert owned[0].splits[0].column == 0
    assert owned[0].splits[0].threshold == 2.5


@pytest.mark.parametrize("lie", [-(2**63), 2**63 - 1, 7, -7])
def test_a_sum_that_no_rows_of_the_node_have_gains_nothing(lie: int) -> None:
    """In the clear a sum may be any number of 64 bits, and what it is taken from goes round."""
    values = np.array([[1, 1], [1, 1], [1, 1], [-1, 1], [-1, 1], [-1, 1]])
    options = TreeOptions(min_rows_of_a_node=1, min_child_weight=0.0, gradient_bits=4)
    honest = np.array([[[3, 3], [0, 6]]])
    assert best_division([honest], values, options) == Candidate(0, 0, 0, False)
    honest[0, 0, 0] = lie * options.unit if abs(lie) == 7 else lie
    assert best_division([honest], values, options) is None


def test_what_is_missing_goes_where_it_gains_more() -> None:
    column = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [5.0], [np.nan], [np.nan], [np.nan]])
    options = TreeOptions(n_estimators=1, min_rows_of_a_node=1, min_child_weight=0.0)
    for labels, left in (([0, 0, 0, 1, 1, 1, 0, 0, 0], True), ([0, 0, 0, 1, 1, 1, 1, 1, 1], False)):
        table = TreeTable((column,), np.array(labels))
        _, (owned,) = table.train(table.plan(options))
        assert owned.splits[0].missing_left is left


def test_the_training_stops_early_and_keeps_the_best_trees() -> None:
    table = made_table(400, (2, 2), seed=3)
    options = TreeOptions(n_estimators=200, learning_rate=1.0, max_depth=6, early_stopping_rounds=3)
    model, _ = table.train(table.plan(options, validation=150))
    losses = model.validation_losses
    assert len(losses) < 200
    assert len(model.trees) == int(np.argmin(losses)) + 1 == len(losses) - 3


def test_samples_of_rows_and_columns_change_with_the_tree() -> None:
    table = made_table(300, (4, 4))
    options = TreeOptions(n_estimators=20, subsample=0.5, colsample_bytree=0.5)
    plan = table.plan(options)
    assert {len(plan.root(tree).summed) for tree in range(5)} == {150}
    assert len({plan.root(tree).summed.tobytes() for tree in range(5)}) == 5
    assert {len(plan.sampled_columns(tree, 1)) for tree in range(5)} == {2}
    model, owned = table.train(plan)
    margins = model.margins(table.tables, [one.splits for one in owned])
    assert area_under_curve(np.column_stack([-margins, margins]), table.labels) > 0.85


def test_samples_never_change_with_a_library() -> None:
    """Known answers: parties with different versions of numpy must sum the same rows, and mean the same columns."""
    plan = made_table(10, (1, 6)).plan(TreeOptions(subsample=0.3, colsample_bytree=0.5), seed=7)
    assert [plan.root(tree).summed.tolist() for tree in (0, 1)] == [[0, 7, 8], [7, 8, 9]]
    assert [plan.sampled_columns(tree, 1).tolist() for tree in (0, 1)] == [[0, 2, 4], [1, 4, 5]]


@pytest.mark.parametrize("max_bin", [2, 255])
def test_few_and_many_bins(max_bin: int) -> None:
    table = made_table(600, (2, 1), values=10_000)
    model, owned = table.train(table.plan(TreeOptions(n_estimators=3, max_bin=max_bin)))
    assert model.trees[0].splits
    assert all(len(thresholds) < max_bin for one in owned for thresholds in one.bins.thresholds)


@pytest.mark.parametrize("column", [7.0, np.nan])
def test_a_column_that_is_constant_or_all_missing_divides_nothing(column: float) -> None:
    table = TreeTable((np.full((40, 1), column),), np.arange(40) % 2)
    model, (owned,) = table.train(table.plan(TreeOptions(n_estimators=2, min_rows_of_a_node=1)))
    assert [tree.splits for tree in model.trees] == [{}, {}]
    assert owned.splits == []


@pytest.mark.parametrize("label", [0, 1])
def test_labels_all_alike_and_a_single_row_give_a_finite_margin(label: int) -> None:
    for rows in (1, 30):
        table = TreeTable((np.arange(float(rows))[:, None],), np.full(rows, label))
        model, (owned,) = table.train(table.plan(TreeOptions(n_estimators=3)))
        margins = model.margins(table.tables, [owned.splits])
        assert np.isfinite(margins).all()
        assert ((margins > 0) == label).all()


def test_more_than_two_classes_are_refused_in_words() -> None:
    table = TreeTable((np.arange(6.0)[:, None],), np.array([0, 1, 2, 0, 1, 2]))
    with pytest.raises(ValueError, match=r"two classes .* have 3"):
        table.train(table.plan(TreeOptions()))


@pytest.mark.parametrize(
    "wrong", [{"max_depth": 7}, {"max_bin": 1}, {"max_bin": 256}, {"subsample": 0.0}, {"gradient_bits": 31}]
)
def test_options_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TreeOptions(**wrong)


def test_early_stopping_without_validation_rows_is_refused() -> None:
    table = made_table(30, (1, 1))
    with pytest.raises(ValueError, match="validation rows"):
        table.plan(TreeOptions(early_stopping_rounds=2))


@settings(max_examples=15)
@given(
    rows=st.integers(2, 60),
    columns=st.integers(1, 3),
    max_bin=st.integers(2, 12),
    least=st.integers(1, 5),
    seed=st.integers(0, 1_000),
)
def test_every_row_reaches_one_leaf_of_enough_rows(
    rows: int, columns: int, max_bin: int, least: int, seed: int
) -> None:
    """Routing while a tree grows, and by kept thresholds afterwards, agree; no side of a division is too small."""
    table = made_table(rows, (columns, 1), missing=0.2, seed=seed)
    options = TreeOptions(n_estimators=2, max_bin=max_bin, min_rows_of_a_node=least, min_child_weight=0.0)
    model, owned = table.train(table.plan(options))
    reached = model.reached(table.tables, [one.splits for one in owned])
    for tree, leaves in zip(model.trees, reached.T, strict=True):
        assert set(leaves.tolist()) == set(tree.leaves)
        counts = np.unique(leaves, return_counts=True)[1]
        assert not tree.splits or counts.min() >= least
