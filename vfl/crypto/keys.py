"""Paillier keys and the raw integer layer: key generation, encryption and decryption of integers modulo n.

Paillier (1999) with g = n + 1, so that `phe` reads our ciphertexts and we read `phe`'s.
"""

import hashlib
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

from gmpy2 import invert, is_prime, mpz, powmod

from vfl.crypto.errors import InsecureKey, MalformedKey
from vfl.crypto.kernels import Kernel, best_kernel
from vfl.crypto.obfuscation import OwnerObfuscator

MINIMUM_SECURE_BITS = 2048
_MINIMUM_BITS = 128  # two fixed-point numbers have at most 104 bits: 2**21 of their products add up without wrap
_PRIMALITY_ROUNDS = 64  # GMP: Baillie-PSW and 40 rounds of Miller-Rabin, error below 2**-80


@dataclass(frozen=True)
class PublicKey:
    """A Paillier public key: the modulus n. Two keys are equal when their moduli are.

    Examples:
        >>> public_key, private_key = keygen(256, insecure=True)
        >>> private_key.raw_decrypt(public_key.raw_encrypt(5, randomness=2))
        5
    """

    n: int

    @cached_property
    def n_squared(self) -> int:
        """n**2, the modulus of ciphertexts."""
        return self.n * self.n

    @cached_property
    def bits(self) -> int:
        """The length of n in bits."""
        return self.n.bit_length()

    @cached_property
    def key_id(self) -> str:
        """A name for the key: the first 16 hexadecimal digits of SHA-256 of n's big-endian bytes."""
        return hashlib.sha256(self.n.to_bytes((self.bits + 7) // 8, "big")).hexdigest()[:16]

    def raw_encrypt(self, plaintext: int, randomness: int) -> int:
        """Compute (1 + n)**plaintext * randomness**n mod n**2.

        Args:
            plaintext: any integer; it counts modulo n.
            randomness: in Z_n*, secret and fresh for every ciphertext.
        """
        n, n_squared = mpz(self.n), mpz(self.n_squared)
        return int((1 + plaintext % n * n) * powmod(randomness, n, n_squared) % n_squared)


@dataclass(frozen=True, repr=False, eq=False)
class PrivateKey:
    """A Paillier private key: the primes p and q. Its repr does not show them, and it refuses to be pickled.

    Raises:
        MalformedKey: unless p and q are distinct primes, 3 mod 4, gcd(p-1, q-1) = 2, gcd(n, (p-1)(q-1)) = 1.

    Examples:
        >>> PrivateKey(7, 11)
        PrivateKey(key_id='...', bits=7)
    """

    p: int
    q: int
    _obfuscators: dict[str, OwnerObfuscator] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if not (is_prime(self.p, _PRIMALITY_ROUNDS) and is_prime(self.q, _PRIMALITY_ROUNDS)):
            raise MalformedKey("Both factors of a Paillier modulus must be prime.")
        if not _well_formed(self.p, self.q):
            raise MalformedKey(
                "p and q must be distinct, 3 modulo 4, with gcd(p-1, q-1) = 2 and p*q coprime to (p-1)(q-1)."
            )

    @cached_property
    def public_key(self) -> PublicKey:
        """The key that others encrypt under."""
        return PublicKey(self.p * self.q)

    def raw_encrypt(self, plaintext: int) -> int:
        """Encrypt an integer under one's own key, with an obfuscator from tables instead of a power r**n."""
        n, n_squared = self.public_key.n, self.public_key.n_squared
        return int((1 + plaintext % n * n) * self.obfuscator(best_kernel()).draw(1)[0] % n_squared)

    def raw_decrypt(self, ciphertext: int) -> int:
        """Decrypt to a plaintext in [0, n), by the Chinese remainder theorem.

        The exponentiations run in GMP's side-channel resistant `mpz_powm_sec`; the rest is not constant time.
        """
        kernel = best_kernel()
        powers = (kernel.secret_powers(part.reduce([ciphertext]), part.exponent, part.square) for part in self.parts)
        return self.combine(*powers)[0]

    def obfuscator(self, kernel: Kernel) -> OwnerObfuscator:
        """Find what draws this key's obfuscators by a kernel; its tables are made once."""
        cached = self._obfuscators.get(kernel.name)
        return cached or self._obfuscators.setdefault(kernel.name, OwnerObfuscator(self.p, self.q, kernel))

    @cached_property
    def parts(self) -> tuple["PrimePart", "PrimePart"]:
        """Decryption modulo p, and modulo q."""
        return PrimePart(self.p, cofactor=self.q), PrimePart(self.q, cofactor=self.p)

    def combine(self, powers_p: Sequence[int], powers_q: Sequence[int]) -> list[int]:
        """Put together plaintexts in [0, n) from ciphertexts that each of the parts has raised to its exponent."""
        part_p, part_q = self.parts
        residues = zip(map(part_p.residue, powers_p), map(part_q.residue, powers_q), strict=True)
        return [int(p + self.p * ((q - p) * self._p_inverse % self.q)) for p, q in residues]

    @cached_property
    def _p_inverse(self) -> mpz:
        return invert(self.p, self.q)

    def __repr__(self) -> str:
        return f"PrivateKey(key_id={self.public_key.key_id!r}, bits={self.public_key.bits})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A private key never leaves its process: it cannot be pickled or copied.")


class PrimePart:
    """Decryption modulo one prime factor (Paillier 1999, section 7): c**(p-1) mod p**2, and its logarithm.

    Its numbers are as secret as the prime.

    Attributes:
        exponent: p - 1.
        square: p**2.
    """

    def __init__(self, prime: int, cofactor: int) -> None:
        self._prime = mpz(prime)
        self.exponent, self.square = prime - 1, prime**2
        # (1 + n)**(p-1) = 1 + (p-1) n mod p**2, whose logarithm is -q mod p.
        self._scale = invert(-cofactor, self._prime)

    def reduce(self, ciphertexts: Sequence[int]) -> list[int]:
        """Take ciphertexts modulo p**2."""
        square = mpz(self.square)
        return [int(ciphertext % square) for ciphertext in ciphertexts]

    def residue(self, power: int) -> mpz:
        """Read the plaintext modulo p off the power of a ciphertext."""
        return (mpz(power) - 1) // self._prime * self._scale % self._prime


def keygen(bits: int = MINIMUM_SECURE_BITS, *, insecure: bool = False) -> tuple[PublicKey, PrivateKey]:
    """Generate a key pair from the operating system's randomness.

    Args:
        bits: the exact length of the modulus, a multiple of 8.
        insecure: allows fewer than 2048 bits, which protect nothing.

    Raises:
        InsecureKey: for fewer than 2048 bits without `insecure`.
        ValueError: if bits is below 128 or not a multiple of 8.

    Examples:
        >>> public_key, private_key = keygen(256, insecure=True)  # for a test; 2048 bits unless told otherwise
        >>> public_key.bits, private_key.public_key == public_key
        (256, True)
    """
    check_key_bits(bits, insecure=insecure)
    while True:
        p, q = _random_prime(bits // 2), _random_prime(bits // 2)
        if _well_formed(p, q):
            private_key = PrivateKey(p, q)
            return private_key.public_key, private_key


def check_key_bits(bits: int, *, insecure: bool = False) -> None:
    """Refuse a length that no key should have.

    Raises:
        InsecureKey: for fewer than 2048 bits without `insecure`.
        ValueError: if bits is below 128 or not a multiple of 8.
    """
    if bits < MINIMUM_SECURE_BITS and not insecure:
        raise InsecureKey(
            f"A {bits}-bit key protects nothing: use bits={MINIMUM_SECURE_BITS} or more (or insecure=True, in a test)."
        )
    if bits < _MINIMUM_BITS or bits % 8:
        raise ValueError(f"Expected {bits=} to be a multiple of 8, at least {_MINIMUM_BITS}.")


def _well_formed(p: int, q: int) -> bool:
    """Check what decryption and the owner's obfuscators need of two primes."""
    totient = (p - 1) * (q - 1)
    blum = p != q and p % 4 == 3 and q % 4 == 3
    return blum and math.gcd(p - 1, q - 1) == 2 and math.gcd(p * q, totient) == 1


def _random_prime(bits: int) -> int:
    """Draw a uniform prime, 3 mod 4, with the top two bits set: the product of two has exactly 2*bits bits."""
    while True:
        candidate = secrets.randbits(bits) | 3 << (bits - 2) | 3
        if is_prime(candidate, _PRIMALITY_ROUNDS):
            return candidate
