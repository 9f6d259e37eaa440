"""The modulus proof: honest keys pass, malformed ones don't, and a proof serves one key, session and party."""

import math
import secrets
from collections.abc import Callable

import gmpy2
import numpy as np
import pytest
from gmpy2 import invert, mpz, powmod
from hypothesis import assume, given
from hypothesis import strategies as st

from vfl.crypto import PrivateKey, PublicKey, from_bytes, keygen, modulus_proof, to_bytes
from vfl.crypto.modulus_proof import PROOF_ROOTS, MalformedModulus, check_modulus, modulus_context, prove_modulus

KeyPair = tuple[PublicKey, PrivateKey]
CONTEXT = modulus_context("session", "bank")


def random_prime(bits: int) -> int:
    while True:
        prime = int(gmpy2.next_prime(3 << (bits - 2) | secrets.randbits(bits - 2)))
        if prime.bit_length() == bits:
            return prime


def guesses(n: int) -> tuple[int, ...]:
    return tuple(secrets.randbelow(n - 1) + 1 for _ in range(PROOF_ROOTS))


def prime_and_successor_in_its_group(bits: int) -> tuple[int, int]:
    """p of `bits` bits and a prime q = 1 mod p: gcd(p q, phi(p q)) = p."""
    p = random_prime(bits)
    k = 1 << (bits // 4)
    while not gmpy2.is_prime(2 * k * p + 1):
        k += 1
    return p, 2 * k * p + 1


def best_roots(n: int, q: int, p: int) -> list[int | None]:
    """What a prover who knows n = p q, q = 1 mod p, can show: n-th roots of those challenges that have any."""
    roots: list[int | None] = []
    order_q = (q - 1) // p
    for challenge in modulus_proof._challenges(n, CONTEXT):
        if powmod(challenge, order_q, q) != 1:
            roots.append(None)  # not even a p-th power modulo q
            continue
        root_p = powmod(challenge, invert(n, p - 1), p)
        root_q = powmod(challenge, invert(n, order_q), q)
        roots.append(int(root_p + p * ((root_q - root_p) * invert(p, q) % q)))
    return roots


def test_eleven_roots_are_what_the_equation_asks_for() -> None:
    assert PROOF_ROOTS == 11
    smallest = int(gmpy2.next_prime(modulus_proof.TRIAL_DIVISION_BOUND))
    assert PROOF_ROOTS * math.log2(smallest) > modulus_proof.SECURITY_BITS
    assert (PROOF_ROOTS - 1) * math.log2(smallest) < modulus_proof.SECURITY_BITS


def test_honest_keys_pass_at_2048_bits_and_over_the_wire(secure_keys: KeyPair) -> None:
    public_key, private_key = secure_keys
    proof = prove_modulus(private_key, CONTEXT)
    check_modulus(public_key, 2048, CONTEXT, proof)
    check_modulus(public_key.n, 2048, CONTEXT, from_bytes(to_bytes(proof, 256), PROOF_ROOTS, 256))


@pytest.mark.parametrize("bits", [128, 256, 520])
def test_every_honest_key_passes(bits: int) -> None:
    for _ in range(5):
        public_key, private_key = keygen(bits, insecure=True)
        check_modulus(public_key, bits, CONTEXT, prove_modulus(private_key, CONTEXT))


@given(context=st.binary(max_size=40), other=st.binary(max_size=40))
def test_a_proof_passes_under_its_own_context_only(small_keys: KeyPair, context: bytes, other: bytes) -> None:
    assume(context != other)
    public_key, private_key = small_keys
    proof = prove_modulus(private_key, context)
    check_modulus(public_key, 512, context, proof)
    with pytest.raises(MalformedModulus, match=r"Root 0 .* session or party"):
        check_modulus(public_key, 512, other, proof)


@given(st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6)), min_size=2, max_size=6, unique=True))
def test_contexts_differ_where_session_or_party_do(pairs: list[tuple[str, str]]) -> None:
    assert len({modulus_context(*pair) for pair in pairs}) == len(pairs)


def test_what_stands_between_session_and_party_is_not_lost() -> None:
    assert modulus_context("ab", "c") != modulus_context("a", "bc")


def test_another_key_with_the_same_context_does_not_pass(small_keys: KeyPair) -> None:
    public_key, _ = keygen(512, insecure=True)
    with pytest.raises(MalformedModulus, match="Root 0"):
        check_modulus(public_key, 512, CONTEXT, prove_modulus(small_keys[1], CONTEXT))


@given(index=st.integers(0, PROOF_ROOTS - 1), difference=st.integers(1, 2**511 - 1))
def test_a_root_that_was_tampered_with_is_refused(small_keys: KeyPair, index: int, difference: int) -> None:
    public_key, private_key = small_keys
    proof = list(prove_modulus(private_key, CONTEXT))
    proof[index] = (proof[index] + difference) % public_key.n
    assume(proof[index] != 0)
    with pytest.raises(MalformedModulus, match=f"Root {index} of the modulus proof is wrong"):
        check_modulus(public_key, 512, CONTEXT, proof)


@pytest.mark.parametrize(
    "move",
    [
        lambda root, n: 0,
        lambda root, n: n,
        lambda root, n: root + n,  # the right residue, but not in its only form
        lambda root, n: root - n,
    ],
)
def test_roots_out_of_range_are_refused(small_keys: KeyPair, move: Callable[[int, int], int]) -> None:
    public_key, private_key = small_keys
    proof = list(prove_modulus(private_key, CONTEXT))
    proof[3] = move(proof[3], public_key.n)
    with pytest.raises(MalformedModulus, match=r"Root 3 .* not between"):
        check_modulus(public_key, 512, CONTEXT, proof)


@pytest.mark.parametrize("count", [0, PROOF_ROOTS - 1, PROOF_ROOTS + 1])
def test_a_proof_of_another_length_is_refused(small_keys: KeyPair, count: int) -> None:
    public_key, private_key = small_keys
    proof = (prove_modulus(private_key, CONTEXT) * 2)[:count]
    with pytest.raises(MalformedModulus, match=f"11 roots, got {count}"):
        check_modulus(public_key, 512, CONTEXT, proof)


def test_a_valid_proof_in_another_order_is_refused(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    with pytest.raises(MalformedModulus, match="Root 0"):
        check_modulus(public_key, 512, CONTEXT, prove_modulus(private_key, CONTEXT)[::-1])


@pytest.mark.parametrize("bits", [504, 511, 513, 2048])
def test_wrong_sizes_are_refused_even_with_a_valid_proof(small_keys: KeyPair, bits: int) -> None:
    public_key, private_key = small_keys
    with pytest.raises(MalformedModulus, match=f"{bits} bits, got one of 512"):
        check_modulus(public_key, bits, CONTEXT, prove_modulus(private_key, CONTEXT))


def test_malformed_moduli_are_refused_by_name() -> None:
    p, q = random_prime(256), random_prime(256)
    malformed = {
        "is even": 2 * random_prime(255) * random_prime(256),
        "square": p * p,
        "higher power": int(gmpy2.next_prime(3 << 127)) ** 4,
        "is a prime": random_prime(512),
        "at most 6370": 3 * p * q,
        "prime factor": 6367 * p * q,
        "bits": -p * q,
    }
    for message, n in malformed.items():
        with pytest.raises(MalformedModulus, match=message):
            check_modulus(PublicKey(n), n.bit_length() if n > 0 else 512, CONTEXT, guesses(abs(n)))


def test_trial_division_ends_where_the_docstring_says() -> None:
    p, q = random_prime(256), random_prime(256)
    assert [int(gmpy2.next_prime(number)) for number in (6366, 6370)] == [6367, 6373]
    with pytest.raises(MalformedModulus, match="prime factor"):
        check_modulus(6367 * p * q, (6367 * p * q).bit_length(), CONTEXT, guesses(p))
    n = 6373 * p * q
    with pytest.raises(MalformedModulus, match="Root 0"):
        check_modulus(n, n.bit_length(), CONTEXT, guesses(n))


@pytest.mark.parametrize("bits", [20, 64, 200])
def test_without_coprimality_even_a_prover_who_knows_the_factors_fails(bits: int) -> None:
    p, q = prime_and_successor_in_its_group(bits)
    n = p * q
    assert math.gcd(n, (p - 1) * (q - 1)) == p
    roots = best_roots(n, q, p)
    assert roots.count(None) >= PROOF_ROOTS - 1  # each challenge is an n-th power with probability 1/p < 2**-19
    proof = [guess if root is None else root for guess, root in zip(guesses(n), roots, strict=True)]
    with pytest.raises(MalformedModulus, match="wrong"):
        check_modulus(n, n.bit_length(), CONTEXT, proof)


def test_without_coprimality_one_challenge_in_r_has_a_root() -> None:
    """The bound of the docstring, at an r small enough to see it (and which trial division would refuse)."""
    r = 7
    q = next(c for c in range(r * 10**11 + 1, r * 10**12, r) if c % r**2 != 1 and gmpy2.is_prime(c))
    n, trials = r * q, 7000
    rooted = sum(powmod(c, (q - 1) // r, q) == 1 for c in modulus_proof._challenges(n, b"", trials))
    assert abs(rooted - trials / r) < 6 * math.sqrt(trials / r)


def test_challenges_are_uniform_units() -> None:
    n, trials = 5 * 7 * 11, 24000  # 385 is just above a power of two: half of the candidates are rejected
    drawn = np.bincount(list(modulus_proof._challenges(n, b"", trials)), minlength=n)
    units = np.array([math.gcd(value, n) == 1 for value in range(n)])
    assert not drawn[~units].any()
    expected = trials / units.sum()
    chi_squared = ((drawn[units] - expected) ** 2 / expected).sum()
    degrees = units.sum() - 1
    assert abs(chi_squared - degrees) < 6 * math.sqrt(2 * degrees)


def test_proofs_are_deterministic_and_roots_of_no_other_hash(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    first, again = prove_modulus(private_key, b"a"), prove_modulus(private_key, b"a")
    assert first == again
    assert len({*first, *prove_modulus(private_key, b"b"), *prove_modulus(private_key, b"")}) == 3 * PROOF_ROOTS
    # A challenge is bound to its modulus: with n + 2 instead, nothing of it stays.
    own, other = (list(modulus_proof._challenges(n, b"a")) for n in (public_key.n, public_key.n + 2))
    assert not set(own) & set(other)
    assert [int(powmod(mpz(root), public_key.n, public_key.n)) for root in first] == own
