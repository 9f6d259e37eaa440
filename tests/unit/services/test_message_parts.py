"""Values cut into messages and put together again, with a limit on what a stranger may send."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidMessage
from services.common.wire import PART_BYTES, joined, matrix_of, parts_of, scores_message


@pytest.mark.parametrize("size", [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES])
def test_parts_join_to_what_was_cut_and_each_fits_a_message(size: int) -> None:
    data = np.random.default_rng(0).bytes(size)
    parts = list(parts_of(data))
    assert joined(parts, size) == data
    assert all(0 < len(part) <= PART_BYTES for part in parts)


def test_a_stream_longer_than_announced_is_not_read_to_its_end() -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 10
            yield bytes(10)

    with pytest.raises(InvalidMessage, match="at most 100 bytes"):
        joined(endless(), 100)
    assert read == 110


@given(rows=st.integers(1, 6), columns=st.integers(1, 4), seed=st.integers(0, 99))
def test_scores_survive_their_message(rows: int, columns: int, seed: int) -> None:
    products = np.random.default_rng(seed).normal(size=(rows, columns))
    message = scores_message("session", 7, products)
    assert (message.session_id, message.request_id) == ("session", 7)
    np.testing.assert_array_equal(matrix_of(message.rows, message.columns, message.values), products)


@pytest.mark.parametrize(
    ("rows", "columns", "values"),
    [(0, 0, []), (2, 1, [1.0]), (1, 1, [1.0, 2.0]), (2**31, 2**31, [1.0]), (1, 1, [np.nan]), (1, 2, [0.0, np.inf])],
)
def test_a_matrix_that_cannot_be_is_refused(rows: int, columns: int, values: list[float]) -> None:
    with pytest.raises(InvalidMessage):
        matrix_of(rows, columns, values)
