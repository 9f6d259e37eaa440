"""Paillier keys in whose group their maker can take logarithms: p-1 and q-1 are products of small primes but for one.

``attacks.training.randomiser_channel`` says what they are for, and what an onlooker sees of them.
"""

import math
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from gmpy2 import invert, is_prime, mpz, next_prime, powmod

from vfl.crypto import PrivateKey
from vfl.crypto.kernels.integers import random_unit

_FACTOR_BITS = 14  # the smooth part's primes: there are enough of them for any key, and their logarithms are quick
_BABY_STEPS = 1 << (_FACTOR_BITS // 2 + 1)  # tables are made once per key, giant steps are taken per answer
_HIDING_SHARE = 16  # one sixteenth of the key's bits for each of t_p and t_q


@dataclass(frozen=True)
class SmoothPrime:
    """A prime with a smooth part: prime = 1 + 2 * hiding * product(factors).

    Attributes:
        prime: itself.
        hiding: a large prime.
        factors: small, distinct, odd primes.
    """

    prime: int = field(repr=False)
    hiding: int = field(repr=False)
    factors: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True)
class SmoothKey:
    """A Paillier key in whose group its maker can take logarithms; no factor serves twice.

    Attributes:
        private_key: an ordinary key to everybody else.
        p: its first prime.
        q: its second prime.
    """

    private_key: PrivateKey
    p: SmoothPrime
    q: SmoothPrime

    @classmethod
    def generate(cls, bits: int) -> "SmoothKey":
        """Generate a key of exactly `bits` bits from the operating system's randomness: below a second at 2048 bits.

        Raises ValueError unless bits is an even number, at least 256.
        """
        if bits < 256 or bits % 2:
            raise ValueError(f"Expected {bits=} to be an even number, at least 256.")
        p = _smooth_prime(bits // 2, bits // _HIDING_SHARE, avoid=())
        q = _smooth_prime(bits // 2, bits // _HIDING_SHARE, avoid=(p.hiding, *p.factors))
        return cls(PrivateKey(p.prime, q.prime), p, q)


class Logarithms:
    """Takes logarithms modulo one smooth prime to one base, modulo each of its factors (Pohlig and Hellman)."""

    def __init__(self, part: SmoothPrime, base: mpz) -> None:
        self._part = part
        self._tables = [
            _SubgroupLogarithm(component, factor, part.prime)
            for component, factor in zip(_components(base, part), part.factors, strict=True)
        ]

    def of(self, answer: int) -> list[int]:
        """Give one residue per factor. Raises ValueError if the answer shares a factor with the modulus."""
        components = _components(mpz(answer), self._part)
        return [table.of(component) for table, component in zip(self._tables, components, strict=True)]


class _SubgroupLogarithm:
    """Baby step, giant step in one subgroup of small prime order."""

    def __init__(self, base: mpz, order: int, prime: int) -> None:
        self._order, self._prime = order, mpz(prime)
        self._baby_steps: dict[mpz, int] = {}
        power = mpz(1)
        for step in range(_BABY_STEPS):
            self._baby_steps[power] = step
            power = power * base % self._prime
        self._giant_step = invert(power, self._prime)

    def of(self, element: mpz) -> int:
        """Find the logarithm of an element of the subgroup; raises ValueError for any other."""
        for start in range(0, self._order, _BABY_STEPS):
            step = self._baby_steps.get(element)
            if step is not None:
                return (start + step) % self._order
            element = element * self._giant_step % self._prime
        raise ValueError("An answer shares a factor with the modulus: check ciphertexts as they arrive.")


def _components(element: mpz, part: SmoothPrime) -> list[mpz]:
    """Find the element's part in the subgroup of each factor's order: its powers by (prime - 1) / factor.

    Halving the factors again and again takes log2 of their number of full powers instead of one for each.
    """
    prime = mpz(part.prime)

    def split(power: mpz, factors: tuple[int, ...]) -> list[mpz]:
        if len(factors) == 1:
            return [power]
        first, second = factors[: len(factors) // 2], factors[len(factors) // 2 :]
        return [
            *split(powmod(power, math.prod(second), prime), first),
            *split(powmod(power, math.prod(first), prime), second),
        ]

    return split(powmod(element % prime, 2 * part.hiding, prime), part.factors)


def smooth_generator(key: SmoothKey) -> mpz:
    """Find a square modulo n whose order all factors of p-1 and q-1 divide."""
    while True:
        square = mpz(random_unit(key.private_key.public_key.n)) ** 2
        if all(component != 1 for part in (key.p, key.q) for component in _components(square, part)):
            return square


def _smooth_prime(bits: int, hiding_bits: int, avoid: tuple[int, ...]) -> SmoothPrime:
    """Draw a prime, 3 modulo 4, with the top two of its `bits` bits set and none of the factors in `avoid`."""
    smooth_bits = bits - 1 - hiding_bits
    count = round(smooth_bits / _FACTOR_BITS)
    middle = smooth_bits / count
    pool = [factor for factor in _primes(2 ** (middle - 0.5), 2 ** (middle + 0.5)) if factor not in avoid]
    while True:
        factors = tuple(secrets.SystemRandom().sample(pool, count))
        smooth = 2 * math.prod(factors)
        lowest, beyond = (3 << bits - 2) // smooth + 1, (1 << bits) // smooth
        hiding = int(next_prime(lowest + secrets.randbelow(beyond - lowest)))
        prime = smooth * hiding + 1
        if prime.bit_length() == bits and is_prime(prime) and hiding not in (*avoid, *factors):
            return SmoothPrime(prime, hiding, factors)


def _primes(low: float, high: float) -> Iterator[int]:
    prime = next_prime(int(low))
    while prime < high:
        yield int(prime)
        prime = next_prime(prime)
