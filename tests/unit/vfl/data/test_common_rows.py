"""Common rows stand in the order of their ids, in every table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.data import EmptyIntersection, PsiError, common_order, rows_in_common_order, rows_of
from vfl.data.id_array import IdArray


def test_common_order_of_nothing() -> None:
    with pytest.raises(EmptyIntersection, match="leading zeros"):
        common_order([])


def test_common_order_ignores_order_and_repeats() -> None:
    assert common_order(["b", "a", "B", "a"]) == ["B", "a", "b"]


def test_rows_of() -> None:
    rows = rows_of(("c", "a", "b"), ["a", "b", "c"])
    np.testing.assert_array_equal(rows, [1, 2, 0])
    assert rows.dtype == np.int64
    with pytest.raises(PsiError, match="lacks 1 of the 2 common ids") as caught:
        rows_of(("c", "a"), ["a", "secret"])
    assert "secret" not in str(caught.value)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), unique=True, min_size=1), st.data())
def test_rows_in_common_order_are_those_of_the_sorted_ids(ids: list[str], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(ids) - 1), unique=True, min_size=1))
    ordered = rows_in_common_order(IdArray.of(ids), np.array(rows))
    common = common_order(ids[row] for row in rows)
    assert [ids[row] for row in ordered] == common
    np.testing.assert_array_equal(ordered, rows_of(ids, common))


def test_no_common_row_is_said_so() -> None:
    with pytest.raises(EmptyIntersection, match="no id in common"):
        rows_in_common_order(IdArray.of(["a"]), np.array([], dtype=np.int64))
