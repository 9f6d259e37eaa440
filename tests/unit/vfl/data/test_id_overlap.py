"""Ids that would meet if they were written alike: how many, by what, and never which."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.data import TableError, read_table
from vfl.data.id_array import IdArray
from vfl.data.id_overlap import forms_of_unmet, overlap_words, would_meet
from vfl.data.record_ids import bare_id, record_ids

PLAIN = [str(number) for number in range(1, 301)]


@pytest.mark.parametrize(
    ("ids", "others", "option", "count"),
    [
        (PLAIN, [f"{number:03d}" for number in range(1, 301)], "zeros", 99),
        (PLAIN[:250], [f"{number:03d}" for number in range(1, 201)], "zeros", 99),
        (
            [f"a{one}" for one in PLAIN],
            [f"A{one}" if at % 2 else f"a{one}" for at, one in enumerate(PLAIN)],
            "case",
            150,
        ),
        ([f"é{one}" for one in PLAIN], [unicodedata.normalize("NFD", f"é{one}") for one in PLAIN], "unicode", 300),
        (PLAIN, [one.translate({48 + at: 0xFF10 + at for at in range(10)}) for one in PLAIN], "unicode", 300),
        ([f"K{one}" for one in PLAIN], [f"K {one}" for one in PLAIN], "spaces", 300),
        ([str(9_900 + at) for at in range(200)], [f"{9_900 + at:,}" for at in range(200)], "marks", 200),
        ([f"K{one}" for one in PLAIN], PLAIN, "letters", 300),
        ([f"k-{one}" for one in PLAIN], [f"K{one}" for one in PLAIN], "case,marks", 300),
        ([f"k{one:0>4}" for one in PLAIN], [f"K{one}" for one in PLAIN], "zeros,case", 300),
    ],
)
def test_what_would_have_them_meet(ids: list[str], others: list[str], option: str, count: int) -> None:
    (found,) = would_meet([ids, others])
    assert (found.option, found.count) == (option, count)
    ignored = option.split(",")
    merged = [[bare_id(one, ignored) for one in table] for table in (ids, others)]
    assert len(set(merged[0]) & set(merged[1])) == count + len(set(ids) & set(others))
    assert not list(would_meet(merged, ignored))


def test_two_differences_are_told_each_by_itself() -> None:
    others = [f"{number:03d}" if number < 50 else f"{number}x" for number in range(1, 100)]
    ids = [str(number) if number < 50 else f"{number}X" for number in range(1, 100)]
    assert [(one.option, one.count) for one in would_meet([ids, others])] == [("zeros", 49), ("case", 50)]


def test_nothing_is_told_where_two_of_one_table_would_become_one() -> None:
    assert not list(would_meet([["1", "01", "2"], ["2", "001"]]))
    # Strangers have digits in common.
    assert not list(would_meet([["A1", "B7", "C8", "D9"], ["A1", "X7", "Y5", "Z4"]]))


def test_words_count_and_show_none() -> None:
    tables = {"active": PLAIN, "passive": [f"{number:03d}" for number in range(1, 301)]}
    (told,) = overlap_words(tables, [])
    assert told.startswith(
        "201 of 300 records met; 99 more would if leading zeros didn't count (--ignore-in-ids zeros)."
    )


@given(st.lists(st.text(min_size=6), min_size=4, unique=True), st.sampled_from([str.upper, str.lower, str.title]))
def test_no_words_show_an_id(ids: list[str], change: Callable[[str], str]) -> None:
    tables = {"a": ids, "b": [ids[0], *map(change, ids[1:])]}
    told = [*overlap_words(tables, []), forms_of_unmet(IdArray.of(ids), np.arange(len(ids) // 2))]
    assert not any(one in sentence for one in ids for sentence in told)


@given(
    st.lists(
        st.one_of(st.text(min_size=6), st.floats(min_value=1e5), st.decimals(min_value=10**6), st.binary(min_size=6)),
        min_size=1,
        max_size=6,
    )
)
def test_no_message_on_ids_shows_one(ids: list[Any]) -> None:
    """Twice there, rounded, of no text, the column's own name: each is told by its rows."""
    words = ""
    try:
        record_ids([*ids, *ids], "client")
    except TableError as error:
        words = str(error)
    assert words
    assert not any(str(one) in words for one in ids if len(str(one)) > 5)


def test_a_party_compares_its_own_ids_alone() -> None:
    ids = IdArray.of([f"{number:03d}" for number in range(1, 301)])
    told = forms_of_unmet(ids, np.arange(99, 300))
    assert "100% of those that didn't meet and 0% of those that did have leading zeros" in told
    assert "PLUMBLINE_IGNORE_IN_IDS=zeros" in told
    assert not forms_of_unmet(ids, np.arange(0, 300, 2))
    assert not forms_of_unmet(ids, np.arange(300))


def test_an_ids_form_follows_from_its_own_cell() -> None:
    """Whatever the other rows: else equal ids of two parties part, and different ones meet."""
    cells = ["1E2", "1e+05", "12.0", "007", "K-1", "1.5", " 8\u200b\u00a0", "1e2", "20.00"]
    alone = [str(record_ids([cell], "id")[0]) for cell in cells]
    assert list(record_ids(cells, "id")) == alone == ["1E2", "100000", "12", "007", "K-1", "1.5", "8", "1e2", "20"]


@pytest.mark.parametrize("lost", ["9007199254740993.0", "1e+16", "1.2345e+13"])
def test_texts_of_floats_that_lost_digits_are_refused(lost: str) -> None:
    with pytest.raises(TableError, match=r"whose id has lost digits, as 1\.23E\+15 has \(row 2\)"):
        record_ids(["7", lost], "id")


@pytest.mark.parametrize(("kind", "limit"), [("float16", 2**11), ("float32", 2**24), ("float64", 2**53)])
@pytest.mark.parametrize("way", ["numpy", "nullable", "arrow"])
def test_floats_are_ids_as_far_as_their_own_type_tells_them_apart(
    tmp_path: Path, kind: str, limit: int, way: str
) -> None:
    if way == "nullable" and kind == "float16":
        pytest.skip("pandas has no such type")
    arrow = {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64()}[kind]
    types: dict[str, Any] = {"numpy": kind, "nullable": kind.capitalize(), "arrow": pd.ArrowDtype(arrow)}

    def read(*numbers: int) -> list[str]:
        ids = pd.array(np.array(numbers, dtype=kind), dtype=types[way])
        path = tmp_path / "t.parquet"
        pd.DataFrame({"id": ids, "x": [0.5, 1.5]}).to_parquet(path, index=False)
        return list(read_table(str(path), id_column="id", label_column=None).ids)

    assert read(3, limit - 1) == ["3", str(limit - 1)]
    with pytest.raises(TableError, match="The id in row 2 is neither text nor an exact whole number"):
        read(3, limit)


def test_what_does_not_count_makes_one_of_two_ids_in_a_table_and_is_refused() -> None:
    assert list(record_ids(["007", "a-B"], "id", ["zeros", "marks", "case"])) == ["7", "ab"]
    with pytest.raises(TableError, match=r"the id of an earlier row \(row 2\)"):
        record_ids(["007", "7"], "id", ["zeros"])
