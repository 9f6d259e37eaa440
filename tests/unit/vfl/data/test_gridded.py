"""Features as integers on the grids of their columns: X = D z exactly, the wire's order, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.arrays import FloatArray
from vfl.crypto.widths import ColumnWidths
from vfl.data import EncoderError, Grid, GriddedFeatures, put_on_grids, snap_to_grid

ROWS = 30


def mixed(seed: int = 0) -> FloatArray:
    """Columns of all widths, in no order: reals, 0 or 1, thirds, signed reals, a constant, tenths."""
    generator = np.random.default_rng(seed)
    return np.column_stack(
        [
            generator.uniform(size=ROWS),
            np.arange(ROWS) % 2,
            (np.arange(ROWS) % 4) / 3,
            generator.normal(size=ROWS),
            np.ones(ROWS),
            (np.arange(ROWS) % 11) / 10,
        ]
    )


def test_columns_keep_their_order_and_stand_by_width_on_the_wire() -> None:
    gridded = GriddedFeatures.of(mixed())
    assert gridded.column_widths == ("full", "binary", "byte", "full", "binary", "byte")
    assert gridded.order.tolist() == [1, 4, 2, 5, 0, 3]
    assert gridded.widths == ColumnWidths(2, 2, 2)
    integers = gridded.integers_of(gridded.values)
    assert integers.shape == (ROWS, 6)
    np.testing.assert_array_equal(integers, np.rint(integers))
    assert [int(integers[:, at].max()) for at in range(4)] == [1, 1, 3, 10]
    assert integers[:, :4].min() == 0
    np.testing.assert_array_equal(integers[:, 4], snap_to_grid(mixed()[:, 0]) * 2**16)


def test_values_are_integers_times_scales_with_one_rounding() -> None:
    gridded = GriddedFeatures.of(mixed())
    integers = gridded.integers_of(gridded.values)
    np.testing.assert_array_equal(gridded.values[:, gridded.order], integers * gridded.scales[gridded.order])
    np.testing.assert_allclose(gridded.values, mixed(), rtol=0, atol=2**-17)
    narrow = [1, 2, 4, 5]
    np.testing.assert_allclose(gridded.values[:, narrow], mixed()[:, narrow], rtol=0, atol=2**-51)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_sums_of_integers_lead_back_to_sums_of_features(seed: int, columns: int) -> None:
    gridded = GriddedFeatures.of(mixed(seed))
    batch = np.random.default_rng(seed).choice(ROWS, size=8, replace=False)
    residual = np.random.default_rng(seed).normal(size=(8, columns))
    features = gridded.values[batch]
    sums = gridded.integers_of(features).T @ residual
    np.testing.assert_allclose(gridded.restore(sums), features.T @ residual, rtol=1e-11, atol=1e-11)


def test_features_of_one_width_are_a_change_of_scale_only() -> None:
    gridded = put_on_grids(mixed(), [None] * 6, 16)
    assert gridded.order.tolist() == list(range(6))
    assert gridded.widths == ColumnWidths(full=6)
    np.testing.assert_array_equal(gridded.values, snap_to_grid(mixed()))
    np.testing.assert_array_equal(gridded.integers_of(gridded.values), snap_to_grid(mixed()) * 2**16)


def test_bounds_are_of_the_full_columns_alone() -> None:
    """A narrow column's bound is its width's; what its values are multiplied by stays here."""
    large = GriddedFeatures.of(np.column_stack([mixed()[:, 0], 1000.0 * mixed()[:, 1]]))
    assert (large.integer_bits, large.signed) == (0, False)
    assert large.scales[1] == 1000.0
    signed = GriddedFeatures.of(mixed() * 3)
    assert (signed.integer_bits, signed.signed) == (
        max(1, int(np.ceil(np.log2(np.abs(mixed()[:, 3] * 3).max())))),
        True,
    )
    assert GriddedFeatures.of(mixed()[:, [1, 4]]).integer_bits == 0


@pytest.mark.parametrize(
    ("value", "grid"),
    [(0.5, Grid(1.0, 1)), (2.0, Grid(1.0, 1)), (-1.0, Grid(1.0, 1)), (256.0, Grid(1.0, 255)), (np.nan, Grid(1.0, 1))],
)
def test_a_column_that_leaves_the_grid_it_was_said_to_have_is_refused(value: float, grid: Grid) -> None:
    """Its width was told to others: rounding it to something else would be wrong, another width would tell."""
    features = np.array([[0.0], [1.0], [value]])
    with pytest.raises(EncoderError, match=r"^Feature 1 leaves the grid of its whole table: set PLUMBLINE_PAD_WIDTHS"):
        put_on_grids(features, [grid], 16)
