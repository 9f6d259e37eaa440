"""Which cipher an audit trains with, and why: Paillier where that takes no longer than a person waits."""

from collections.abc import Collection
from dataclasses import dataclass

from plumbline.job_progress import duration_words
from vfl.crypto.ciphers import ENCRYPTED, IN_THE_CLEAR, spec_of

# What Paillier may take of a person's time, unasked.
PATIENCE_SECONDS = 180.0
# Settings that only mean something where there are ciphertexts.
OF_CIPHERTEXTS = ("key_bits", "packing", "rerandomise")


@dataclass(frozen=True)
class CipherChoice:
    """The cipher of an audit.

    Attributes:
        cipher: its name.
        why: a sentence; in the clear it begins with INSECURE and says what ``--cipher paillier`` would take.
        is_asked: whether the request says it, rather than the forecast.
    """

    cipher: str
    why: str
    is_asked: bool

    @property
    def is_encrypted(self) -> bool:
        """Whether there are ciphertexts."""
        return spec_of(self.cipher).is_encrypted


def asked_cipher(cipher: str, given: Collection[str]) -> CipherChoice | None:
    """What the request itself decides; None where it leaves the choice open.

    Args:
        cipher: of the settings.
        given: names of the settings that were given, on the command line or in the environment.
    """
    if "cipher" in given:
        why = "as asked for." if spec_of(cipher).is_encrypted else "INSECURE: in the clear, as asked for."
        return CipherChoice(cipher, why, is_asked=True)
    if about := [name for name in OF_CIPHERTEXTS if name in given]:
        return CipherChoice(ENCRYPTED, f"{about[0]} asks for ciphertexts.", is_asked=True)
    return None


def chosen_cipher(encrypted_seconds: float, plain_seconds: float) -> CipherChoice:
    """Choose by how long training is thought to take under Paillier and in the clear."""
    encrypted = duration_words(encrypted_seconds)
    if encrypted_seconds < PATIENCE_SECONDS:
        return CipherChoice(ENCRYPTED, f"training takes about {encrypted} under it.", is_asked=False)
    why = (
        f"INSECURE: it trains in the clear, over the same services and messages, in about "
        f"{duration_words(plain_seconds)}. Scores and gradients are those of encrypted training to 1e-6. "
        f"--cipher paillier would train for about {encrypted}."
    )
    return CipherChoice(IN_THE_CLEAR, why, is_asked=False)
