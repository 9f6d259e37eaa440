"""Ids as arrays read as the tuples that they were, and an index of them finds what a dict would."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.data import id_array
from vfl.data.id_array import IdArray, IdIndex

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ids = st.lists(texts, max_size=12)


@given(ids)
def test_reads_as_a_tuple(values: list[str]) -> None:
    array = IdArray.of(iter(values))
    assert array == values
    assert tuple(values) == array
    assert list(array) == values
    assert len(array) == len(values)
    assert [array[at] for at in range(len(values))] == values
    assert array[1:4] == values[1:4]
    assert array != [*values, "more"]
    assert [one for part in array.parts(5) for one in part] == values
    assert IdArray.of(array) is array
    assert array.has_repeats == (len(set(values)) < len(values))
    assert array.longest == max((len(value.encode()) for value in values), default=0)


@given(ids)
def test_orders_by_code_point_as_python_does(values: list[str]) -> None:
    array = IdArray.of(values)
    assert array.take(array.order()) == sorted(values)


@given(st.lists(texts, unique=True, max_size=12), ids)
def test_an_index_finds_what_a_dict_would(values: list[str], asked: list[str]) -> None:
    index, expected = IdIndex(IdArray.of(values)), {value: row for row, value in enumerate(values)}
    assert index.rows([*asked, *values]).tolist() == [expected.get(value, -1) for value in [*asked, *values]]
    assert dict(index) == expected
    for value in asked:
        assert (value in index) == (value in expected)
        assert index.get(value) == expected.get(value)


def test_ids_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_array, "_hashes", lambda values, count: np.full(count, 5))
    index = IdIndex(IdArray.of(["a", "b", "c"]))
    assert index.rows(["c", "a", "x", "b"]).tolist() == [2, 0, -1, 1]
    assert not IdArray.of(["a", "b", "c"]).has_repeats
    assert IdArray.of(["a", "b", "a"]).has_repeats


def test_what_is_not_unicode_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="not valid Unicode") as caught:
        IdArray.of(["a", "secret\ud800"])
    assert "secret" not in str(caught.value)
    assert IdIndex(IdArray.of(["a"])).rows(["\ud800"]).tolist() == [-1]


def test_shows_no_id() -> None:
    assert "alice" not in repr(IdArray.of(["alice"]))
    with pytest.raises(KeyError) as caught:
        IdIndex(IdArray.of(["bob"]))["alice"]
    assert "alice" not in str(caught.value)
