"""Bins of rows from sums over bins: never a wrong one from honest sums, and all of them from enough of them."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.solving.told_bins import possible_bins
from vfl.arrays import IntArray
from vfl.learning.hearing import NodeSums

BINS = 5


def nodes_of(bins: IntArray, *, trees: int, parts: int, values: int, seed: int = 1) -> Iterator[NodeSums]:
    """Sums over parts of the rows, redrawn for each tree as divisions are, with so many different derivatives."""
    generator = np.random.default_rng(seed)
    for _ in range(trees):
        derivatives = np.column_stack([generator.integers(-999, 1_000, values), generator.integers(1, 250, values)])
        of_rows = derivatives[generator.integers(0, values, len(bins))]
        for rows in np.array_split(generator.permutation(len(bins)), parts):
            here = np.sort(rows)
            sums = np.stack([np.bincount(bins[here], of_rows[here, part], BINS) for part in range(2)], axis=1)
            yield NodeSums(here, of_rows[here], sums.astype(np.int64))


@settings(max_examples=20, deadline=None)
@given(
    rows=st.integers(1, 60),
    trees=st.integers(1, 3),
    parts=st.integers(1, 4),
    values=st.integers(1, 60),
    seed=st.integers(0, 999),
)
def test_the_bin_of_a_row_is_never_ruled_out(rows: int, trees: int, parts: int, values: int, seed: int) -> None:
    bins = np.random.default_rng(seed).integers(0, BINS, rows)
    possible = possible_bins(list(nodes_of(bins, trees=trees, parts=parts, values=values, seed=seed)), rows)
    assert possible[np.arange(rows), bins].all()


def test_enough_sums_name_every_row_by_equations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 unknowns of each bin, and two equations of each of 40 trees; no node is small enough to be tried."""
    monkeypatch.setattr("attacks.solving.told_bins._MOST_TRIED", 0)
    bins = np.random.default_rng(2).integers(0, BINS, 60)
    possible = possible_bins(list(nodes_of(bins, trees=40, parts=1, values=60)), 60)
    assert (possible.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(possible.argmax(axis=1), bins)


def test_a_small_node_names_its_rows_by_one_pair_of_sums() -> None:
    """Ten rows, two equations: the one subset that has the sums."""
    bins = np.random.default_rng(3).integers(0, BINS, 10)
    possible = possible_bins(list(nodes_of(bins, trees=1, parts=1, values=10_000)), 10)
    np.testing.assert_array_equal(possible.argmax(axis=1), bins)
    assert (possible.sum(axis=1) == 1).all()


def test_rows_with_equal_derivatives_are_told_apart_by_nothing() -> None:
    """As in the first tree of two classes that are as large."""
    bins = np.arange(60) % BINS
    possible = possible_bins(list(nodes_of(bins, trees=1, parts=1, values=1)), 60)
    assert possible.all()


def test_without_a_node_there_is_nothing_to_say() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        possible_bins([], 3)
