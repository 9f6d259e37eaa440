"""How much the answers of one step can carry: what an honest product needs, and what there is room for.

The key holder decrypts what it can't read. Whoever sends the masked sums decides what is in them, so what counts is not
what an honest sender asks for but what an answer has room for: sums of B bits, floor(bits / B) of them per answer (Hu
5.2: u = floor((kappa - 1) / iota)). Packing leaves less room than one value per plaintext does, seldom none; and with
several rows per ciphertext it adds equations that an honest sender sees as well, in the slots between the wanted ones.
``truncate`` cuts every answer to the bits that an honest one occupies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vfl.crypto.fixed_point import FixedPoint
from vfl.crypto.packing import PackingLayout, slot_bits

# A truncated answer is read wrongly when the mask carries it past n: at most once in 2^64 answers where a plaintext is
# at least this much longer than an honest answer.
WRAP_BITS = 64


@dataclass(frozen=True)
class AnswerCapacity:
    """The decryption channel of one step towards one peer.

    answers: ciphertexts that are answered. answer_bits: of each that reach the peer. sums: d k, what an honest peer
    asks for. sum_bits: B, what one sum takes.
    """

    answers: int
    answer_bits: int
    sums: int
    sum_bits: int

    @property
    def equations(self) -> int:
        """The most sums that fit: linear equations about the residuals, all of one column if the peer so wishes."""
        return self.answers * (self.answer_bits // self.sum_bits)

    @property
    def spare_bits(self) -> int:
        """Room beyond the honest sums, in bits."""
        return self.answers * self.answer_bits - self.sums * self.sum_bits

    @property
    def spare_equations(self) -> int:
        """Room beyond the honest sums, in equations."""
        return self.equations - self.sums


def honest_answer_bits(
    rows: int, layout: PackingLayout | None, *, residual_format: FixedPoint, feature_format: FixedPoint
) -> int:
    """w: bits of an honest answer in two's complement, from public numbers. rows: s of the largest batch."""
    if layout is None:
        return slot_bits(rows, residual_format, feature_format)
    return layout.slots * layout.slot_bits


def answer_capacity(
    *,
    rows: int,
    features: int,
    columns: int,
    layout: PackingLayout | None,
    residual_format: FixedPoint,
    feature_format: FixedPoint,
    key_bits: int,
    truncated: bool,
) -> AnswerCapacity:
    """The capacity towards a peer with ``features`` columns; ``columns``: of the residual (k, or 1 for two classes)."""
    honest = honest_answer_bits(rows, layout, residual_format=residual_format, feature_format=feature_format)
    return AnswerCapacity(
        answers=features * columns if layout is None else layout.answers_for(features),
        answer_bits=honest if truncated else key_bits - 1,
        sums=features * columns,
        sum_bits=slot_bits(rows, residual_format, feature_format),
    )


def truncate(answers: Sequence[int], bits: int) -> tuple[int, ...]:
    """Answers in [0, n) modulo 2^bits: all that an honest receiver needs, see ``unmask``."""
    return tuple(answer & (1 << bits) - 1 for answer in answers)
