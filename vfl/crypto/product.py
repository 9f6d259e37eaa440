"""The encrypted matrix product by subset products (the "Four Russians"), packed by Horner's rule.

Raising ciphertexts to the entries of a matrix one by one costs a power per entry. Here the binary digits of r
rows select among the 2**r products of r ciphertexts, computed once: one modular product per column, digit and
group of r.

The work depends on shapes and on the public format only: entries are made non-negative by a public offset,
and zeros are multiplied like other digits. GMP's products are not constant time, however, and those with an
empty subset are quicker: whoever can time single products on this machine may learn about entries.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from gmpy2 import invert, mpz, powmod

from vfl.arrays import IntArray
from vfl.crypto.errors import InvalidCiphertext
from vfl.crypto.fixed_point import FixedPoint

_LARGEST_GROUP = 14  # a table of 2**14 ciphertexts is 9 MB at 2048 bits


def group_cost(rows: int, digit_columns: int, group_size: int) -> int:
    """Count the modular products that the subset products of `rows` ciphertexts take, 2**group_size per table."""
    return -(-rows // group_size) * ((1 << group_size) + digit_columns)


def best_group_size(rows: int, digit_columns: int) -> int:
    """Find the number of ciphertexts per table that takes the fewest modular products."""
    return min(range(1, _LARGEST_GROUP + 1), key=lambda size: group_cost(rows, digit_columns, size))


def encrypted_product(
    vectors: Sequence[Sequence[int]],
    matrix: IntArray,
    *,
    features: FixedPoint,
    modulus: int,
    slots_per_answer: int = 1,
    slot_bits: int = 0,
) -> list[list[int]]:
    """Compute for each vector c and each answer the product over rows u and slots w of c_u**(M_uw 2**(B w)).

    Args:
        vectors: one sequence of s ciphertexts per class; the matrix is taken apart once for all classes.
        matrix: (s, columns) integers within the bound of `features`.
        features: the public format of the matrix.
        modulus: n**2.
        slots_per_answer: how many consecutive columns share an answer; the last answer may have fewer.
        slot_bits: B, the distance of slots; not needed for one slot, at least `features.digits` for several.

    Returns:
        Per class, ceil(columns / slots_per_answer) ciphertexts.

    Raises:
        InvalidCiphertext: if a ciphertext has no inverse modulo n**2.
    """
    rows, columns = matrix.shape
    digits = features.digits
    group_size = best_group_size(rows, columns * digits)
    subsets = _subset_indices(matrix + features.offset, digits, group_size)
    width = slots_per_answer * digits
    n_squared = mpz(modulus)
    answers = []
    for vector in vectors:
        ciphertexts = [mpz(c) for c in vector]
        digit_products = _subset_products(ciphertexts, subsets, group_size, n_squared)
        correction = _offset_correction(ciphertexts, features.offset, n_squared)
        answers.append(
            [
                _horner(digit_products[start : start + width], digits, slot_bits, correction, n_squared)
                for start in range(0, len(digit_products), width)
            ]
        )
    return answers


def _subset_indices(matrix: IntArray, digits: int, group_size: int) -> npt.NDArray[np.uint16]:
    """(groups, columns * digits): bit q is the binary digit of the group's q-th row, lowest digit first."""
    rows, columns = matrix.shape
    groups = -(-rows // group_size)
    indices = np.zeros((groups, columns, digits), dtype=np.uint16)
    places = np.arange(digits)
    for row in range(rows):
        group, position = divmod(row, group_size)
        digit = (matrix[row, :, None] >> places & 1).astype(np.uint16)
        indices[group] |= digit << np.uint16(position)
    return indices.reshape(groups, columns * digits)


def _subset_products(
    ciphertexts: list[mpz], subsets: npt.NDArray[np.uint16], group_size: int, n_squared: mpz
) -> list[mpz]:
    """Per column and digit, the product of the ciphertexts whose row has that digit set."""
    products = [mpz(1)] * subsets.shape[1]
    for group, indices in enumerate(subsets):
        table = [mpz(1)]
        for c in ciphertexts[group * group_size : (group + 1) * group_size]:
            table += [entry * c % n_squared for entry in table]
        chosen = map(table.__getitem__, indices.tolist())
        products = [a * b % n_squared for a, b in zip(products, chosen, strict=True)]
    return products


def _offset_correction(ciphertexts: list[mpz], offset: int, n_squared: mpz) -> mpz:
    """(prod c_u)**(-offset), which takes the public offset out again: one inversion for the matrix."""
    if offset == 0:
        return mpz(1)
    product = mpz(1)
    for c in ciphertexts:
        product = product * c % n_squared
    try:
        return powmod(invert(product, n_squared), offset, n_squared)
    except ZeroDivisionError:
        raise InvalidCiphertext(
            "A ciphertext shares a factor with the modulus: check ciphertexts as they arrive."
        ) from None


def _horner(digit_products: list[mpz], digits: int, slot_bits: int, correction: mpz, n_squared: mpz) -> int:
    """Put the digits of each slot, and the slots of one answer, at their powers of two, highest first."""
    answer = mpz(1)
    gap = 1 << max(0, slot_bits - digits)
    for end in range(len(digit_products), 0, -digits):
        if end < len(digit_products):
            answer = powmod(answer, gap, n_squared)
        for digit_product in reversed(digit_products[end - digits : end]):
            answer = answer * answer % n_squared * digit_product % n_squared
        answer = answer * correction % n_squared
    return int(answer)
