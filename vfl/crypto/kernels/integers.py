"""Integers modulo n: random ones, from the operating system only, and the bases of tables."""

import math
import secrets
from itertools import accumulate, repeat

from gmpy2 import mpz


def random_unit(n: int) -> int:
    """Draw a uniform element of the multiplicative group modulo n."""
    while True:
        candidate = secrets.randbelow(n)
        if math.gcd(candidate, n) == 1:
            return candidate


def byte_bases(base: int, modulus: int, exponent_bytes: int) -> list[int]:
    """List base, base**256, base**65536, ...: with them `Kernel.fixed_bases` raises one base to any exponent."""
    powers = accumulate(repeat(mpz(modulus), exponent_bytes - 1), lambda b, n: pow(b, 256, n), initial=base % modulus)
    return [int(power) for power in powers]
