"""The native kernel: the same integers as Python's pow, whatever the sizes, on both kinds of lanes."""

import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto.kernels import InvalidCiphertext
from vfl.crypto.kernels.integers import byte_bases
from vfl.crypto.kernels.kernel import ProductTask
from vfl.crypto.kernels.native import NativeKernel

# Ends of digits of 52 and 64 bits, and of blocks of 4 and 8 of them.
LENGTHS = (2, 3, 8, 48, 52, 60, 61, 64, 124, 128, 200, 204, 205, 256, 412, 413, 512, 1024, 1500, 2048)
LONG = (3072, 4096, 8192)


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def odd_number(bits: int, seed: int) -> int:
    return seeded(seed).getrandbits(bits) | 1 | 1 << (bits - 1)


@st.composite
def moduli(draw: st.DrawFn) -> int:
    """Odd numbers and squares of them: of any bits, all ones, a power of two and one."""
    bits = draw(st.sampled_from(LENGTHS))
    n = draw(st.sampled_from([odd_number(bits, draw(st.integers(0, 1 << 30))), (1 << bits) - 1, (1 << bits) + 1]))
    return n ** draw(st.sampled_from([1, 2]))


def residues(modulus: int, count: int, seed: int) -> list[int]:
    drawn = seeded(seed)
    return [0, 1, modulus - 1, *(drawn.randrange(modulus) for _ in range(count))][:count]


def naive_product(ciphertexts: list[int], task: ProductTask, modulus: int) -> list[int]:
    answers = [1 % modulus] * (int(task.answers[-1]) + 1)
    for j, a in enumerate(task.answers.tolist()):
        for u, c in enumerate(ciphertexts):
            exponent = (int(task.entries[u, j]) - int(task.offsets[j])) << int(task.shifts[j])
            answers[a] = answers[a] * pow(c, exponent, modulus) % modulus
    return answers


def random_task(rows: int, digits: list[int], per_answer: int, seed: int, *, offsets: bool) -> ProductTask:
    """Columns of mixed digits, so many to an answer, with gaps of 0 to 5 bits between them."""
    drawn = seeded(seed)
    shifts: list[int] = []
    for j in range(len(digits)):
        free = 0 if j % per_answer == 0 else shifts[-1] + digits[j - 1]
        shifts.append(free + drawn.randrange(6))
    entries = [[drawn.choice([0, (1 << b) - 1, drawn.getrandbits(b)]) for b in digits] for _ in range(rows)]
    return ProductTask(
        np.array(entries, dtype=np.int64).reshape(rows, len(digits)),
        np.array(digits),
        np.array([drawn.choice([0, 1 << (b - 1)]) if offsets else 0 for b in digits]),
        np.array(shifts),
        np.arange(len(digits)) // per_answer,
    )


@given(modulus=moduli(), count=st.integers(0, 20), exponent=st.integers(0, 1 << 90), seed=st.integers(0, 99))
def test_powers_are_those_of_python(
    native_kernel: NativeKernel, modulus: int, count: int, exponent: int, seed: int
) -> None:
    bases = residues(modulus, count, seed)
    expected = [pow(base, exponent, modulus) for base in bases]
    assert native_kernel.powers(bases, exponent, modulus) == expected
    assert native_kernel.secret_powers(bases, exponent, modulus) == expected


@given(
    modulus=moduli(),
    rows=st.integers(1, 30),
    digits=st.lists(st.integers(1, 20), min_size=1, max_size=12),
    per_answer=st.integers(1, 5),
    seed=st.integers(0, 1 << 30),
    offsets=st.booleans(),
)
def test_products_are_those_of_python(
    native_kernel: NativeKernel, modulus: int, rows: int, digits: list[int], per_answer: int, seed: int, offsets: bool
) -> None:
    drawn = seeded(seed)
    units = [c for c in (drawn.randrange(modulus) for _ in range(4 * rows)) if math.gcd(c, modulus) == 1]
    ciphertexts = (units or [1]) * rows
    task = random_task(rows, digits, per_answer, seed, offsets=offsets)
    assert native_kernel.product(ciphertexts[:rows], task, modulus) == naive_product(ciphertexts[:rows], task, modulus)


@given(modulus=moduli(), bits=st.integers(1, 100), seed=st.integers(0, 1 << 30))
def test_tables_give_the_powers_of_python(native_kernel: NativeKernel, modulus: int, bits: int, seed: int) -> None:
    drawn = seeded(seed)
    base = drawn.choice([0, 1, modulus - 1, drawn.randrange(modulus)])
    exponents = [0, 1, (1 << bits) - 1, *(drawn.getrandbits(bits) for _ in range(8))]
    tables = native_kernel.fixed_bases(byte_bases(base, modulus, -(-bits // 8)), modulus)
    assert tables.powers(exponents) == [pow(base, exponent, modulus) for exponent in exponents]


@given(modulus=moduli(), count=st.integers(1, 40), exponents=st.integers(0, 17), seed=st.integers(0, 1 << 30))
def test_independent_bases_are_multiplied_byte_by_byte(
    native_kernel: NativeKernel, modulus: int, count: int, exponents: int, seed: int
) -> None:
    """Few exponents share lanes: the bytes of each are worked through in parts."""
    bases = residues(modulus, count, seed)[::-1]
    chosen = [seeded(seed + i).randbytes(count) for i in range(exponents)]
    powers = ([pow(b, digit, modulus) for b, digit in zip(bases, digits, strict=True)] for digits in chosen)
    expected = [reduce(lambda a, b: a * b % modulus, factors) for factors in powers]
    tables = native_kernel.fixed_bases(bases, modulus)
    assert tables.powers([int.from_bytes(digits, "little") for digits in chosen]) == expected


@pytest.mark.parametrize("bits", LONG)
@pytest.mark.parametrize("square", [True, False])
def test_long_moduli(native_kernel: NativeKernel, bits: int, square: bool) -> None:
    modulus = odd_number(bits // 2, 1) ** 2 if square else odd_number(bits, 2)
    bases = residues(modulus, 9, bits)
    exponent = seeded(bits).getrandbits(64)
    assert native_kernel.secret_powers(bases, exponent, modulus) == [pow(base, exponent, modulus) for base in bases]
    task = random_task(5, [1, 8, 17], 2, bits, offsets=False)
    assert native_kernel.product(bases[3:8], task, modulus) == naive_product(bases[3:8], task, modulus)


def test_a_long_exponent(native_kernel: NativeKernel) -> None:
    n = odd_number(256, 3)
    bases = residues(n * n, 9, 4)
    assert native_kernel.powers(bases, n**5, n * n) == [pow(base, n**5, n * n) for base in bases]


@pytest.mark.parametrize("rows", [1, 2, 11, 12, 13, 24, 25, 64])
def test_rows_at_the_edges_of_groups(native_kernel: NativeKernel, rows: int) -> None:
    modulus = odd_number(128, 5) ** 2
    task = random_task(rows, [17] * 40, 3, rows, offsets=False)
    ciphertexts = residues(modulus, rows + 3, rows)[3:]
    assert native_kernel.product(ciphertexts, task, modulus) == naive_product(ciphertexts, task, modulus)


def test_a_ciphertext_without_inverse_is_refused_where_an_offset_needs_one(native_kernel: NativeKernel) -> None:
    n = 15 * odd_number(100, 1)
    task = ProductTask(np.array([[5]]), np.array([4]), np.array([1]), np.array([0]), np.array([0]))
    with pytest.raises(InvalidCiphertext, match="shares a factor"):
        native_kernel.product([3], task, n * n)


def test_threads_share_tables(native_kernel: NativeKernel) -> None:
    modulus = odd_number(256, 9) ** 2
    tables = native_kernel.fixed_bases(byte_bases(3, modulus, 25), modulus)
    exponents = [seeded(i).getrandbits(200) for i in range(40)]
    expected = [pow(3, exponent, modulus) for exponent in exponents]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: tables.powers(exponents), range(40)))
    assert all(powers == expected for powers in results)


def test_a_copy_in_another_process_is_the_same_kernel(native_kernel: NativeKernel) -> None:
    assert pickle.loads(pickle.dumps(native_kernel)) == native_kernel  # noqa: S301


def test_residues_beyond_the_modulus_count_modulo_it(native_kernel: NativeKernel) -> None:
    beyond = [15, 17, -1, 17 * 10**9]
    assert native_kernel.powers(beyond, 3, 15) == [pow(x, 3, 15) for x in beyond]


@given(modulus=moduli(), count=st.integers(1, 20), lists=st.integers(1, 20), seed=st.integers(0, 99))
def test_lists_are_those_of_python(
    native_kernel: NativeKernel, modulus: int, count: int, lists: int, seed: int
) -> None:
    """Of any lengths beside each other, none too; lanes beyond the last list have nothing to do."""
    numbers, drawn = residues(modulus, count, seed), np.random.default_rng(seed)
    ends = np.cumsum(drawn.integers(0, 12, lists))
    order = drawn.integers(0, count, int(ends[-1]))
    expected = [math.prod(numbers[k] for k in part) % modulus for part in np.split(order, ends)[:-1]]
    assert native_kernel.list_products(numbers, order, ends, modulus) == expected
