"""Quantile bins of a column."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfl.learning.trees import ColumnBins


@settings(max_examples=20)
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=60), max_bin=st.integers(2, 9)
)
def test_bins_keep_the_order_of_values_and_their_thresholds_say_the_same(values: list[float], max_bin: int) -> None:
    column = np.array(values)[:, None]
    bins = ColumnBins.of(column, max_bin)
    binned = bins.apply(column)[:, 0]
    missing = np.isnan(column[:, 0])
    assert (binned[missing] == max_bin).all()
    assert (binned[~missing] < max_bin).all()
    order = np.argsort(column[~missing, 0])
    assert (np.diff(binned[~missing][order]) >= 0).all()
    for bin_ in range(max_bin):
        np.testing.assert_array_equal(column[~missing, 0] <= bins.upper(0, bin_), binned[~missing] <= bin_)


def test_few_values_have_a_bin_each_and_many_are_spread_evenly() -> None:
    few = ColumnBins.of(np.array([[3.0], [1.0], [1.0], [7.0]]), 8)
    assert few.thresholds[0].tolist() == [2.0, 5.0]
    many = np.random.default_rng(1).normal(size=(8_000, 1))
    counts = np.bincount(ColumnBins.of(many, 8).apply(many)[:, 0])
    assert counts.tolist() == pytest.approx([1_000] * 8, abs=2)


def test_a_value_of_most_rows_leaves_bins_to_the_others() -> None:
    """By plain quantiles the 800 rows in 8,000 that aren't 0 would share one bin of eight."""
    column = np.zeros((8_000, 1))
    column[:800, 0] = np.random.default_rng(1).uniform(1, 2, 800)
    counts = np.bincount(ColumnBins.of(column, 8).apply(column)[:, 0])
    assert len(counts) == 8
    assert counts[0] == pytest.approx(7_200, abs=2)
    assert counts[1:].tolist() == pytest.approx([800 / 7] * 7, abs=3)
