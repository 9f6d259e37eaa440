"""What an adversary trains with in place of a party's honest cipher, and what it keeps of what it saw.

A cipher makes all of a party's messages of Protocol 1 and reads all answers: it is what an adversary changes of the
party's setting, and its tape of Protocol 1.
"""

from dataclasses import dataclass, field

from services.protocol1.cipher import Cipher, Combined, Unmask
from services.protocol1.vectors import DecryptedVector, WireVector
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares


@dataclass
class Transcript:
    """What one party computed and got in a training.

    Attributes:
        shares: its own share of the residual, by step.
        sums: by step and peer, what the residuals were multiplied by, and the sums that followed.
        forwarded: by step, the other parties' products of a first layer, added up, (s, h).
        read: by step and peer, what it has sent in the clear, (s, columns).
        kept: by step, its share of its own sums, (d, columns), where weights are shared.
        leaves: by step, which leaf of a tree each row has reached, (n,).
    """

    shares: dict[int, FloatArray] = field(default_factory=dict)
    sums: dict[tuple[int, str], tuple[FloatArray, FloatArray]] = field(default_factory=dict)
    forwarded: dict[int, FloatArray] = field(default_factory=dict)
    read: dict[tuple[int, str], FloatArray] = field(default_factory=dict)
    kept: dict[int, Shares] = field(default_factory=dict)
    leaves: dict[int, IntArray] = field(default_factory=dict)


class RecordingCipher:
    """Sends the messages of the cipher inside, and keeps a transcript of the sums that it reads.

    Training goes on with the sums of the party's own features, the first ones. An honest cipher reads no others.
    """

    def __init__(self, inner: Cipher, transcript: Transcript, features: int) -> None:
        self._inner = inner
        self._transcript = transcript
        self._features = features
        self.public_key = inner.public_key
        self.accept_key = inner.accept_key
        self.encrypt = inner.encrypt
        self.residuals_header = inner.residuals_header
        self.sums_header = inner.sums_header
        self.check_residuals = inner.check_residuals
        self.combine = inner.combine
        self.decrypt = inner.decrypt
        self.waiting = inner.waiting
        self.close = inner.close

    def mask(self, step: int, peer: str, combination: Combined) -> tuple[WireVector, Unmask]:
        """Mask as the cipher inside does. Reading the answer puts the sums into the transcript."""
        masked, unmask = self._inner.mask(step, peer, combination)

        def recorded(answer: DecryptedVector) -> FloatArray:
            sums = unmask(answer)
            if len(sums) != combination.matrix.shape[1] or len(sums) < self._features:
                raise ValueError(
                    f"An attack's messages read {len(sums)} sums of {combination.matrix.shape[1]} columns: expected "
                    f"one of each, those of the party's own {self._features} features first."
                )
            self._transcript.sums[step, peer] = (combination.matrix, sums)
            return sums[: self._features]

        return masked, recorded
