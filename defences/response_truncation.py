"""The key holder answers modulo 2^w: room for what honest sums take, no more (this project's answer to Hu 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from defences.base import DefenceSpec


@dataclass(frozen=True)
class ResponseTruncation:
    """Cuts every decrypted answer to w bits, the width of an honest answer, which both sides know from the agreement.

    Guarantee. Training is bit for bit the same: masks are uniform in Z_n, and an honest sum below 2^(w-1) in magnitude
        comes back from its residue modulo 2^w (but for a wrap with probability below 2^w / n, see
        ``vfl.crypto.unmask``). Algorithm 2's u - 1 further sums lie above bit w. Of these sums, each below n, the peer
        gets no bit, but for whether the masked sum passed n, which shows as an offset by n mod 2^w.

    What it does not stop:
    - the honest d sums themselves: s <= d determines the residual;
    - single residuals that a peer asks for in their place, and with multipliers of its own the leading bits of a second
      one per answer, as the number of times that its sum passed n (``vfl.crypto.AnswerCapacity.equations`` counts
      both);
    - the slots between the wanted ones where several rows share a ciphertext;
    - labels, which take fewer equations than numbers do while weights are near their start, and fewest from zero
      weights.
    """

    name: ClassVar[str] = "response_truncation"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"),
        stages=("answers",),
        keeps="scores",
        source="Plumbline; against Hu, Algorithm 2",
        summary="cuts decrypted answers to the bits that an honest one has; on by default",
        cost="none",
        stops=("labels",),
    )
