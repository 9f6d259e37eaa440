"""Values cut into messages and put together again, with a limit on what a stranger may send."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import InvalidMessage
from services.common.scores import PartialScores, matrix_of
from services.common.wire import PART_BYTES, joined, parts_of


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


@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 4),
    classes=st.integers(0, 4),
    tokens=st.lists(st.integers(0, 2**64 - 1), max_size=6),
    seed=st.integers(0, 99),
)
def test_partial_scores_survive_their_message(
    rows: int, columns: int, classes: int, tokens: list[int], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    products = generator.normal(size=(rows, columns))
    gram = generator.normal(size=(classes, classes)) if classes else None
    message = PartialScores(products, gram, tuple(tokens)).to_message("session", 7)
    assert (message.session_id, message.request_id) == ("session", 7)
    read = PartialScores.from_message(message)
    np.testing.assert_array_equal(read.products, products)
    assert read.record_tokens == tuple(tokens)
    assert (read.parameter_gram is None) == (gram is None)
    if gram is not None:
        np.testing.assert_array_equal(read.parameter_gram, gram)


@pytest.mark.parametrize(
    ("rows", "columns", "values"),
    [(0, 0, []), (2, 1, [1.0]), (1, 1, [1.0, 2.0]), (2**31, 2**31, [1.0]), (1, 1, [np.nan]), (1, 2, [0.0, np.inf])],
)
def test_a_matrix_that_cannot_be_is_refused(rows: int, columns: int, values: list[float]) -> None:
    with pytest.raises(InvalidMessage):
        matrix_of(rows, columns, values)
