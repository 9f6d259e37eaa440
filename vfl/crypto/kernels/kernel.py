"""What a kernel computes. All kernels give the same integers, always; they differ in speed only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vfl.arrays import IntArray


class InvalidCiphertext(ValueError):
    """What arrived as ciphertexts has a wrong count or width, or lies outside the ciphertext group."""


@dataclass(frozen=True, eq=False)
class ProductTask:
    """An encrypted matrix product: what becomes of s ciphertexts c_u, in public numbers and the secret entries M.

    Answer a is the product over its columns j and all rows u of c_u ** ((M_uj - offset_j) 2**shift_j) modulo n**2.

    Attributes:
        entries: (s, columns) M, integers in [0, 2**digits_j), each with its column's offset added.
        digits: (columns,) binary digits of a column's entries; all of them are worked through, whatever they are.
        offsets: (columns,) what was added to a column's integers so that none is negative; 0 for most.
        shifts: (columns,) the bit of its answer at which a column stands; within an answer they ascend, by at least
            the digits of the column before.
        answers: (columns,) which answer a column belongs to: 0, 1, ... without gaps, ascending.
    """

    entries: IntArray
    digits: IntArray
    offsets: IntArray
    shifts: IntArray
    answers: IntArray


class FixedBases(Protocol):
    """Powers of some bases modulo one odd modulus, from tables."""

    def powers(self, exponents: Sequence[int]) -> list[int]:
        """Multiply the bases, base k to the power of byte k of an exponent (little-endian), for each of them.

        Exponents have at most as many bytes as there are bases. With b, b**256, b**65536, ... this is b**exponent.
        """


class Kernel(Protocol):
    """Modular arithmetic on batches. Moduli are odd; whoever calls has checked what came from elsewhere.

    A kernel promises the same integers as every other, and as many multiplications for one entry as for any other.
    """

    @property
    def name(self) -> str:
        """What the log calls it: native (with its lanes), or portable."""

    @property
    def releases_gil(self) -> bool:
        """Whether threads make it faster; otherwise processes do."""

    @property
    def batch(self) -> int:
        """How many items it computes at once: fewer take as long."""

    def product(self, ciphertexts: Sequence[int], task: ProductTask, modulus: int) -> list[int]:
        """Compute the answers of a task about each of several blocks of ciphertexts, which stand one after the other.

        Raises InvalidCiphertext where an offset needs an inverse that isn't there.
        """

    def list_products(self, numbers: Sequence[int], order: IntArray, ends: IntArray, modulus: int) -> list[int]:
        """Multiply lists of numbers, one product each: order[ends[k - 1]:ends[k]] says which of them list k has.

        Unlike those of `product`, its multiplications are as many as the lists are long. What is read is what a list
        has: whoever shares the machine's caches may learn of it.
        """

    def fixed_bases(self, bases: Sequence[int], modulus: int) -> FixedBases:
        """Make the tables of bases, once for many powers: 256 residues of each."""

    def powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one public exponent."""

    def secret_powers(self, bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        """Raise many bases to one secret exponent: neither branches nor addresses depend on it, only on its length."""
