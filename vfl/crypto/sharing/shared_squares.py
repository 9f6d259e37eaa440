"""The mean square of numbers that two parties share, cut to a few bits for one of them.

Of each number f the first party has a and the second b, f = a + b, and sum f^2 = sum a^2 + 2 sum a b + sum b^2.

    second, whose key encrypts pads alone             first, who is shown the mean
    hide: encrypted pads p, and b - p         ──>
                                              <──     cross: masked product of pads and a
    show: a word of its share of the sum      ──>     joined

All counts modulo 2**ring. Pads are uniform there, and so is b - p beside their ciphertexts. The mask is uniform in Z_n.
So the second reads nothing, and the first one word, whatever it sends in place of a product: `WORD_BITS` of them, once.

A mean beyond 2**mean_bits comes out wrong: nobody sees it, nobody is told, nothing ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from vfl.crypto.capacity import WRAP_BITS
from vfl.crypto.engine import Engine
from vfl.crypto.errors import PackingImpossible
from vfl.crypto.keys import PrivateKey, PublicKey
from vfl.crypto.sharing.masked_products import kept, mask, multiply
from vfl.crypto.sharing.share_formats import SlotLayout
from vfl.crypto.sharing.shares import Integers, rounded

# Of the mean, a sixteenth of which is kept for what rounding takes below 0.
WORD_BITS = 16


@dataclass(frozen=True)
class SquareFormats:
    """The lengths of one sum of squares; all public.

    Attributes:
        key_bits: of the key that pads are under.
        records: the mean is over these.
        outputs: numbers of a record.
        fraction_bits: of the shares.
        mean_bits: the mean stays below 15/16 of 2 to this.

    Raises:
        PackingImpossible: if the key has no room for a sum.
    """

    key_bits: int
    records: int
    outputs: int
    fraction_bits: int
    mean_bits: int

    def __post_init__(self) -> None:
        if self.layout.bits > self.key_bits - 2 - WRAP_BITS:
            raise PackingImpossible(
                f"A sum takes {self.layout.bits} bits, a {self.key_bits}-bit key has {self.key_bits - 2 - WRAP_BITS}: "
                "choose a longer key."
            )

    @property
    def values(self) -> int:
        """How many numbers are shared."""
        return self.records * self.outputs

    @property
    def ring(self) -> int:
        """Bits of all residues."""
        return 2 * self.fraction_bits + self.mean_bits + (self.records - 1).bit_length()

    @property
    def layout(self) -> SlotLayout:
        """One slot: sum p a over all numbers, with p and a below 2**ring."""
        return SlotLayout(2 * self.ring + self.values.bit_length(), 1, signed=False)

    def word(self, share: int) -> int:
        """Round a share of the sum to its highest bits."""
        rounded_share: int = rounded(share % (1 << self.ring), self.ring - WORD_BITS).item()
        return rounded_share % (1 << WORD_BITS)

    def joined(self, shares: Sequence[int]) -> float:
        """Join both parties' words to the mean square."""
        below = 1 << WORD_BITS - 4
        total = (sum(shares) + below) % (1 << WORD_BITS) - below
        return float(np.ldexp(total / self.records, self.ring - WORD_BITS - 2 * self.fraction_bits))


@dataclass(frozen=True, eq=False)
class Hidden:
    """The second party's shares behind pads, drawn together: what the first gets, and what stays here.

    Attributes:
        pads: encrypted.
        differences: shares minus pads, in the clear.
        own: the second's part of the sum that needs no other.
    """

    pads: tuple[int, ...]
    differences: tuple[int, ...]
    own: int = field(repr=False)


@dataclass(frozen=True, eq=False)
class Crossed:
    """A masked product, and the first party's share of the sum: one draw, kept together.

    Attributes:
        ciphertext: for the second, uniform among all.
        share: of the sum.
    """

    ciphertext: int
    share: int = field(repr=False)


def hide(
    shares: Integers, formats: SquareFormats, key: PrivateKey, engine: Engine, draw: Callable[[int], int]
) -> Hidden:
    """Put the second party's shares, any shape, behind pads that are drawn now, under a key that has only pads."""
    ring, values = 1 << formats.ring, shares.ravel().tolist()
    pads = [draw(ring) for _ in values]
    differences = tuple((value - pad) % ring for value, pad in zip(values, pads, strict=True))
    return Hidden(tuple(engine.encrypt(key, pads)), differences, sum(value * value for value in values) % ring)


def cross(
    shares: Integers,
    pads: Sequence[int],
    differences: Sequence[int],
    formats: SquareFormats,
    key: PublicKey,
    engine: Engine,
    draw: Callable[[int], int],
) -> Crossed:
    """Multiply the other's pads with the first party's shares, any shape, and mask the product."""
    ring, values = 1 << formats.ring, shares.ravel().tolist()
    exponents: Integers = np.array([[value % ring] for value in values], dtype=np.object_)
    product = multiply([pads], exponents, formats.ring, key, engine)
    masked = mask(product, formats.layout, [1], key, engine, draw)
    crossed = masked.residues.item() + sum(a * b for a, b in zip(values, differences, strict=True))
    return Crossed(masked.ciphertexts[0], (sum(value * value for value in values) + 2 * crossed) % ring)


def show(own_part: int, ciphertext: int, formats: SquareFormats, key: PrivateKey, engine: Engine) -> int:
    """Make the second party's word, of its own part and what it decrypts. Any ciphertext gives some."""
    return formats.word(own_part + 2 * kept([ciphertext], formats.layout, [1], key, engine).item())
