"""Bins that follow from what trees tell a label party: those that are named are right, and other views are refused."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.prediction.known_moments import known_moments
from attacks.solving.told_bins import MOST_ROWS
from attacks.training.named_bins import NameBins, NamedBins, Prior
from attacks.training.recovered_values import EstimatedFeatures
from attacks.training.tree_views import tree_view
from attacks.training_views import KnownRecords, OwnStep, TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.learning import VerticalData
from vfl.learning.hearing import NodeSums
from vfl.learning.trees import ColumnBins
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
        found = NameBins(trees=trees).attack(view)
        assert isinstance(found, NamedBins)
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
    with pytest.raises(ViewError, match="where boosted trees are grown"):
        NameBins().attack(replace(view, bin_sums={}))
    later = {column: [(TREES, sums) for _, sums in told] for column, told in view.bin_sums.items()}
    with pytest.raises(ViewError, match="no node was divided"):
        NameBins(trees=TREES).attack(replace(view, bin_sums=later))
    with pytest.raises(ValueError, match="trees to be 1 or more"):
        NameBins(trees=0)


def grown(rows: int, trees: int = 6) -> tuple[TrainingView, FloatArray]:
    """What a label party was told while trees grew over a passive party's three columns, and these."""
    generator = np.random.default_rng(7)
    table = generator.random((2 * rows, 3)) ** np.array([1.0, 2.0, 0.5])
    table[:, 1] = (table[:, 0] + table[:, 1]) / 2
    passive, own = table[:rows], np.column_stack([generator.random(rows), np.ones(rows)])
    labels = (passive @ np.array([1.0, 1.0, -1.5]) + 0.1 * generator.normal(size=rows) > 0.2).astype(np.int64)
    learner = BoostedTrees(n_estimators=trees, max_depth=4, max_bin=8, min_rows_of_a_node=5)
    view = tree_view(learner, VerticalData([own, passive], labels, 2), 0, np.arange(rows), seed=1)
    known = KnownRecords(np.arange(0, rows, 4), passive[::4])
    return replace(view, moments=known_moments(table[rows:]), known_records=known), passive


def test_sides_bound_each_row_by_bins_that_it_may_be_in() -> None:
    view, passive = grown(120)
    truth = ColumnBins.of(passive, 8).apply(passive)
    for column in range(3):
        told = view.told_columns["party-1", column]
        assert (told.low <= truth[:, column]).all()
        assert (truth[:, column] <= told.high).all()
        assert not told.may_miss.any()
        np.testing.assert_allclose(told.shares, np.bincount(truth[:, column], minlength=9) / 120)
    alone = NameBins().attack(replace(view, bin_sums={}))
    together = NameBins().attack(view)
    assert isinstance(alone, NamedBins)
    assert isinstance(together, NamedBins)
    assert 0 < alone.facts()["cells_named"] < together.facts()["cells_named"]  # type: ignore[operator]
    named = together.bins["party-1"]
    assert (named == truth)[named >= 0].all()


@pytest.mark.parametrize("prior", ["marginals", "covariance", "records"])
def test_bins_tell_values_to_who_knows_what_is_published_or_some_records(prior: Prior) -> None:
    view, passive = grown(120)
    found = NameBins(prior=prior).attack(view)
    assert isinstance(found, EstimatedFeatures)
    assert not np.isin(found.rows, np.arange(0, 120, 4)).any()
    truth, values = passive[found.rows], found.values["party-1"]
    error, guessed = (((one - truth) ** 2).mean(axis=0) for one in (values, found.guesses["party-1"]))
    assert error.sum() < (0.3 if prior == "records" else 0.8) * guessed.sum()
    # The control: what was told of other records.
    other = ((np.random.default_rng(0).permutation(values) - truth) ** 2).mean(axis=0)
    assert other.sum() > 0.9 * guessed.sum()
    assert found.facts()["cells_named"] == NameBins().attack(view).facts()["cells_named"]


def test_of_large_tables_sides_are_kept_and_sums_are_not() -> None:
    view, _ = grown(MOST_ROWS + 1, trees=2)
    assert not view.bin_sums
    assert len(view.told_columns) == 3
    assert isinstance(NameBins().attack(view), NamedBins)


def test_what_a_prior_knows_must_be_there() -> None:
    view, _ = grown(60, trees=1)
    with pytest.raises(ViewError, match=r"named_bins\(prior=marginals\) needs moments"):
        NameBins(prior="marginals").attack(replace(view, moments=None))
    with pytest.raises(ViewError, match=r"named_bins\(prior=records\) needs known_records"):
        NameBins(prior="records").attack(replace(view, known_records=None))
    with pytest.raises(ValueError, match="prior to be one of nothing, marginals"):
        NameBins(prior="everything")  # type: ignore[arg-type]
