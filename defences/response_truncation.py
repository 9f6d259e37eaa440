"""The key holder answers modulo 2^w: no room for more than the honest sums (this project's answer to Hu 5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from defences.base import DefenceSpec
from vfl.crypto.capacity import truncate


@dataclass(frozen=True)
class ResponseTruncation:
    """Cuts every decrypted answer to w bits, the width of an honest answer, which both sides know from the agreement.

    Guarantee. Training is bit for bit the same: masks are uniform in Z_n, and an honest sum below 2^(w-1) in magnitude
    comes back from its residue modulo 2^w (but for a wrap with probability below 2^w / n, see ``vfl.crypto.unmask``).
    Algorithm 2's u - 1 further sums lie above bit w: the peer gets none of their bits.

    Not stopped: the honest d sums themselves (s <= d determines the residual), sums that a peer puts in their place,
    and with several rows per ciphertext the slots between the wanted ones.
    """

    name: ClassVar[str] = "response_truncation"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"), stages=("answers",), keeps="scores", source="Plumbline; against Hu, Algorithm 2"
    )

    def truncate(self, answers: Sequence[int], bits: Sequence[int]) -> tuple[int, ...]:
        """Each answer in [0, n) modulo 2^w, with its own w of ``bits``."""
        return truncate(answers, bits)
