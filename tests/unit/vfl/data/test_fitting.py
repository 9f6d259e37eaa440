"""Features from typed columns: what was learned, on which rows, and what it makes of others."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from vfl.data import (
    ENCODER_KINDS,
    ColumnPlan,
    EncodedColumn,
    EncoderKind,
    FittedColumns,
    Table,
    TypedTable,
    column_grids,
    fit_columns,
    fit_encoder,
    typed_table_of,
)
from vfl.data.columns import Encoding

ALL = np.arange(6)
MIXED: dict[str, tuple[Encoding, list[object]]] = {
    "age": ("number", [30.0, np.nan, 50.0, 40.0, 20.0, 60.0]),
    "job": ("onehot", ["clerk", "smith", None, "clerk", "baker", "smith"]),
    "town": ("ordinal", ["Ulm", "Bonn", "Ulm", "Kiel", "Bonn", "Ulm"]),
    "since": ("date", [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]),
}


def typed(columns: dict[str, tuple[Encoding, list[object]]]) -> TypedTable:
    """A table of columns, each an encoding and its cells."""
    frame = pd.DataFrame(
        {
            name: pd.Series(cells, dtype="category" if encoding in ("onehot", "ordinal") else "float64")
            for name, (encoding, cells) in columns.items()
        }
    )
    plans = tuple(ColumnPlan(name, "", encoding, "") for name, (encoding, _) in columns.items())
    return TypedTable(tuple(map(str, range(len(frame)))), frame, plans)


def names_of(fitted: FittedColumns) -> list[str]:
    return [one.name for one in fitted.columns]


def test_each_kind_of_column_becomes_its_features() -> None:
    fitted = fit_columns(typed(MIXED), ALL, "minmax")
    assert names_of(fitted) == [
        *("age", "age is missing", "job=baker", "job=clerk", "job=smith", "job is missing", "town", "since")
    ]
    kinds = [one.kind for one in fitted.columns]
    assert kinds == ["number", "missing", "category", "category", "category", "missing", "code", "date"]
    assert fitted.columns[0] == EncodedColumn("age", "age", "number", offset=20.0, scale=40.0)
    expected = [
        [0.25, 0, 0, 1, 0, 0, 1.0, 0.0],
        [0.50, 1, 0, 0, 1, 0, 2 / 3, 0.2],
        [0.75, 0, 0, 0, 0, 1, 1.0, 0.4],
        [0.50, 0, 0, 1, 0, 0, 1 / 3, 0.6],
        [0.00, 0, 1, 0, 0, 0, 2 / 3, 0.8],
        [1.00, 0, 0, 0, 1, 0, 1.0, 1.0],
    ]
    np.testing.assert_array_equal(fitted.transform(typed(MIXED)), expected)


@pytest.mark.parametrize("kind", ["minmax", "standardise"])
def test_dates_without_end_get_the_median_and_say_so(kind: EncoderKind) -> None:
    cells = [10.0, np.inf, 30.0, np.nan, -np.inf, 20.0]
    table = typed({"until": ("date", [*cells])})
    fitted = fit_columns(table, ALL, kind)
    assert names_of(fitted) == ["until", "until is missing", "until has no end", "until has no beginning"]
    assert [one.kind for one in fitted.columns] == ["date", "missing", "missing", "missing"]
    made = fitted.transform(table)
    np.testing.assert_array_equal(made[:, 1:], [[0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]])
    days = fitted.columns[0].offset + fitted.columns[0].scale * made[:, 0]
    assert days == pytest.approx([10, 20, 30, 20, 20, 20])
    assert len(column_grids(table, kind)) == 4


def test_numbers_come_out_as_the_encoder_of_numbers_makes_them_bit_for_bit() -> None:
    features = np.random.default_rng(1).normal(size=(50, 7)) * 10.0 ** np.arange(7)
    table = typed_table_of(Table(tuple(map(str, range(50))), features, tuple("abcdefg")))
    for kind in ENCODER_KINDS:
        ours = fit_columns(table, np.arange(30), kind).transform(table)
        np.testing.assert_array_equal(ours, fit_encoder(kind, features[:30]).transform(features))


@given(
    st_numpy.arrays(np.float64, 6, elements=st.floats(-1e6, 1e6)),
    st.lists(st.sampled_from(["clerk", "smith", "baker"]), min_size=6, max_size=6),
    st.sampled_from(ENCODER_KINDS),
)
def test_rows_that_were_not_given_change_nothing(cells: np.ndarray, words: list[str], kind: EncoderKind) -> None:
    rows = np.array([0, 2, 4])
    other = dict(MIXED)
    for name, values in (("age", cells), ("job", words), ("town", words), ("since", cells)):
        encoding, known = MIXED[name]
        kept: list[object] = [known[row] if row in rows else values[row] for row in range(6)]
        other[name] = (encoding, kept)
    ours, theirs = (fit_columns(typed(one), rows, kind) for one in (MIXED, other))
    # The others decide which categories and gaps have a feature, and nothing of what any feature is.
    shared = sorted(set(names_of(ours)) & set(names_of(theirs)))
    learned = []
    for one in (ours, theirs):
        places = np.array([names_of(one).index(name) for name in shared])
        features = one.transform(typed(MIXED))[np.ix_(rows, places)]
        learned.append(([repr(one.columns[place]) for place in places], features.tolist()))
    assert learned[0] == learned[1]


def test_values_beyond_the_training_rows() -> None:
    columns: dict[str, tuple[Encoding, list[object]]] = {
        "age": ("number", [10.0, 20.0, 99.0, np.nan]),
        "job": ("onehot", ["clerk", "smith", "baker", None]),
        "town": ("ordinal", ["Ulm", "Bonn", "Kiel", None]),
    }
    fitted = fit_columns(typed(columns), np.array([0, 1]), "minmax")
    # The training rows have neither gaps nor a baker. The last row's age is their median.
    jobs = ["job=baker", "job=clerk", "job=smith", "job is missing"]
    assert names_of(fitted) == ["age", "age is missing", *jobs, "town", "town is missing"]
    expected = [
        [0, 0, *(0, 1, 0, 0), 1, 0],
        [1, 0, *(0, 0, 1, 0), 0.5, 0],
        [1, 0, *(1, 0, 0, 0), 0, 0],
        [0.5, 1, *(0, 0, 0, 1), 0.75, 1],
    ]
    np.testing.assert_array_equal(fitted.transform(typed(columns)), expected)


@given(st.sets(st.integers(0, 5), min_size=1))
def test_which_features_there_are_tells_nothing_of_the_rows(rows: set[int]) -> None:
    fitted = fit_columns(typed(MIXED), np.array(sorted(rows)), "minmax")
    assert names_of(fitted) == names_of(fit_columns(typed(MIXED), ALL, "minmax"))
    assert fitted.transform(typed(MIXED)).shape == (6, len(fitted.columns))


@pytest.mark.parametrize("kind", ENCODER_KINDS)
def test_offset_and_scale_lead_back_to_the_source(kind: EncoderKind) -> None:
    table = typed(MIXED)
    fitted = fit_columns(table, ALL, kind)
    features = fitted.transform(table)
    for at, one in enumerate(fitted.columns):
        if kind == "unit_norm":
            assert math.isnan(one.scale)
        elif one.kind in ("number", "date"):
            source = table.frame[one.source].fillna(40.0).to_numpy()
            np.testing.assert_allclose(one.offset + one.scale * features[:, at], source, atol=1e-12)
        elif one.kind in ("category", "missing"):
            assert (one.offset, one.scale) == (0.0, 1.0)
            assert set(features[:, at]) <= {0.0, 1.0}


def test_unit_norm_scales_whole_rows() -> None:
    features = fit_columns(typed(MIXED), ALL, "unit_norm").transform(typed(MIXED))
    np.testing.assert_allclose((features**2).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ENCODER_KINDS)
def test_the_same_rows_give_the_same_bits(kind: EncoderKind) -> None:
    random = np.random.default_rng(2)
    columns: dict[str, tuple[Encoding, list[object]]] = {
        "x": ("number", list(np.where(random.random(999) < 0.1, np.nan, random.normal(size=999)))),
        "word": ("ordinal", list(random.choice(list("abcdefgh"), 999))),
    }
    rows = random.permutation(999)[:700]
    first, second = (fit_columns(typed(columns), rows, kind).transform(typed(columns)) for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_a_column_without_a_value_in_the_training_rows() -> None:
    columns: dict[str, tuple[Encoding, list[object]]] = {
        "age": ("number", [np.nan, np.nan, 7.0]),
        "job": ("onehot", [None, None, "clerk"]),
        "town": ("ordinal", [None, None, "Ulm"]),
    }
    fitted = fit_columns(typed(columns), np.array([0, 1]), "minmax")
    job = ["job=clerk", "job is missing"]
    assert names_of(fitted) == ["age", "age is missing", *job, "town", "town is missing"]
    assert np.isfinite(fitted.transform(typed(columns))).all()


@pytest.mark.parametrize("kind", ["minmax", "standardise"])
def test_what_no_fitted_row_has_is_not_taken_for_the_rarest_value(kind: EncoderKind) -> None:
    table = typed({"town": ("ordinal", ["Ulm", "Ulm", "Bonn", "Kiel"])})
    fitted = fit_columns(table, np.arange(3), kind)
    (town,) = fitted.columns
    codes = town.offset + town.scale * fitted.transform(table)[:, 0]
    np.testing.assert_allclose(codes, [1, 1, 0, -1], atol=1e-12)
