"""How long shares, slots and exponents are in one training: it follows from public numbers, the same at every party.

Write x for features, integers with |x| <= X = 2**(feature bits); v for residues of weights; e for shares of residuals.

*Lifts.* A z stays below 2**integer_bits. The ring of its shares is sigma bits longer than its integer, so that its lift
fails with probability at most 2**-sigma (`vfl.crypto.sharing.shares`). With N lifts in the whole training, sigma =
max(48, bits of N + 21) makes all of them together fail with probability below 2**-21. A gradient sums up to s products
of |x| <= X and a residual below 2**integer_bits, and its ring is as much longer than that sum. Beyond these bounds
there is no cliff: a number twice as large fails twice as often.

*Shares of residuals.* A lifted share of z is at most 2**ring in magnitude, 2**cut once it has fraction_bits only. The
label party adds one for each of m peers. With the label's term that is within m 2**cut + (k + 2) 2**fraction_bits; with
k > 1 columns their mean is taken off, which doubles the first term. A public offset makes exponents of them.

*Slots.* A forward slot holds sum_j x_j v_j over d columns with 0 <= v < 2**ring, a backward slot sum_i x_i e_i over s
rows with 0 <= e < 2**residual_bits, and at least a residue of the gradient. Where x may be negative, half a slot is
added, so that no slot is. Slots are then read independently of each other.

*Room.* `WRAP_BITS` and two bits are free above the highest slot: an answer's mask carries it past n with probability
below 2**-64. With fewer than 2**43 answers, a training fails in any of these ways with probability below 2**-20.
"""

from dataclasses import dataclass

from vfl.crypto.capacity import WRAP_BITS
from vfl.crypto.errors import PackingImpossible

_LEAST_SIGMA = 48
_FAILURE_BITS = 21


@dataclass(frozen=True)
class SlotLayout:
    """Residues side by side in a plaintext.

    Attributes:
        bits: of a slot.
        count: slots in a plaintext.
        signed: whether what they hold may be negative.
    """

    bits: int
    count: int
    signed: bool

    @property
    def offset(self) -> int:
        """What makes a slot not negative."""
        return 1 << self.bits - 1 if self.signed else 0

    @property
    def lift(self) -> int:
        """The same for all slots of a plaintext."""
        return self.pack([self.offset] * self.count)

    def pack(self, values: list[int]) -> int:
        """Put at most ``count`` integers into a plaintext, the first lowest; a negative one borrows from the next."""
        return sum(value << self.bits * place for place, value in enumerate(values))

    def read(self, plaintext: int) -> list[int]:
        """Read every slot of a plaintext that isn't negative, whatever is in it."""
        return [plaintext >> self.bits * place & (1 << self.bits) - 1 for place in range(self.count)]


@dataclass(frozen=True)
class ShareFormats:
    """The lengths of one training; see the module for their reasons.

    Attributes:
        key_bits: of every party's modulus.
        rows: s, the most records of a batch.
        columns: d, the most columns of a party.
        outputs: k, columns of the weights.
        pairs: m, how many peers the label party shares z with.
        lifts: N, numbers that are lifted in the whole training.
        feature_fraction_bits: features are whole multiples of 2 to minus this.
        feature_integer_bits: features are at most 2 to this in magnitude.
        features_signed: whether one may be negative.
        fraction_bits: of residuals, and of weights as they multiply features.
        integer_bits: each peer's part of z, and residuals, stay below 2 to this.

    Raises:
        PackingImpossible: if a key has no room for a single slot.
    """

    key_bits: int
    rows: int
    columns: int
    outputs: int
    pairs: int
    lifts: int
    feature_fraction_bits: int = 16
    feature_integer_bits: int = 0
    features_signed: bool = False
    fraction_bits: int = 32
    integer_bits: int = 7

    def __post_init__(self) -> None:
        if not self.forward.count or not self.backward.count:
            raise PackingImpossible(
                f"A number takes {max(self.forward.bits, self.backward.bits)} bits, a {self.key_bits}-bit key has "
                f"{self._room}: choose a longer key."
            )

    @property
    def sigma(self) -> int:
        """A lift fails with probability at most 2**-sigma."""
        return max(_LEAST_SIGMA, self.lifts.bit_length() + _FAILURE_BITS)

    @property
    def product_fraction_bits(self) -> int:
        """Of z before it is cut, of gradients, and of weights as they are kept."""
        return self.feature_fraction_bits + self.fraction_bits

    @property
    def ring(self) -> int:
        """Bits of residues of z, and of weights as exponents."""
        return self.product_fraction_bits + self.integer_bits + self.sigma

    @property
    def gradient_ring(self) -> int:
        """Bits of residues of a sum of s residuals times features."""
        return (self.rows * self._largest_feature << self.fraction_bits + self.integer_bits).bit_length() + self.sigma

    @property
    def residual_bits(self) -> int:
        """Bits of shares of residuals as exponents, with their offset."""
        lifted = self.pairs << self.ring - self.feature_fraction_bits
        centred = lifted if self.outputs == 1 else 2 * lifted
        return (centred + (self.outputs + 2 << self.fraction_bits)).bit_length() + 1

    @property
    def forward(self) -> SlotLayout:
        """Rows of a block, in the answer about one output."""
        return self._layout(self.columns << self.ring)

    @property
    def backward(self) -> SlotLayout:
        """Columns of a party, in the answer about one output."""
        return self._layout(self.rows << self.residual_bits, self.gradient_ring)

    @property
    def _largest_feature(self) -> int:
        return 1 << self.feature_fraction_bits + self.feature_integer_bits

    @property
    def _room(self) -> int:
        return self.key_bits - 2 - WRAP_BITS

    def _layout(self, most_features: int, least: int = 0) -> SlotLayout:
        """Slots for so many times the largest feature."""
        bits = max((most_features * self._largest_feature).bit_length() + self.features_signed, least)
        return SlotLayout(bits, self._room // bits, self.features_signed)
