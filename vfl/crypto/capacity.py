"""How much the answers of one step can carry: what an honest product needs, and what there is room for.

The key holder decrypts what it can't read. Whoever sends the masked sums decides what is in them, so what counts is not
what an honest sender asks for but what an answer has room for. Hu (5.2) counts u = floor((kappa - 1) / iota) sums per
answer; a peer that asks for single residuals fits more, since they take fewer bits than sums. Packing leaves less room
than one value per plaintext does, seldom none; and with several rows per ciphertext it adds equations that an honest
sender sees as well, in the slots between the wanted ones. ``truncate`` cuts every answer to the bits that an honest one
occupies: these hold single residuals as well, and what is left beside a full one holds the leading bits of another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vfl.crypto.fixed_point import FixedPoint
from vfl.crypto.packing import PackingLayout, slot_bits

# A truncated answer is read wrongly when the mask carries it past n: at most once in 2^64 answers where a plaintext is
# at least this much longer than an honest answer.
WRAP_BITS = 64

# What a share of the residual takes beyond its fraction: initial weights keep a party's theta^T x within (-2, 2), with
# its sign. The format's integer bits are no measure: they may be raised, for noise, without a share becoming longer.
# A label term or noise makes shares longer, never shorter, and fewer of them fit then.
_SHARE_INTEGER_BITS = 2


@dataclass(frozen=True)
class AnswerCapacity:
    """The decryption channel of one step towards one peer.

    answer_bits: of each answer, those that reach the peer. sums: d k, what an honest peer asks for. sum_bits: B, what
    one of them takes. residual_bits: what a single residual takes, see ``answer_capacity``.
    """

    answer_bits: tuple[int, ...]
    sums: int
    sum_bits: int
    residual_bits: int

    @property
    def equations(self) -> int:
        """The most residuals that an answer tells whole or in part, over all answers of the step.

        Coefficients are the peer's choice: with a single one, of one row, an equation takes no more than a residual,
        and all of them may be about one column. Bits that are left over count as one more per answer, since they tell
        a part of it. A peer gets at the part in truncated answers too: of a multiple a = 0 mod 2^w of a residual g,
        what is left modulo n and then 2^w is -floor(a g / n) n, the leading bits of g, beside a full residual.
        """
        return sum(-(-bits // self.residual_bits) for bits in self.answer_bits)

    @property
    def spare_bits(self) -> int:
        """Room beyond the honest sums, in bits."""
        return sum(self.answer_bits) - self.sums * self.sum_bits

    @property
    def spare_equations(self) -> int:
        """Room beyond the honest sums, in equations."""
        return self.equations - self.sums


@dataclass(frozen=True)
class StepProduct:
    """The encrypted product that one peer asks for in one step, in public numbers.

    Attributes:
        rows: s, of the largest batch.
        features: d, of the peer that is answered.
        columns: of the residual: k, or 1 for two classes.
        layout: how sums are packed into answers, or None for one sum per answer.
        residual_format: of the encrypted residuals.
        feature_format: of the peer's features.
    """

    rows: int
    features: int
    columns: int
    layout: PackingLayout | None
    residual_format: FixedPoint
    feature_format: FixedPoint

    @property
    def sum_bits(self) -> int:
        """B: bits that one sum takes, with its sign."""
        return slot_bits(self.rows, self.residual_format, self.feature_format)


def honest_answer_bits(product: StepProduct) -> tuple[int, ...]:
    """Give w of each answer: the bits that an honest one occupies in two's complement."""
    if product.layout is None:
        return (product.sum_bits,) * (product.features * product.columns)
    return tuple(slots * product.layout.slot_bits for slots in product.layout.slots_of_answers(product.features))


def answer_capacity(product: StepProduct, *, key_bits: int, truncated: bool) -> AnswerCapacity:
    """Count what the answers of one step have room for.

    A residual counts as residual_format.fraction_bits + 2 bits: a share in (-2, 2), which is what initial weights make
    of features in [0, 1]. A label term takes up to 1 + log2 k bits more (|f| < 4 for two classes), noise still more.
    Weights of ``initialisation=normal`` make a passive party's shares some bits shorter.

    Args:
        product: what the peer asks for.
        key_bits: length of the key holder's modulus n.
        truncated: whether the key holder cuts its answers to their honest width.
    """
    honest = honest_answer_bits(product)
    bits = honest if truncated else (key_bits - 1,) * len(honest)
    residual_bits = product.residual_format.fraction_bits + _SHARE_INTEGER_BITS
    return AnswerCapacity(bits, product.features * product.columns, product.sum_bits, residual_bits)


def truncate(answers: Sequence[int], bits: Sequence[int]) -> tuple[int, ...]:
    """Each answer in [0, n) modulo 2^w with its own w: all that an honest receiver needs, see ``unmask``."""
    return tuple(answer & (1 << width) - 1 for answer, width in zip(answers, bits, strict=True))
