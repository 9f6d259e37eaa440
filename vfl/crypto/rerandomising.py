"""Fresh rho**n for answers under another party's key, from tables of one's own once there are enough of them.

*From tables.* A session's tables have the powers of w independent bases rho_k**n, rho_k uniform in Z_n*. An answer gets
the product of rho_k**(n d_k) over all k, with digits d_k of 8 bits that are uniform and used once: the n-th power of
prod rho_k**d_k.

Guarantee: that product is uniform in Z_n* to within 2**-63, for any n without a prime factor below 2**12, and even for
who knows the tables. So N answers are told from ones with a uniform rho with an advantage of at most N 2**-63.

*Proof*, by the leftover hash lemma. Z_n* is a product of at most r cyclic groups of orders m_i, r prime factors of n.
Let g be the greatest common divisor of two draws' digit differences. The product of bases to these differences is 1
with probability prod gcd(g, m_i) / m_i, at most g**r / |Z_n*|, and 1 where the draws are equal. All w differences are
multiples of g >= 2 with probability about g**-w. Hence the distance is at most
sqrt(sum_g g**(r-w) + |Z_n*| 2**(-8 w)) / 2, of whose sum g = 2 makes almost all. `modulus_proof` refuses prime factors
up to 6,370, so that r <= bits / 12; with w = max(bits / 8 + 16, bits / 12 + 128) both terms are below 2**-127.

Powers of one base don't do: they stay in its subgroup, which whoever made n may choose to be small. Nor do wider
windows: they are fewer, and with w near r a hostile n shows the parity of what was multiplied. And the bases are never
the key holder's (see `vfl.crypto.vectors.mask_vector`).

Not constant time: digits choose entries of the tables, and a local observer of the cache may learn them.
"""

import secrets
import threading
from functools import lru_cache

from vfl.cores.own_children import OwnChildrenOnly, Rebuilt
from vfl.crypto.kernels import FixedBases, Kernel
from vfl.crypto.kernels.counts import RERANDOMISE_PRODUCTS
from vfl.crypto.kernels.integers import random_unit

_KEYS_OF_A_WORKER = 2


class Rerandomiser(OwnChildrenOnly):
    """Draws n-th powers modulo n**2 of (nearly) uniform elements of Z_n*. Thread-safe.

    The first ones are powers. Tables (48 MB at 2048 bits) are made when as many were drawn as tables have bases, which
    takes about as long as those did: whoever needs few has none, and nobody takes more than twice the least.

    A worker process counts its own, and keeps the tables of the last few keys.

    Attributes:
        windows: how many bases tables have.
    """

    def __init__(self, n: int, kernel: Kernel) -> None:
        self._n, self._kernel = n, kernel
        self.windows = max(n.bit_length() // 8 + 16, n.bit_length() // 12 + 128)
        self._tables: FixedBases | None = None
        self._drawn = 0
        self._lock = threading.Lock()

    def rebuilt_in_child(self) -> Rebuilt:
        """Name the rerandomiser of this key that a worker may have already."""
        return _rerandomiser_of, (self._n, self._kernel)

    @property
    def products(self) -> int:
        """How many modular products the next one takes."""
        return self.windows if self._tables else RERANDOMISE_PRODUCTS

    def draw(self, count: int) -> list[int]:
        """Draw rho**n mod n**2, from the operating system's randomness; each to be used once."""
        if tables := self._tables_if_worthwhile(count):
            return tables.powers([secrets.randbits(8 * self.windows) for _ in range(count)])
        return self._powers(count)

    def _tables_if_worthwhile(self, count: int) -> FixedBases | None:
        with self._lock:
            if self._tables is None and self._drawn >= self.windows:
                self._tables = self._kernel.fixed_bases(self._powers(self.windows), self._n**2)
            self._drawn += count
            return self._tables

    def _powers(self, count: int) -> list[int]:
        return self._kernel.powers([random_unit(self._n) for _ in range(count)], self._n, self._n**2)


@lru_cache(_KEYS_OF_A_WORKER)
def _rerandomiser_of(n: int, kernel: Kernel) -> Rerandomiser:
    """Make a worker's rerandomiser of a key, with its tables."""
    return Rerandomiser(n, kernel)
