"""Encrypted sums over bins: pairs of derivatives in one plaintext each, added up by who sees no plaintext.

The key's holder encrypts g 2**b + h of every row. Who holds columns multiplies the ciphertexts of each bin, then along
the bins of a column, so that it has prefix sums G 2**b + H. With rows * unit 2**b added, a public number of the node,
no prefix is negative, whatever its rows are. So many of them share a plaintext as there are slots.

Guarantee, to the key's holder: it reads the prefix sums and nothing else of who had which bin. A packed ciphertext
gets one fresh rho**n (`vfl.crypto.rerandomising`), without which its randomness would be that of a bin's very rows.
The sums themselves are told, and are meant to be: how much they tell of single rows is for an attack to say.

Not constant time: which ciphertexts are read where depends on bins. How many products are computed doesn't.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from gmpy2 import mpz

from vfl.arrays import IntArray
from vfl.crypto.engine import Engine, blind
from vfl.crypto.errors import PackingImpossible
from vfl.crypto.kernels import ProductTask
from vfl.crypto.keys import PrivateKey, PublicKey

# Lists are cut to no more than so many factors: lanes wait for the longest of theirs.
_LONGEST = 128


@dataclass(frozen=True)
class SumLayout:
    """Where sums lie in plaintexts; public, the same for both parties.

    Attributes:
        key_bits: of the modulus.
        rows: the most of one sum.
        unit: g is from -unit to unit, h from 0 to unit / 4.

    Raises:
        PackingImpossible: where a plaintext has no room for one sum.

    Examples:
        >>> layout = SumLayout(key_bits=2048, rows=41_188, unit=1 << 18)
        >>> layout.slot_bits, layout.slots, layout.ciphertexts_for(5_120)
        (67, 30, 171)
    """

    key_bits: int
    rows: int
    unit: int

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise PackingImpossible(
                f"A sum over {self.rows:,} rows takes {self.slot_bits} bits, a {self.key_bits}-bit key has "
                f"{self.key_bits - 2}: use a larger key, or fewer gradient_bits."
            )

    @cached_property
    def second_bits(self) -> int:
        """b: the bits of a sum of h."""
        return max(self.rows, self.rows * self.unit // 4).bit_length()

    @cached_property
    def slot_bits(self) -> int:
        """The bits of both sums, that of g lifted to be positive."""
        return self.second_bits + (2 * self.rows * self.unit).bit_length()

    @cached_property
    def slots(self) -> int:
        """How many sums share a plaintext."""
        return (self.key_bits - 2) // self.slot_bits

    def ciphertexts_for(self, sums: int) -> int:
        """Count the ciphertexts of so many sums."""
        return -(-sums // self.slots)

    def lift(self, rows: int) -> int:
        """Give what a node of so many rows has added to each of its sums."""
        return rows * self.unit << self.second_bits

    def plaintexts(self, values: IntArray) -> list[int]:
        """Join (s, 2) derivatives, one plaintext a row."""
        return [(first << self.second_bits) + second for first, second in values.tolist()]

    def read(self, plaintexts: Sequence[int], rows: IntArray) -> IntArray:
        """Read sums, (len(rows), 2), of nodes with so many rows each; whatever else a plaintext holds is passed over.

        Nothing is refused here: whether a plaintext was honest must not show.
        """
        mask, second = (1 << self.slot_bits) - 1, (1 << self.second_bits) - 1
        sums = np.empty((len(rows), 2), dtype=np.int64)
        for index, count in enumerate(rows.tolist()):
            place, slot = divmod(index, self.slots)
            value = plaintexts[place] >> slot * self.slot_bits & mask
            sums[index] = (value >> self.second_bits) - count * self.unit, value & second
        return sums


def encrypt_pairs(private_key: PrivateKey, values: IntArray, layout: SumLayout, engine: Engine) -> list[int]:
    """Encrypt (s, 2) derivatives, a ciphertext for each row."""
    return engine.encrypt(private_key, layout.plaintexts(values))


def bin_products(ciphertexts: Sequence[int], bins: IntArray, count: int, modulus: int, engine: Engine) -> list[int]:
    """Multiply the ciphertexts of each bin of each column, column by column.

    Args:
        ciphertexts: of s rows.
        bins: (s, d) of 0 to count - 1.
        count: bins of a column.
        modulus: n**2.
        engine: whose kernel multiplies.
    """
    rows, columns = bins.shape
    keys = (bins.T + np.arange(columns)[:, None] * count).ravel()
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=columns * count))
    # Long lists in pieces, and pieces by their length: those beside each other are computed together.
    cuts = np.union1d(np.arange(_LONGEST, len(keys), _LONGEST), ends)
    lengths = np.diff(cuts, prepend=0)
    by_length = np.argsort(-lengths, kind="stable")
    pieces = [order[cuts[piece] - lengths[piece] : cuts[piece]] for piece in by_length.tolist()]
    indices = np.concatenate(pieces) % max(1, rows) if pieces else order
    piece_products = engine.kernel.list_products(ciphertexts, indices, np.cumsum(lengths[by_length]), modulus)
    products = [mpz(1)] * (columns * count)
    for piece, product in zip(by_length.tolist(), piece_products, strict=True):
        if lengths[piece]:
            place = int(keys[order[cuts[piece] - 1]])
            products[place] = products[place] * product % modulus
    return [int(product) for product in products]


def prefix_products(products: Sequence[int], count: int, used: int, modulus: int) -> list[int]:
    """Multiply along each column's `count` bins, and keep the first `used` of them."""
    prefixes: list[int] = []
    for start in range(0, len(products), count):
        running = accumulate(map(mpz, products[start : start + used]), lambda a, b: a * b % modulus)
        prefixes += map(int, running)
    return prefixes


def pack_sums(
    ciphertexts: Sequence[int], rows: IntArray, layout: SumLayout, public_key: PublicKey, engine: Engine
) -> list[int]:
    """Pack prefix sums, lifted by the rows of their nodes, and rerandomise what comes out.

    Args:
        ciphertexts: one for each sum.
        rows: (sums,) of the node that each belongs to.
        layout: of the sums.
        public_key: that all are under.
        engine: what computes.
    """
    packed_count = layout.ciphertexts_for(len(ciphertexts))
    filled = [*ciphertexts, *[1] * (packed_count * layout.slots - len(ciphertexts))]
    packed = engine.product(filled, _side_by_side(layout), public_key.n_squared)
    lifts = [0] * packed_count
    for index, count in enumerate(rows.tolist()):
        place, slot = divmod(index, layout.slots)
        lifts[place] += layout.lift(count) << slot * layout.slot_bits
    fresh = blind(lifts, engine.rerandomisers(public_key.n, packed_count), public_key.n)
    modulus = mpz(public_key.n_squared)
    return [int(mpz(product) * lifted % modulus) for product, lifted in zip(packed, fresh, strict=True)]


def _side_by_side(layout: SumLayout) -> ProductTask:
    """Say that each of a block's ciphertexts stands in a slot of its own."""
    slots = layout.slots
    ones, zeros = np.ones(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    return ProductTask(
        entries=np.eye(slots, dtype=np.int64),
        digits=ones,
        offsets=zeros,
        shifts=np.arange(slots) * layout.slot_bits,
        answers=zeros,
    )
