"""Scores of weights that stay shared, W = U + V: who has the records multiplies them with V, which it can't read.

    who has the records x, and U                       the other, who made the serving key
                                          <──  once    V, encrypted
    masked products x V                   ──>          keeps what it decrypts
    x U, and what the masks leave it with              what it keeps
                            └──>  who adds up: `ScoreFormats.sums`  <──┘

Masks are uniform in Z_n (`masked_products`), so that neither of the two reads anything, and who adds up reads the sum
alone. Numbers count modulo 2**RING. Their units are so fine that the carries of all masks fall off: sums are exact.
Who adds up sees those carries, and a mask carries out of a slot the likelier the more the slot holds. So slots are
`_SIGMA` bits longer than what they hold: of one record's product a carry then tells with probability 2**-_SIGMA.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vfl.arrays import FloatArray, IntArray
from vfl.crypto.capacity import WRAP_BITS
from vfl.crypto.engine import Engine
from vfl.crypto.kernels import ProductTask
from vfl.crypto.keys import PublicKey
from vfl.crypto.sharing.share_formats import SlotLayout
from vfl.crypto.sharing.shares import Integers, Shares

# Bits of residues: of a score's, 16 fraction bits of each factor and the carries leave some 30 for its integer part.
RING = 64
_SIGMA = 40
Residues: TypeAlias = npt.NDArray[np.uint64]


def residues_of(integers: Integers) -> Residues:
    """Integers modulo 2**RING, any shape."""
    residues: Residues = (integers % (1 << RING)).astype(np.uint64)
    return residues


@dataclass(frozen=True)
class ScoreFormats:
    """The lengths and units of one model's scores; all public.

    Attributes:
        key_bits: of every serving key.
        columns: d, the most columns of a party.
        parties: each has its features multiplied once for a score.
        weight_fraction_bits: weights are rounded to whole multiples of 2 to minus this.
        feature_fraction_bits: features are whole multiples of 2 to minus this.
        feature_integer_bits: features are at most 2 to this in magnitude.
        features_signed: whether one may be negative.
    """

    key_bits: int
    columns: int
    parties: int
    weight_fraction_bits: int
    feature_fraction_bits: int = 16
    feature_integer_bits: int = 0
    features_signed: bool = False

    @property
    def layout(self) -> SlotLayout:
        """Records in a plaintext: each slot holds sum_j x_j v_j with 0 <= v < 2**RING."""
        bits = (self.columns * self._largest_feature << RING).bit_length() + self.features_signed + _SIGMA
        return SlotLayout(bits, (self.key_bits - 2 - WRAP_BITS) // bits, self.features_signed)

    @property
    def _largest_feature(self) -> int:
        return 1 << self.feature_fraction_bits + self.feature_integer_bits

    @property
    def _carry_bits(self) -> int:
        """Below a score's own units: every mask may carry 1 into the last place."""
        return self.parties.bit_length()

    def groups(self, records: int) -> int:
        """Count the ciphertexts that so many records take, for each output."""
        return -(-records // self.layout.count)

    def sizes(self, records: int) -> list[int]:
        """Count the slots that each of them uses."""
        count = self.layout.count
        return [min(count, records - start) for start in range(0, records, count)]

    def weights(self, share: Shares) -> Residues:
        """Round a share of weights, as it is served; any shape."""
        return residues_of(share.rescaled(self.weight_fraction_bits).integers << self._carry_bits)

    def own_products(self, features: IntArray, share: Residues) -> Residues:
        """X U of whole features, (n, d), and a party's own share, (d, k): residues, (n, k)."""
        return features.astype(np.uint64) @ share

    def masked_products(
        self, features: IntArray, frozen: Sequence[Sequence[int]], key: PublicKey, engine: Engine
    ) -> list[int]:
        """Encrypted X V, group by group of records, and within a group one for each output: to be masked.

        Args:
            features: (n, d) whole features.
            frozen: encrypted V, by output d ciphertexts in Z_n^2*.
            key: that they are under.
            engine: what computes.
        """
        places, offset = np.arange(len(features)), self._largest_feature if self.features_signed else 0
        count, ones = self.layout.count, np.ones(len(features), dtype=np.int64)
        task = ProductTask(
            entries=np.ascontiguousarray((features + offset).T),
            digits=ones * (self._largest_feature + offset).bit_length(),
            offsets=ones * offset,
            shifts=places % count * self.layout.bits,
            answers=places // count,
        )
        by_output = [engine.product(column, task, key.n_squared) for column in frozen]
        return [answer for group in zip(*by_output, strict=True) for answer in group]

    def sums(self, residues: Sequence[Residues]) -> FloatArray:
        """Add up all parties' residues, any shape, to x W: exact below 2**53 units, the same for the same record."""
        total = np.sum(residues, axis=0, dtype=np.uint64).view(np.int64) >> self._carry_bits
        return np.ldexp(total.astype(np.float64), -self.feature_fraction_bits - self.weight_fraction_bits)
