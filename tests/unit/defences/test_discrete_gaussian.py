"""Gaussian noise in whole steps: the law, to its tails, and the very numbers that words are drawn as."""

import hashlib
from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from defences import discrete_gaussian as sampler
from defences.discrete_gaussian import LARGEST_DEVIATION, WordArray, discrete_gaussian
from vfl.arrays import IntArray

Words = Callable[[int], WordArray]


def words_of(key: bytes) -> Words:
    """A stream of words, of calls one after the other."""
    calls = iter(range(256))
    return lambda count: np.frombuffer(
        hashlib.shake_256(key + bytes([next(calls)])).digest(8 * count), dtype=np.dtype("<u8")
    )


def drawn(deviation: int, count: int, key: bytes = b"key") -> IntArray:
    return discrete_gaussian(words_of(key), deviation, count)


def weights(deviation: int, reach: int) -> list[Decimal]:
    """exp(-y^2 / (2 S^2)) of y from -reach to reach."""
    return [(-Decimal(y * y) / (2 * deviation**2)).exp() for y in range(-reach, reach + 1)]


@pytest.mark.parametrize(
    ("deviation", "expected"),
    [
        (1, [0, 0, -1, 0, -1, 2, 0, 0]),
        (3, [1, 1, -3, 2, 6, 0, 2, -2]),
        (
            21474836480,
            [7176152403, 11386676014, -17513894346, -24588500862, 13870162780, 2873397095, 13706597604, -12986601372],
        ),
        (
            LARGEST_DEVIATION,
            [
                130114620450131,
                37510746137390,
                -61190733091274,
                -556639465160574,
                227020071625564,
                -285082859178499,
                180331370286951,
                85208677881060,
            ],
        ),
    ],
)
def test_the_same_words_give_the_same_numbers_for_ever(deviation: int, expected: list[int]) -> None:
    """Another number is another draw about the same values: what fails here must not be shipped."""
    assert drawn(deviation, 8).tolist() == expected


@pytest.mark.parametrize("deviation", [1, 2, 3, 10])
def test_each_whole_number_comes_as_often_as_it_should(deviation: int) -> None:
    """Chi-square over all numbers that are expected five times."""
    count, reach = 200_000, 12 * deviation
    values = drawn(deviation, count)
    law = np.array(weights(deviation, reach), dtype=np.float64)
    expected = count * law / law.sum()
    seen = np.bincount(values + reach, minlength=2 * reach + 1)
    is_common = expected >= 5
    expected, seen = (
        np.append(expected[is_common], expected[~is_common].sum()),
        np.append(seen[is_common], seen[~is_common].sum()),
    )
    assert chisquare(seen, expected).pvalue > 1e-4
    assert chisquare(seen, np.roll(expected, 1)).pvalue < 1e-4, "this test can fail"


@pytest.mark.parametrize("deviation", [1000, 21474836480, 5 * 2**32 + 12345, LARGEST_DEVIATION])
def test_of_many_steps_it_is_the_gaussian_to_its_tails(deviation: int) -> None:
    count = 400_000
    values = drawn(deviation, count) / deviation
    assert kstest(values, "norm").pvalue > 1e-4
    assert kstest(values * 1.02, "norm").pvalue < 1e-4, "this test can fail"
    spread = {1: 1.0, 2: 2.0, 3: 15.0, 4: 96.0}
    for power, variance in spread.items():
        expected = (0, 1, 0, 3)[power - 1]
        assert abs((values**power).mean() - expected) < 4.5 * np.sqrt(variance / count)
    for beyond in (2.0, 3.0, 4.0):
        for side in (values, -values):
            expected = count * norm.sf(beyond)
            assert abs((side > beyond).sum() - expected) < 4.5 * np.sqrt(expected) + 1


def test_numbers_dont_depend_on_each_other() -> None:
    values = drawn(2**33, 100_000) / 2**33
    for lag in (1, 2, 3):
        assert abs(np.mean(values[lag:] * values[:-lag])) < 4.5 / np.sqrt(len(values))
        assert abs(np.mean(values[lag:] ** 2 * values[:-lag] ** 2) - 1) < 4.5 * np.sqrt(8 / len(values))


def test_the_law_is_within_2_to_the_minus_60_of_what_is_said() -> None:
    """The whole deviations' table in exact numbers, their tail, and the last bit of what keeps a trial."""
    with localcontext() as context:
        context.prec = 60
        chances = [(-Decimal(k * k) / 2).exp() for k in range(40)]
        total = sum(chances)
        ends = [0, *map(int, sampler._THRESHOLDS), 1 << 64]
        made = [Decimal(high - low) / (1 << 64) for low, high in pairwise(ends)]
        made += [Decimal(0)] * (40 - len(made))
        apart = sum(abs(one - chance / total) for one, chance in zip(made, chances, strict=True))
        is_kept = (Decimal("3.14159265358979323846") / 2).sqrt() / total
        # Of the law before it is normalised, and normalising it again takes as much at most.
        distance = (apart + Decimal(2) ** -64) / is_kept
        assert Decimal("0.7") < is_kept < Decimal("0.72")
        assert distance < Decimal(2) ** -60


@given(
    deviation=st.integers(1, LARGEST_DEVIATION),
    key=st.binary(max_size=8),
    count=st.integers(0, 40),
)
def test_no_error_of_a_float_decides_anything(deviation: int, key: bytes, count: int) -> None:
    """All decided to 60 digits, as if floats were good for nothing: the same numbers."""
    fast = drawn(deviation, count, key)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampler, "_ERROR", 2.0)
        np.testing.assert_array_equal(drawn(deviation, count, key), fast)
    assert len(fast) == count
    assert (np.abs(fast) < 10 * deviation).all()


def test_floats_err_far_less_than_is_allowed_for() -> None:
    exponents = np.append(np.linspace(0, 9.5, 2001), [2.0**-60, 9.4999999])
    exact = np.array([float((-Decimal(one)).exp()) for one in exponents])
    assert np.abs(sampler._exponential(exponents) - exact).max() < sampler._ERROR / 1000


def test_extreme_words_are_decided_exactly() -> None:
    """A word at exp(-z) is kept below it only; of two zeros one is drawn; a broken run of remainders is drawn again."""
    most = (1 << 64) - 1

    def kept(*words: int, deviation: int = 4) -> list[int]:
        return list(map(int, sampler._kept(np.array(words, dtype=np.uint64).reshape(3, 1), deviation)))

    assert kept(0, 0, most) == [0], "exp(0) is above every word"
    assert kept(0, 1, 0) == [], "minus zero"
    assert kept(most, 0, most) == [36]
    assert kept(most, 1, most) == [-36]
    limit = int((Decimal(1 << 64) * (-Decimal(9) / 32).exp()).to_integral_value(rounding="ROUND_FLOOR"))
    assert kept(0, 6, limit) == [3]
    assert kept(0, 6, limit + 1) == []
    assert kept(0, most - 3, 0, deviation=3) == [], "2^63 - 2 is where the last whole run of 3 ends"
    assert kept(0, most - 5, 0, deviation=3) == [2]
    first = int(sampler._THRESHOLDS[0])
    assert (kept(first - 1, 0, 0), kept(first, 0, 0)) == ([0], [4])


@pytest.mark.parametrize("deviation", [0, -3, LARGEST_DEVIATION + 1])
def test_a_deviation_out_of_range_is_refused(deviation: int) -> None:
    with pytest.raises(ValueError, match=rf"deviation from 1 to 2\^48 steps, got {deviation}"):
        drawn(deviation, 1)
