"""What several models tell of a record together: each that a party answers with is one more linear form of it."""

import math


def most_forms(share: float, features: int) -> int:
    """How many independent forms of a record may be answered: this share of a party's features, at least one."""
    return max(1, math.floor(share * features))
