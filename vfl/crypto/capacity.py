"""How much the decrypted answers of one training step can carry, beyond what an honest product needs.

The key holder decrypts what it can't read, and the sender decides what is in it. What counts is therefore the room in
an answer, not what an honest sender asks for. Hu (5.2) counts u = floor((kappa - 1) / iota) sums per answer. A peer
that asks for single residuals fits more, since they take fewer bits than sums.

Two measures leave less room, though seldom none:
- Packing. With several rows per ciphertext it also adds equations that an honest sender sees, in the slots between the
  wanted ones.
- ``truncate`` cuts every answer to the bits that an honest one occupies. They hold single residuals as well, and what
  is left beside a full residual holds the leading bits of another. Narrow columns have shorter sums, so that answers
  for them are cut closer. A peer that describes its columns as wider than they are is given what it could have anyway,
  one that describes them as narrower less: what counts is the room of the described ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vfl.crypto.fixed_point import FixedPoint
from vfl.crypto.packing import PackingLayout, slot_bits
from vfl.crypto.widths import ColumnFormats

# With this much room above an honest answer, its mask carries it past n at most once in 2^64 answers.
WRAP_BITS = 64

# Initial weights keep a share theta^T x within (-2, 2). The format's integer bits may be raised without longer shares.
_SHARE_INTEGER_BITS = 2


@dataclass(frozen=True)
class AnswerCapacity:
    """The decryption channel of one step towards one peer.

    Attributes:
        answer_bits: of each answer, the bits that reach the peer.
        sums: d k, what an honest peer asks for.
        sum_bits: what a sum over the widest column takes.
        residual_bits: what a single residual takes, see ``answer_capacity``.
        honest_bits: what all sums of the step take together.

    Examples:
        A 2048-bit key's answers about three columns of 0 and 1, for which an honest peer asks for three sums:

        >>> columns = ColumnFormats(((BINARY, 3),))
        >>> product = StepProduct(rows=8, features=columns, columns=1, layout=None, residual_format=RESIDUAL)
        >>> room = answer_capacity(product, capacity=2047, truncated=False)
        >>> room.sums, room.equations
        (3, 183)
    """

    answer_bits: tuple[int, ...]
    sums: int
    sum_bits: int
    residual_bits: int
    honest_bits: int

    @property
    def equations(self) -> int:
        """The most residuals that the answers of the step tell, whole or in part.

        The peer chooses the coefficients. With a single one, of one row, an equation takes no more bits than a
        residual, and all equations may be about one column. Bits left over count as one more equation per answer, since
        they tell a part of a residual. Truncated answers have that part too: a multiple a = 0 mod 2^w of a residual g,
        taken modulo n and then 2^w, leaves -floor(a g / n) n, the leading bits of g, beside a full residual.
        """
        return sum(-(-bits // self.residual_bits) for bits in self.answer_bits)

    @property
    def spare_bits(self) -> int:
        """Bits beyond the honest sums."""
        return sum(self.answer_bits) - self.honest_bits

    @property
    def spare_equations(self) -> int:
        """Equations beyond the honest sums."""
        return self.equations - self.sums


@dataclass(frozen=True)
class StepProduct:
    """The encrypted product that one peer asks for in one step, in public numbers.

    Attributes:
        rows: s, of the largest batch.
        features: the formats of the d columns of the peer that is answered.
        columns: of the residual: k, or 1 for two classes.
        layout: how sums are packed into answers, or None for one sum per answer.
        residual_format: of the encrypted residuals.
    """

    rows: int
    features: ColumnFormats
    columns: int
    layout: PackingLayout | None
    residual_format: FixedPoint

    @property
    def sums(self) -> int:
        """d k: sums that an honest peer asks for."""
        return self.features.total * self.columns

    @property
    def sum_bits(self) -> int:
        """The bits that a sum over the widest column takes, with its sign."""
        return slot_bits(self.rows, self.residual_format, self.features.widest)

    @property
    def honest_bits(self) -> int:
        """The bits that all sums take."""
        return sum(bits * count * self.columns for bits, count in self._sizes())

    def kinds_of_answers(self) -> list[tuple[int, int]]:
        """List (w, how many consecutive answers have it)."""
        if self.layout is None:
            return [(bits, count * self.columns) for bits, count in self._sizes()]
        return self.layout.kinds_of_answers(self.features)

    def _sizes(self) -> list[tuple[int, int]]:
        """(bits of a sum, columns with such sums)."""
        return [(slot_bits(self.rows, self.residual_format, entry), count) for entry, count in self.features.runs]


def honest_answer_bits(product: StepProduct) -> tuple[int, ...]:
    """Count w of each answer: the bits that an honest one occupies in two's complement.

    Examples:
        >>> columns = ColumnFormats(((BINARY, 2), (BYTE, 1)))
        >>> honest_answer_bits(StepProduct(8, columns, columns=1, layout=None, residual_format=RESIDUAL))
        (44, 44, 51)
    """
    return tuple(bits for bits, answers in product.kinds_of_answers() for _ in range(answers))


def answer_capacity(product: StepProduct, *, capacity: int, truncated: bool) -> AnswerCapacity:
    """Count what the answers of one step have room for.

    A residual counts as residual_format.fraction_bits + 2 bits: a share in (-2, 2), which is what initial weights make
    of features in [0, 1]. A label term takes up to 1 + log2 k bits more (|f| < 4 for two classes), noise still more.
    Weights of ``initialisation=normal`` make a passive party's shares some bits shorter.

    Args:
        product: what the peer asks for.
        capacity: bits that an answer has room for; under Paillier all but one of the modulus.
        truncated: whether the key holder cuts its answers to their honest width.

    Examples:
        >>> product = StepProduct(8, ColumnFormats(((BINARY, 3),)), columns=1, layout=None, residual_format=RESIDUAL)
        >>> answer_capacity(product, capacity=2047, truncated=True).equations
        6
    """
    honest = honest_answer_bits(product)
    bits = honest if truncated else (capacity,) * len(honest)
    return AnswerCapacity(bits, product.sums, product.sum_bits, _residual_bits(product), product.honest_bits)


def count_equations(product: StepProduct, *, capacity: int, truncated: bool) -> int:
    """Count ``answer_capacity(...).equations``, in a time that doesn't grow with the number of answers.

    Examples:
        >>> product = StepProduct(8, ColumnFormats(((BINARY, 3),)), columns=1, layout=None, residual_format=RESIDUAL)
        >>> count_equations(product, capacity=2047, truncated=True)
        6
    """
    residual = _residual_bits(product)
    return sum(
        answers * -(-(bits if truncated else capacity) // residual) for bits, answers in product.kinds_of_answers()
    )


def _residual_bits(product: StepProduct) -> int:
    return product.residual_format.fraction_bits + _SHARE_INTEGER_BITS


def truncate(answers: Sequence[int], bits: Sequence[int]) -> tuple[int, ...]:
    """Cut each answer in [0, n) to its lowest w bits: all that an honest receiver needs, see ``unmask``.

    Examples:
        >>> truncate([0b10110], [4])
        (6,)
    """
    return tuple(answer & (1 << width) - 1 for answer, width in zip(answers, bits, strict=True))
