"""Jobs of a product survive their travel, and carry nothing else."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto.kernels import PortableKernel, ProductTask
from vfl.crypto.product_jobs import ProductJob, compute_product

MODULUS = (2**61 - 1) ** 2 * (2**31 - 1) ** 2


def job_of(rows: int, columns: int, bits: int, seed: int, blocks: int = 1) -> ProductJob:
    generator = np.random.default_rng(seed)
    entries = generator.integers(0, 1 << bits, size=(rows, columns), dtype=np.int64)
    each = np.arange(columns)
    task = ProductTask(entries, np.full(columns, bits), np.zeros(columns, dtype=np.int64), 0 * each, each)
    ciphertexts = [int(c) for c in generator.integers(2, 2**62, size=blocks * rows)]
    return ProductJob(PortableKernel(), ciphertexts, task, MODULUS)


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 52), st.integers(0, 99), st.integers(1, 3))
def test_a_job_that_has_travelled_has_the_same_answers(
    rows: int, columns: int, bits: int, seed: int, blocks: int
) -> None:
    job = job_of(rows, columns, bits, seed, blocks)
    there = ProductJob.from_bytes(job.to_bytes())
    answers = compute_product(there)
    assert answers == compute_product(job)
    assert job.read_answers(there.answers_to_bytes(answers)) == answers


def test_only_numbers_travel() -> None:
    job = job_of(3, 2, 8, 0)
    secret = replace(job.task, entries=np.array([[object()]]))
    with pytest.raises(TypeError):
        replace(job, task=secret).to_bytes()
    hostile = pickle.dumps(job.ciphertexts)
    with pytest.raises(ValueError, match="pickled"):
        ProductJob.from_bytes(hostile)


@pytest.mark.parametrize("answers", [[1], [1, 0], [1, MODULUS], [1, 2**61 - 1], [1, 1, 1]])
def test_answers_that_are_none_are_refused(answers: list[int]) -> None:
    job = job_of(3, 2, 8, 0)
    with pytest.raises(ValueError, match=r"no ciphertext|Expected"):
        job.read_answers(job.answers_to_bytes(answers))
