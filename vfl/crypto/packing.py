"""Packing: several rows and classes of a residual in one plaintext, several columns in one answer.

A plaintext is a polynomial in Z = 2**B with one number per slot of B bits. With t rows per ciphertext, m
columns per answer, k classes, and u counting ciphertexts:

    G_u(Z) = sum over r < t, c < k of  g[u t + r, c]  Z**(r + c m t)         the plaintext of ciphertext u
    X_u(Z) = sum over r < t, j < m of  x[u t + r, j]  Z**(t j + t - 1 - r)   the power it is raised to

A term of G_u X_u, with r from G_u and r' from X_u, lies in slot t (c m + j) + t - 1 + (r - r').

*Wanted slots hold nothing else.* As |r - r'| < t, a slot is t - 1 modulo t exactly when r = r'; it then
determines c m + j, hence c and j. So slot t (c m + j) + t - 1 of the sum over u is sum_i x_ij g_ic.

*No slot exceeds s max|x| max|g|.* A junk slot is reached from one c m + j with r - r' = e, 0 < e < t, and
from the next with r - r' = e - t. A ciphertext of w <= t rows has max(0, w - e) pairs of the first kind and
max(0, w - t + e) of the second: at most w together. Over all ciphertexts that is at most s terms, as in a
wanted slot. Junk needs no room of its own.

*Slots between the wanted ones are not secret* from the party that takes the mask off: they are further sums of the
residual. `vfl.crypto.capacity` counts them, and `layouts_by_cost` keeps them few.

*Hence B bits do* where s max|x| max|g| < 2**(B-1): with 2**(B-1) added, every slot lies in [0, 2**B), and
slots are read independently. The total of N slots is below 2**(B N - 1) in magnitude, and n > 2**(bits - 1): with
B N <= bits - 2 it lies well inside (-n/2, n/2). Masks need no slack, because they are uniform modulo n.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vfl.arrays import IntArray
from vfl.crypto.errors import InvalidAnswer, PackingImpossible
from vfl.crypto.fixed_point import FixedPoint
from vfl.crypto.kernels.counts import best_group_size, group_cost

# Costs counted in products modulo n**2, measured at 2048 bits. Only their ratios matter, and they hardly
# change with the size of the key; being constants, they let all parties arrive at the same layout.
_ENCRYPT_PRODUCTS = 105
_RERANDOMISE_PRODUCTS = 2150
_DECRYPT_PRODUCTS = 620


@dataclass(frozen=True)
class PackingLayout:
    """Where values lie in plaintexts; public, the same for all parties of a federation.

    A layout serves any smaller batch as well, and any number of features.

    Attributes:
        batch_size: the most rows.
        classes: k, columns of the residual.
        rows_per_ciphertext: t.
        columns_per_answer: m; an answer about d features takes ceil(d / m) ciphertexts.
        residual: format of the residual.
        features: format of the features.
    """

    batch_size: int
    classes: int
    rows_per_ciphertext: int
    columns_per_answer: int
    residual: FixedPoint
    features: FixedPoint

    @property
    def slot_bits(self) -> int:
        """B: the largest magnitude of a slot, and its sign."""
        return slot_bits(self.batch_size, self.residual, self.features)

    @property
    def slots(self) -> int:
        """Slots that a product occupies."""
        return _slots(self.rows_per_ciphertext, self.columns_per_answer, self.classes)

    @property
    def class_stride(self) -> int:
        """Slots from one class to the next; also the slots of one answer's feature polynomial."""
        return self.columns_per_answer * self.rows_per_ciphertext

    def fits(self, key_bits: int) -> bool:
        """Tell whether a key with a modulus of this many bits holds every product."""
        return self.slots * self.slot_bits <= key_bits - 2

    def ciphertexts_for(self, rows: int) -> int:
        """Count the ciphertexts that carry this many rows of the residual."""
        return -(-rows // self.rows_per_ciphertext)

    def answers_for(self, features: int) -> int:
        """Count the ciphertexts that answer for this many features."""
        return -(-features // self.columns_per_answer)

    def kinds_of_answers(self, features: int) -> list[tuple[int, int]]:
        """List (slots of an answer, how many such answers) for this many features: at most two kinds."""
        t, m = self.rows_per_ciphertext, self.columns_per_answer
        full, rest = divmod(features, m)
        columns = [(m, full), (rest, 1 if rest else 0)]
        gaps = (self.classes - 1) * self.class_stride + t - 1
        return [(gaps + t * count, answers) for count, answers in columns if answers]

    def pack_residual(self, residual: IntArray) -> list[int]:
        """Pack (s, k) integers into ceil(s / t) signed plaintexts G_u."""
        plaintexts = [0] * self.ciphertexts_for(len(residual))
        for row, values in enumerate(residual.tolist()):
            ciphertext, place = divmod(row, self.rows_per_ciphertext)
            for c, value in enumerate(values):
                plaintexts[ciphertext] += value << self.slot_bits * (place + c * self.class_stride)
        return plaintexts

    def unpack_residual(self, plaintexts: Sequence[int], rows: int) -> list[int]:
        """Undo `pack_residual`: (s, k) integers in row order."""
        slots = [self._read_slots(plaintext) for plaintext in plaintexts]
        return [
            slots[row // self.rows_per_ciphertext][row % self.rows_per_ciphertext + c * self.class_stride]
            for row in range(rows)
            for c in range(self.classes)
        ]

    def virtual_matrix(self, matrix: IntArray) -> IntArray:
        """Arrange (s, d) features as (ceil(s/t), d t): row u holds X_u's coefficients, answer by answer."""
        rows, columns = matrix.shape
        t = self.rows_per_ciphertext
        virtual_rows = self.ciphertexts_for(rows)
        padded = np.zeros((virtual_rows * t, columns), dtype=np.int64)
        padded[:rows] = matrix
        by_row = padded.reshape(virtual_rows, t, columns)[:, ::-1, :]
        return by_row.transpose(0, 2, 1).reshape(virtual_rows, columns * t)

    def unpack_product(self, plaintexts: Sequence[int], features: int) -> list[int]:
        """Unpack ceil(d / m) signed plaintexts to (d, k) integers in row order.

        Raises:
            InvalidAnswer: if a plaintext is larger than any product can be.
        """
        slots = [self._read_slots(plaintext) for plaintext in plaintexts]
        t, m = self.rows_per_ciphertext, self.columns_per_answer
        return [
            slots[feature // m][t * (c * m + feature % m) + t - 1]
            for feature in range(features)
            for c in range(self.classes)
        ]

    def _read_slots(self, plaintext: int) -> list[int]:
        bits, half = self.slot_bits, 1 << (self.slot_bits - 1)
        lifted = plaintext + sum(half << bits * slot for slot in range(self.slots))
        if not 0 <= lifted < 1 << bits * self.slots:
            raise InvalidAnswer("A plaintext does not fit its layout: wrong key, wrong mask, or a dishonest answer.")
        return [(lifted >> bits * slot & (1 << bits) - 1) - half for slot in range(self.slots)]


def layouts_by_cost(
    *,
    batch_size: int,
    features: int,
    classes: int,
    residual_format: FixedPoint,
    feature_format: FixedPoint,
    key_bits: int,
    reserved_bits: int = 0,
) -> list[PackingLayout]:
    """List the layouts that fit a key, those with the fewest modular products of one exchange first.

    It is a pure function of public numbers, so that every party computes the same.

    Several rows share a ciphertext only where the batch is large enough. The slots between the wanted ones are sums
    over neighbouring rows, which the party that takes the mask off sees as well. All slots together may be at most half
    as many as the batch has rows, so that they are far from determining the residual.

    Args:
        batch_size: the most rows.
        features: the largest count of any party.
        classes: columns of the residual.
        residual_format: of the residual.
        feature_format: of the features.
        key_bits: length of the modulus.
        reserved_bits: left free at the top of every plaintext (see `vfl.crypto.capacity.WRAP_BITS`).

    Raises:
        PackingImpossible: if not even one row and one column of all classes fit into a plaintext.
    """
    available = (key_bits - 2 - reserved_bits) // slot_bits(batch_size, residual_format, feature_format)
    candidates = [
        PackingLayout(batch_size, classes, t, m, residual_format, feature_format)
        for t in range(1, min(available, batch_size) + 1)
        for m in range(1, min(available, features) + 1)
        if _slots(t, m, classes) <= available
        and (t == 1 or 2 * _slots(t, m, classes) * -(-features // m) <= batch_size)
    ]
    if not candidates:
        raise PackingImpossible(
            f"{classes} classes need {classes} slots, a {key_bits}-bit key has {available}: "
            "use a larger key or packing=off."
        )
    return sorted(candidates, key=lambda layout: _products(layout, features))


def choose_layout(
    *,
    batch_size: int,
    features: int,
    classes: int,
    residual_format: FixedPoint,
    feature_format: FixedPoint,
    key_bits: int,
    reserved_bits: int = 0,
) -> PackingLayout:
    """Choose the layout with the fewest modular products of one exchange: encrypt, multiply, rerandomise, decrypt.

    Arguments and errors are those of `layouts_by_cost`.
    """
    return layouts_by_cost(
        batch_size=batch_size,
        features=features,
        classes=classes,
        residual_format=residual_format,
        feature_format=feature_format,
        key_bits=key_bits,
        reserved_bits=reserved_bits,
    )[0]


def _products(layout: PackingLayout, features: int) -> int:
    """Modular products of one exchange with a full batch."""
    ciphertexts = layout.ciphertexts_for(layout.batch_size)
    answers = layout.answers_for(features)
    columns = features * layout.rows_per_ciphertext
    digit_columns = columns * layout.features.digits
    subset_products = group_cost(ciphertexts, digit_columns, best_group_size(ciphertexts, digit_columns))
    horner = columns * layout.slot_bits + digit_columns
    per_answer = _RERANDOMISE_PRODUCTS + _DECRYPT_PRODUCTS
    return ciphertexts * _ENCRYPT_PRODUCTS + subset_products + horner + answers * per_answer


def slot_bits(batch_size: int, residual: FixedPoint, features: FixedPoint) -> int:
    """Count B: the bits that a sum of `batch_size` products takes, with its sign."""
    return (batch_size * residual.bound * features.bound).bit_length() + 1


def _slots(rows_per_ciphertext: int, columns_per_answer: int, classes: int) -> int:
    return classes * columns_per_answer * rows_per_ciphertext + rows_per_ciphertext - 1
