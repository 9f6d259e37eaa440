"""Products of a first layer on their way to the label party: whole numbers modulo 2^64, in units of 2^-32.

Their sum over the parties is exact, so that masks which cancel in it leave no trace.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from services.common.errors import Diverged
from services.exchange.vectors import VectorHeader, WireVector
from vfl.arrays import FloatArray

# value = integer * 16^-8
_EXPONENT, _WIDTH = -8, 8
_UNITS = 2.0**32
# Products travel as multiples of it.
PRODUCT_STEP = 1 / _UNITS
# Whole numbers up to 2^52 are exact in float64, and so many parties' sum stays below 2^63.
LARGEST_PRODUCT = 2.0**20
_ON_THE_WIRE = np.dtype(">u8")


def hidden_header(rows: int, units: int) -> VectorHeader:
    """Make what travels before the products of so many records; they are under no key."""
    return VectorHeader("", rows * units, _WIDTH, _EXPONENT)


def hidden_vector(name: str, products: FloatArray, mask: NDArray[np.uint64]) -> WireVector:
    """Put a party's products, (s, h), under its mask of the same shape.

    Raises:
        Diverged: for products that aren't finite or are beyond 2^20.
    """
    if not (np.abs(products) <= LARGEST_PRODUCT).all():
        raise Diverged(f"{name}'s products of the first layer leave the range of +-2^20: lower learning_rate.")
    residues = np.rint(products * _UNITS).astype(np.int64).view(np.uint64) + mask
    return WireVector("", residues.size, _WIDTH, _EXPONENT, residues.astype(_ON_THE_WIRE).tobytes())


def sum_of_hidden(vectors: Iterable[WireVector], rows: int) -> FloatArray:
    """Add up all parties' products, (rows, h), of checked vectors whose masks cancel in the sum."""
    total = sum(np.frombuffer(vector.data, dtype=_ON_THE_WIRE).astype(np.uint64) for vector in vectors)
    return np.asarray(total, dtype=np.uint64).view(np.int64).reshape(rows, -1) / _UNITS
