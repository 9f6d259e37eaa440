"""Fast encryption for the key's owner: obfuscators h**a from fixed-base tables modulo p**2 and q**2.

Follows Damgård, Jurik and Nielsen (2010), section 4.2: h = -x**2 mod n generates (for p, q = 3 mod 4 and
gcd(p-1, q-1) = 2) a group of elements with Jacobi symbol +1, and h**n takes the place of r**n. Only the owner
of the key uses it, to protect its own values: an answer rerandomised with a generator that somebody else
chose hides nothing from them (see `vfl.crypto.vectors.mask_vector`).

Not constant time: tables are indexed by secret digits, and a local observer of the cache may learn them.
"""

import secrets
import threading
from itertools import accumulate, repeat

from gmpy2 import invert, mpz, powmod_sec

from vfl.crypto.integers import random_unit

_WINDOW = 8  # one table row per byte of the exponent: an exponent's digits are its bytes
_ROW = 1 << _WINDOW


class _FixedBase:
    """Powers of one base modulo one modulus, one product per byte of the exponent."""

    def __init__(self, base: mpz, modulus: mpz, exponent_bytes: int) -> None:
        self._modulus = modulus
        self._exponent_bytes = exponent_bytes
        self._rows: list[list[mpz]] = []
        for _ in range(exponent_bytes):
            row = list(accumulate(repeat(base, _ROW - 1), lambda a, b: a * b % modulus, initial=mpz(1)))
            self._rows.append(row)
            base = row[-1] * base % modulus

    def power(self, exponent: int) -> mpz:
        result = mpz(1)
        for row, digit in zip(self._rows, exponent.to_bytes(self._exponent_bytes, "little"), strict=True):
            result = result * row[digit] % self._modulus
        return result


class OwnerObfuscator:
    """Draws uniform elements of <h**n> modulo n**2 for the owner of p and q.

    The tables (10 MB per prime at 2048 bits, about 0.1 s) are built once, at the first draw, for all threads.
    """

    def __init__(self, p: int, q: int) -> None:
        self._p, self._q = p, q
        self._p_squared, self._q_squared = mpz(p) ** 2, mpz(q) ** 2
        self._q_squared_inverse = invert(self._q_squared, self._p_squared)
        self._tables: tuple[_FixedBase, _FixedBase] | None = None
        self._lock = threading.Lock()

    def draw(self) -> mpz:
        """One obfuscator: an n-th power modulo n**2, fresh from the operating system's randomness."""
        table_p, table_q = self._build_once()
        # The exponents are uniform below the group orders, never merely of their bit length, which would be
        # biased. Any pair of equal parity is (a mod p-1, a mod q-1) of exactly one a below lcm(p-1, q-1), so
        # h**a is uniform.
        exponent_p = secrets.randbelow(self._p - 1)
        exponent_q = 2 * secrets.randbelow((self._q - 1) // 2) + exponent_p % 2
        part_p, part_q = table_p.power(exponent_p), table_q.power(exponent_q)
        return part_q + self._q_squared * ((part_p - part_q) * self._q_squared_inverse % self._p_squared)

    def _build_once(self) -> tuple[_FixedBase, _FixedBase]:
        with self._lock:
            if self._tables is None:
                n = self._p * self._q
                x = random_unit(n)
                h = mpz(-x * x % n)
                self._tables = (
                    self._table(h, n, self._p, self._p_squared),
                    self._table(h, n, self._q, self._q_squared),
                )
            return self._tables

    @staticmethod
    def _table(h: mpz, n: int, prime: int, square: mpz) -> _FixedBase:
        return _FixedBase(powmod_sec(h, n, square), square, (prime.bit_length() + 7) // 8)
