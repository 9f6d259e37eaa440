"""Which cipher an audit trains with, and why: Paillier where that takes no longer than a person waits."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from plumbline.job_progress import duration_words

# What Paillier may take of a person's time, unasked.
PATIENCE_SECONDS = 180.0
# Settings that only mean something where there are ciphertexts.
OF_CIPHERTEXTS = ("key_bits", "packing", "rerandomise")

CipherName = Literal["paillier", "plain"]


@dataclass(frozen=True)
class CipherChoice:
    """The cipher of an audit.

    Attributes:
        cipher: ``paillier`` or ``plain``.
        why: a sentence; for ``plain`` it begins with INSECURE and says what ``--cipher paillier`` would take.
        is_asked: whether the request says it, rather than the forecast.
    """

    cipher: CipherName
    why: str
    is_asked: bool


def asked_cipher(cipher: CipherName, given: Collection[str]) -> CipherChoice | None:
    """What the request itself decides; None where it leaves the choice open.

    Args:
        cipher: of the settings.
        given: names of the settings that were given, on the command line or in the environment.
    """
    if "cipher" in given:
        why = "as asked for." if cipher == "paillier" else "INSECURE: in the clear, as asked for."
        return CipherChoice(cipher, why, is_asked=True)
    if about := [name for name in OF_CIPHERTEXTS if name in given]:
        return CipherChoice("paillier", f"{about[0]} asks for ciphertexts.", is_asked=True)
    return None


def chosen_cipher(encrypted_seconds: float, plain_seconds: float) -> CipherChoice:
    """Choose by how long training is thought to take under Paillier and in the clear."""
    encrypted = duration_words(encrypted_seconds)
    if encrypted_seconds < PATIENCE_SECONDS:
        return CipherChoice("paillier", f"training takes about {encrypted} under it.", is_asked=False)
    why = (
        f"INSECURE: it trains in the clear, over the same services and messages, in about "
        f"{duration_words(plain_seconds)}. Scores and gradients are those of encrypted training to 1e-6. "
        f"--cipher paillier would train for about {encrypted}."
    )
    return CipherChoice("plain", why, is_asked=False)
