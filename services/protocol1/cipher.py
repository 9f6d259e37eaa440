"""What Protocol 1 does to numbers: Paillier with fixed point and packing, or INSECURE plain float64 in the same shape.

Neither class knows of steps, peers' order or the network; ``exchange.py`` does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import Diverged, InvalidMessage
from services.protocol1.formats import CipherFormats
from vfl.arrays import FloatArray
from vfl.crypto import (
    PROOF_ROOTS,
    CipherVector,
    FixedPointOverflow,
    InvalidAnswer,
    InvalidCiphertext,
    MalformedModulus,
    Mask,
    PrivateKey,
    PublicKey,
    check_ciphertexts,
    check_modulus,
    ciphertext_count,
    ciphertext_width,
    decrypt_integers,
    encrypt_vector,
    from_bytes,
    keygen,
    mask_vector,
    matvec,
    modulus_context,
    prove_modulus,
    to_bytes,
    truncate,
    unmask,
)


@dataclass(frozen=True)
class WireVector:
    """A vector as it travels: ``count`` values of ``width`` bytes, big-endian, under key ``key_id``."""

    key_id: str
    count: int
    width: int
    exponent: int
    data: bytes

    def check(self, *, key_id: str, count: int, width: int, exponent: int) -> None:
        """Raises InvalidMessage when the header isn't the one that the session's terms demand."""
        expected = {"key id": key_id, "count": count, "width": width, "exponent": exponent}
        found = {"key id": self.key_id, "count": self.count, "width": self.width, "exponent": self.exponent}
        for field, value in expected.items():
            if found[field] != value:
                raise InvalidMessage(f"Wrong {field}: expected {value}, got {found[field]}.")
        if len(self.data) != count * width:
            raise InvalidMessage(f"Expected {count * width} bytes of values, got {len(self.data)}.")


@dataclass(frozen=True)
class DecryptedVector:
    """A key holder's answer: ``count`` residues of ``width`` bytes, big-endian; masked, so that it can't read them."""

    count: int
    width: int
    data: bytes


@dataclass(frozen=True)
class PublicKeyShown:
    """A public key as it travels: the modulus in big-endian bytes, and the proof that it is well-formed."""

    key_id: str
    modulus: bytes
    proof: bytes


# What a party does to its residuals before it encrypts them.
Protect = Callable[[FloatArray], FloatArray]


def unprotected(residual: FloatArray) -> FloatArray:
    """No defence: the residual as it is."""
    return residual


# What turns the answer to one masked sum into X^T g; holds the mask, so it never leaves its process.
Unmask = Callable[[DecryptedVector], FloatArray]


class Cipher(Protocol):
    """One party's keys and arithmetic in one session. Residuals are (rows, columns), features (rows, features)."""

    public_key: PublicKeyShown

    def accept_key(self, peer: str, key: PublicKeyShown) -> None:
        """Remember a peer's public key; raises InvalidMessage when it doesn't fit the terms or isn't well-formed."""

    def encrypt(self, residual: FloatArray) -> WireVector:
        """This party's residuals under its own key; raises Diverged when they don't fit the fixed point."""

    def check_residuals(self, peer: str, rows: int, vector: WireVector) -> None:
        """Raises InvalidMessage unless the vector holds a peer's residuals of ``rows`` records."""

    def combine(self, peer: str, features: FloatArray, vector: WireVector) -> object:
        """features^T residuals under the peer's key: (rows, d) with a checked vector of the same rows."""

    def mask(self, peer: str, combination: object) -> tuple[WireVector, Unmask]:
        """Hide a combination from its key holder, the peer, afresh at each call."""

    def decrypt(self, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        """Answer a peer's masked sums of a step; raises InvalidMessage for anything but the agreed ciphertexts."""


class PaillierCipher:
    """Protocol 1's arithmetic under Paillier, one key pair per session that never leaves this object."""

    def __init__(self, agreement: Agreement, name: str, protect: Protect = unprotected) -> None:
        plan = agreement.plan
        self._agreement = agreement
        self._name = name
        self._protect = protect
        self._columns = agreement.residual_columns
        self._formats = CipherFormats(agreement)
        self._residual_format, self._feature_format = self._formats.residual, self._formats.feature
        self._layout = self._formats.layout
        self._private_key = self._make_key(plan.key_bits)
        self._public_key = self._private_key.public_key
        self._peer_keys: dict[str, PublicKey] = {}
        proof = prove_modulus(self._private_key, modulus_context(agreement.session_id, name))
        width = plan.key_bits // 8
        self.public_key = PublicKeyShown(
            self._public_key.key_id, self._public_key.n.to_bytes(width, "big"), to_bytes(proof, width)
        )

    def _make_key(self, bits: int) -> PrivateKey:
        return keygen(bits, insecure=bits < 2048)[1]

    def accept_key(self, peer: str, key: PublicKeyShown) -> None:
        bits = self._agreement.plan.key_bits
        public_key = PublicKey(int.from_bytes(key.modulus, "big"))
        try:
            roots = from_bytes(key.proof, PROOF_ROOTS, bits // 8)
            check_modulus(public_key, bits, modulus_context(self._agreement.session_id, peer), roots)
        except (InvalidCiphertext, MalformedModulus) as error:
            raise InvalidMessage(f"{peer}'s key is refused: {error}") from error
        if public_key.key_id != key.key_id:
            raise InvalidMessage(f"Wrong key id: this modulus has {public_key.key_id}, got {key.key_id}.")
        if public_key == self._public_key:
            raise InvalidMessage("This is the callee's own key: send the caller's.")
        self._peer_keys[peer] = public_key

    def encrypt(self, residual: FloatArray) -> WireVector:
        protected = self._protect(residual)
        try:
            vector = encrypt_vector(
                self._private_key, protected, layout=self._layout, fixed_point=self._residual_format
            )
        except FixedPointOverflow as error:
            raise Diverged(
                f"{self._name}'s residuals leave the agreed range of +-2^{self._residual_format.integer_bits}: "
                "lower learning_rate or the noise of a defence, or raise residual_integer_bits."
            ) from error
        return self._to_wire(vector)

    def check_residuals(self, peer: str, rows: int, vector: WireVector) -> None:
        self._read(self._peer_keys[peer], vector, self._residual_count(rows), self._residual_exponent)

    def combine(self, peer: str, features: FloatArray, vector: WireVector) -> CipherVector:
        return matvec(features, self._residuals_of(peer, len(features), vector), features=self._feature_format)

    def _residuals_of(self, peer: str, rows: int, vector: WireVector) -> CipherVector:
        return CipherVector(
            public_key=self._peer_keys[peer],
            ciphertexts=from_bytes(vector.data, vector.count, vector.width),
            exponent=vector.exponent,
            shape=(rows, self._columns),
            layout=self._layout,
        )

    def mask(self, peer: str, combination: object) -> tuple[WireVector, Unmask]:
        assert isinstance(combination, CipherVector)  # noqa: S101 - narrows what combine() returned
        masked, mask = mask_vector(combination, rerandomise=self._agreement.plan.rerandomise)
        return self._to_wire(masked), self._unmasker(peer, mask, len(masked.ciphertexts))

    def decrypt(self, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        shape = self._answer_shape(peer)
        count = ciphertext_count(shape, self._layout, is_product=True)
        ciphertexts = self._read(self._public_key, vector, count, self._product_exponent)
        sums = CipherVector(self._public_key, ciphertexts, self._product_exponent, shape, self._layout, is_product=True)
        answers = decrypt_integers(self._private_key, sums)
        bits = self._formats.answer_bits(self._name, peer)
        if bits is not None:
            answers = truncate(answers, bits)
        width = self._formats.answer_bytes(self._name, peer)
        return DecryptedVector(count, width, to_bytes(answers, width))

    def _unmasker(self, peer: str, mask: Mask, count: int) -> Unmask:
        bits, width = self._formats.answer_bits(peer, self._name), self._formats.answer_bytes(peer, self._name)

        def unmask_answer(answer: DecryptedVector) -> FloatArray:
            if (answer.count, answer.width, len(answer.data)) != (count, width, count * width):
                raise InvalidMessage(
                    f"Expected {count} residues of {width} bytes, got {answer.count} of {answer.width}."
                )
            try:
                return unmask(mask, from_bytes(answer.data, count, width), bits=bits)
            except InvalidAnswer as error:
                raise InvalidMessage(str(error)) from error

        return unmask_answer

    @property
    def _residual_exponent(self) -> int:
        return self._residual_format.exponent

    @property
    def _product_exponent(self) -> int:
        return self._residual_format.exponent + self._feature_format.exponent

    def _residual_count(self, rows: int) -> int:
        return ciphertext_count((rows, self._columns), self._layout)

    def _answer_shape(self, peer: str) -> tuple[int, int]:
        return self._agreement.party(peer).feature_count, self._columns

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
    def _read(key: PublicKey, vector: WireVector, count: int, exponent: int) -> tuple[int, ...]:
        width = ciphertext_width(key)
        vector.check(key_id=key.key_id, count=count, width=width, exponent=exponent)
        ciphertexts = from_bytes(vector.data, count, width)
        try:
            check_ciphertexts(key, ciphertexts, count)
        except InvalidCiphertext as error:
            raise InvalidMessage(str(error)) from error
        return ciphertexts


class PlainCipher:
    """INSECURE: the same messages with float64 values in the clear, for parity tests and large sweeps."""

    _WIDTH = 8
    _DTYPE = np.dtype(">f8")

    def __init__(self, agreement: Agreement, name: str, protect: Protect = unprotected) -> None:
        self._agreement = agreement
        self._protect = protect
        self._columns = agreement.residual_columns
        self.public_key = PublicKeyShown(f"INSECURE-plain-{name}", b"", b"")
        self._peer_key_ids: dict[str, str] = {}

    def accept_key(self, peer: str, key: PublicKeyShown) -> None:
        if key != PublicKeyShown(f"INSECURE-plain-{peer}", b"", b""):
            raise InvalidMessage("This session is cipher=plain (INSECURE) and takes no Paillier key.")
        self._peer_key_ids[peer] = key.key_id

    def encrypt(self, residual: FloatArray) -> WireVector:
        return self._to_wire(self.public_key.key_id, self._protect(residual))

    def check_residuals(self, peer: str, rows: int, vector: WireVector) -> None:
        vector.check(key_id=self._peer_key_ids[peer], count=rows * self._columns, width=self._WIDTH, exponent=0)
        if not np.isfinite(self._values(vector.data)).all():
            raise InvalidMessage("Residuals must be finite numbers.")

    def combine(self, peer: str, features: FloatArray, vector: WireVector) -> tuple[str, FloatArray]:
        residuals = self._values(vector.data).reshape(len(features), self._columns)
        return vector.key_id, features.T @ residuals

    def mask(self, peer: str, combination: object) -> tuple[WireVector, Unmask]:
        assert isinstance(combination, tuple)  # noqa: S101 - narrows what combine() returned
        key_id, sums = combination

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

        return self._to_wire(key_id, sums), read

    def decrypt(self, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        count = self._agreement.party(peer).feature_count * self._columns
        vector.check(key_id=self.public_key.key_id, count=count, width=self._WIDTH, exponent=0)
        return DecryptedVector(count, self._WIDTH, vector.data)

    def _to_wire(self, key_id: str, values: FloatArray) -> WireVector:
        return WireVector(key_id, values.size, self._WIDTH, 0, values.astype(self._DTYPE).tobytes())

    def _values(self, data: bytes) -> FloatArray:
        return np.frombuffer(data, dtype=self._DTYPE).astype(np.float64)


def make_cipher(agreement: Agreement, name: str, protect: Protect = unprotected) -> Cipher:
    """The cipher that the session's plan names, with a fresh key pair for party ``name``.

    ``protect`` changes residuals before they are encrypted: the party's defences.
    """
    if agreement.plan.cipher == "plain":
        return PlainCipher(agreement, name, protect)
    try:
        return PaillierCipher(agreement, name, protect)
    except ValueError as error:
        raise InvalidMessage(str(error)) from error
