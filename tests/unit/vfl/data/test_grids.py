"""Grids: the coarsest one of a column is found, whatever its unit, and only where there is one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.arrays import FloatArray
from vfl.data import Grid, grid_of, width_of

STEPS = st.lists(st.integers(0, 255), min_size=2, max_size=40).filter(lambda places: len(set(places)) > 1)
UNITS = st.builds(Fraction, st.integers(1, 10**6), st.integers(1, 10**6))


def coarsest(places: list[int]) -> tuple[int, int]:
    """Span and step of integers on their coarsest grid."""
    low = min(places)
    divisor = math.gcd(*(place - low for place in places))
    return (max(places) - low) // divisor, divisor


@given(STEPS, UNITS, st.integers(-1000, 1000))
def test_whole_steps_of_any_unit_from_any_origin_are_found(places: list[int], unit: Fraction, origin: int) -> None:
    steps, divisor = coarsest(places)
    found = grid_of(np.array([float((origin + place) * unit) for place in places]))
    assert found is not None
    assert found.steps == steps
    assert found.step == pytest.approx(float(unit) * divisor, rel=1e-9)


@given(STEPS, UNITS)
def test_from_zero_values_keep_their_unit(places: list[int], unit: Fraction) -> None:
    divisor = math.gcd(*places)
    found = grid_of(np.array([float(place * unit) for place in places]), from_zero=True)
    assert found is not None
    assert found.steps == max(places) // divisor
    assert found.step == pytest.approx(float(unit) * divisor, rel=1e-12)


@given(STEPS, st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_neither_order_nor_number_of_rows_matters(places: list[int], seed: int, times: int) -> None:
    values = np.array(places, dtype=np.float64) / 7
    shuffled = np.random.default_rng(seed).permutation(np.repeat(values, times))
    assert grid_of(shuffled) == grid_of(values)
    assert grid_of(np.append(shuffled, math.nan)) == grid_of(values)


@given(st.integers(0, 2**32 - 1), st.integers(3, 300), st.booleans())
def test_random_reals_stand_on_no_grid(seed: int, count: int, from_zero: bool) -> None:
    assert grid_of(np.random.default_rng(seed).uniform(size=count), from_zero=from_zero) is None


@given(STEPS, st.integers(0, 39), st.floats(1e-9, 0.49))
def test_one_value_between_its_neighbours_is_enough_to_leave_a_grid_of_as_many_steps(
    places: list[int], at: int, off: float
) -> None:
    """Or the grid becomes finer: none is found that the value isn't on."""
    values = np.array([0, 255, *places], dtype=np.float64)
    values[2 + at % len(places)] += off * (1 if values[2 + at % len(places)] < 255 else -1)
    found = grid_of(values)
    if found is not None:
        np.testing.assert_allclose(values / found.step, np.rint(values / found.step), atol=2**-30)


@pytest.mark.parametrize(
    ("values", "from_zero", "expected"),
    [
        ([0.0, 1.0], False, Grid(1.0, 1)),
        ([0.0, 1.0], True, Grid(1.0, 1)),
        ([-1.0, 1.0], False, Grid(2.0, 1)),
        # Negative values have no grid from 0, for z is never negative.
        ([-1.0, 1.0], True, None),
        ([5.0, 5.0], False, Grid(1.0, 0)),
        ([5.0], True, Grid(5.0, 1)),
        ([0.0, -0.0], True, Grid(1.0, 0)),
        ([math.nan], False, Grid(1.0, 0)),
        ([], False, Grid(1.0, 0)),
        # Days since 1970, a week apart.
        ([19000.0 + 7 * week for week in range(60)], False, Grid(7.0, 59)),
        (list(range(256)), False, Grid(1.0, 255)),
        (list(range(257)), False, None),
        ([0.0, 1.0, 256.0], False, None),
        ([0.0, 1.0, math.sqrt(2)], False, None),
        # A span beyond float64, and steps below its normal numbers.
        ([-1e308, 1e308], False, None),
        ([0.0, 5e-324], False, None),
        # Values that differ by rounding alone stand on one grid from 0, on none from the least of them.
        ([0.3, 0.1 + 0.2, 1.3], False, None),
        ([1.0, 1.0 + 2**-50], False, Grid(2**-50, 1)),
        ([0.5, 0.5 + 2**-52, 1.0], True, Grid(0.5, 2)),
        ([0.0, 1e300, 2e300], False, Grid(1e300, 2)),
        # Seconds with a fraction: the fraction's own rounding errors are too large to tell.
        ([1.7e9, 1.7e9 + 0.1, 1.7e9 + 0.3], False, None),
    ],
)
def test_known_columns(values: list[float], from_zero: bool, expected: Grid | None) -> None:
    assert grid_of(np.array(values, dtype=np.float64), from_zero=from_zero) == expected


def test_two_values_are_one_step_apart_and_from_zero_only_what_divides_both() -> None:
    values = np.array([0.3, 0.7])
    assert (grid_of(values) or Grid()).steps == 1
    assert (grid_of(values, from_zero=True) or Grid()).steps == 7
    assert grid_of(np.array([0.3, 1 / math.pi]), from_zero=True) is None


def test_many_values_are_given_up_in_the_first_rows_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, unique = [], np.unique

    def counted(values: FloatArray) -> FloatArray:
        looked.append(len(values))
        found: FloatArray = unique(values)
        return found

    monkeypatch.setattr(np, "unique", counted)
    assert grid_of(np.random.default_rng(0).uniform(size=1_000_000)) is None
    assert sum(looked) < 100_000
    assert grid_of(np.arange(1_000_000) % 3 / 3) == Grid(1 / 3, 2)


def test_a_grid_says_its_width() -> None:
    assert [width_of(grid) for grid in (Grid(3.0, 0), Grid(3.0, 1), Grid(3.0, 2), Grid(3.0, 255), None)] == [
        *("binary", "binary", "byte", "byte", "full")
    ]


def test_half_steps_take_a_digit_more_and_have_no_grid_beyond_a_byte() -> None:
    assert Grid(3.0, 1).halved() == Grid(1.5, 2)
    assert Grid(3.0, 127).halved() == Grid(1.5, 254)
    assert Grid(3.0, 128).halved() is None
    assert Grid(3.0, 0).halved() == Grid(3.0, 0)


def test_scaling_to_a_range_keeps_whole_steps() -> None:
    assert Grid(0.1, 40).scaled(1.5) == Grid(1 / 15, 40)
    # Rows of one value have no range, and are encoded as 0.
    assert Grid(0.1, 40).scaled(0.0) == Grid(1.0, 40)
