"""Every kernel's integers are those of the definitions, computed one power at a time."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.product_tasks import by_definition, random_task
from vfl.crypto import InvalidCiphertext
from vfl.crypto.kernels import Kernel, ProductTask
from vfl.crypto.kernels.integers import byte_bases

N = 1_000_003 * 998_244_353
MODULUS = N * N


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 30), columns=st.integers(1, 9))
def test_product_is_the_product_of_powers(kernel: Kernel, seed: int, rows: int, columns: int) -> None:
    ciphertexts, task = random_task(seed, rows, columns)
    assert kernel.product(ciphertexts, task, MODULUS) == by_definition(ciphertexts, task, MODULUS)


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 12), columns=st.integers(1, 9), blocks=st.integers(2, 20))
def test_blocks_have_the_answers_that_each_has_alone(
    kernel: Kernel, seed: int, rows: int, columns: int, blocks: int
) -> None:
    _, task = random_task(seed, rows, columns)
    ciphertexts = [[int(c) for c in block] for block in np.random.default_rng(seed).integers(1, 2**62, (blocks, rows))]
    alone = [answer for block in ciphertexts for answer in kernel.product(block, task, MODULUS)]
    assert kernel.product([c for block in ciphertexts for c in block], task, MODULUS) == alone


def test_an_offset_needs_ciphertexts_with_an_inverse(kernel: Kernel) -> None:
    one = np.ones(1, dtype=np.int64)
    plain = ProductTask(one[None], one, 0 * one, 0 * one, 0 * one)
    assert kernel.product([1_000_003], plain, MODULUS) == [1_000_003]
    with pytest.raises(InvalidCiphertext, match="shares a factor"):
        kernel.product([1_000_003], ProductTask(one[None], one, one, 0 * one, 0 * one), MODULUS)


@given(base=st.integers(1, N - 1), exponents=st.lists(st.integers(0, 2**67 - 1), max_size=5))
def test_powers_are_those_of_the_definition(kernel: Kernel, base: int, exponents: list[int]) -> None:
    tables = kernel.fixed_bases(byte_bases(base, MODULUS, 9), MODULUS)
    assert tables.powers(exponents) == [pow(base, exponent, MODULUS) for exponent in exponents]
    for exponent in exponents:
        expected = [pow(b, exponent, MODULUS) for b in (base, base + 1)]
        assert kernel.powers([base, base + 1], exponent, MODULUS) == expected
        if exponent:
            assert kernel.secret_powers([base, base + 1], exponent, MODULUS) == expected
    assert kernel.powers([], 3, MODULUS) == kernel.secret_powers([], 3, MODULUS) == []


@given(seed=st.integers(0, 2**32), numbers=st.integers(1, 20), lists=st.integers(0, 20))
def test_lists_are_multiplied_one_by_one(kernel: Kernel, seed: int, numbers: int, lists: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [int(number) for number in rng.integers(0, 2**62, numbers)]
    ends = np.cumsum(rng.integers(0, 9, lists))
    order = rng.integers(0, numbers, int(ends[-1]) if lists else 0)
    expected = [prod(drawn[number] for number in part) % MODULUS for part in np.split(order, ends)[:-1]]
    assert kernel.list_products(drawn, order, ends, MODULUS) == expected
