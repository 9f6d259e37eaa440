"""What the randomness of an answer tells a malicious key holder: everything without a mask, nothing with one."""

import dataclasses
import math
import random
from itertools import pairwise

import gmpy2
import numpy as np
import pytest
from gmpy2 import invert, mpz, powmod

from vfl.arrays import FloatArray
from vfl.crypto import (
    CipherVector,
    FixedPoint,
    PrivateKey,
    PublicKey,
    decrypt_integers,
    encrypt_vector,
    keygen,
    mask_vector,
    matvec,
)

pytestmark = pytest.mark.usefixtures("engine")

KeyPair = tuple[PublicKey, PrivateKey]

UNIT = FixedPoint(16, 0, signed=False)
ROWS, COLUMNS, ENTRY_BITS = 24, 4, 17


class SmoothKeyAttack:
    """A key whose p-1 and q-1 are smooth: discrete logarithms of answers are easy (Pohlig and Hellman)."""

    def __init__(self, bits: int, rng: random.Random) -> None:
        pool = [int(gmpy2.next_prime(2**12 + 16 * i)) for i in range(1000)]
        self._pool = sorted(set(pool))
        p, factors_p = self._smooth_prime(bits // 2, set(), rng)
        q, factors_q = self._smooth_prime(bits // 2, set(factors_p), rng)
        self.key = PrivateKey(p, q)
        self._parts = ((p, factors_p), (q, factors_q))
        generator_p, generator_q = (self._generator(*part, rng) for part in self._parts)
        n = p * q
        rho = (generator_p * q * invert(q, p) + generator_q * p * invert(p, q)) % n
        self._base = powmod(rho, n, n * n)

    def _smooth_prime(self, bits: int, avoid: set[int], rng: random.Random) -> tuple[int, list[int]]:
        pool = [prime for prime in self._pool if prime not in avoid]
        while True:
            factors = rng.sample(pool, (bits - 14) // 13)
            product = 2 * math.prod(factors)
            for last in rng.sample(pool, 500):
                if last not in factors and gmpy2.is_prime(product * last + 1):
                    return product * last + 1, [2, *factors, last]

    @staticmethod
    def _generator(p: int, factors: list[int], rng: random.Random) -> mpz:
        while True:
            g = mpz(rng.randrange(2, p))
            if all(powmod(g, (p - 1) // r, p) != 1 for r in factors):
                return g

    def ciphertexts(self, rng: random.Random) -> CipherVector:
        """Honest-looking values, whose randomness is rho**(2**(ENTRY_BITS i)) for row i."""
        n, n_squared = self.key.public_key.n, self.key.public_key.n_squared
        values = tuple(
            int((1 + rng.randrange(2**39) * n) * powmod(self._base, 1 << ENTRY_BITS * i, n_squared) % n_squared)
            for i in range(ROWS)
        )
        return CipherVector(self.key.public_key, values, -8, (ROWS,))

    def column(self, answer: int) -> list[int]:
        """The exponent of the answer's randomness, read as ROWS entries."""
        modulus, logarithm = mpz(1), mpz(0)
        for p, factors in self._parts:
            for r in factors[p != self._parts[0][0] :]:  # the factor 2 is shared: once is enough
                cofactor = (p - 1) // r
                remainder = _small_log(powmod(self._base, cofactor, p), powmod(answer, cofactor, p), r, p)
                logarithm += modulus * ((remainder - logarithm) * invert(modulus, r) % r)
                modulus *= r
        return [int(logarithm >> ENTRY_BITS * i) & (1 << ENTRY_BITS) - 1 for i in range(ROWS)]


def _small_log(base: mpz, power: mpz, order: int, p: int) -> int:
    """Baby step, giant step in a subgroup of small order."""
    width = math.isqrt(order) + 1
    baby_steps = {powmod(base, j, p): j for j in range(width)}
    giant_step = powmod(invert(base, p), width, p)
    for i in range(width):
        if power in baby_steps:
            return (i * width + baby_steps[power]) % order
        power = power * giant_step % p
    raise AssertionError("The element is not in the subgroup.")


@pytest.fixture(scope="module")
def attack() -> SmoothKeyAttack:
    return SmoothKeyAttack(512, random.Random(1))  # noqa: S311


def columns_recovered(attack: SmoothKeyAttack, answers: CipherVector, X: FloatArray) -> int:
    columns = UNIT.encode(X).T.tolist()
    return sum(attack.column(answer) == column for answer, column in zip(answers.ciphertexts, columns, strict=True))


def test_randomiser_channel_is_open_without_a_fresh_power_and_closed_by_the_mask(attack: SmoothKeyAttack) -> None:
    X = np.random.default_rng(0).random((ROWS, COLUMNS))
    X[0, 0], X[1, 0] = 1.0, 0.0
    n, n_squared = attack.key.public_key.n, attack.key.public_key.n_squared
    product = matvec(X, attack.ciphertexts(random.Random(2)), features=UNIT)  # noqa: S311
    assert columns_recovered(attack, product, X) == COLUMNS

    summands = [random.Random(3).randrange(n) for _ in product.ciphertexts]  # noqa: S311
    only_summands = [c * (1 + r * n) % n_squared for c, r in zip(product.ciphertexts, summands, strict=True)]
    imitation = dataclasses.replace(product, ciphertexts=tuple(only_summands))
    assert columns_recovered(attack, imitation, X) == COLUMNS  # what `ciphertext + scalar` of phe does

    masked, mask = mask_vector(product)
    assert columns_recovered(attack, masked, X) == 0
    without_summand = [c * (1 - r * n) % n_squared for c, r in zip(masked.ciphertexts, mask.summands, strict=True)]
    assert columns_recovered(attack, dataclasses.replace(product, ciphertexts=tuple(without_summand)), X) == 0


def test_jacobi_symbol_tells_a_parity_without_a_mask_and_nothing_with_one() -> None:
    public_key, _ = keygen(256, insecure=True)
    rng = np.random.default_rng(4)
    rows, trials = 8, 80
    matches = {"product": 0, "masked": 0}
    for _ in range(trials // 4):
        X = rng.uniform(-1, 1, size=(rows, 4))
        c = encrypt_vector(public_key, np.ones(rows))  # not the owner's: randomness anywhere in Z_n*
        negative = [gmpy2.jacobi(value, public_key.n) == -1 for value in c.ciphertexts]
        parities = FixedPoint(16, 0).encode(X)[negative].sum(axis=0) % 2
        product = matvec(X, c, features=FixedPoint(16, 0))
        for name, vector in (("product", product), ("masked", mask_vector(product)[0])):
            observed = [gmpy2.jacobi(value, public_key.n) == -1 for value in vector.ciphertexts]
            matches[name] += int((parities == observed).sum())
    assert matches["product"] == trials
    assert trials * 0.2 < matches["masked"] < trials * 0.8  # fair coins: 5.4 standard deviations


def test_owner_randomness_has_jacobi_symbol_one(small_keys: KeyPair) -> None:
    c = encrypt_vector(small_keys[1], np.ones(40))
    assert {gmpy2.jacobi(value, small_keys[0].n) for value in c.ciphertexts} == {1}


def test_masked_plaintexts_are_uniform_modulo_n(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    zero = encrypt_vector(private_key, np.zeros(400))
    masked, mask = mask_vector(zero)
    residues = decrypt_integers(private_key, masked)
    assert residues == mask.summands
    quarters = np.bincount([4 * residue // public_key.n for residue in residues], minlength=4)
    assert len(quarters) == 4
    assert (abs(quarters - 100) < 52).all()  # six standard deviations


def test_every_answer_is_rerandomised_with_its_own_power(small_keys: KeyPair) -> None:
    public_key, _ = small_keys
    n, n_squared = public_key.n, public_key.n_squared
    same = CipherVector(public_key, (1,) * 6, -8, (6,))
    powers = []
    for _ in range(2):
        masked, mask = mask_vector(same)
        powers += [c * (1 - r * n) % n_squared for c, r in zip(masked.ciphertexts, mask.summands, strict=True)]
    assert len(set(powers)) == 12
    ratios = {later * int(invert(earlier, n_squared)) % n_squared for earlier, later in pairwise(powers)}
    assert len(ratios) == 11  # no common step from one answer to the next
