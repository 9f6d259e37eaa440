"""What Protocol 1 does to numbers: Paillier with fixed point and packing, or INSECURE plain float64 in the same shape.

Ciphers turn numbers into messages and messages into numbers. ``exchange.py`` keeps the order of steps and peers;
``vfl.crypto.messages`` has the arithmetic under Paillier.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import singledispatch
from typing import Protocol

import numpy as np

from services.ciphers.arithmetic import Arithmetic, EngineArithmetic, messages_by
from services.ciphers.formats import CipherFormats
from services.ciphers.shown_keys import checked_key, shown_key
from services.common.agreement import Agreement
from services.common.errors import Diverged, InvalidMessage, refusals_of
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector
from vfl.arrays import FloatArray
from vfl.cores.idle import IdleTime
from vfl.crypto import (
    CipherVector,
    FixedPointOverflow,
    InvalidCiphertext,
    PublicKey,
    check_ciphertexts,
    ciphers,
    ciphertext_width,
    from_bytes,
    to_bytes,
)
from vfl.crypto.messages import Combination, HonestMessages, Messages
from vfl.crypto.pool import PooledEngine

# Of own residuals: 64 KiB at 2,048 bits, so that a header more than once a part is nothing beside it.
_CIPHERTEXTS_PER_PART = 128

# A vector's header, and its values part by part: each is made when it is drawn.
OutgoingParts = tuple[VectorHeader, Iterable[bytes]]
# Turns the answer to one masked sum into Z^T g. It holds the mask, so it never leaves its process.
Unmask = Callable[[DecryptedVector], FloatArray]


class Combined(Protocol):
    """Sums on their way to be masked."""

    @property
    def matrix(self) -> FloatArray:
        """(rows, features): what the residuals were multiplied by."""


class Cipher(Protocol):
    """One party's keys and arithmetic in one session.

    Residuals are (rows, columns). Features are (rows, features) whole numbers in wire order, each column on a grid of
    its own (`vfl.crypto.messages`), and so are the sums that are read. Steps count from 0. What belongs to a step takes
    the step first, then the peer.
    """

    public_key: PublicKeyShown

    def accept_key(self, peer: str, key: PublicKeyShown) -> None:
        """Remember a peer's public key; raises InvalidMessage when it doesn't fit the terms or isn't well-formed."""

    def encrypt(self, step: int, residual: FloatArray) -> OutgoingParts:
        """Put residuals under this party's own key: the header of all, and parts that are made as they are drawn.

        Raises Diverged when residuals don't fit the fixed point.
        """

    def residuals_header(self, peer: str, rows: int) -> VectorHeader:
        """Make the header of a peer's residuals of ``rows`` records. The peer has shown its key."""

    def sums_header(self, peer: str) -> VectorHeader:
        """Make the header of a peer's masked sums, under this party's own key."""

    def check_residuals(self, step: int, peer: str, rows: int, vector: WireVector) -> None:
        """Raise InvalidMessage unless the vector holds a peer's residuals of ``rows`` records."""

    def combine(self, step: int, peer: str, features: FloatArray, vector: WireVector) -> Combined:
        """Multiply a peer's residuals, a checked vector of the same rows, by the features."""

    def mask(self, step: int, peer: str, combination: Combined) -> tuple[WireVector, Unmask]:
        """Hide a combination from its key holder, the peer, afresh at each call."""

    def decrypt(self, step: int, peer: str, vector: WireVector) -> DecryptedVector:
        """Answer a peer's masked sums; raises InvalidMessage for anything but the agreed ciphertexts."""

    def waiting(self) -> AbstractContextManager[None]:
        """Let what the next step takes be made ahead: while this context lasts its thread waits for a peer."""

    def close(self) -> None:
        """Forget what was made ahead: the session is over. A late message may still be answered."""


class PaillierCipher:
    """Protocol 1's arithmetic under Paillier, one key pair per session that never leaves this object."""

    def __init__(self, agreement: Agreement, name: str, messages: Messages) -> None:
        self._agreement = agreement
        self._name = name
        self._columns = agreement.residual_columns
        self._formats = CipherFormats(agreement)
        self._messages = messages
        private_key = messages.private_key
        self._public_key = private_key.public_key
        self._peer_keys: dict[str, PublicKey] = {}
        engine = self._messages.engine if isinstance(self._messages, HonestMessages) else None
        self._engine = engine if isinstance(engine, PooledEngine) else None
        self._idle = IdleTime(self._engine.make_ahead) if self._engine else None
        self.public_key = shown_key(agreement, name, private_key)

    def accept_key(self, peer: str, key: PublicKeyShown) -> None:
        """Check a peer's modulus and its proof, and remember the key; raises InvalidMessage."""
        self._peer_keys[peer] = checked_key(self._agreement, peer, key)

    def encrypt(self, step: int, residual: FloatArray) -> OutgoingParts:
        """Encrypt residuals under the own key; raises Diverged when they leave the fixed point's range."""
        try:
            # All of them, before any is on its way.
            self._formats.residual.encode(residual, inclusive=False)
            if not isinstance(self._messages, HonestMessages):
                vector = self._to_wire(self._messages.encrypt(step, residual))
                return vector.header, vector.parts()
        except FixedPointOverflow as error:
            raise Diverged(
                f"{self._name}'s residuals leave the agreed range of +-2^{self._formats.residual.integer_bits}: "
                "lower learning_rate or the noise of a defence, or raise residual_integer_bits."
            ) from error

        return self._residuals_header(self._public_key, len(residual)), self._encrypted_parts(step, residual)

    def _encrypted_parts(self, step: int, residual: FloatArray) -> Iterator[bytes]:
        """Whole ciphertexts, some hundred at a time."""
        layout = self._formats.layout
        rows = -(-_CIPHERTEXTS_PER_PART // self._columns)
        if layout is not None:
            rows = _CIPHERTEXTS_PER_PART * layout.rows_per_ciphertext
        for start in range(0, len(residual), rows):
            yield self._to_wire(self._messages.encrypt(step, residual[start : start + rows])).data

    def check_residuals(self, step: int, peer: str, rows: int, vector: WireVector) -> None:
        """Raise InvalidMessage unless the vector holds the agreed number of ciphertexts under the peer's key."""
        self._read(self._peer_keys[peer], vector, self.residuals_header(peer, rows))

    def residuals_header(self, peer: str, rows: int) -> VectorHeader:
        """Make the header of a peer's ciphertexts of ``rows`` records."""
        return self._residuals_header(self._peer_keys[peer], rows)

    def _residuals_header(self, key: PublicKey, rows: int) -> VectorHeader:
        count = self._formats.residual_ciphertexts(rows)
        return VectorHeader(key.key_id, count, ciphertext_width(key), self._formats.residual.exponent)

    def sums_header(self, peer: str) -> VectorHeader:
        """Make the header of a peer's masked ciphertexts."""
        count, width = self._formats.sum_ciphertexts(peer), ciphertext_width(self._public_key)
        # Features are whole numbers here, so that sums lie where residuals do.
        return VectorHeader(self._public_key.key_id, count, width, self._formats.residual.exponent)

    def combine(self, step: int, peer: str, features: FloatArray, vector: WireVector) -> Combination:
        """Multiply a peer's encrypted residuals by the features."""
        residuals = CipherVector(
            public_key=self._peer_keys[peer],
            ciphertexts=from_bytes(vector.data, vector.count, vector.width),
            exponent=vector.exponent,
            shape=(len(features), self._columns),
            layout=self._formats.layout,
        )
        return self._messages.combine(step, peer, features, residuals)

    def mask(self, step: int, peer: str, combination: Combined) -> tuple[WireVector, Unmask]:
        """Hide the sums from the peer; the second part reads its answer, or raises InvalidMessage."""
        assert isinstance(combination, Combination)  # noqa: S101 - narrows what combine() returned
        question = self._messages.mask(step, peer, combination)
        count, width = len(question.masked.ciphertexts), self._formats.answer_bytes(peer, self._name)

        def unmask_answer(answer: DecryptedVector) -> FloatArray:
            if (answer.count, answer.width, len(answer.data)) != (count, width, count * width):
                raise InvalidMessage(
                    f"Expected {count} residues of {width} bytes, got {answer.count} of {answer.width}."
                )
            with refusals_of(ValueError):
                return question.read(from_bytes(answer.data, count, width))

        return self._to_wire(question.masked), unmask_answer

    def decrypt(self, step: int, peer: str, vector: WireVector) -> DecryptedVector:
        """Decrypt a peer's masked sums; raises InvalidMessage for anything but the agreed ciphertexts."""
        shape = (self._agreement.party(peer).feature_count, self._columns)
        expected = self.sums_header(peer)
        ciphertexts = self._read(self._public_key, vector, expected)
        exponent, columns, layout = expected.exponent, self._formats.columns_of(peer), self._formats.layout
        sums = CipherVector(self._public_key, ciphertexts, exponent, shape, layout, is_product=True, columns=columns)
        width = self._formats.answer_bytes(self._name, peer)
        # The peer waits for it, so nothing is made ahead meanwhile.
        with self._idle.computing() if self._idle else nullcontext():
            residues = self._messages.answer(step, peer, sums)
        return DecryptedVector(expected.count, width, to_bytes(residues, width))

    def waiting(self) -> AbstractContextManager[None]:
        """Let obfuscators and rho**n be made ahead: while this context lasts its thread waits for a peer."""
        return self._idle.waiting() if self._idle else nullcontext()

    def close(self) -> None:
        """Forget what was made ahead."""
        if self._idle and self._engine:
            self._idle.close()
            self._engine.close()

    def _to_wire(self, vector: CipherVector) -> WireVector:
        width = ciphertext_width(vector.public_key)
        return WireVector(
            vector.public_key.key_id,
            len(vector.ciphertexts),
            width,
            vector.exponent,
            to_bytes(vector.ciphertexts, width),
        )

    @staticmethod
    def _read(key: PublicKey, vector: WireVector, expected: VectorHeader) -> tuple[int, ...]:
        vector.check(expected)
        ciphertexts = from_bytes(vector.data, expected.count, expected.width)
        with refusals_of(InvalidCiphertext):
            check_ciphertexts(key, ciphertexts, expected.count)
        return ciphertexts


@dataclass(frozen=True, eq=False)
class _PlainCombination:
    """Sums in the clear, and whose they are to decrypt."""

    matrix: FloatArray
    key_id: str
    sums: FloatArray


class PlainCipher:
    """INSECURE: the same messages with float64 values in the clear, for parity tests and large sweeps."""

    _WIDTH = 8
    _DTYPE = np.dtype(">f8")

    def __init__(self, agreement: Agreement, name: str) -> None:
        self._agreement = agreement
        self._columns = agreement.residual_columns
        self.public_key = PublicKeyShown(f"INSECURE-plain-{name}", b"")
        self._peer_key_ids: dict[str, str] = {}

    def accept_key(self, peer: str, key: PublicKeyShown) -> None:
        """Remember the name that stands for a peer's key; raises InvalidMessage for a Paillier key."""
        if (key.key_id, key.content) != (f"INSECURE-plain-{peer}", b""):
            raise InvalidMessage("This session is cipher=plain (INSECURE) and takes no Paillier key.")
        self._peer_key_ids[peer] = key.key_id

    def encrypt(self, step: int, residual: FloatArray) -> OutgoingParts:
        """Write residuals as they are."""
        vector = self._to_wire(self.public_key.key_id, residual)
        return vector.header, vector.parts()

    def check_residuals(self, step: int, peer: str, rows: int, vector: WireVector) -> None:
        """Raise InvalidMessage unless the vector holds a peer's finite residuals of ``rows`` records."""
        vector.check(self.residuals_header(peer, rows))
        if not np.isfinite(self._values(vector.data)).all():
            raise InvalidMessage("Residuals must be finite numbers.")

    def residuals_header(self, peer: str, rows: int) -> VectorHeader:
        """Make the header of a peer's residuals of ``rows`` records."""
        return VectorHeader(self._peer_key_ids[peer], rows * self._columns, self._WIDTH, 0)

    def sums_header(self, peer: str) -> VectorHeader:
        """Make the header of a peer's sums."""
        count = self._agreement.party(peer).feature_count * self._columns
        return VectorHeader(self.public_key.key_id, count, self._WIDTH, 0)

    def combine(self, step: int, peer: str, features: FloatArray, vector: WireVector) -> _PlainCombination:
        """Multiply a peer's residuals by the features."""
        residuals = self._values(vector.data).reshape(len(features), self._columns)
        return _PlainCombination(features, vector.key_id, features.T @ residuals)

    def mask(self, step: int, peer: str, combination: Combined) -> tuple[WireVector, Unmask]:
        """Write the sums as they are: the peer sends them back."""
        assert isinstance(combination, _PlainCombination)  # noqa: S101 - narrows what combine() returned
        sums = combination.sums

        def read(answer: DecryptedVector) -> FloatArray:
            if (answer.count, answer.width, len(answer.data)) != (
                sums.size,
                self._WIDTH,
                sums.size * self._WIDTH,
            ):
                raise InvalidMessage(
                    f"Expected {sums.size} values of {self._WIDTH} bytes, got {answer.count} of {answer.width}."
                )
            return self._values(answer.data).reshape(sums.shape)

        return self._to_wire(combination.key_id, sums), read

    def decrypt(self, step: int, peer: str, vector: WireVector) -> DecryptedVector:
        """Send a peer's sums back; raises InvalidMessage for another number of them."""
        vector.check(self.sums_header(peer))
        return DecryptedVector(vector.count, self._WIDTH, vector.data)

    def waiting(self) -> AbstractContextManager[None]:
        """Make nothing ahead."""
        return nullcontext()

    def close(self) -> None:
        """Close nothing: nothing was made ahead."""

    def _to_wire(self, key_id: str, values: FloatArray) -> WireVector:
        return WireVector(key_id, values.size, self._WIDTH, 0, values.astype(self._DTYPE).tobytes())

    @classmethod
    def _values(cls, data: bytes) -> FloatArray:
        return np.frombuffer(data, dtype=cls._DTYPE).astype(np.float64)

    @classmethod
    def read(cls, vector: WireVector, rows: int) -> FloatArray:
        """Read the residuals, (rows, columns), of a vector that ``check_residuals`` has accepted."""
        return cls._values(vector.data).reshape(rows, -1)


def make_cipher(agreement: Agreement, name: str, arithmetic: Arithmetic | None = None) -> Cipher:
    """Make the cipher that the session's plan names, with a fresh key pair for party ``name``.

    ``arithmetic`` computes under Paillier; by default the best kernel there is, on one core.

    Raises:
        InvalidMessage: for terms that no ciphertext fits.
    """
    with refusals_of(ValueError):
        return party_cipher(agreement.plan.encryption, agreement, name, arithmetic or EngineArithmetic())


@singledispatch
def party_cipher(_cipher: ciphers.Cipher, agreement: Agreement, _name: str, _arithmetic: Arithmetic) -> Cipher:
    """Make a party's half of Protocol 1 under a cipher. Another package's class registers its own with it."""
    raise InvalidMessage(f"Protocol 1 has no messages under cipher={agreement.plan.cipher}: choose another cipher.")


@party_cipher.register
def _(_cipher: ciphers.Paillier, agreement: Agreement, name: str, arithmetic: Arithmetic) -> Cipher:
    return PaillierCipher(agreement, name, messages_by(arithmetic, agreement, name))


@party_cipher.register
def _(_cipher: ciphers.Plain, agreement: Agreement, name: str, _arithmetic: Arithmetic) -> Cipher:
    return PlainCipher(agreement, name)
