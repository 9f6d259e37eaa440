"""Labels from the leaves of boosted trees: without a known label, with some, and where leaves say nothing."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from attacks.training.leaf_axis import label_axis, labels_by_leaves
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray

KNOWN = 5


@pytest.fixture(scope="module")
def table() -> tuple[FloatArray, IntArray]:
    """Columns, and labels of which 1 is rarer."""
    features, labels = load_breast_cancer(return_X_y=True)
    return features, 1 - labels


def leaves_of(features: FloatArray, labels: IntArray, trees: int) -> IntArray:
    """Of another library's trees: nothing but what they divide is read."""
    grown = GradientBoostingClassifier(n_estimators=trees, max_depth=3, min_samples_leaf=20, random_state=0)
    leaves: IntArray = grown.fit(features, labels).apply(features)[:, :, 0].astype(np.int64)
    return leaves


def test_the_axis_orders_records_by_label_without_one(table: tuple[FloatArray, IntArray]) -> None:
    features, labels = table
    axis = label_axis(leaves_of(features, labels, 10))
    assert roc_auc_score(labels, axis) > 0.98
    assert (axis.mean(), axis.std()) == pytest.approx((0.0, 1.0))


def test_trees_of_labels_that_nothing_follows_tell_other_labels_nothing(table: tuple[FloatArray, IntArray]) -> None:
    features, labels = table
    leaves = leaves_of(features, labels, 10)
    areas = [roc_auc_score(np.random.default_rng(seed).permutation(labels), label_axis(leaves)) for seed in range(20)]
    assert np.mean(areas) == pytest.approx(0.5, abs=0.03)


def test_one_known_label_of_either_class_names_the_ends(table: tuple[FloatArray, IntArray]) -> None:
    features, labels = table
    # The rarer class is 0 here: without a label the ends would be taken for each other.
    others = 1 - labels
    leaves = leaves_of(features, others, 10)
    assert roc_auc_score(others, label_axis(leaves)) < 0.02
    known = np.concatenate([np.flatnonzero(others == label)[:KNOWN] for label in (0, 1)])
    estimate = labels_by_leaves(leaves, features, known, others[known])
    assert roc_auc_score(others, estimate[:, 1]) > 0.98


def test_very_many_leaves_have_the_same_axis_and_take_little_memory(
    table: tuple[FloatArray, IntArray], monkeypatch: pytest.MonkeyPatch
) -> None:
    leaves = leaves_of(*table, 10)
    axis = label_axis(leaves)
    with monkeypatch.context() as patch:
        patch.setattr("attacks.training.leaf_axis._FEW_LEAVES", 0)
        np.testing.assert_allclose(label_axis(leaves), axis, atol=1e-6)
    drawn = np.random.default_rng(0).integers(0, 10_000, (6_000, 20))
    tracemalloc.start()
    label_axis(drawn)
    assert tracemalloc.get_traced_memory()[1] < 200_000_000
    tracemalloc.stop()


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_names_of_leaves_say_nothing(n: int, trees: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    leaves = generator.integers(0, 4, (n, trees))
    renamed = np.column_stack([generator.permutation(4)[column] for column in leaves.T])
    axis, other = label_axis(leaves), label_axis(renamed)
    assert np.allclose(axis, other, atol=1e-5) or np.allclose(axis, -other, atol=1e-5)


def test_one_tree_and_trees_without_a_division_order_nothing() -> None:
    assert not label_axis(np.array([[1], [2], [3], [1]])).any()
    assert not label_axis(np.ones((5, 3), dtype=np.int64)).any()


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (4,)])
def test_no_leaves_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ViewError, match=r"leaves must be \(n, trees\)"):
        label_axis(np.zeros(shape, dtype=np.int64))
