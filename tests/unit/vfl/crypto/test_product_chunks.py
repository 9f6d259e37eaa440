"""Chunks of a product survive their travel, and carry nothing else."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfl.crypto.kernels import PortableKernel, ProductTask
from vfl.crypto.product_chunks import ProductChunk, compute_chunk

MODULUS = (2**61 - 1) ** 2 * (2**31 - 1) ** 2


def chunk_of(rows: int, columns: int, bits: int, seed: int) -> ProductChunk:
    generator = np.random.default_rng(seed)
    entries = generator.integers(0, 1 << bits, size=(rows, columns), dtype=np.int64)
    each = np.arange(columns)
    task = ProductTask(entries, np.full(columns, bits), np.zeros(columns, dtype=np.int64), 0 * each, each)
    return ProductChunk(PortableKernel(), [int(c) for c in generator.integers(2, 2**62, size=rows)], task, MODULUS)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 52), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_chunk_that_has_travelled_has_the_same_answers(rows: int, columns: int, bits: int, seed: int) -> None:
    chunk = chunk_of(rows, columns, bits, seed)
    there = ProductChunk.from_bytes(chunk.to_bytes())
    answers = compute_chunk(there)
    assert answers == compute_chunk(chunk)
    assert chunk.read_answers(there.answers_to_bytes(answers)) == answers


def test_only_numbers_travel() -> None:
    chunk = chunk_of(3, 2, 8, 0)
    secret = replace(chunk.task, entries=np.array([[object()]]))
    with pytest.raises(TypeError):
        replace(chunk, task=secret).to_bytes()
    hostile = pickle.dumps(chunk.ciphertexts)
    with pytest.raises(ValueError, match="pickled"):
        ProductChunk.from_bytes(hostile)


@pytest.mark.parametrize("answers", [[1], [1, 0], [1, MODULUS], [1, 1, 1]])
def test_answers_that_are_none_are_refused(answers: list[int]) -> None:
    chunk = chunk_of(3, 2, 8, 0)
    with pytest.raises(ValueError, match=r"between|Expected"):
        chunk.read_answers(chunk.answers_to_bytes(answers))
