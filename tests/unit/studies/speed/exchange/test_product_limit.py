"""Modular products are counted as the portable kernel computes them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.speed.exchange.own_exchange import Counting, counted_products, seconds_of_product
from vfl.crypto.kernels import PortableKernel, ProductTask


def task(rows: int, columns: int, digits: int, slot_bits: int) -> ProductTask:
    numbers = np.arange(columns)
    return ProductTask(
        entries=np.random.default_rng(1).integers(1 << digits, size=(rows, columns)),
        digits=np.full(columns, digits),
        offsets=np.zeros(columns, dtype=np.int64),
        shifts=numbers * slot_bits,
        answers=np.zeros(columns, dtype=np.int64),
    )


def test_a_known_count() -> None:
    # One row and column of one digit: no table, no group after the first, one squaring and one product, less the
    # answer's first.
    assert counted_products(task(1, 1, 1, 0)) == 1
    # Two rows in two groups of one: their only digit's second product as well.
    assert counted_products(task(2, 1, 1, 0)) in (1, 2)


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 8))
def test_more_of_anything_never_costs_less(rows: int, columns: int, digits: int) -> None:
    least = counted_products(task(rows, columns, digits, 20))
    for more in ((2 * rows, columns, digits), (rows, 2 * columns, digits), (rows, columns, 2 * digits)):
        assert least <= counted_products(task(*more, 20))


def test_a_counting_kernel_computes_what_the_other_does() -> None:
    counting, modulus = Counting(PortableKernel()), 10007
    work, ciphertexts = task(3, 4, 2, 5), [5, 6, 7]
    assert counting.product(ciphertexts, work, modulus) == PortableKernel().product(ciphertexts, work, modulus)
    assert counting.products == counted_products(work)
    assert counting.name == "portable"


@pytest.mark.parametrize("repetitions", [1, 3])
def test_a_product_is_timed_as_often_as_asked(repetitions: int) -> None:
    found = seconds_of_product(PortableKernel(), (1 << 256) - 189, repetitions)
    assert found.runs == repetitions
    assert 0 < found.least < 1e-3
