"""Schemes 1 to 3 of Rassouli (VII-B, VIII-D) on logits, there and back: what they add, and what is left to know.

Whoever knows a scheme's options and v_1 takes off what it added, from what was delivered alone. Logits here are those
of scores, z up to a constant per record.
"""

import math
from dataclasses import dataclass

import numpy as np

from vfl.arrays import BoolArray, FloatArray

# A score of 0 stays below every other.
_SCORE_FLOOR = 1e-300
# Logits closer than this are the same: float64 scores tell no more.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class BoundedLogits:
    """Logits with a scheme taken off: exact, but for the decision's entry where it was raised over an overtaker.

    Attributes:
        logits: (n, k), up to a constant per record; the middle of both ends where only these are known.
        decided: (n, k), the entries with the largest score: one per record, or several that tie.
        lowest: (n,), the least that the entries of ``decided`` can have been.
        highest: (n,), the most; equal to ``lowest`` where they are exact.
    """

    logits: FloatArray
    decided: BoolArray
    lowest: FloatArray
    highest: FloatArray

    @property
    def raised(self) -> BoolArray:
        """The records of which only bounds are known, (n,): all differences without ``decided`` are exact there."""
        return self.lowest < self.highest


def logits_of(scores: FloatArray) -> FloatArray:
    """Take logarithms of (n, k) scores: z up to a constant per record, which softmax ignores."""
    return np.log(np.maximum(scores, _SCORE_FLOOR))


def maximisers(logits: FloatArray, tolerance: float = 0.0) -> BoolArray:
    """i* as a set where several entries of a row are the largest (Rassouli, footnote 19): (n, k)."""
    largest: BoolArray = logits >= logits.max(axis=1, keepdims=True) - tolerance
    return largest


def scheme1_noise(decided: BoolArray, direction: FloatArray, alpha: float) -> FloatArray:
    """Compute what scheme 1 adds to logits, (n, k): it follows from the decision alone (Rassouli eq. 91-93).

    Args:
        decided: (n, k), the entries of the decision.
        direction: v_1, (k,), with the scheme's sign.
        alpha: the squared norm of each row of the noise.
    """
    # Entries of v_1 sum to 0, so the largest is positive and the norm never 0.
    raised = np.where(decided, direction.max(), direction)
    noise: FloatArray = math.sqrt(alpha) * raised / np.linalg.norm(raised, axis=1, keepdims=True)
    return noise


def without_scheme1(logits: FloatArray, direction: FloatArray, alpha: float) -> BoundedLogits:
    """Take scheme 1 off delivered (n, k) logits: exact. Arguments are those of ``scheme1_noise``."""
    decided = maximisers(logits, _SAME)
    plain = logits - scheme1_noise(decided, direction, alpha)
    largest = plain.max(axis=1, where=decided, initial=-np.inf)
    return BoundedLogits(plain, decided, largest, largest)


def without_scheme2(logits: FloatArray, noise: FloatArray, delta: float) -> BoundedLogits:
    """Take scheme 2, a shift by ``noise``, (k,), and decisions raised to a lead of delta, off delivered (n, k) logits.

    A lead of exactly delta says that the decision was raised: then it lies between the others and what was sent.
    """
    decided = maximisers(logits, min(_SAME, delta / 2))
    plain = logits - noise
    # Entries that tie are the same before the shift, and afterwards all have what the shift left the largest of them.
    highest = logits.max(axis=1) - np.where(decided, noise, -np.inf).max(axis=1)
    lead = logits.max(axis=1) - np.where(decided, -np.inf, logits).max(axis=1)
    # The decision was the decision before the shift, too.
    rivals = np.where(decided, -np.inf, plain).max(axis=1)
    lowest = np.where(np.abs(lead - delta) < _SAME, np.minimum(rivals, highest), highest)
    middle = ((lowest + highest) / 2)[:, None]
    return BoundedLogits(np.where(decided, middle, plain), decided, lowest, highest)
