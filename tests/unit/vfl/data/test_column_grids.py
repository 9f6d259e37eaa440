"""Which width a column has follows from the whole table, and every session's columns keep to it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.arrays import FloatArray
from vfl.data import (
    ENCODER_KINDS,
    ColumnPlan,
    EncoderKind,
    TypedTable,
    column_grids,
    fit_columns,
    put_on_grids,
    width_of,
)
from vfl.data.columns import Encoding

ROWS = 24
Cells = dict[str, tuple[Encoding, list[object]]]


def typed(columns: Cells) -> TypedTable:
    frame = pd.DataFrame(
        {
            name: pd.Series(cells, dtype="category" if encoding in ("onehot", "ordinal") else "float64")
            for name, (encoding, cells) in columns.items()
        }
    )
    plans = tuple(ColumnPlan(name, "", encoding, "") for name, (encoding, _) in columns.items())
    return TypedTable(tuple(map(str, range(len(frame)))), frame, plans)


def adult_like(seed: int = 0) -> TypedTable:
    """Ages, some missing; pay in cents; hours in halves; a yes or no; categories, some missing; towns; dates."""
    generator = np.random.default_rng(seed)

    def gaps(cells: list[object], share: float = 0.2) -> list[object]:
        return [None if generator.random() < share else cell for cell in cells]

    return typed(
        {
            "age": ("number", gaps([float(age) for age in generator.integers(17, 98, ROWS)])),
            "pay": ("number", (generator.integers(0, 10**7, ROWS) / 100).tolist()),
            "hours": ("number", (generator.integers(0, 80, ROWS) / 2).tolist()),
            "member": ("number", [float(row % 2) for row in range(ROWS)]),
            "member too": ("number", gaps([float(row % 2) for row in range(ROWS)])),
            "debt": ("number", (-generator.integers(0, 40, ROWS) / 10).tolist()),
            "same": ("number", [7.0] * ROWS),
            "job": ("onehot", gaps([["clerk", "smith", "baker"][row % 3] for row in range(ROWS)])),
            "town": ("ordinal", gaps([f"town {number}" for number in generator.integers(0, 12, ROWS)])),
            "since": ("date", (19_000.0 + generator.integers(0, 120, ROWS)).tolist()),
        }
    )


def widths(table: TypedTable, encoder: EncoderKind) -> dict[str, str]:
    names = [one.name for one in fit_columns(table, np.arange(len(table.ids)), encoder).columns]
    return dict(zip(names, map(width_of, column_grids(table, encoder)), strict=True))


def test_min_max_scaling_keeps_every_grid() -> None:
    found = widths(adult_like(), "minmax")
    assert found == {
        "age": "byte",
        "age is missing": "binary",
        "pay": "full",
        "hours": "byte",
        "member": "binary",
        # The median of 0 and 1 is 1/2.
        "member too": "byte",
        "member too is missing": "binary",
        "debt": "byte",
        "same": "binary",
        **dict.fromkeys(["job=baker", "job=clerk", "job=smith", "job is missing"], "binary"),
        "town": "byte",
        "town is missing": "binary",
        "since": "byte",
    }


def test_values_taken_as_they_are_have_grids_from_zero_only() -> None:
    found = widths(adult_like(), "none")
    assert {name for name, width in found.items() if width == "full"} == {"pay", "debt", "town", "since"}


def test_standardised_numbers_have_none_and_categories_keep_theirs() -> None:
    found = widths(adult_like(), "standardise")
    assert {name for name, width in found.items() if width == "binary"} == {
        *("same", "age is missing", "member too is missing", "town is missing"),
        *("job=baker", "job=clerk", "job=smith", "job is missing"),
    }
    assert "byte" not in found.values()


def test_rows_of_unit_norm_have_none_at_all() -> None:
    assert set(widths(adult_like(), "unit_norm").values()) == {"full"}


def test_codes_and_gaps_count_with_what_a_session_may_make_of_them() -> None:
    def towns(count: int, *, gap: bool) -> TypedTable:
        return typed({"town": ("ordinal", [*(f"{number:03}" for number in range(count)), None if gap else "000"])})

    # From the code of a value never seen, -1, to 254 are 255 steps.
    assert width_of(column_grids(towns(255, gap=False), "minmax")[0]) == "byte"
    assert width_of(column_grids(towns(256, gap=False), "minmax")[0]) == "full"
    assert width_of(column_grids(towns(127, gap=True), "minmax")[0]) == "byte"
    assert width_of(column_grids(towns(128, gap=True), "minmax")[0]) == "full"


@given(
    st.integers(0, 50),
    st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=ROWS, unique=True),
    st.sampled_from(ENCODER_KINDS),
)
def test_whoever_chooses_the_rows_meets_the_same_widths(seed: int, rows: list[int], encoder: EncoderKind) -> None:
    """Fitted on any rows, one or all: no column leaves the grid of its whole table, and none is rounded by it."""
    table = adult_like(seed)
    fitted = fit_columns(table, np.array(rows), encoder)
    of_table = column_grids(table, encoder)
    encoded = fitted.transform(table)
    gridded = put_on_grids(encoded.copy(), fitted.grids(of_table), 16)
    assert gridded.column_widths == tuple(map(width_of, of_table))
    narrow = [width != "full" for width in gridded.column_widths]
    np.testing.assert_allclose(gridded.values[:, narrow], encoded[:, narrow], rtol=1e-9, atol=2**-40)
    if encoder == "minmax":
        assert gridded.values.min() >= 0
        assert gridded.values.max() <= 1


def trained_on(values: list[float], rows: list[int]) -> FloatArray:
    table = typed({"x": ("number", list(values))})
    fitted = fit_columns(table, np.array(rows), "minmax")
    return put_on_grids(fitted.transform(table), fitted.grids(column_grids(table, "minmax")), 16).values[:, 0]


@pytest.mark.parametrize("rows", [[0, 1, 2], [1, 2], [0, 3], [4], [0, 1, 2, 3, 4]])
def test_sums_of_decimals_refuse_no_session_whatever_rows_are_chosen(rows: list[int]) -> None:
    """Scaled to such rows alone a rounding error is a half: a refusal would tell that they are almost equal."""
    values = [0.3, 0.1 + 0.2, math.nextafter(0.1 + 0.2, 1), 1.3, 2.3]
    assert trained_on(values, rows).max() == (1 if len(rows) > 1 else 0)


def test_a_column_that_is_wide_in_the_whole_table_is_full_where_a_session_sees_little_of_it() -> None:
    """What its own rows need would tell who trains on them how far their values lie apart."""
    values = [0.0, 1.0, 2.0, 1000.0]
    (grid,) = column_grids(typed({"x": ("number", list(values))}), "minmax")
    assert grid is None
    np.testing.assert_array_equal(trained_on(values, [0, 1, 2]), [0, 0.5, 1, 1])


def test_one_row_and_rows_of_one_value_are_zeros() -> None:
    values = [3.0, 5.0, 5.0, 9.0]
    for rows in ([1], [1, 2]):
        assert not trained_on(values, rows).any()
    np.testing.assert_allclose(trained_on(values, [0, 1]), [0, 1, 1, 1])


def test_the_grid_of_a_session_is_a_fraction_of_its_own_range() -> None:
    """Scaled by sevenths, thirteenths, tenths of a unit: every value is that multiple exactly, with one rounding."""
    ages = [float(age) for age in range(20, 60)]
    found = trained_on(ages, [3, 10, 16])
    np.testing.assert_array_equal(found, np.clip(np.arange(40) - 3, 0, 13) * (1 / 13))


@pytest.mark.parametrize("cell", [math.nan, None])
def test_a_column_without_any_value_is_on_every_grid(cell: object) -> None:
    table = typed({"x": ("number", [cell] * 4), "y": ("number", [1.0, 2.0, 3.0, 4.0])})
    assert list(map(width_of, column_grids(table, "minmax"))) == ["binary", "binary", "byte"]
