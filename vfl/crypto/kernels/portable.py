"""The kernel that runs everywhere: Python integers of gmpy2.

The encrypted matrix product goes by subset products (the "Four Russians"), packed by Horner's rule. Raising ciphertexts
to the entries of a matrix one by one costs a power per entry. Here the binary digits of r rows select among the 2**r
products of r ciphertexts, computed once: one modular product per column, digit and group of r.

The work depends on shapes and on public formats only: entries are non-negative by a public offset, and zeros are
multiplied like other digits. A product by 1 would be quicker, so that the time of an answer would tell its receiver how
many entries are zero. Hence tables begin with a random number instead of 1, which the first group's table takes
out again. GMP's products are not constant time beyond that: tables are read at secret places, and whoever can
time single products on this machine may learn about entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, repeat

import numpy as np
import numpy.typing as npt
from gmpy2 import invert, mpz, powmod, powmod_base_list, powmod_sec

from vfl.arrays import IntArray
from vfl.crypto.kernels.counts import best_group_size
from vfl.crypto.kernels.integers import random_unit
from vfl.crypto.kernels.kernel import FixedBases, InvalidCiphertext, ProductTask

_ROW = 256  # a base's powers: an exponent's digits are its bytes


@dataclass(frozen=True)
class PortableKernel:
    """GMP through gmpy2. Its products hold the interpreter's lock, so that only processes make it faster."""

    name = "portable"
    releases_gil = False
    batch = 1

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute the answers of a task; raises InvalidCiphertext where an offset needs an inverse that isn't there."""
        n_squared, rows = mpz(modulus), len(task.entries) or 1
        vector = [mpz(c) for c in ciphertexts]
        blocks = [vector[start : start + rows] for start in range(0, len(vector), rows)]
        return [answer for block in blocks or [[]] for answer in self._answers(block, task, n_squared)]

    def _answers(self, block: list[mpz], task: ProductTask, n_squared: mpz) -> list[int]:
        digit_products = _subset_products(block, task, n_squared)
        corrections = _offset_corrections(block, task.offsets, n_squared)
        ends = np.cumsum(task.digits).tolist()
        columns = [
            _DigitColumn(digit_products[end - digits : end], shift, corrections[offset])
            for end, digits, shift, offset in zip(
                ends, task.digits.tolist(), task.shifts.tolist(), task.offsets.tolist(), strict=True
            )
        ]
        firsts = [0, *(np.flatnonzero(np.diff(task.answers)) + 1).tolist(), len(columns)]
        return [_horner(columns[first:end], n_squared) for first, end in pairwise(firsts)]

    def list_products(self, numbers: Sequence[int], order: IntArray, ends: IntArray, modulus: int) -> list[int]:
        """Multiply lists of numbers (`Kernel`)."""
        n_squared, factors = mpz(modulus), [mpz(number) for number in numbers]
        products = []
        for start, end in pairwise([0, *ends.tolist()]):
            result = mpz(1) % n_squared
            for number in order[start:end].tolist():
                result = result * factors[number] % n_squared
            products.append(int(result))
        return products

    def fixed_bases(self, bases: Sequence[int], modulus: int) -> FixedBases:
        """Make the tables of bases: 256 powers of each."""
        return _Tables(bases, mpz(modulus))

    def powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one public exponent."""
        return [int(power) for power in powmod_base_list(list(bases), exponent, modulus)]

    def secret_powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one secret exponent in GMP's side-channel resistant `mpz_powm_sec`."""
        return [int(powmod_sec(base, exponent, modulus)) for base in bases]


@dataclass(frozen=True)
class _DigitColumn:
    """A column on its way into its answer: its digits' products, lowest first, where it stands, what ends it."""

    digit_products: list[mpz]
    shift: int
    correction: mpz


class _Tables:
    """Powers of some bases modulo one modulus, one product per byte of the exponent."""

    def __init__(self, bases: Sequence[int], modulus: mpz) -> None:
        self._modulus = modulus
        self._rows: list[list[mpz]] = [
            list(accumulate(repeat(mpz(base), _ROW - 1), lambda a, b: a * b % modulus, initial=mpz(1)))
            for base in bases
        ]

    def powers(self, exponents: Sequence[int]) -> list[int]:
        """Multiply the bases to the bytes of each exponent."""
        return [int(self._power(exponent)) for exponent in exponents]

    def _power(self, exponent: int) -> mpz:
        result = mpz(1)
        for row, digit in zip(self._rows, exponent.to_bytes(len(self._rows), "little"), strict=True):
            result = result * row[digit] % self._modulus
        return result


def _subset_products(ciphertexts: list[mpz], task: ProductTask, n_squared: mpz) -> list[mpz]:
    """Per column and digit, the product of the ciphertexts whose row has that digit set."""
    digit_columns = int(task.digits.sum())
    group_size = best_group_size(len(ciphertexts), digit_columns)
    blind = mpz(random_unit(int(n_squared)))
    groups = -(-len(ciphertexts) // group_size)
    # The first group takes out what the others' tables begin with, and costs no product: it is what they multiply.
    products = _selected(ciphertexts[:group_size], task, powmod(blind, 1 - groups, n_squared), n_squared)
    for start in range(group_size, len(ciphertexts), group_size):
        group_products = _selected(ciphertexts[start : start + group_size], task, blind, n_squared, start)
        products = [a * b % n_squared for a, b in zip(products, group_products, strict=True)]
    return products


def _selected(group: list[mpz], task: ProductTask, first: mpz, n_squared: mpz, start: int = 0) -> list[mpz]:
    """Per column and digit, ``first`` times the product of a group's ciphertexts whose row has that digit set."""
    table = [first]
    for c in group:
        table += [entry * c % n_squared for entry in table]
    subsets = _subset_indices(task.entries[start : start + len(group)], task.digits)
    return list(map(table.__getitem__, subsets.tolist()))


def _subset_indices(entries: IntArray, digits: IntArray) -> npt.NDArray[np.int64]:
    """(sum of digits,): bit q is the binary digit of the group's q-th row, a column's lowest digit first."""
    first = np.cumsum(digits) - digits
    places = np.arange(digits.sum()) - np.repeat(first, digits)
    binary = np.repeat(entries, digits, axis=1) >> places & 1
    indices: npt.NDArray[np.int64] = (1 << np.arange(len(entries))) @ binary
    return indices


def _offset_corrections(ciphertexts: list[mpz], offsets: IntArray, n_squared: mpz) -> dict[int, mpz]:
    """(prod c_u)**(-offset) for each public offset, which takes it out again: one inversion for the matrix."""
    corrections = {0: mpz(1)}
    if not offsets.any():
        return corrections
    product = mpz(1)
    for c in ciphertexts:
        product = product * c % n_squared
    try:
        inverse = invert(product, n_squared)
    except ZeroDivisionError:
        raise InvalidCiphertext(
            "A ciphertext shares a factor with the modulus: check ciphertexts as they arrive."
        ) from None
    for offset in set(offsets.tolist()) - {0}:
        corrections[offset] = powmod(inverse, offset, n_squared)
    return corrections


def _horner(columns: list[_DigitColumn], n_squared: mpz) -> int:
    """Put the digits of each column, and the columns of one answer, at their powers of two, highest first."""
    answer, place = mpz(1), columns[-1].shift + len(columns[-1].digit_products)
    for column in reversed(columns):
        answer = powmod(answer, 1 << place - column.shift - len(column.digit_products), n_squared)
        for digit_product in reversed(column.digit_products):
            answer = answer * answer % n_squared * digit_product % n_squared
        answer = answer * column.correction % n_squared
        place = column.shift
    return int(powmod(answer, 1 << place, n_squared))
