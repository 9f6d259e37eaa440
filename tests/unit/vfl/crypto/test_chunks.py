"""Chunks cover the work once, are no more than is worthwhile, and put together give what the whole gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.product_tasks import random_task
from vfl.cores import OneCore
from vfl.crypto import engine
from vfl.crypto.engine import Engine, cut_evenly, item_chunks, product_chunks
from vfl.crypto.kernels import PortableKernel, ProductTask
from vfl.crypto.kernels.counts import product_cost


@pytest.fixture(autouse=True, scope="module")
def _chunks_however_small() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_FEWEST_PRODUCTS", 1)
        yield


@given(count=st.integers(0, 400), pieces=st.integers(1, 40), batch=st.sampled_from([1, 8]))
def test_pieces_are_even_and_miss_nothing(count: int, pieces: int, batch: int) -> None:
    cuts = cut_evenly(count, pieces)
    assert [item for cut in cuts for item in range(count)[cut]] == list(range(count))
    sizes = [cut.stop - cut.start for cut in cuts]
    assert max(sizes) - min(sizes) <= 1
    for cores in (1, 2, 7):
        cuts = item_chunks(count, 1000, 4096, cores, batch)
        assert [item for cut in cuts for item in range(count)[cut]] == list(range(count))
        # No batch is begun twice: lanes that stand empty cost as much as full ones.
        assert sum(-(-(cut.stop - cut.start) // batch) for cut in cuts) == -(-count // batch)
        assert len(cuts) == min(-(-count // batch), 1 if cores == 1 else 4 * cores)


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 30), columns=st.integers(1, 12), cores=st.integers(1, 9))
def test_chunks_of_a_product_multiply_to_the_whole(seed: int, rows: int, columns: int, cores: int) -> None:
    ciphertexts, task = random_task(seed, rows, columns)
    modulus = 1_000_003**2 * 998_244_353**2
    cut = product_chunks(task, 4096, cores)
    assert 1 <= len(cut) <= cores
    assert sum(chunk.task.entries.size for chunk in cut) == task.entries.size
    kernel = PortableKernel()
    answers = [1] * (int(task.answers[-1]) + 1)
    for chunk in cut:
        partial = kernel.product(ciphertexts[chunk.rows], chunk.task, modulus)
        for answer, factor in enumerate(partial, chunk.first_answer):
            answers[answer] = answers[answer] * factor % modulus
    assert answers == kernel.product(ciphertexts, task, modulus)


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 9), blocks=st.integers(1, 9), cores=st.integers(1, 9))
def test_blocks_are_shared_out_before_the_matrix_is(seed: int, rows: int, blocks: int, cores: int) -> None:
    _, task = random_task(seed, rows, 5)
    ciphertexts = [int(c) for c in np.random.default_rng(seed).integers(1, 2**62, blocks * rows)]
    modulus = 1_000_003**2 * 998_244_353**2
    cut = product_chunks(task, 4096, cores, blocks=blocks)
    assert 1 <= len(cut) <= cores
    assert len({(chunk.blocks.start, chunk.blocks.stop) for chunk in cut}) == min(blocks, cores)
    named = Engine(PortableKernel(), NamedCores(cores))
    assert named.product(ciphertexts, task, modulus) == PortableKernel().product(ciphertexts, task, modulus)


class NamedCores(OneCore):
    """So many cores in name."""

    def __init__(self, count: int) -> None:
        self.count = count


def dense(rows: int, columns: int, digits: int, per_answer: int, slot_bits: int) -> ProductTask:
    """Columns of one width, so many in an answer."""
    number = np.arange(columns)
    return ProductTask(
        entries=np.zeros((rows, columns), dtype=np.int64),
        digits=np.full(columns, digits),
        offsets=np.zeros(columns, dtype=np.int64),
        shifts=number % per_answer * slot_bits,
        answers=number // per_answer,
    )


def cost(task: ProductTask) -> int:
    last = np.diff(task.answers, append=-1) != 0
    bits = (task.shifts + task.digits)[last].sum()
    return product_cost(len(task.entries), int(task.digits.sum()), int(bits))


@pytest.mark.parametrize(
    ("name", "task"),
    {
        "wide": dense(256, 392, 17, 28, 70),
        "few answers of packed rows": dense(64, 48, 17, 24, 65),
        "one-hot": dense(256, 100, 1, 40, 50),
        "one column": dense(1024, 1, 17, 1, 0),
        "a large batch": dense(4096, 784, 17, 28, 74),
    }.items(),
)
def test_the_largest_chunk_is_little_more_than_its_share(name: str, task: ProductTask) -> None:
    # Chunks share tables or squarings: many cores are worth less than their number, most where there is little work.
    for cores, faster in ((1, 1.0), (2, 1.6), (4, 2.3), (8, 3.0)):
        largest = max(cost(chunk.task) for chunk in product_chunks(task, 4096, cores))
        assert cost(task) / largest >= faster, (name, cores)


def test_small_products_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_FEWEST_PRODUCTS", 256)
    small = dense(8, 3, 8, 3, 50)
    assert len(product_chunks(small, 4096, 8)) == 1
    assert len(product_chunks(dense(256, 12, 17, 6, 70), 1024, 8)) == 3
    assert len(product_chunks(dense(256, 12, 17, 6, 70), 4096, 8)) == 8
    assert item_chunks(64, 105, 1024, 8) == [slice(0, 64)]
    assert [len(item_chunks(64, 105, 4096, cores)) for cores in (1, 2, 8, 50)] == [1, 6, 8, 26]


def test_a_kernel_of_lanes_shares_out_rows_where_answers_share_squarings() -> None:
    task = dense(64, 48, 17, 24, 65)
    assert [chunk.rows for chunk in product_chunks(task, 4096, 2, 8)] == [slice(0, 32), slice(32, 64)]
    # 14 answers are two batches: a piece of columns for each.
    wide = dense(256, 392, 17, 28, 70)
    assert [chunk.first_answer for chunk in product_chunks(wide, 4096, 2, 8)] == [0, 7]
