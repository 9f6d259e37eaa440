"""How far an adversary may trust what scores told it: as far as that would have helped with records that it knows.

What it learned from complete records misleads it where these are few: one record unlike all others turns a covariance.
So it plays its own attack on complete records, each foretold by the others, and sees how far to go from its guess
without scores towards its estimate. No attacked record has a part in it.
"""

from dataclasses import dataclass

import numpy as np

from attacks.bayes.prior import Belief
from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class HeldOutRecords:
    """Some complete records, and what the others tell of them.

    Attributes:
        rows: indices of the complete records.
        belief: about these, from the others.
        truth: (t, d), their passive columns.
    """

    rows: IntArray
    belief: Belief
    truth: FloatArray


def trust(moved: FloatArray, missed: FloatArray) -> FloatArray:
    """Choose how much of the way from a guess to an estimate to go, for each column: (d,) from a half to 1.

    That is the part with the least squared error, averaged with all of it: few records tell it badly.

    Args:
        moved: (t, d), estimates less guesses.
        missed: (t, d), truths less guesses.
    """
    width = (moved**2).sum(axis=0)
    part = np.where(width > 0, (moved * missed).sum(axis=0) / np.maximum(width, 1e-300), 1.0)
    return (1.0 + np.clip(part, 0.0, 1.0)) / 2
