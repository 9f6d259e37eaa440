"""Products of one party's features and another's numbers, shared between the two: numbers travel behind pads.

    holder of numbers V and of a key                    the other, who has features X
    hide: encrypted pads Q, and V - Q         ──>
                                              <──       multiply: masked X Q
    kept: residues of X V                               residues of X V: X (V - Q), less the masks

All counts modulo 2**ring. Pads are uniform there, drawn anew each time, and all that is ever under the key: nothing
that was decrypted is encrypted, nor anything that follows from it. So whatever the other sends, what it is shown
doesn't depend on V, but for what ciphertexts tell of pads. Masks are uniform in Z_n: so the holder decrypts uniform
numbers, whatever it has encrypted. Both residues together miss X V by a carry of 1 in the last place.

Whoever is shown both reads that carry too, and a mask carries out of a slot the likelier the more the slot holds.
``spare_bits`` make slots longer than what they hold: of one product a carry then tells with probability 2**-spare_bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vfl.crypto.capacity import WRAP_BITS
from vfl.crypto.engine import Engine
from vfl.crypto.errors import PackingImpossible
from vfl.crypto.kernels import ProductTask
from vfl.crypto.keys import PrivateKey, PublicKey
from vfl.crypto.sharing import masked_products
from vfl.crypto.sharing.masked_products import Masked, mask
from vfl.crypto.sharing.share_formats import SlotLayout
from vfl.crypto.sharing.shares import Integers


@dataclass(frozen=True)
class PaddedFormats:
    """The lengths of products X V, with X of (m, d) and V of (d, h); all public.

    Attributes:
        key_bits: of the key that pads are under.
        summands: d, at most.
        outputs: h. They stand side by side in a plaintext, in several where one has no room, and of several rows of X
            where it has.
        ring: bits of residues.
        feature_bits: integers of X are at most 2 to this in magnitude.
        features_signed: whether one may be negative.
        spare_bits: of a slot, beyond what it holds.

    Raises:
        PackingImpossible: if a key has no room for a single slot.
    """

    key_bits: int
    summands: int
    outputs: int
    ring: int
    feature_bits: int
    features_signed: bool = False
    spare_bits: int = 0

    def __post_init__(self) -> None:
        if not self.layout.count:
            raise PackingImpossible(
                f"A number takes {self.layout.bits} bits, a {self.key_bits}-bit key has {self._room}: "
                "choose a longer key."
            )

    @property
    def digits(self) -> int:
        """Binary digits of an integer of X, with what is added to it so that none is negative."""
        return ((1 << self.feature_bits) + self.offset).bit_length()

    @property
    def layout(self) -> SlotLayout:
        """Each slot holds sum_j x_j q_j over d columns, with 0 <= q < 2**ring."""
        bits = (self.summands << self.feature_bits + self.ring).bit_length() + self.features_signed + self.spare_bits
        return SlotLayout(bits, self._room // bits, self.features_signed)

    @property
    def groups(self) -> list[slice]:
        """Which outputs stand in a plaintext."""
        count = self.layout.count
        return [slice(start, min(start + count, self.outputs)) for start in range(0, self.outputs, count)]

    @property
    def rows_at_once(self) -> int:
        """Rows of X in an answer."""
        return max(1, self.layout.count // self.outputs)

    def pads(self, rows: int) -> int:
        """Ciphertexts of pads of V that has so many rows."""
        return rows * len(self.groups)

    def answers(self, rows: int) -> int:
        """Masked products of X that has so many rows."""
        return -(-rows // self.rows_at_once) * len(self.groups)

    def sizes(self, rows: int) -> list[int]:
        """Count the slots that each of these uses."""
        starts = range(0, rows, self.rows_at_once)
        return [
            (group.stop - group.start) * min(self.rows_at_once, rows - start)
            for group in self.groups
            for start in starts
        ]

    def matrix(self, slots: Integers, rows: int) -> Integers:
        """Pick the used slots of all answers, in their order, as (rows, h) residues."""
        cuts = [rows * group.stop for group in self.groups[:-1]]
        parts = [part.reshape(rows, -1) for part in np.split(slots.ravel(), cuts)]
        residues: Integers = np.concatenate(parts, axis=1) % (1 << self.ring)
        return residues

    @property
    def offset(self) -> int:
        """What is added to integers of X, so that none is negative."""
        return 1 << self.feature_bits if self.features_signed else 0

    @property
    def _room(self) -> int:
        return self.key_bits - 2 - WRAP_BITS


@dataclass(frozen=True, eq=False)
class Padded:
    """Numbers V behind pads, drawn together: all that the other party gets of them.

    Attributes:
        pads: encrypted; group by group of outputs a ciphertext for each row of V.
        differences: (d, h) V minus its pads, in [0, 2**ring), in the clear.
    """

    pads: tuple[int, ...]
    differences: Integers


def hide(
    values: Integers, formats: PaddedFormats, key: PrivateKey, engine: Engine, draw: Callable[[int], int]
) -> Padded:
    """Put numbers, (d, h) integers that count modulo 2**ring, behind pads that are drawn now.

    Args:
        values: V.
        formats: of the product.
        key: has encrypted pads and nothing else.
        engine: what computes.
        draw: a uniform number below another, each time anew: ``secrets.randbelow``, but for tests.
    """
    ring = 1 << formats.ring
    pads = np.array([draw(ring) for _ in range(values.size)], dtype=np.object_).reshape(values.shape)
    plaintexts = [formats.layout.pack(row) for group in formats.groups for row in pads[:, group].tolist()]
    return Padded(tuple(engine.encrypt(key, plaintexts)), (values - pads) % ring)


def multiply(
    features: Integers,
    padded: Padded,
    formats: PaddedFormats,
    key: PublicKey,
    engine: Engine,
    draw: Callable[[int], int],
) -> Masked:
    """Multiply whole features, (m, d), with the numbers behind pads: masked products, and this party's (m, h) residues.

    Args:
        features: X.
        padded: ciphertexts in Z_n^2*, and any integers in place of differences.
        formats: of the product.
        key: that pads are under.
        engine: what computes.
        draw: for masks, as in `hide`.
    """
    rows, offset = len(features), formats.offset
    places, ones = np.arange(rows), np.ones(rows, dtype=np.int64)
    task = ProductTask(
        entries=np.ascontiguousarray((features + offset).T.astype(np.int64)),
        digits=ones * formats.digits,
        offsets=ones * offset,
        shifts=places % formats.rows_at_once * formats.outputs * formats.layout.bits,
        answers=places // formats.rows_at_once,
    )
    products = engine.product(padded.pads, task, key.n_squared)
    masked = mask(products, formats.layout, formats.sizes(rows), key, engine, draw)
    own_share = formats.matrix(masked.residues, rows) + features @ padded.differences
    return Masked(masked.ciphertexts, own_share % (1 << formats.ring))


def kept(ciphertexts: Sequence[int], rows: int, formats: PaddedFormats, key: PrivateKey, engine: Engine) -> Integers:
    """Decrypt masked products of so many rows of X: the holder's (rows, h) residues. Any ciphertexts give some."""
    slots = masked_products.kept(ciphertexts, formats.layout, formats.sizes(rows), key, engine)
    return formats.matrix(slots, rows)
