"""Bins that follow from what trees tell a label party: those that are named are right, and other views are refused."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.named_bins import NameBins
from attacks.told_bins import NodeSums
from attacks.training_views import OwnStep, TrainingView
from attacks.views import ViewError
from vfl.arrays import IntArray
from vfl.learning.trees.boosted_trees import BoostedTrees

ROWS, BINS, TREES = 40, 4, 6


def seen() -> tuple[TrainingView, IntArray]:
    """What a label party is told of two columns, in trees whose derivatives differ; and each row's bins."""
    generator = np.random.default_rng(3)
    bins, rows = generator.integers(0, BINS, (ROWS, 2)), np.arange(ROWS)
    told: dict[tuple[str, int], list[tuple[int, NodeSums]]] = {("fintech", 0): [], ("fintech", 1): []}
    for tree in range(TREES):
        values = np.column_stack([generator.integers(-999, 999, ROWS), generator.integers(1, 250, ROWS)])
        for node in np.array_split(generator.permutation(ROWS), 4):
            members = np.sort(node)
            for column in range(2):
                sums = np.zeros((BINS, 2), dtype=np.int64)
                np.add.at(sums, bins[members, column], values[members])
                told["fintech", column].append((tree, NodeSums(members, values[members], sums)))
    view = TrainingView(
        role="active",
        features=np.ones((ROWS, 1)),
        steps=tuple(OwnStep(tree, rows, np.zeros((ROWS, 1))) for tree in range(TREES)),
        equations=(),
        peer_features={"fintech": 2},
        label_party=None,
        labels=np.arange(ROWS) % 2,
        learner=BoostedTrees(n_estimators=TREES),
        classes=2,
        batch_size=ROWS,
        bin_sums=told,
    )
    return view, bins


def test_bins_that_are_named_are_right_and_more_trees_name_more() -> None:
    view, bins = seen()
    shares = []
    for trees in (1, 3, TREES):
        found = NameBins(trees).attack(view)
        named = found.bins["fintech"]
        assert named.shape == bins.shape
        assert (named == bins)[named >= 0].all()
        shares.append(float((named >= 0).mean()))
        assert found.facts()["trees"] == trees
        assert found.facts()["cells_named"] == round(shares[-1], 4)
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    np.testing.assert_array_equal(found.arrays()["bins_of_fintech"], named)


def test_a_view_without_sums_and_no_tree_are_refused() -> None:
    view, _ = seen()
    with pytest.raises(ViewError, match="at most 1,500 records"):
        NameBins().attack(replace(view, bin_sums={}))
    later = {column: [(TREES, sums) for _, sums in told] for column, told in view.bin_sums.items()}
    with pytest.raises(ViewError, match="no node was divided"):
        NameBins(TREES).attack(replace(view, bin_sums=later))
    with pytest.raises(ValueError, match="trees to be 1 or more"):
        NameBins(0)
