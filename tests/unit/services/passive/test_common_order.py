"""One order per session: what it tells who guesses, and what it costs."""

import itertools
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import FederationError, InvalidMessage, OutOfOrder
from services.common.limits import ID_BYTES
from services.passive.common_order import REFUSED, CommonOrder

TABLE = tuple(f"id-{row}" for row in range(50))
WORDS = st.sampled_from([*TABLE, "stranger", "\0x", ""])


def expecting(most: int = 50) -> CommonOrder:
    return CommonOrder(TABLE, most)


def told(order: CommonOrder, *parts: Sequence[str]) -> FederationError:
    with pytest.raises(FederationError) as error:
        order.take(parts)
    return error.value


def test_an_order_of_own_distinct_ids_gives_their_rows() -> None:
    order = expecting()
    order.take([["id-3", "id-0"], ["id-49"]])
    np.testing.assert_array_equal(order.rows, [3, 0, 49])


@given(ids=st.lists(WORDS, max_size=8), cuts=st.lists(st.integers(0, 8), max_size=2))
def test_a_refusal_says_the_same_whatever_is_wrong_and_how_much_of_it(ids: list[str], cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(ids)) for cut in cuts), len(ids)]
    parts = [ids[start:end] for start, end in itertools.pairwise(edges) if start < end]
    order = expecting()
    if ids and len(set(ids)) == len(ids) and set(ids) <= set(TABLE):
        order.take(parts)
        assert order.rows is not None
        assert [TABLE[row] for row in order.rows] == ids
    else:
        refusal = told(order, *parts)
        assert (type(refusal), str(refusal)) == (InvalidMessage, REFUSED)
        assert order.rows is None
        assert not any(digit in REFUSED for digit in "0123456789")


def test_no_guess_after_the_first_is_answered() -> None:
    """Once: each guess, with an id that nobody has beside it, was answered with how many of the two are missing."""
    order = expecting()
    first = str(told(order, ["id-1", "\0x"]))
    for guess in ("id-2", "id-3", "stranger"):
        assert "was sent already" in str(told(order, [guess, "\0x"]))
        assert "was sent already" in str(told(order, [guess]))
    assert str(told(order, ["id-1", "\0x"])) == first, "an identical retry gets the recorded outcome"
    assert order.rows is None


def test_the_same_ids_in_other_parts_are_the_same_order_and_in_another_order_are_not() -> None:
    order = expecting()
    order.take([["id-1", "id-2", "id-3"]])
    order.take([["id-1"], ["id-2", "id-3"]])
    assert "was sent already" in str(told(order, ["id-2", "id-1", "id-3"]))
    # Joined, these would read alike.
    assert "was sent already" in str(told(order, ["id-1id-2", "id-3"]))
    np.testing.assert_array_equal(order.rows, [1, 2, 3])


@pytest.mark.parametrize(
    "parts",
    [[], [[]], [["id-1"], [], ["id-2"]], [["id-1"] * 500], [["x" * (ID_BYTES + 1)]], [["id-1", "id-2", "id-3"]]],
    ids=["nothing", "no ids", "an empty part", "one record 500 times", "too long", "more than were asked about"],
)
def test_what_no_alignment_finds_is_refused_for_good(parts: list[list[str]]) -> None:
    order = expecting(most=2)
    assert str(told(order, *parts)) == REFUSED
    assert isinstance(told(order, ["id-1"]), OutOfOrder)
    assert order.rows is None


def test_a_stream_is_left_at_the_first_part_that_is_too_many() -> None:
    read = 0

    def endless() -> Iterator[list[str]]:
        nonlocal read
        while True:
            read += 1
            yield ["guess"] * 10

    with pytest.raises(InvalidMessage):
        expecting(most=25).take(endless())
    assert read == 3


def test_an_attempt_that_breaks_off_was_an_attempt() -> None:
    def broken() -> Iterator[list[str]]:
        yield ["id-1"]
        raise ConnectionError

    order = expecting()
    with pytest.raises(ConnectionError):
        order.take(broken())
    assert "was sent already" in str(told(order, ["id-1"]))


def test_a_second_attempt_beside_the_first_is_refused_and_does_not_disturb_it() -> None:
    reading, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[list[str]]:
        yield ["id-1"]
        reading.set()
        assert go_on.wait(10)
        yield ["id-2"]

    order = expecting()
    first = threading.Thread(target=order.take, args=(slow(),))
    first.start()
    assert reading.wait(10)
    assert "is being read already" in str(told(order, ["id-1"]))
    go_on.set()
    first.join()
    np.testing.assert_array_equal(order.rows, [1, 2])
