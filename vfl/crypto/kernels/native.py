"""The native kernel: batches handed to C, on one lane of 64-bit limbs or eight of AVX512-IFMA.

C gets bytes that were checked here: nothing that a caller passes can make it read or write beyond its memory. While it
works other threads of Python run.
"""

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from gmpy2 import invert, isqrt, powmod

from vfl.arrays import IntArray
from vfl.crypto.kernels.kernel import FixedBases, InvalidCiphertext, ProductTask
from vfl.crypto.native.library import Modulus, NativeTask, load

_LARGEST_GROUP = 12  # a table of 2**12 ciphertexts is 2.6 MB at 2048 bits
_MOST_BITS = 16_384
_MOST_BASES = 2048  # a byte of an exponent each
_MOST_DIGITS = 63  # entries are 64-bit integers, and not negative
_MOST_SHIFT = 1 << 20
_MOST_COUNT = 1 << 28
# A product's sums, one ciphertext per digit column, take no more; a task with more of them goes in several parts.
_SUM_BYTES = 64 << 20
_NAMES = {1: "native, 64-bit limbs", 8: "native, 8 lanes of AVX512-IFMA"}


@dataclass(frozen=True)
class NativeKernel:
    """The kernel in C (`Kernel`). It has no state: copies are equal, and threads and processes may share it.

    Attributes:
        lanes: 8 or 1 insist on one kind; None takes what the processor has.

    Raises:
        LibraryMissing: where the library isn't built or can't be loaded.
        ValueError: if this processor hasn't got those lanes.
    """

    lanes: Literal[1, 8] | None = None

    def __post_init__(self) -> None:
        if self.lanes not in (None, 1, load().plumbline_lanes()):
            raise ValueError(f"This processor has no {self.lanes} lanes of AVX512-IFMA: leave lanes out.")

    @property
    def name(self) -> str:
        """What the log calls it, with its lanes."""
        return _NAMES[self._count]

    @property
    def releases_gil(self) -> bool:
        """True: threads make it faster."""
        return True

    @property
    def batch(self) -> int:
        """Its lanes."""
        return self._count

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute the answers of a task (`Kernel`).

        Raises:
            InvalidCiphertext: if a column has an offset and a ciphertext has no inverse modulo the modulus.
            ValueError: if the arrays of the task don't fit each other.
        """
        residues = _Residues(modulus, self._count)
        columns = _Columns(task, len(ciphertexts))
        if not len(ciphertexts) or modulus == 1:
            return [1 % modulus] * (columns.blocks * columns.answers)
        data = residues.to_bytes(ciphertexts)
        corrections = self._corrections(residues, data, columns)
        parts = columns.parts(max(1, _SUM_BYTES // (residues.width * 3 // 2) // columns.blocks))
        answers = [self._part(residues, data, part, corrections) for part in parts]
        return [answer for block in zip(*answers, strict=True) for part in block for answer in part]

    def list_products(self, numbers: Sequence[int], order: IntArray, ends: IntArray, modulus: int) -> list[int]:
        """Multiply lists of numbers (`Kernel`). Raises ValueError for lists that don't fit the numbers."""
        residues = _Residues(modulus, self._count)
        order, ends = _integers(order, 1, "order"), _integers(ends, 1, "ends")
        bounds = np.concatenate([[0], ends, [len(order)]])
        if (np.diff(bounds) < 0).any() or (len(order) and not 0 <= order.min() <= order.max() < len(numbers)):
            raise ValueError("Expected lists one after the other, of numbers that there are.")
        if modulus == 1 or not len(ends):
            return [0] * len(ends)
        out = residues.room(len(ends))
        data, reference = residues.to_bytes(numbers), ctypes.byref(residues.modulus)
        lists = (order.ctypes.data, ends.ctypes.data, len(ends))
        _check(load().plumbline_lists(reference, data, len(numbers), *lists, out))
        return residues.from_bytes(out)

    def fixed_bases(self, bases: Sequence[int], modulus: int) -> FixedBases:
        """Make the tables of bases (`Kernel`)."""
        residues = _Residues(modulus, self._count)
        if not 0 < len(bases) <= _MOST_BASES:
            raise ValueError(f"Expected 1 to {_MOST_BASES} bases, got {len(bases)}.")
        if modulus == 1:
            return _Zeros()
        return _NativeFixedBases(residues, bases)

    def powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one public exponent (`Kernel`)."""
        return self._powers(bases, exponent, modulus, secret=False)

    def secret_powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one secret exponent, in constant time for its length (`Kernel`)."""
        return self._powers(bases, exponent, modulus, secret=True)

    @property
    def _count(self) -> int:
        return self.lanes or int(load().plumbline_lanes())

    def _powers(self, bases: Sequence[int], exponent: int, modulus: int, *, secret: bool) -> list[int]:
        bits = exponent.bit_length()
        if exponent < 0 or bits >= _MOST_COUNT:
            raise ValueError("Expected an exponent that is not negative, and shorter than 2**28 bits.")
        # One that is left over is done sooner on limbs than on lanes of which seven idle.
        alone = len(bases) % self._count == 1
        together = len(bases) - alone
        powers = self._batch_powers(bases[:together], exponent, _Residues(modulus, self._count), secret=secret)
        return powers + self._batch_powers(bases[together:], exponent, _Residues(modulus, 1), secret=secret)

    def _batch_powers(self, bases: Sequence[int], exponent: int, residues: "_Residues", *, secret: bool) -> list[int]:
        if not len(bases) or residues.number == 1:
            return [0] * len(bases)
        bits = exponent.bit_length()
        digits = int(exponent).to_bytes((bits + 7) // 8, "little")
        data, out = residues.to_bytes(bases), residues.room(len(bases))
        modulus = ctypes.byref(residues.modulus)
        _check(load().plumbline_powers(modulus, data, len(bases), digits, bits, int(secret), out))
        return residues.from_bytes(out)

    def _corrections(self, residues: "_Residues", data: bytes, columns: "_Columns") -> dict[int, list[int]]:
        """(prod c_u)**(-offset) of every block, for every offset there is: one inversion for all of a block."""
        corrections: dict[int, list[int]] = {int(offset): [] for offset in np.unique(columns.offsets) if offset}
        size = columns.rows * residues.width
        for start in range(0, len(data) if corrections else 0, size):
            out = residues.room(1)
            block = data[start : start + size]
            _check(load().plumbline_total(ctypes.byref(residues.modulus), block, columns.rows, out))
            try:
                inverse = invert(residues.from_bytes(out)[0], residues.number)
            except ZeroDivisionError:
                raise InvalidCiphertext(
                    "A ciphertext shares a factor with the modulus: check ciphertexts as they arrive."
                ) from None
            for offset, powers in corrections.items():
                powers.append(int(powmod(inverse, offset, residues.number)))
        return corrections

    def _part(
        self, residues: "_Residues", data: bytes, columns: "_Columns", corrections: dict[int, list[int]]
    ) -> list[list[int]]:
        """List every block's answers."""
        out = residues.room(columns.blocks * columns.answers)
        task = columns.task(residues, corrections, self._count)
        _check(load().plumbline_product(ctypes.byref(residues.modulus), data, ctypes.byref(task), out))
        answers = residues.from_bytes(out)
        return [answers[start : start + columns.answers] for start in range(0, len(answers), columns.answers)]


class _Residues:
    """A modulus, and its residues as bytes of one width."""

    def __init__(self, modulus: int, lanes: int) -> None:
        if modulus < 1 or modulus % 2 == 0 or modulus.bit_length() > _MOST_BITS:
            raise ValueError(f"Expected an odd modulus of at most {_MOST_BITS} bits.")
        self.number = int(modulus)
        self.width = (self.number.bit_length() + 7) // 8
        # Modulo a square the work is less by three eighths.
        root = int(isqrt(self.number))
        parts = 2 if root * root == self.number else 1
        root = root if parts == 2 else self.number
        bits = root.bit_length()
        self.modulus = Modulus(lanes, parts, bits, self.width, root.to_bytes((bits + 7) // 8, "little"))

    def to_bytes(self, numbers: Sequence[int]) -> bytes:
        if len(numbers) > _MOST_COUNT:
            raise ValueError(f"Expected at most {_MOST_COUNT} numbers at once.")
        modulus, width = self.number, self.width
        reduced = [int(x) if 0 <= x < modulus else int(x % modulus) for x in numbers]
        return b"".join([x.to_bytes(width, "little") for x in reduced])

    def from_bytes(self, data: "ctypes.Array[ctypes.c_char]") -> list[int]:
        raw, width = data.raw, self.width
        return [int.from_bytes(raw[at : at + width], "little") for at in range(0, len(raw), width)]

    def room(self, count: int) -> "ctypes.Array[ctypes.c_char]":
        return ctypes.create_string_buffer(count * self.width)


class _Columns:
    """The arrays of a product's task, checked and as C reads them."""

    def __init__(self, task: ProductTask, ciphertexts: int) -> None:
        self.entries = _integers(task.entries, 2, "entries")
        self.digits = _integers(task.digits, 1, "digits")
        self.offsets = _integers(task.offsets, 1, "offsets")
        self.shifts = _integers(task.shifts, 1, "shifts")
        self.answer = _integers(task.answers, 1, "answers")
        columns = len(self.digits)
        self.rows = len(self.entries)
        self.blocks, rest = divmod(ciphertexts, self.rows) if self.rows else (1, ciphertexts)
        if self.entries.shape[1] != columns or rest or not self.blocks:
            raise ValueError(
                f"Expected entries of shape {ciphertexts, columns}, or as many rows as each of several blocks has "
                f"ciphertexts, got {self.entries.shape}."
            )
        if not len(self.offsets) == len(self.shifts) == len(self.answer) == columns:
            raise ValueError("Expected one number of digits, offset, shift and answer for every column.")
        if columns:
            self._check_values()
            self._check_answers()

    def _check_values(self) -> None:
        if self.digits.min() < 1 or self.digits.max() > _MOST_DIGITS:
            raise ValueError(f"Expected columns of 1 to {_MOST_DIGITS} digits.")
        if self.entries.size and (self.entries.min() < 0 or (self.entries >> self.digits).any()):
            raise ValueError("Expected entries of at least 0, within the digits of their columns.")
        if self.offsets.min() < 0:
            raise ValueError("Expected offsets of at least 0.")

    def _check_answers(self) -> None:
        steps = np.diff(self.answer)
        if self.answer[0] != 0 or ((steps != 0) & (steps != 1)).any():
            raise ValueError("Expected answers 0, 1, ... without gaps, ascending.")
        if self.shifts.min() < 0 or self.shifts.max() > _MOST_SHIFT:
            raise ValueError(f"Expected shifts of 0 to {_MOST_SHIFT}.")
        within = steps == 0
        if (self.shifts[1:][within] < (self.shifts + self.digits)[:-1][within]).any():
            raise ValueError("Expected the columns of an answer one after the other: their digits overlap.")

    @property
    def answers(self) -> int:
        return int(self.answer[-1]) + 1 if len(self.answer) else 0

    def parts(self, most_digits: int) -> "list[_Columns]":
        """Whole answers with at most so many digits each, or one answer where it alone has more."""
        ends = np.flatnonzero(np.diff(self.answer, append=self.answers)) + 1
        sums = np.concatenate([[0], np.cumsum(self.digits)])
        parts, start, previous = [], 0, 0
        for end in ends.tolist():
            if sums[end] - sums[start] > most_digits and previous > start:
                parts.append(self._part(start, previous))
                start = previous
            previous = end
        if previous > start:
            parts.append(self if start == 0 else self._part(start, previous))
        return parts

    def _part(self, start: int, end: int) -> "_Columns":
        span = slice(start, end)
        answers = self.answer[span] - self.answer[start]
        task = ProductTask(self.entries[:, span], self.digits[span], self.offsets[span], self.shifts[span], answers)
        return _Columns(task, self.blocks * self.rows)

    def task(self, residues: _Residues, corrections: dict[int, list[int]], lanes: int) -> NativeTask:
        offsets = list(corrections)
        self.correction = np.searchsorted(offsets, self.offsets) if offsets else np.zeros(len(self.offsets))
        self.correction = np.where(self.offsets > 0, self.correction, -1).astype(np.int64)
        return NativeTask(
            self.blocks,
            self.rows,
            len(self.digits),
            self.answers,
            group_size(self.rows, int(self.digits.sum()), lanes),
            len(offsets),
            self.entries.ctypes.data,
            self.digits.ctypes.data,
            self.shifts.ctypes.data,
            self.answer.ctypes.data,
            self.correction.ctypes.data,
            residues.to_bytes([power for block in zip(*corrections.values(), strict=True) for power in block]),
        )


class _NativeFixedBases:
    """Tables of bases, in C's memory until nobody has them any more."""

    def __init__(self, residues: _Residues, bases: Sequence[int]) -> None:
        self._residues, self._bytes = residues, len(bases)
        self._handle = ctypes.c_void_p()
        data = residues.to_bytes(bases)
        opened = load().plumbline_fixed_open(
            ctypes.byref(residues.modulus), data, len(bases), ctypes.byref(self._handle)
        )
        _check(opened)
        # C wipes the tables: they can be a key owner's. At the end of the process a thread may still be reading them.
        weakref.finalize(self, load().plumbline_fixed_close, self._handle).atexit = False

    def powers(self, exponents: Sequence[int]) -> list[int]:
        """Multiply the bases to the bytes of exponents (`FixedBases`). Raises ValueError for one out of range."""
        if any(exponent < 0 or exponent.bit_length() > 8 * self._bytes for exponent in exponents):
            raise ValueError(f"Expected exponents of at least 0 and at most {self._bytes} bytes.")
        data = b"".join([int(exponent).to_bytes(self._bytes, "little") for exponent in exponents])
        out = self._residues.room(len(exponents))
        _check(load().plumbline_fixed_powers(self._handle, data, len(exponents), out))
        return self._residues.from_bytes(out)


class _Zeros:
    """Powers modulo 1."""

    def powers(self, exponents: Sequence[int]) -> list[int]:
        return [0] * len(exponents)


def group_size(rows: int, digit_columns: int, lanes: int) -> int:
    """Find how many ciphertexts a table of subset products takes for the fewest products, of so many lanes each."""
    batches = -(-digit_columns // lanes)

    def products(size: int) -> int:
        groups = -(-rows // size)
        # A table grows by halves, each of whole batches; groups are nearly equal.
        table = sum(-(-((1 << q) - 1) // lanes) for q in range(-(-rows // groups)))
        return groups * (table + batches)

    return min(range(1, _LARGEST_GROUP + 1), key=products)


def _integers(array: IntArray, dimensions: int, what: str) -> IntArray:
    """Make an array as C reads it. Raises ValueError for what isn't integers of the right dimensions."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != dimensions:
        raise ValueError(f"Expected {what} to be integers in an array of {dimensions} dimensions.")
    if array.dtype == np.uint64 and array.size and array.max() >= 1 << 63:
        raise ValueError(f"Expected {what} below 2**63.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _check(status: int) -> None:
    """Raise MemoryError where C had no memory."""
    if status == 1:
        raise MemoryError("There is not enough memory for the cryptography of this batch: use smaller batches.")
    if status:
        raise ValueError("The native kernel refuses these sizes.")
