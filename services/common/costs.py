"""What a training computes, counted before it begins: operations on ciphertexts, by party."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Operations:
    """Operations of one party.

    Attributes:
        encryptions: of one ciphertext each, by the key's owner.
        multiplications: modular products of encrypted matrix products.
        answers: masked, decrypted and taken the mask off.
    """

    encryptions: float = 0
    multiplications: float = 0
    answers: float = 0


@dataclass(frozen=True)
class Cost:
    """Operations of a training, by party.

    Attributes:
        of_step: of one step.
        before: of what comes before the first step; empty for nothing.
        kept_bytes: of ciphertexts that a party keeps in memory while it trains; empty for nothing.
        awaited: the party whose work of a step comes before all others'; empty where they work side by side.
    """

    of_step: Mapping[str, Operations]
    before: Mapping[str, Operations] = field(default_factory=dict)
    kept_bytes: Mapping[str, int] = field(default_factory=dict)
    awaited: str = ""
