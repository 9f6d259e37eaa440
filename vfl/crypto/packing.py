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
residual. `vfl.crypto.capacity` counts them, and `layouts_for` keeps them few.

*Hence B bits do* where s max|x| max|g| < 2**(B-1): with 2**(B-1) added, every slot lies in [0, 2**B), and
slots are read independently. The total of N slots is below 2**(B N - 1) in magnitude, and n > 2**(bits - 1): with
B N <= bits - 2 it lies well inside (-n/2, n/2). Masks need no slack, because they are uniform modulo n.

*Columns of several widths.* B holds sums of the widest column of the session; with t = 1 a narrower one takes no more
than its own. Column j then stands at the bit o_j of its answer, in a slot of b_j bits with s max|x_j| max|g| <
2**(b_j - 1), where o_j is at least the end of the slot before, and all slots of an answer end within m B bits:

    X_u = sum over the columns j of an answer of  x[u, j]  2**o_j

The product with G_u = sum over c of g[u, c] 2**(B m c) has x_ij g_ic at B m c + o_j and nothing else, for slots of
different c lie in different stretches of m B bits. There is no junk, and no carry: with 2**(b_j - 1) added at every
slot, each lies in [0, 2**b_j) and none reaches the next. So they are read independently, as above, and their total is
below 2**(w - 1) in magnitude where the last slot ends at the bit w. With t > 1 a step of B bits separates the rows of
G_u, so all slots have B bits, and narrow columns are narrow in the work that they make only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vfl.arrays import IntArray
from vfl.crypto.errors import InvalidAnswer, LayoutMismatch, PackingImpossible
from vfl.crypto.fixed_point import FixedPoint
from vfl.crypto.kernels.counts import DECRYPT_PRODUCTS, ENCRYPT_PRODUCTS, RERANDOMISE_PRODUCTS, product_cost
from vfl.crypto.widths import ColumnFormats, EntryFormat

# The columns of a product: their formats or, where all have the layout's own, how many there are.
Columns = int | ColumnFormats

_NO_PRODUCT = "A plaintext does not fit its layout: wrong key, wrong mask, or a dishonest answer."


@dataclass(frozen=True)
class ColumnPlace:
    """Where a column stands.

    Attributes:
        answer: which one, from 0.
        shift: the lowest bit of its first slot.
        bits: of each of its slots: one, or as many as rows share a ciphertext.
    """

    answer: int
    shift: int
    bits: int


@dataclass(frozen=True)
class PackingLayout:
    """Where values lie in plaintexts; public, the same for all parties of a federation.

    A layout serves any smaller batch as well, and any number of features.

    Attributes:
        batch_size: the most rows.
        classes: k, columns of the residual.
        rows_per_ciphertext: t.
        columns_per_answer: m, of the widest columns; an answer about d of them takes ceil(d / m) ciphertexts.
        residual: format of the residual.
        features: format of the widest features. Where it is a fixed point, real numbers are encoded in it.

    Examples:
        >>> layout = PackingLayout(8, 1, 1, columns_per_answer=3, residual=RESIDUAL, features=BINARY)
        >>> layout.slot_bits, layout.fits(key_bits=256), layout.fits(key_bits=128)
        (44, True, False)
    """

    batch_size: int
    classes: int
    rows_per_ciphertext: int
    columns_per_answer: int
    residual: FixedPoint
    features: FixedPoint | EntryFormat

    @property
    def slot_bits(self) -> int:
        """B: the largest magnitude of a slot of the widest columns, and its sign."""
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

    def answers_for(self, columns: Columns) -> int:
        """Count the ciphertexts that answer for these columns."""
        return sum(answers for _, answers in self.fillings(columns))

    def kinds_of_answers(self, columns: Columns) -> list[tuple[int, int]]:
        """List (w, how many consecutive answers have it): the bits that an answer for these columns occupies."""
        before = ((self.classes - 1) * self.class_stride + self.rows_per_ciphertext - 1) * self.slot_bits
        return [(before + bits, answers) for bits, answers in self.fillings(columns)]

    def fillings(self, columns: Columns) -> Iterator[tuple[int, int]]:
        """List (bits of one class's columns in an answer, how many consecutive answers hold so many)."""
        used = 0
        for bits, columns_left in self._slots_of(columns):
            step = self.rows_per_ciphertext * bits
            fitting = min(columns_left, (self._room - used) // step)
            used, remaining = used + fitting * step, columns_left - fitting
            if remaining:
                yield used, 1
                full, used = divmod(remaining * step, self._room // step * step)
                if full:
                    yield self._room // step * step, full
        if used:
            yield used, 1

    def room_beside(self, columns: Columns, entry: EntryFormat, *, answers: int) -> int:
        """Count the columns of a format that so many answers hold behind these columns."""
        fillings = list(self.fillings(columns))
        (bits,) = (step * self.rows_per_ciphertext for step, _ in self._slots_of(ColumnFormats(((entry, 1),))))
        used = fillings[-1][0]
        free = answers - sum(count for _, count in fillings)
        return (self._room - used) // bits + free * (self._room // bits)

    def places(self, columns: Columns) -> list[ColumnPlace]:
        """Place every column: its answer, where it stands in it, and the bits of its slots."""
        places: list[ColumnPlace] = []
        answer, used = 0, 0
        for bits, count in self._slots_of(columns):
            step = self.rows_per_ciphertext * bits
            for _ in range(count):
                if used + step > self._room:
                    answer, used = answer + 1, 0
                places.append(ColumnPlace(answer, used, bits))
                used += step
        return places

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

    def unpack_product(self, plaintexts: Sequence[int], columns: Columns) -> list[int]:
        """Unpack the signed plaintexts of all answers to (d, k) integers in row order.

        Raises:
            InvalidAnswer: if a plaintext is larger than any product can be.
        """
        lifts = self._lifts(columns)
        if len(plaintexts) != len(lifts):
            raise InvalidAnswer(f"Expected {len(lifts)} plaintexts, got {len(plaintexts)}.")
        lifted = [plaintext + lift for plaintext, (_, lift) in zip(plaintexts, lifts, strict=True)]
        if any(not 0 <= value < 1 << bits for value, (bits, _) in zip(lifted, lifts, strict=True)):
            raise InvalidAnswer(_NO_PRODUCT)
        values = []
        for place in self.places(columns):
            half = 1 << place.bits - 1
            for c in range(self.classes):
                slot = lifted[place.answer] >> self._wanted(place, c)
                values.append((slot & 2 * half - 1) - half)
        return values

    @property
    def _room(self) -> int:
        """The bits of an answer that one class's columns share."""
        return self.class_stride * self.slot_bits

    def _wanted(self, place: ColumnPlace, c: int) -> int:
        """Find the bit at which a column's sum of a class stands; with several rows, the last of its slots."""
        return c * self._room + place.shift + (self.rows_per_ciphertext - 1) * self.slot_bits

    def _slots_of(self, columns: Columns) -> Iterator[tuple[int, int]]:
        """(bits of a slot, consecutive columns that have such slots). Raises LayoutMismatch for too wide a column."""
        if isinstance(columns, int):
            yield self.slot_bits, columns
            return
        for entry, count in columns.runs:
            if entry.bound > self.features.bound:
                raise LayoutMismatch(f"The layout was made for features up to {self.features.bound}, got {entry}.")
            narrow_bits = slot_bits(self.batch_size, self.residual, entry)
            yield self.slot_bits if self.rows_per_ciphertext > 1 else narrow_bits, count

    def _lifts(self, columns: Columns) -> list[tuple[int, int]]:
        """(bits of an answer, what makes every slot of it >= 0)."""
        sizes = [bits for bits, answers in self.kinds_of_answers(columns) for _ in range(answers)]
        if self.rows_per_ciphertext > 1:
            return [(bits, self._lift(bits // self.slot_bits)) for bits in sizes]
        lifts = [0] * len(sizes)
        for place in self.places(columns):
            lifts[place.answer] += sum(1 << self._wanted(place, c) + place.bits - 1 for c in range(self.classes))
        return list(zip(sizes, lifts, strict=True))

    def _lift(self, slots: int) -> int:
        """Make so many slots of B bits >= 0."""
        return sum(1 << self.slot_bits * slot + self.slot_bits - 1 for slot in range(slots))

    def _read_slots(self, plaintext: int) -> list[int]:
        bits, half = self.slot_bits, 1 << (self.slot_bits - 1)
        lifted = plaintext + self._lift(self.slots)
        if not 0 <= lifted < 1 << bits * self.slots:
            raise InvalidAnswer(_NO_PRODUCT)
        return [(lifted >> bits * slot & (1 << bits) - 1) - half for slot in range(self.slots)]


def layouts_for(
    parties: Sequence[ColumnFormats],
    *,
    batch_size: int,
    classes: int,
    residual_format: FixedPoint,
    key_bits: int,
    reserved_bits: int = 0,
) -> list[PackingLayout]:
    """List the layouts that fit a key, those with the fewest modular products of the busiest party's exchange first.

    It is a pure function of public numbers, so that every party computes the same.

    Several rows share a ciphertext only where the batch is large enough. The slots between the wanted ones are sums
    over neighbouring rows, which the party that takes the mask off sees as well. All slots together may be at most half
    as many as the batch has rows, so that they are far from determining the residual.

    Args:
        parties: the formats of every party's columns; they share one layout, with slots for the widest of all.
        batch_size: the most rows.
        classes: columns of the residual.
        residual_format: of the residual.
        key_bits: length of the modulus.
        reserved_bits: left free at the top of every plaintext (see `vfl.crypto.capacity.WRAP_BITS`).

    Raises:
        PackingImpossible: if not even one row and one column of all classes fit into a plaintext.

    Examples:
        >>> columns = ColumnFormats(((BINARY, 3),))
        >>> best, *_ = layouts_for([columns], batch_size=8, classes=1, residual_format=RESIDUAL, key_bits=2048)
        >>> best.rows_per_ciphertext, best.columns_per_answer
        (1, 3)
    """
    widest = ColumnFormats(tuple(run for party in parties for run in party.runs)).widest
    different = list(dict.fromkeys(parties))
    features = max(party.total for party in parties)
    available = (key_bits - 2 - reserved_bits) // slot_bits(batch_size, residual_format, widest)
    candidates = [
        PackingLayout(batch_size, classes, t, m, residual_format, widest)
        for t in range(1, min(available, batch_size) + 1)
        for m in range(1, min(available, features) + 1)
        if _slots(t, m, classes) <= available
        and (t == 1 or 2 * _slots(t, m, classes) * -(-features // m) <= batch_size)
    ]
    if not candidates:
        raise PackingImpossible(
            f"A record's {classes} values (one a class, or one a hidden unit of a network) need {classes} slots, a "
            f"{key_bits}-bit key has {available}: use a larger key or packing=off, or fewer hidden units."
        )
    return sorted(candidates, key=lambda layout: max(_products(layout, columns) for columns in different))


def _products(layout: PackingLayout, columns: ColumnFormats) -> int:
    """Modular products of one exchange with a full batch."""
    ciphertexts = layout.ciphertexts_for(layout.batch_size)
    digit_columns = columns.digits * layout.rows_per_ciphertext
    answers = list(layout.fillings(columns))
    product = product_cost(ciphertexts, digit_columns, sum(bits * count for bits, count in answers))
    per_answer = RERANDOMISE_PRODUCTS + DECRYPT_PRODUCTS
    exchanged = sum(count for _, count in answers) * per_answer
    return ciphertexts * ENCRYPT_PRODUCTS + product + exchanged


def slot_bits(batch_size: int, residual: FixedPoint, features: FixedPoint | EntryFormat) -> int:
    """Count B: the bits that a sum of `batch_size` products takes, with its sign."""
    return (batch_size * residual.bound * features.bound).bit_length() + 1


def _slots(rows_per_ciphertext: int, columns_per_answer: int, classes: int) -> int:
    return classes * columns_per_answer * rows_per_ciphertext + rows_per_ciphertext - 1
