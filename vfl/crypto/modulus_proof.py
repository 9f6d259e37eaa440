"""A proof that a peer's modulus is well formed, gcd(n, phi(n)) = 1, without which a fresh rho**n hides nothing.

Follows Goldberg, Reyzin, Sagga and Baldimtsi (2019), "Efficient noninteractive certification of RSA moduli and
beyond": the prover shows an n-th root of every hashed challenge, the verifier divides n by small primes itself.

*Why it matters.* `vfl.crypto.vectors.mask_vector` multiplies answers by rho**n, rho uniform in Z_n*. For
gcd(n, phi(n)) = 1, x -> x**n permutes Z_n*, so the randomness of an answer becomes uniform. For a prime r that
divides both n and phi(n), n-th powers miss a subgroup of order r, and the key's maker reads features in it.

*Soundness.* Let r be such a prime. Z_n* has an element of order r (Cauchy), which x -> x**n sends to 1: the n-th
powers have index at least r in Z_n*, and a uniform challenge is one with probability at most 1/r. As no prime up
to alpha divides n, r > alpha, and m independent challenges all have roots with probability below alpha**-m. With
alpha = 6,370 and kappa = 128 that takes m = ceil(kappa / log2(alpha)) = ceil(128 / 12.637) = 11 roots: in fact
2**-139 per attempt, so that a prover who tries 2**64 moduli offline succeeds with probability 2**-75.

*Secrecy.* Challenges are hashes, a random oracle's answers; whoever may choose those can make (x**n, x) without
the factors. The proof tells nothing beyond what it proves.

*What it doesn't prove:* that n has two prime factors, or that p-1 and q-1 are not smooth. Neither is needed: once
x -> x**n is a permutation, a uniform rho hides from any holder of the key.

*Cost* at 2048 bits: about .01 s to prove and .03 s to check, once per session and peer.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence

from gmpy2 import invert, is_power, is_prime, mpz, powmod, powmod_sec, primorial

from vfl.crypto.keys import PrivateKey, PublicKey

SECURITY_BITS = 128  # kappa
TRIAL_DIVISION_BOUND = 6370  # alpha: with it 11 roots do; a larger one saves a root only from 7,132 on
PROOF_ROOTS = math.ceil(SECURITY_BITS / math.log2(TRIAL_DIVISION_BOUND))  # m
_SMALL_PRIMES = primorial(TRIAL_DIVISION_BOUND)
_DOMAIN = b"plumbline modulus proof 1"
_LENGTH_BYTES = 8


class MalformedModulus(ValueError):
    """A modulus whose holder could see through masks, or one that is not shown to be otherwise: refuse the key.

    Examples:
        >>> check_modulus(PublicKey(2**255 + 6), 256, modulus_context("session-1", "bank"), proof=[])
        Traceback (most recent call last):
            ...
        vfl.crypto.modulus_proof.MalformedModulus: The modulus is even.
    """


def modulus_context(session_id: str, party: str) -> bytes:
    """Name the session and party that a proof is bound to: in another session, or by another party, it is worth
    nothing.

    No two pairs give the same bytes.
    """
    return _encode(session_id.encode(), party.encode())


def prove_modulus(private_key: PrivateKey, context: bytes) -> tuple[int, ...]:
    """Prove that one's own modulus is well formed: n-th roots of this context's challenges.

    A `PrivateKey` is well formed by construction, so that all roots exist. The exponentiations run in GMP's
    side-channel resistant `mpz_powm_sec`; the rest is not constant time.

    Returns:
        `PROOF_ROOTS` public integers in [1, n), the same at every call.
    """
    p, q = mpz(private_key.p), mpz(private_key.q)
    n = private_key.public_key.n
    exponent_p, exponent_q = invert(n, p - 1), invert(n, q - 1)
    p_inverse = invert(p, q)
    roots = []
    for challenge in _challenges(n, context):
        root_p = powmod_sec(challenge % p, exponent_p, p)
        root_q = powmod_sec(challenge % q, exponent_q, q)
        roots.append(int(root_p + p * ((root_q - root_p) * p_inverse % q)))
    return tuple(roots)


def check_modulus(key: PublicKey | int, bits: int, context: bytes, proof: Sequence[int]) -> None:
    """Accept a peer's modulus only with a proof for this context that gcd(n, phi(n)) = 1.

    A malformed modulus passes with probability below 2**-128. Refused by name: a modulus that is even, prime, a perfect
    power, or has a prime factor up to 6,370.

    Args:
        key: the peer's public key, or its modulus.
        bits: the exact length that was agreed on.
        context: of `modulus_context`.
        proof: of `prove_modulus`.

    Raises:
        MalformedModulus: says what is wrong with the modulus or the proof.

    Examples:
        >>> public_key, private_key = keygen(256, insecure=True)
        >>> context = modulus_context("session-1", "bank")
        >>> check_modulus(public_key, 256, context, prove_modulus(private_key, context))
    """
    n = key.n if isinstance(key, PublicKey) else key
    if n <= 0 or n.bit_length() != bits:
        raise MalformedModulus(f"Expected a positive modulus of {bits} bits, got one of {n.bit_length()} bits.")
    if n % 2 == 0:
        raise MalformedModulus("The modulus is even.")
    if math.gcd(n, int(_SMALL_PRIMES)) != 1:
        raise MalformedModulus(f"The modulus has a prime factor of at most {TRIAL_DIVISION_BOUND}.")
    if is_power(n):
        raise MalformedModulus("The modulus is a square or a higher power.")
    if is_prime(n):
        raise MalformedModulus("The modulus is a prime: everybody could decrypt.")
    if len(proof) != PROOF_ROOTS:
        raise MalformedModulus(f"Expected a proof of {PROOF_ROOTS} roots, got {len(proof)}.")
    for index, (challenge, root) in enumerate(zip(_challenges(n, context), proof, strict=True)):
        if not 0 < root < n:
            raise MalformedModulus(f"Root {index} of the modulus proof is not between 0 and n.")
        if powmod(root, n, n) != challenge:
            raise MalformedModulus(
                f"Root {index} of the modulus proof is wrong: gcd(n, phi(n)) may exceed 1, "
                "or the proof was made for another key, session or party."
            )


def _challenges(n: int, context: bytes, count: int = PROOF_ROOTS) -> Iterator[int]:
    """Elements of Z_n*, uniform and independent as far as SHAKE-256 is a random oracle."""
    bits = n.bit_length()
    width = (bits + 7) // 8
    prefix = hashlib.shake_256(_encode(_DOMAIN, context, n.to_bytes(width, "big")))
    attempt = 0
    for _ in range(count):
        while True:
            stream = prefix.copy()
            stream.update(attempt.to_bytes(_LENGTH_BYTES, "big"))
            attempt += 1
            candidate = int.from_bytes(stream.digest(width), "big") >> (8 * width - bits)
            # Rejection, where a remainder would be biased; n has its top bit set, so that every other one passes.
            if candidate < n and math.gcd(candidate, n) == 1:
                yield candidate
                break


def _encode(*parts: bytes) -> bytes:
    """Put each part behind its length: no two lists of as many parts give the same bytes."""
    return b"".join(len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts)
