"""Additive shares: integers at several parties that add up to a fixed-point number, and what each may do alone.

A masked product leaves *residues*: two numbers that add up to x modulo 2**ring. `lifted` makes integers of them, from
where on rounding, public factors and sums are local.

*Lifting.* Let a be uniform in [0, 2**ring) and b = x - a modulo 2**ring. Then a + b = x + 2**ring, but for x >= 0 and
a <= x, where it is x, and for x < 0 and a > x + 2**ring, where it is x + 2**(ring+1). So one party keeps its residue,
the other subtracts 2**ring, and together they miss x with probability at most (|x| + 1) / 2**ring. A public offset
would make small values miss as often as the largest. Three residues can't be lifted: pairs are, before they are added.

*Rounding.* Every party rounds its integer, halves up. Of p parties the sum is off by at most p/2 units, without bias.

*Nothing here depends on what a number is*: no check, no error, no branch. A share that is wrong makes the model wrong.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# Python integers of any length.
Integers: TypeAlias = npt.NDArray[np.object_]

# Of public factors: relative to what the shares add up to, not to the shares.
_FACTOR_BITS = 64


def _elementwise(function: Callable[[Any, int], int]) -> Callable[[npt.ArrayLike, int], Integers]:
    applied = np.frompyfunc(function, 2, 1)

    def of_array(values: npt.ArrayLike, bits: int) -> Integers:
        return np.asarray(applied(values, bits), dtype=np.object_)

    return of_array


rounded = _elementwise(lambda value, bits: (value + (1 << bits >> 1)) >> bits)
rounded.__doc__ = "Integers / 2**bits, to the nearest, halves up; any shape."
encoded = _elementwise(lambda value, bits: round(math.ldexp(value, bits)))
encoded.__doc__ = "The integers nearest to finite real numbers * 2**bits; any shape."


def lifted(residues: Integers, ring: int, *, first: bool) -> Integers:
    """Make integers that add up to a value, of two parties' residues that do so modulo 2**ring.

    Args:
        residues: this party's, any integers, any shape.
        ring: bits.
        first: whether this party is the one of the two that keeps its residues.
    """
    integers: Integers = residues % (1 << ring) - (0 if first else 1 << ring)
    return integers


def as_bytes(integers: Integers) -> npt.NDArray[np.uint8]:
    """Integers of any shape as bytes of one width each, (*shape, width): two's complement, big-endian."""
    values: list[int] = integers.ravel().tolist()
    width = max((value.bit_length() for value in values), default=0) // 8 + 1
    data = b"".join(value.to_bytes(width, "big", signed=True) for value in values)
    return np.frombuffer(data, dtype=np.uint8).reshape(*integers.shape, width)


def of_bytes(data: npt.NDArray[np.uint8]) -> Integers:
    """Read the integers that ``as_bytes`` wrote."""
    *shape, width = data.shape
    values = [int.from_bytes(one.tobytes(), "big", signed=True) for one in data.reshape(-1, width)]
    return np.array(values, dtype=np.object_).reshape(shape)


@dataclass(frozen=True, eq=False)
class Shares:
    """One party's shares of real numbers, opaque to a learner: they are added, subtracted and multiplied by numbers.

    A number or an array that is added is added to this party's share alone, hence once where one party adds it.

    Attributes:
        integers: any shape, in units of 2**-fraction_bits. Not to be shown.
        fraction_bits: public.

    Raises ValueError where shares in different units are added.
    """

    integers: Integers
    fraction_bits: int

    # Arrays leave arithmetic with shares to these methods.
    __array_ufunc__ = None

    @classmethod
    def of(cls, values: npt.ArrayLike, fraction_bits: int) -> "Shares":
        """Take a party's own finite real numbers as its shares; the others' are 0."""
        return cls(encoded(values, fraction_bits), fraction_bits)

    def __repr__(self) -> str:
        return f"Shares(shape={self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the numbers."""
        return self.integers.shape

    def __getitem__(self, index: Any) -> "Shares":
        return Shares(self.integers[index], self.fraction_bits)

    def __neg__(self) -> "Shares":
        return Shares(-self.integers, self.fraction_bits)

    def __add__(self, other: "Shares | npt.ArrayLike") -> "Shares":
        if not isinstance(other, Shares):
            other = Shares.of(other, self.fraction_bits)
        elif other.fraction_bits != self.fraction_bits:
            raise ValueError(f"Shares in units of 2^-{self.fraction_bits} and of 2^-{other.fraction_bits} don't add.")
        return Shares(self.integers + other.integers, self.fraction_bits)

    def __sub__(self, other: "Shares | npt.ArrayLike") -> "Shares":
        return self + (-other if isinstance(other, Shares) else -np.asarray(other))

    def __rsub__(self, other: npt.ArrayLike) -> "Shares":
        return -self + other

    def __mul__(self, factor: npt.ArrayLike) -> "Shares":
        """Multiply by public numbers, which count to 2**-64; what comes out is rounded to the same units."""
        product = self.integers * encoded(factor, _FACTOR_BITS)
        return Shares(rounded(product, _FACTOR_BITS), self.fraction_bits)

    __radd__, __rmul__ = __add__, __mul__

    def mean(self, axis: int, *, keepdims: bool = False) -> "Shares":
        """Shares of the mean along an axis."""
        total = Shares(self.integers.sum(axis=axis, keepdims=keepdims), self.fraction_bits)
        return total * (1.0 / self.shape[axis])

    def rescaled(self, fraction_bits: int) -> "Shares":
        """Put the same shares in other units; rounded where those are coarser."""
        finer = fraction_bits - self.fraction_bits
        integers = self.integers << finer if finer > 0 else rounded(self.integers, -finer)
        return Shares(integers, fraction_bits)
