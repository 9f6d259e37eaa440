"""Random integers modulo n, from the operating system only."""

import math
import secrets


def random_unit(n: int) -> int:
    """Draw a uniform element of the multiplicative group modulo n."""
    while True:
        candidate = secrets.randbelow(n)
        if math.gcd(candidate, n) == 1:
            return candidate
