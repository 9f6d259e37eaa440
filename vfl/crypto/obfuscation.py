"""Fast encryption for the key's owner: obfuscators h**a from fixed-base tables modulo p**2 and q**2.

Follows Damgård, Jurik and Nielsen (2010), section 4.2: h = -x**2 mod n generates (for p, q = 3 mod 4 and
gcd(p-1, q-1) = 2) a group of elements with Jacobi symbol +1, and h**n takes the place of r**n. Only the owner
of the key uses it, to protect its own values: an answer rerandomised with a generator that somebody else
chose hides nothing from them (see `vfl.crypto.vectors.mask_vector`).

Not constant time: tables are indexed by secret digits, and a local observer of the cache may learn them.
"""

import secrets
import threading
from functools import lru_cache

from gmpy2 import invert, mpz, powmod_sec

from vfl.cores.own_children import OwnChildrenOnly, Rebuilt
from vfl.crypto.kernels import FixedBases, Kernel
from vfl.crypto.kernels.integers import byte_bases, random_unit

_KEYS_OF_A_WORKER = 2  # a party has one per session


class OwnerObfuscator(OwnChildrenOnly):
    """Draws uniform elements of <h**n> modulo n**2 for the owner of p and q.

    The tables (10 MB per prime at 2048 bits, about 0.1 s) are built once, at the first draw, for all threads. A worker
    process builds its own, with an h of its own, and keeps those of the last few keys.
    """

    def __init__(self, p: int, q: int, kernel: Kernel) -> None:
        self._p, self._q = p, q
        self._kernel = kernel
        self._p_squared, self._q_squared = mpz(p) ** 2, mpz(q) ** 2
        self._q_squared_inverse = invert(self._q_squared, self._p_squared)
        self._tables: tuple[FixedBases, FixedBases] | None = None
        self._lock = threading.Lock()

    def rebuilt_in_child(self) -> Rebuilt:
        """Name the obfuscator of these primes that a worker may have already."""
        return _obfuscator_of, (self._p, self._q, self._kernel)

    def draw(self, count: int) -> list[int]:
        """Draw obfuscators: n-th powers modulo n**2, fresh from the operating system's randomness."""
        table_p, table_q = self._build_once()
        # The exponents are uniform below the group orders, never merely of their bit length, which would be
        # biased. Any pair of equal parity is (a mod p-1, a mod q-1) of exactly one a below lcm(p-1, q-1), so
        # h**a is uniform.
        exponents_p = [secrets.randbelow(self._p - 1) for _ in range(count)]
        exponents_q = [2 * secrets.randbelow((self._q - 1) // 2) + exponent % 2 for exponent in exponents_p]
        parts = zip(table_p.powers(exponents_p), table_q.powers(exponents_q), strict=True)
        return [
            int(part_q + self._q_squared * ((part_p - part_q) * self._q_squared_inverse % self._p_squared))
            for part_p, part_q in parts
        ]

    def _build_once(self) -> tuple[FixedBases, FixedBases]:
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

    def _table(self, h: mpz, n: int, prime: int, square: mpz) -> FixedBases:
        bases = byte_bases(powmod_sec(h, n, square), square, (prime.bit_length() + 7) // 8)
        return self._kernel.fixed_bases(bases, int(square))


@lru_cache(_KEYS_OF_A_WORKER)
def _obfuscator_of(p: int, q: int, kernel: Kernel) -> OwnerObfuscator:
    """Make a worker's obfuscator of a key, with its tables."""
    return OwnerObfuscator(p, q, kernel)
