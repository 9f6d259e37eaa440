"""Protocol 1 (Hu, section 5.1) through python-paillier's own objects: slow, and short enough to read beside the paper.

Who knows `phe` can check here what the fast kernels do, and on the live wire: one party runs on this, its peer on any
kernel, and both arrive at the same parameters. There is one value in a ciphertext, so packing is off.

Three things that `phe` leaves to its caller are done here:
- One public exponent for all values. `phe` chooses one per number from the number's size and sends it along, which
  tells the magnitude of every residual.
- A fresh rho**n on all that is sent. `phe`'s + and * draw none, see ``mask``.
- A key whose modulus can be proved well formed, see ``reference_key``.

Not constant time: `phe`'s powers take longer for larger numbers, features and secret exponents among them, and none for
a feature of 0. A peer may see that in the time that an answer takes.
"""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from phe import EncodedNumber, EncryptedNumber, PaillierPrivateKey, PaillierPublicKey, generate_paillier_keypair

from vfl.arrays import FloatArray
from vfl.crypto.capacity import truncate
from vfl.crypto.errors import LayoutMismatch, MalformedKey
from vfl.crypto.kernels.integers import random_unit
from vfl.crypto.keys import PrivateKey, PublicKey, check_key_bits
from vfl.crypto.messages import Combination, MessageFormats, Question
from vfl.crypto.vectors import CipherVector, Mask, unmask


@dataclass(frozen=True)
class ReferenceMessages:
    """The messages that Protocol 1 prescribes, made of python-paillier's objects. Line numbers are Hu's.

    Attributes:
        formats: the session's, seen from this party.
        private_key: this party's, made for this session.

    Raises:
        LayoutMismatch: for formats with packing.
    """

    formats: MessageFormats
    private_key: PrivateKey
    _key: PaillierPrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.formats.layout is not None:
            raise LayoutMismatch("python-paillier has one value in a ciphertext: switch packing off.")
        p, q = self.private_key.p, self.private_key.q
        object.__setattr__(self, "_key", PaillierPrivateKey(PaillierPublicKey(p * q), p, q))

    def encrypt(self, step: int, residual: FloatArray) -> CipherVector:
        """Line 3: encrypt (s, columns) residuals one by one; raises FixedPointOverflow where they don't fit."""
        key, fixed_point = self._key.public_key, self.formats.residual
        integers = fixed_point.encode(residual, inclusive=False).ravel().tolist()
        encrypted = [key.encrypt(EncodedNumber(key, g % key.n, fixed_point.exponent)) for g in integers]
        return _vector(key, encrypted, residual.shape)

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        """Lines 1 and 6 to 8: multiply a peer's encrypted residuals by (s, d) whole numbers and add up."""
        key = PaillierPublicKey(residuals.public_key.n)
        integers = self.formats.own.encode(features).tolist()
        encrypted = iter(residuals.ciphertexts)
        columns = range(self.formats.columns)
        zero = EncryptedNumber(key, 1, residuals.exponent)
        sums = [[zero for _ in columns] for _ in range(features.shape[1])]
        for record in integers:
            coefficients = [EncryptedNumber(key, next(encrypted), residuals.exponent) for _ in columns]
            for feature, x in enumerate(record):
                for column in columns:
                    sums[feature][column] += coefficients[column] * EncodedNumber(key, x % key.n, 0)
        flat = [one for row in sums for one in row]
        encrypted_sums = _vector(key, flat, (len(sums), len(columns)), is_product=True)
        return Combination(features, replace(encrypted_sums, columns=self.formats.own))

    def mask(self, step: int, peer: str, combination: Combination) -> Question:
        """Lines 9 and 10: add [[r]] to every sum, r uniform in Z_n and encrypted with a fresh rho.

        The rho counts as much as the r. `phe` also adds a bare number, ``sum + r``, and multiplies by (1 + n)**r alone.
        That hides the plaintext, but the ciphertext keeps its randomness, prod rho_i**x_i of the rho_i that the peer
        drew for its residuals: with a key made for it, the peer reads every feature x_i of every record from there (the
        randomiser channel). So does whoever sends ``ciphertext(be_secure=False)`` of a sum.
        """
        sums, public_key = combination.encrypted, combination.encrypted.public_key
        key = PaillierPublicKey(public_key.n)
        summands = tuple(secrets.randbelow(key.n) for _ in sums.ciphertexts)
        masked = []
        for ciphertext, r in zip(sums.ciphertexts, summands, strict=True):
            rho = random_unit(key.n) if self.formats.rerandomise else 1
            encrypted_r = key.encrypt(EncodedNumber(key, r, sums.exponent), r_value=rho)
            masked.append(EncryptedNumber(key, ciphertext, sums.exponent) + encrypted_r)
        mask = Mask(public_key, summands, sums.exponent, sums.shape, None)
        bits = self.formats.asked_bits[peer]
        question = _vector(key, masked, sums.shape, is_product=True)
        return Question(question, lambda residues: unmask(mask, residues, bits=bits))

    def answer(self, step: int, peer: str, sums: CipherVector) -> tuple[int, ...]:
        """Line 11: decrypt the sums, and cut them to the honest width where the session says so."""
        key = PaillierPublicKey(sums.public_key.n)
        numbers = (EncryptedNumber(key, ciphertext, sums.exponent) for ciphertext in sums.ciphertexts)
        residues = tuple(self._key.decrypt_encoded(number).encoding for number in numbers)
        bits = self.formats.given_bits[peer]
        return residues if bits is None else truncate(residues, bits)


def reference_key(bits: int, *, insecure: bool = False) -> PrivateKey:
    """Generate a key with python-paillier, as often as it takes until peers accept the modulus: six times or so.

    Peers ask for a proof that gcd(n, phi(n)) = 1, and `PrivateKey` for p, q = 3 mod 4 with gcd(p-1, q-1) = 2.

    Raises:
        InsecureKey: for fewer than 2048 bits without `insecure`.
        ValueError: if bits is below 128 or not a multiple of 8.
    """
    check_key_bits(bits, insecure=insecure)
    while True:
        _, key = generate_paillier_keypair(n_length=bits)
        with suppress(MalformedKey):
            return PrivateKey(key.p, key.q)


def _vector(
    key: PaillierPublicKey, numbers: Sequence[EncryptedNumber], shape: tuple[int, ...], *, is_product: bool = False
) -> CipherVector:
    """python-paillier's numbers as one vector: a vector has one exponent, whatever theirs tell."""
    (exponent,) = {number.exponent for number in numbers}
    ciphertexts = tuple(number.ciphertext(be_secure=False) for number in numbers)
    return CipherVector(PublicKey(key.n), ciphertexts, exponent, shape, is_product=is_product)
