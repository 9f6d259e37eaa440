"""Frames as people have them: each column is read, or refused by its name and the true reason, and no cell is shown."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline import audit
from plumbline.federation import Federation
from plumbline.own_frames import write_frames
from vfl.data import TableError, TypedTable, read_table

ROWS = 40
FRAME = pd.DataFrame({"id": [1, 2], "y": [0, 1], "x": [1, 2]})


def read(folder: Path, frame: object, **options: Any) -> TypedTable:
    write_frames([frame], [folder / "active.parquet"], "id")
    return read_table(str(folder / "active.parquet"), **{"id_column": "id", "label_column": None, **options})


def framed(cells: Any) -> pd.DataFrame:
    """A frame of ids, numbers, and a column of these cells."""
    column = cells if isinstance(cells, pd.Series) else pd.Series(cells)
    return pd.DataFrame({"id": range(len(column)), "n": np.arange(len(column)) / 8, "x": column})


def repeated(*cells: Any) -> list[Any]:
    return [cells[row % len(cells)] for row in range(ROWS)]


NUMBERS = pd.Series(range(ROWS))


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (pd.cut(NUMBERS, [-1, 10, 20, 50]), "3 categories"),
        (pd.Series(pd.arrays.IntervalArray.from_tuples(repeated((0, 1), (1, 2)))), "2 categories"),
        (pd.Series(pd.period_range("2024-01", periods=ROWS, freq="M")), "dates from 2024-01-01 to 2027-04-01"),
        (pd.Series(pd.period_range("2024-01", periods=ROWS, freq="M")).astype("category"), "dates from 2024-01-01"),
        (pd.Series(pd.to_timedelta(repeated(1, 2, 36), unit="h")), "numbers from 0.04167 to 1.5"),
        (pd.Series(pd.arrays.SparseArray(repeated(0, 0, 5))), "numbers from 0 to 5"),
        (pd.Series(repeated(0, 1)).astype(pd.SparseDtype("bool")), "yes or no"),
        (pd.Series(repeated("a", 1, 2.5, None)).astype("category"), "3 categories, 25 % missing"),
        (pd.Series(repeated(1, None, 3), dtype="Int64"), "numbers from 1 to 3, 32 % missing"),
        (pd.Series(repeated(True, None, False), dtype="boolean"), "yes or no, 32 % missing"),
        (pd.Series(repeated("a", None, "b"), dtype="string"), "2 categories, 32 % missing"),
        (pd.Series(repeated(1, 2), dtype=pd.ArrowDtype(pa.int8())), "numbers from 1 to 2"),
        (pd.Series(repeated(np.float32(1.5), "a"), dtype=object), "2 categories"),
        (pd.Series(repeated(1, "1.0", "2"), dtype=object), "numbers from 1 to 2"),
        (pd.Series(repeated(True, 2.5, None), dtype=object), "numbers from 1 to 2.5, 32 % missing"),
        (pd.Series(repeated(Decimal("1.5"), Decimal(10) ** 50), dtype=object), "numbers from 1.5 to"),
        (pd.Series(repeated(datetime.date(2024, 1, 1), datetime.date(2024, 2, 1))), "dates from 2024-01-01"),
        (pd.Series(repeated(uuid.UUID(int=1), uuid.UUID(int=2)), dtype=object), "2 categories"),
        (pd.Series(repeated(10**19 + 1, 10**19 + 2), dtype=object), "2 categories"),
        (pd.Series(repeated(2**64 - 1, 2**63), dtype="uint64"), "numbers from 9,223,372,036,854,775,808"),
    ],
)
def test_what_frames_hold_is_read(tmp_path: Path, cells: Any, found: str) -> None:
    plan = next(one for one in read(tmp_path, framed(cells)).plans if one.name == "x")
    assert plan.found.startswith(found)
    assert plan.encoding != "drop"


@pytest.mark.parametrize(
    "cells",
    [
        repeated(1 + 2j, 3j),
        repeated(b"secret", b"other"),
        repeated([1], [2, 3]),
        repeated({"a": 1}, "secret"),
        [*"ab", b"c"],
    ],
    ids=["complex", "bytes", "lists", "objects", "bytes beside text"],
)
def test_what_no_feature_is_made_of_is_left_out_by_its_name(tmp_path: Path, cells: list[Any]) -> None:
    frame = framed(pd.Series(cells))
    plan = next(one for one in read(tmp_path, frame).plans if one.name == "x")
    assert (plan.encoding, plan.found) == ("drop", "neither numbers, text nor dates")
    assert plan.warning.startswith("Column 'x' holds neither numbers, text nor dates")
    assert [plan.name for plan in read(tmp_path, frame, drop=["x"]).plans] == ["n"]
    with pytest.raises(TableError, match="The id in row 1 is neither text nor an exact whole number"):
        read(tmp_path, frame, id_column="x")


@pytest.mark.parametrize(
    ("ids", "read_as"),
    [
        ([101.0, "102", 103, None], None),
        ([101.0, "102", 103, "K4"], ["101", "102", "103", "K4"]),
        ([10**19 + 7, 10**19 + 8, 3, 4], [str(10**19 + 7), str(10**19 + 8), "3", "4"]),
        ([np.float32(7), "8", np.int8(9), Decimal(10)], ["7", "8", "9", "10"]),
        ([1e16, "8", "9", "10"], None),
        (pd.Categorical([3.0, 1.0, 2.0, 4.0]), ["3", "1", "2", "4"]),
        (pd.Categorical(np.array([2**24, 1, 2, 4], dtype="float32")), None),
        (pd.array([1, 2, 3, 2**60 + 1], dtype="Int64"), ["1", "2", "3", str(2**60 + 1)]),
    ],
)
def test_ids_of_frames_have_the_form_that_a_file_gives_them(
    tmp_path: Path, ids: Any, read_as: list[str] | None
) -> None:
    frame = pd.DataFrame({"id": ids if not isinstance(ids, list) else pd.Series(ids, dtype=object), "x": [1, 2, 3, 5]})
    if read_as is None:
        with pytest.raises(TableError, match=r"row 1 is neither|without an id \(row 4\)|lost digits"):
            read(tmp_path, frame)
    else:
        assert list(read(tmp_path, frame).ids) == read_as


def test_the_index_holds_the_ids_where_it_is_called_as_they_are(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.5, 2.5]}, index=pd.Index([7, 8], name="id"))
    assert list(read(tmp_path, frame).ids) == ["7", "8"]
    deeper = frame.set_index(pd.Index(["a", "b"], name="shop"), append=True)
    assert list(read(tmp_path, deeper).ids) == ["7", "8"]
    # A column of that name comes first.
    assert list(read(tmp_path, frame.assign(id=[1, 2])).ids) == ["1", "2"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 2, 5, 7], [2, 3, 6, 9]], columns=pd.Index(["id", 3, None, np.nan], dtype=object))
    assert [plan.name for plan in read(tmp_path, frame).kept] == ["3"]
    frame.columns = pd.Index(["id", "x", "id", 1], dtype=object)
    with pytest.raises(TableError, match=r"table of active has two columns with the same name \('id'\)"):
        read(tmp_path, frame)
    frame.columns = pd.Index(["id", "1", "x", 1], dtype=object)
    with pytest.raises(TableError, match=r"\('1'\)"):
        read(tmp_path, frame)
    frame.columns = pd.MultiIndex.from_product([["id", "x"], ["a", "b"]])
    with pytest.raises(TableError, match="column names of 2 levels"):
        read(tmp_path, frame)


def test_attrs_are_left_off(tmp_path: Path) -> None:
    frame = framed(repeated(1, 2))
    frame.attrs = {"creation_time": datetime.datetime(2024, 1, 1), "name": "bank"}
    assert read(tmp_path, frame).ids[0] == "0"


def test_text_that_is_no_unicode_is_told_by_its_column(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"column 'x' that is no valid Unicode") as caught:
        read(tmp_path, framed(pd.Series(repeated("a", "secret\ud800"), dtype=object)))
    assert "secret" not in str(caught.value)


class OfAnotherLibrary:
    """A table as polars gives it: it speaks Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("of", [lambda table: table, OfAnotherLibrary], ids=["Arrow's own", "another library's"])
def test_tables_that_speak_arrow_are_read(tmp_path: Path, of: Any) -> None:
    table = pa.table({"id": pa.array([1, None, 2**60 + 1]), "x": ["a", "b", "c"]})
    with pytest.raises(TableError, match=r"without an id \(row 2\)"):
        read(tmp_path, of(table))
    assert list(read(tmp_path, of(table.take([0, 2]))).ids) == ["1", str(2**60 + 1)]


def test_a_structured_array_has_names(tmp_path: Path) -> None:
    array = np.array([(1, 2.5), (2, 3.5)], dtype=[("id", int), ("x", float)])
    assert list(read(tmp_path, array).ids) == ["1", "2"]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (np.full((3, 2), 4711.25), r"numpy.ndarray: name its columns: pd.DataFrame\(array, columns=\[...\]\)"),
        (pd.Series([4711.25], name="x"), r"Series: make a data frame of it with its ids"),
        ([{"id": 4711.25}], r"list: make a data frame of it"),
        ({"id": [4711.25]}, r"dict: make a data frame of it"),
        (4711.25, r"float: give a data frame"),
        (None, r"NoneType: give a data frame"),
    ],
)
def test_what_is_no_frame_is_named_by_its_type(table: Any, told: str) -> None:
    for refused in (
        lambda: audit(table, FRAME, label="y"),
        lambda: audit(FRAME, table, label="y"),
        lambda: Federation.local(active=FRAME, passive=[table], label="y"),
    ):
        with pytest.raises(ValueError, match=told) as caught:
            refused()
        assert "4711" not in str(caught.value)


def test_labels_of_booleans_beside_numbers_are_two_classes(tmp_path: Path) -> None:
    labels = read(tmp_path, framed(pd.Series(repeated(True, 1, 0, False, 1.0), dtype=object)), label_column="x").labels
    assert labels is not None
    assert set(labels.tolist()) == {0, 1}


@pytest.mark.parametrize("passive", ["clinic.csv", FRAME])
def test_passive_tables_are_a_list(passive: Any) -> None:
    with pytest.raises(ValueError, match=r"passive is a list of tables, .*: write passive=\[table\]"):
        Federation.local(active=FRAME, passive=passive, label="y")


def test_a_path_is_no_frame_of_a_federation_in_memory() -> None:
    with pytest.raises(TableError, match=r"builtins.str: read it first, such as pd.read_csv\(path\)"):
        Federation.local(active=FRAME, passive=["clinic.csv"], label="y")  # type: ignore[list-item]


@given(
    st.lists(
        st.one_of(
            st.text(min_size=6), st.binary(min_size=6), st.floats(min_value=1e5), st.complex_numbers(), st.none()
        ),
        min_size=2,
        max_size=6,
    )
)
def test_no_frame_ends_in_another_error_and_no_message_shows_a_cell(
    tmp_path_factory: pytest.TempPathFactory, cells: list[Any]
) -> None:
    frame = framed(pd.Series(cells, dtype=object))
    told: list[str] = []
    for id_column, label_column in (("id", None), ("x", None), ("id", "x")):
        try:
            table = read(tmp_path_factory.getbasetemp(), frame, id_column=id_column, label_column=label_column)
            told += [*table.notes, *(plan.warning for plan in table.plans)]
        except TableError as error:
            told.append(str(error))
    assert not any(str(cell) in words for cell in cells if len(str(cell)) > 5 for words in told)
