"""What chance makes of means over persons: Student's intervals, two tests of a mean, and Holm's correction for many.

Intervals of a quotient are those of its linearisation (the delta method), which keeps what both means share. Where a
person has several records, a row is the sum over them.
"""

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from vfl.arrays import FloatArray

# Share of audits without any leak in which chance alone may call one.
ALPHA = 0.05
# A smaller share of a guess's loss is rounding.
ROUNDING = 1e-4
# What is the same but for floating point's noise.
_SAME = 1e-9
# Of the saddlepoint: steps towards it, what counts as none, and a tilt at which the sum is as large as it can be.
_NEWTON_STEPS, _FLAT, _MOST_TILT = 40, 1e-12, 1e6
# Ends of a 95 % interval.
_ENDS = np.array([0.025, 0.975])


def mean_ends(values: FloatArray) -> FloatArray:
    """Find the ends of the 95 % interval of the mean of (n, ...) values over n records, (2, ...); no width of one."""
    reach = np.multiply.outer(_quantiles(len(values)), _standard_error(values))
    ends: FloatArray = values.mean(axis=0) + reach
    return ends


def part_ends(guess: FloatArray, attack: FloatArray, chance: FloatArray) -> FloatArray:
    """Find the ends of the 95 % interval of 1 - attack / guess, of the means of (n, m) losses: (2, m), in [0, 1].

    The lower end is 0 wherever a test can't tell the attack from the guess, and the upper one 1 where nothing
    is known: of one record, or of a guess that is always right.

    Args:
        guess: (n, m) losses.
        attack: (n, m) losses of the same records.
        chance: (m,) `p_values` of both.
    """
    ends = _quotient_ends(guess, attack)
    ends[0] = np.where(chance <= _ENDS[0], ends[0], 0.0)
    return ends


def largest_part(guess: FloatArray, attack: FloatArray) -> FloatArray:
    """Find the upper ends of `part_ends`, (m,), 0 where the attack loses no less than the guess on these records.

    Of what loses more, one estimate that is far off would make the interval wide.
    """
    better = attack.mean(axis=0) < guess.mean(axis=0)
    largest: FloatArray = np.zeros(len(better))
    largest[better] = _quotient_ends(guess[:, better], attack[:, better])[1]
    return largest


def _quotient_ends(guess: FloatArray, attack: FloatArray) -> FloatArray:
    e0, error = guess.mean(axis=0), attack.mean(axis=0)
    has_guess = (e0 > 0) & (len(guess) > 1)
    scale = np.where(has_guess, e0, 1.0)
    ratio = error / scale
    ends = 1 - ratio + np.multiply.outer(_quantiles(len(guess)), _standard_error(attack - ratio * guess) / scale)
    ends[0] = np.where(has_guess, ends[0], 0.0)
    ends[1] = np.where(has_guess, ends[1], 1.0)
    # Exactly 0 and 1 where they are as good as that.
    return np.where(ends < ROUNDING, 0.0, np.where(ends > 1 - ROUNDING, 1.0, ends))


def p_values(guess: FloatArray, attack: FloatArray) -> FloatArray:
    """Compute how likely chance makes attacks that lose as much as guesses look as good as this, (m,).

    The larger of two tests' answers. The sign test alone alarms too often where differences are skewed, the corrected
    Student's where a few records carry most of the loss.

    Args:
        guess: (n, m) losses.
        attack: (n, m) losses of the same records.
    """
    chance: FloatArray = np.ones(guess.shape[1])
    removed = guess - attack
    beyond = removed.mean(axis=0) > ROUNDING * guess.mean(axis=0)
    removed = removed[:, beyond]
    chance[beyond] = np.maximum(sign_test(removed), corrected_student(removed))
    return chance


def corrected_student(removed: FloatArray) -> FloatArray:
    """Compute the one-sided p-values of (n, m) differences' means by Student's t without its skewness, (m,).

    Hall, On the removal of skewness by transformation (1992), g_2: monotone in t, and t itself where nothing is skewed.
    All differences equal are beyond any chance, and one alone is within it.
    """
    count = len(removed)
    if count < 2:
        return np.ones(removed.shape[1])
    mean, spread = removed.mean(axis=0), removed.std(axis=0, ddof=1)
    varies = spread > _SAME * np.abs(mean)
    scale = np.where(varies, spread, 1.0)
    centred = removed - mean
    size, skewness = mean / scale, (centred * centred * centred).mean(axis=0) / scale**3  # a power takes far longer
    corrected = size + skewness * size**2 / 3 + skewness**2 * size**3 / 27 + skewness / (6 * count)
    chance: FloatArray = np.where(varies, stdtr(count - 1, -np.sqrt(count) * corrected), (mean <= 0).astype(float))
    return chance


def sign_test(removed: FloatArray) -> FloatArray:
    """Compute the one-sided p-values of (n, m) differences' sums by Fisher's sign test, (m,).

    Were nothing given away, which of guess and attack lost less would be a coin's choice in each record. The tail is a
    saddlepoint's (Lugannani and Rice 1980) and never above Chernoff's bound.
    """
    size = np.sqrt((removed**2).sum(axis=0))
    beyond = removed.sum(axis=0) > 0
    steps = removed / np.where(beyond, size, 1.0)
    largest = np.abs(steps).max(axis=0)
    # Of hits and misses the sum moves by two at a time: half of that goes off, as for any count.
    is_count = ((np.abs(steps) > (1 - _SAME) * largest) | (np.abs(steps) < _SAME * largest)).all(axis=0)
    total, tilt = steps.sum(axis=0) - is_count * largest, np.zeros(len(size))
    for _ in range(_NEWTON_STEPS):  # towards the tilt from below: the sum's mean under it is concave
        pull = np.tanh(tilt * steps)
        distance_left = np.where(beyond, np.maximum(total - (steps * pull).sum(axis=0), 0.0), 0.0)
        if distance_left.max(initial=0.0) < _SAME:
            break
        tilt = np.minimum(tilt + distance_left / np.maximum((steps**2 * (1 - pull**2)).sum(axis=0), _FLAT), _MOST_TILT)
    tilted = np.abs(tilt * steps)
    exponent = tilt * total - (tilted + np.log1p(np.exp(-2 * tilted)) - np.log(2)).sum(axis=0)
    distance = np.sqrt(2 * np.maximum(exponent, _FLAT))
    lean = np.maximum(tilt * np.sqrt((steps**2 / np.cosh(np.minimum(tilted, 300)) ** 2).sum(axis=0)), _FLAT)
    tail = ndtr(-distance) + np.exp(-(distance**2) / 2) / np.sqrt(2 * np.pi) * (1 / lean - 1 / distance)
    chance: FloatArray = np.where(beyond, np.clip(tail, 0.0, np.exp(-exponent)), 1.0)
    return chance


def holm(p_values: FloatArray) -> FloatArray:
    """Correct (m,) p-values for being m: all those below alpha are wrong at once in a share alpha of cases at most.

    Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    order = np.argsort(p_values)
    steps = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1.0, steps)
    return corrected


def _standard_error(values: FloatArray) -> FloatArray:
    """Compute that of the mean over the first axis; 0 of one record."""
    error: FloatArray = values.std(axis=0, ddof=min(1, len(values) - 1)) / np.sqrt(len(values))
    return error


def _quantiles(records: int) -> FloatArray:
    ends: FloatArray = stdtrit(max(1, records - 1), _ENDS)
    return ends
