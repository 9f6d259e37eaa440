"""Values from places in the order of columns without a name: those that are published tell which column is which."""

import numpy as np
import pytest

from attacks.prediction.known_moments import known_moments
from attacks.training.bin_values import PlacedColumn, estimated_values
from vfl.arrays import FloatArray, IntArray
from vfl.learning.trees import ColumnBins

ROWS, BINS = 400, 16


def correlated(columns: int, seed: int = 4) -> FloatArray:
    """Columns in [0, 1] that vary together, each pair otherwise."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(2 * ROWS, columns)) @ generator.normal(size=(columns, columns))
    scaled: FloatArray = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    return scaled


def placed(table: FloatArray, order: IntArray) -> list[PlacedColumn]:
    """Columns whose bins are all known, in another order."""
    bins = ColumnBins.of(table, BINS).apply(table)[:, order]
    counts = np.stack([np.bincount(column, minlength=BINS + 1) for column in bins.T])
    return [
        PlacedColumn.placed(count / len(table), column[:, None] == np.arange(BINS + 1))
        for count, column in zip(counts, bins.T, strict=True)
    ]


def explained(estimate: FloatArray, truth: FloatArray) -> FloatArray:
    """Which part of each column's variance is told."""
    told: FloatArray = 1 - ((estimate - truth) ** 2).mean(axis=0) / truth.var(axis=0)
    return told


def test_columns_that_vary_together_as_published_are_told_apart() -> None:
    values = correlated(6)
    table, others, order = values[:ROWS], values[ROWS:], np.array([3, 0, 5, 1, 4, 2])
    moments = known_moments(others)
    told = explained(estimated_values(placed(table, order), moments, in_unit=True, by_covariance=True), table)
    assert told.min() > 0.9
    # Of other records the same places tell nothing.
    other = np.random.default_rng(0).permutation(table)
    assert explained(estimated_values(placed(other, order), moments, in_unit=True, by_covariance=True), table).max() < 0


def test_who_cannot_tell_columns_apart_takes_the_mean_over_all_that_may_be_meant() -> None:
    values = correlated(6)
    table, moments = values[:ROWS], known_moments(values[ROWS:])
    found = [
        estimated_values(placed(table, order), moments, in_unit=True, by_covariance=False)
        for order in (np.arange(6), np.array([3, 0, 5, 1, 4, 2]))
    ]
    np.testing.assert_allclose(found[0], found[1])
    assert 0 < explained(found[0], table).mean() < 0.8


@pytest.mark.parametrize("in_unit", [True, False])
def test_columns_of_few_values_are_told_by_how_often_each_occurs(in_unit: bool) -> None:
    generator = np.random.default_rng(2)
    frequencies = ([0.9, 0.1], [0.6, 0.4], [0.2, 0.5, 0.3])
    values = np.column_stack([generator.choice(len(one), 2 * ROWS, p=one) / (len(one) - 1) for one in frequencies])
    table, moments = values[:ROWS], known_moments(values[ROWS:])
    columns = placed(table, np.array([2, 0, 1]))
    np.testing.assert_array_equal(estimated_values(columns, moments, in_unit=in_unit, by_covariance=False), table)
