"""Fixed-point numbers: how real values become the integers that Paillier adds and multiplies.

One public exponent serves a whole vector. `phe` chooses one per number from the number's size and sends it in
the clear, which tells the magnitude of every value.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.crypto.errors import FixedPointOverflow
from vfl.crypto.widths import ColumnFormats, EntryFormat

_BITS_PER_EXPONENT = 4  # `phe` counts exponents in powers of 16
_FLOAT64_BITS = 52  # beyond these, scaling a float64 adds zeros, not information
_NOT_FINITE = "is NaN or infinite; remove or impute it before encryption"


@dataclass(frozen=True)
class FixedPoint:
    """A public number format: values of magnitude at most 2**integer_bits, in steps of 2**-fraction_bits.

    Attributes:
        fraction_bits: a multiple of 4.
        integer_bits: with the fraction at most 52.
        signed: False allows values >= 0 only; their matrix product takes one digit less and no inversion.

    Raises:
        ValueError: for bits out of range.

    Examples:
        >>> FixedPoint(fraction_bits=16, integer_bits=0).encode([0.5, -1.0])
        array([ 32768, -65536])
    """

    fraction_bits: int
    integer_bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        if self.fraction_bits < 0 or self.fraction_bits % _BITS_PER_EXPONENT:
            raise ValueError(f"Expected {self.fraction_bits=} to be a multiple of 4, not negative.")
        if self.integer_bits < 0 or self.fraction_bits + self.integer_bits > _FLOAT64_BITS:
            raise ValueError(
                f"Expected {self.integer_bits=} >= 0, together with {self.fraction_bits=} <= {_FLOAT64_BITS}."
            )

    @property
    def exponent(self) -> int:
        """The exponent in `phe`'s convention: value = integer * 16**exponent."""
        return -(self.fraction_bits // _BITS_PER_EXPONENT)

    @property
    def bound(self) -> int:
        """The largest magnitude of an encoded integer, 2**(fraction_bits + integer_bits)."""
        return 1 << (self.fraction_bits + self.integer_bits)

    @property
    def offset(self) -> int:
        """What to add so that every encoded integer is >= 0; it depends on the format, never on data."""
        return self.bound if self.signed else 0

    @property
    def digits(self) -> int:
        """Binary digits of an encoded integer plus offset; the top one is for the bound itself."""
        return (self.bound + self.offset).bit_length()

    @property
    def entries(self) -> EntryFormat:
        """Which integers encoded values are."""
        return EntryFormat(self.bound, self.signed)

    def columns(self, count: int) -> ColumnFormats:
        """Give the formats of so many columns, at least one, that are encoded in this fixed point."""
        return ColumnFormats(((self.entries, count),))

    def encode(self, values: npt.ArrayLike, *, inclusive: bool = True) -> IntArray:
        """Round values to integer multiples of 2**-fraction_bits; same shape, int64.

        Args:
            values: any shape.
            inclusive: whether |value| may equal 2**integer_bits, as min-max scaled features do. Residuals must stay
                below, in a two's complement window.

        Raises:
            FixedPointOverflow: for NaN, infinity, a value out of range, a negative one in an unsigned format.
        """
        array = np.asarray(values, dtype=np.float64)
        _refuse(~np.isfinite(array), _NOT_FINITE)
        with np.errstate(over="ignore"):
            scaled = np.rint(array * 2.0**self.fraction_bits)
        if not self.signed:
            _refuse(scaled < 0, "is negative in an unsigned format; scale it to be >= 0 or use signed=True")
        largest = self.bound if inclusive else self.bound - 1
        _refuse(
            np.abs(scaled) > largest,
            f"is not {'within' if inclusive else 'below'} 2**{self.integer_bits} in magnitude; "
            "scale the values or raise integer_bits",
        )
        return scaled.astype(np.int64)


RESIDUAL = FixedPoint(fraction_bits=32, integer_bits=7)
FEATURE_FRACTION_BITS = 16


def feature_format_of(X: FloatArray) -> FixedPoint:
    """Choose the narrowest format with 16 fraction bits that holds X.

    It reads bound and sign off the data, so use it for one's own computation only. A federation agrees on a format.

    Raises:
        FixedPointOverflow: if an entry is not finite or too large for any format.
    """
    _refuse(~np.isfinite(X), _NOT_FINITE)
    largest = math.ceil(np.max(np.abs(X), initial=1.0))
    integer_bits = (largest - 1).bit_length()
    if FEATURE_FRACTION_BITS + integer_bits > _FLOAT64_BITS:
        raise FixedPointOverflow(
            "The features are too large for a fixed-point format; scale them, for example to [0, 1]."
        )
    return FixedPoint(FEATURE_FRACTION_BITS, integer_bits, signed=bool(np.any(X < 0)))


def decode(integers: Iterable[int], exponent: int) -> FloatArray:
    """Turn integers into a flat array of the float64 nearest to each integer * 16**exponent."""
    shift = _BITS_PER_EXPONENT * exponent
    return np.array([math.ldexp(integer, shift) for integer in integers], dtype=np.float64)


def _refuse(bad: BoolArray, what: str) -> None:
    """Name the first bad value by its index only: the value itself may be a secret."""
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        raise FixedPointOverflow(f"Value at index {index} {what}.")
