"""The kernel's integers are those of the definitions, computed one power at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfl.crypto import InvalidCiphertext
from vfl.crypto.kernels import Kernel, ProductTask, kernel_named

N = 1_000_003 * 998_244_353
MODULUS = N * N
few_examples = settings(max_examples=40, deadline=None)


@pytest.fixture(scope="module", params=["portable"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return kernel_named(request.param)


def by_definition(ciphertexts: list[int], task: ProductTask) -> list[int]:
    answers = [1] * (int(task.answers[-1]) + 1)
    for j, answer in enumerate(task.answers.tolist()):
        for c, entry in zip(ciphertexts, task.entries[:, j].tolist(), strict=True):
            exponent = (entry - int(task.offsets[j])) << int(task.shifts[j])
            answers[answer] = answers[answer] * pow(c, exponent, MODULUS) % MODULUS
    return answers


def random_task(seed: int, rows: int, columns: int) -> tuple[list[int], ProductTask]:
    """Columns of mixed widths, with gaps before, between and none, entries at both ends of their range."""
    rng = np.random.default_rng(seed)
    digits = rng.choice([1, 8, 17, 40], size=columns)
    offsets = np.where(rng.random(columns) < 0.3, (1 << digits) - 1, 0)
    answers = np.cumsum(np.r_[0, rng.random(columns - 1) < 0.4])
    shifts = np.zeros(columns, dtype=np.int64)
    for j in range(columns):
        begins = j == 0 or answers[j] != answers[j - 1]
        shifts[j] = rng.integers(0, 9) + (0 if begins else shifts[j - 1] + digits[j - 1])
    largest = (1 << digits) - 1
    entries = rng.integers(0, largest + 1, size=(rows, columns))
    entries = np.where(rng.random(entries.shape) < 0.2, np.where(rng.random(entries.shape) < 0.5, 0, largest), entries)
    ciphertexts = [int(c) for c in rng.integers(1, 2**62, size=rows)]
    return ciphertexts, ProductTask(entries, digits, offsets, shifts, answers)


@few_examples
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 30), columns=st.integers(1, 9))
def test_product_is_the_product_of_powers(kernel: Kernel, seed: int, rows: int, columns: int) -> None:
    ciphertexts, task = random_task(seed, rows, columns)
    assert kernel.product(ciphertexts, task, MODULUS) == by_definition(ciphertexts, task)


def test_an_offset_needs_ciphertexts_with_an_inverse(kernel: Kernel) -> None:
    one = np.ones(1, dtype=np.int64)
    plain = ProductTask(one[None], one, 0 * one, 0 * one, 0 * one)
    assert kernel.product([1_000_003], plain, MODULUS) == [1_000_003]
    with pytest.raises(InvalidCiphertext, match="shares a factor"):
        kernel.product([1_000_003], ProductTask(one[None], one, one, 0 * one, 0 * one), MODULUS)


@few_examples
@given(base=st.integers(1, N - 1), exponents=st.lists(st.integers(0, 2**67 - 1), max_size=5))
def test_powers_are_those_of_the_definition(kernel: Kernel, base: int, exponents: list[int]) -> None:
    tables = kernel.fixed_base(base, MODULUS, 67)
    assert tables.powers(exponents) == [pow(base, exponent, MODULUS) for exponent in exponents]
    for exponent in exponents:
        expected = [pow(b, exponent, MODULUS) for b in (base, base + 1)]
        assert kernel.powers([base, base + 1], exponent, MODULUS) == expected
        if exponent:
            assert kernel.secret_powers([base, base + 1], exponent, MODULUS) == expected
    assert kernel.powers([], 3, MODULUS) == kernel.secret_powers([], 3, MODULUS) == []
