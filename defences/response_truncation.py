"""The key holder answers modulo 2^w: no room for more than the honest sums (this project's answer to Hu 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from defences.base import DefenceSpec


@dataclass(frozen=True)
class ResponseTruncation:
    """Cuts every decrypted answer to w bits, the width of an honest answer, which both sides know from the agreement.

    Guarantee. Training is bit for bit the same: masks are uniform in Z_n, and an honest sum below 2^(w-1) in magnitude
    comes back from its residue modulo 2^w (but for a wrap with probability below 2^w / n, see ``vfl.crypto.unmask``).
    Algorithm 2's u - 1 further sums lie above bit w: the peer gets none of their bits, but for whether the masked
    sum passed n, which shows as an offset by n mod 2^w.

    Not stopped: the honest d sums themselves (s <= d determines the residual), single residuals that a peer asks for
    in their place, the slots between the wanted ones where several rows share a ciphertext, and residuals that are no
    more than signs: from zero weights the first ones are the labels, for which a few equations are enough.
    """

    name: ClassVar[str] = "response_truncation"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"), stages=("answers",), keeps="scores", source="Plumbline; against Hu, Algorithm 2"
    )
