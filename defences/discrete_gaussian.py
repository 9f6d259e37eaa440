"""Gaussian noise in whole steps of a grid, decided by integers, so that the same words give the same noise for ever.

What is drawn: y with a chance proportional to exp(-y^2 / (2 S^2)), the discrete Gaussian of Canonne, Kamath and Steinke
2020, for a whole number of steps S. How (Karney 2016, algorithm D, for many numbers at once): |y| = k S + j. The whole
deviations k come by a table, j is uniform below S, and both are kept with a chance of exp(-z), x = j / S,
z = x (k + x / 2); of the two signs of 0 one is drawn again.

Guarantee: of uniform words, each number comes within a statistical distance of 2^-60 of that law. Nine thresholds are
    rounded to 64 bits, and so is each exp(-z); k ends at 9, beyond which 2^-73 of the law lies; j and the sign are
    exact. A word is compared with exp(-z) itself: floats settle what is further apart than their error, 60 digits the
    rest. So no version of a library can move a decision.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray

WordArray = NDArray[np.uint64]

# Ten of them and any residual are whole numbers that float64 holds exactly.
LARGEST_DEVIATION = 1 << 48

# 2^64 times the chance of at most k whole deviations, k from 0 to 8: of exp(-k^2 / 2), rounded.
_THRESHOLDS = np.array(
    [
        10521071843634112300,
        16902424489837522836,
        18326296727748496303,
        18443175278438026258,
        18446704704847042882,
        18446743913232802629,
        18446744073468513700,
        18446744073709418348,
        18446744073709551589,
    ],
    dtype=np.uint64,
)
# Of exp(-z) in floats, at most: 8 terms of exp(-z / 64), z below 9.5, six times squared, and a word's last 11 bits.
_ERROR = 2.0**-35
_TERMS, _SQUARINGS = 8, 6
_DIGITS = 60


def discrete_gaussian(random_words: Callable[[int], WordArray], deviation: int, count: int) -> IntArray:
    """Draw ``count`` numbers of the discrete Gaussian of mean 0 with this deviation, both in steps.

    Args:
        random_words: gives as many uniform 64-bit words as it is asked for. Three a trial, of which .71 give a number.
        deviation: S, from 1 to 2^48.
        count: of the numbers.

    Raises:
        ValueError: for a deviation out of range.
    """
    if not 1 <= deviation <= LARGEST_DEVIATION:
        raise ValueError(f"Expected a deviation from 1 to 2^48 steps, got {deviation}.")
    sample = np.empty(0, dtype=np.int64)
    while (missing := count - len(sample)) > 0:
        trials = missing + missing // 2 + 16
        sample = np.concatenate([sample, _kept(random_words(3 * trials).reshape(3, trials), deviation)[:missing]])
    return sample


def _kept(random_words: WordArray, deviation: int) -> IntArray:
    """Make a number of each trial's three words, (3, trials), and give those that are kept, in order."""
    quotients = np.searchsorted(_THRESHOLDS, random_words[0], side="right")
    halves, is_negative = random_words[1] >> np.uint64(1), (random_words[1] & np.uint64(1)).astype(np.bool_)
    part = (halves % np.uint64(deviation)).astype(np.int64)
    # The last, broken run of remainders would prefer small ones.
    is_fair = halves < np.uint64((1 << 63) // deviation * deviation)
    share = part / deviation
    above = _exponential(share * (quotients + share / 2)) - random_words[2] * 2.0**-64
    is_kept = above > 0
    for index in np.flatnonzero(np.abs(above) <= _ERROR):
        is_kept[index] = _is_below(int(random_words[2, index]), int(quotients[index]), int(part[index]), deviation)
    size = quotients * deviation + part
    is_kept &= is_fair & ~((size == 0) & is_negative)
    numbers: IntArray = np.where(is_negative, -size, size)[is_kept]
    return numbers


def _exponential(exponents: FloatArray) -> FloatArray:
    """Compute exp(-z) of z from 0 to 9.5, to 2^-35, by what IEEE 754 rounds in one way only."""
    small = exponents * 0.5**_SQUARINGS
    power: FloatArray = np.ones_like(small)
    for term in range(_TERMS, 0, -1):
        power = 1.0 - power * small / term
    for _ in range(_SQUARINGS):
        power = power * power
    return power


def _is_below(word: int, quotient: int, part: int, deviation: int) -> bool:
    """Tell whether word < 2^64 exp(-z), which is rational for z = 0 only."""
    with localcontext() as context:
        context.prec = _DIGITS
        exponent = Decimal(part * (2 * quotient * deviation + part)) / Decimal(2 * deviation**2)
        return Decimal(word) < Decimal(1 << 64) * (-exponent).exp()
