"""score_rounding, score_noise, class_label: known answers, what each promises, and what it refuses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

import defences
from defences import DefenceError, NoiseSource, ScoreContext
from defences.score_distortion import ClassLabel, ScoreNoise, ScoreRounding
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

CONTEXT = ScoreContext(NoiseSource(0))


def some_scores(seed: int, n: int, k: int, spread: float = 3.0) -> FloatArray:
    return confidence_scores(spread * np.random.default_rng(seed).standard_normal((n, k)))


def test_all_are_registered_and_sit_with_the_coordinator() -> None:
    for name, kind in (("score_rounding", ScoreRounding), ("score_noise", ScoreNoise), ("class_label", ClassLabel)):
        loaded = defences.load(name)
        assert type(loaded) is kind
        assert (loaded.name, loaded.spec.sits, loaded.spec.stages) == (name, ("coordinator",), ("scores",))


# --- rounding -----------------------------------------------------------------------------------------------


def test_rounding_known_answers() -> None:
    scores = np.array([[0.444, 0.456, 0.1], [0.449, 0.451, 0.1]])
    np.testing.assert_array_equal(ScoreRounding().protect_scores(scores, CONTEXT)[0], [0.44, 0.46, 0.1])
    one = ScoreRounding(decimals=1).protect_scores(scores, CONTEXT)
    np.testing.assert_array_equal(one, [[0.4, 0.5, 0.1], [0.4, 0.5, 0.1]])
    np.testing.assert_array_equal(ScoreRounding(decimals=0).protect_scores(scores, CONTEXT), np.zeros((2, 3)))


def test_rounding_may_lose_the_decision_and_says_so() -> None:
    scores = np.array([[0.44, 0.45, 0.11]])
    assert ScoreRounding(decimals=1).protect_scores(scores, CONTEXT).argmax() == 0
    assert ScoreRounding.spec.keeps == "nothing"


@given(seed=st.integers(0, 10**6), k=st.integers(2, 12), decimals=st.integers(0, 15))
def test_rounding_stays_near_and_on_its_grid(seed: int, k: int, decimals: int) -> None:
    scores = some_scores(seed, 4, k)
    rounded = ScoreRounding(decimals=decimals).protect_scores(scores, CONTEXT)
    assert np.abs(rounded - scores).max() <= 0.5 * 10.0**-decimals + 1e-15
    assert rounded.min() >= 0
    steps = rounded * 10.0**decimals
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-15 * 10.0**decimals)


@pytest.mark.parametrize("decimals", [-1, 16, 1.5, True])
def test_rounding_refuses_other_decimals(decimals: Any) -> None:
    with pytest.raises(ValueError, match="Expected decimals"):
        ScoreRounding(decimals=decimals)


# --- noise --------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), k=st.integers(2, 12), sigma=st.floats(1e-6, 1e6))
def test_noisy_scores_are_scores(seed: int, k: int, sigma: float) -> None:
    scores = np.vstack([some_scores(seed, 4, k), np.eye(k)[:1]])
    noisy = ScoreNoise(sigma=sigma).protect_scores(scores, ScoreContext(NoiseSource(seed)))
    assert noisy.min() >= 0
    np.testing.assert_allclose(noisy.sum(axis=1), 1, atol=1e-12)


def test_noise_is_gaussian_of_that_deviation() -> None:
    """In the middle of the simplex nothing is clipped, and normalising divides by 1 plus the row's noise."""
    scores = confidence_scores(0.01 * np.random.default_rng(0).standard_normal((4000, 3)))
    noisy = ScoreNoise(sigma=0.01).protect_scores(scores, CONTEXT)
    # (c + e) / (1 + sum e): the differences of two scores carry e_1 - e_0 to first order, of variance 2 sigma^2.
    difference = (noisy[:, 1] - noisy[:, 0]) - (scores[:, 1] - scores[:, 0])
    assert kstest(difference / (0.01 * np.sqrt(2)), "norm").pvalue > 0.01


def test_asking_again_does_not_help() -> None:
    scores, context = some_scores(1, 6, 4), ScoreContext(NoiseSource())
    defence = ScoreNoise(sigma=0.1)
    first = defence.protect_scores(scores, context)
    np.testing.assert_array_equal(defence.protect_scores(scores, context), first)
    np.testing.assert_array_equal(defence.protect_scores(scores[3:4], context), first[3:4])
    # Another source is another secret.
    assert (defence.protect_scores(scores, ScoreContext(NoiseSource())) != first).any(axis=1).all()


def test_scores_that_are_told_the_same_noise_are_told_the_same_score() -> None:
    """Found: steered into one cell of the noise's grid, answers differed by exactly what the scores did."""
    logits = np.array([[0.0, -26.0, -27.0, -28.0], [0.0, -29.0, -30.0, -26.5], [0.0, -800.0, -800.0, -800.0]])
    scores = confidence_scores(logits)
    assert len(np.unique(scores, axis=0)) == 3
    answers = ScoreNoise().protect_scores(scores, ScoreContext(NoiseSource()))
    assert len(np.unique(answers, axis=0)) == 1


def test_rows_that_noise_empties_become_uniform() -> None:
    """With two classes and a large sigma about a quarter of rows lose both scores."""
    scores = some_scores(2, 400, 2)
    noisy = ScoreNoise(sigma=1e3).protect_scores(scores, ScoreContext(NoiseSource(5)))
    uniform = (noisy == 0.5).all(axis=1)
    assert 0.15 < uniform.mean() < 0.6
    assert ScoreNoise.spec.keeps == "nothing"


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_refuses_other_deviations(sigma: float) -> None:
    with pytest.raises(ValueError, match="Expected sigma to be a positive number"):
        ScoreNoise(sigma=sigma)


# --- label --------------------------------------------------------------------------------------------------


def test_label_known_answers() -> None:
    scores = np.array([[0.2, 0.5, 0.3], [1 / 3, 1 / 3, 1 / 3], [0.1, 0.45, 0.45]])
    np.testing.assert_array_equal(ClassLabel().protect_scores(scores, CONTEXT), [[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_allclose(ClassLabel(remainder=0.1).protect_scores(scores, CONTEXT)[0], [0.1, 0.8, 0.1])


@given(seed=st.integers(0, 10**6), k=st.integers(2, 12), share=st.floats(0, 1, exclude_max=True))
def test_label_keeps_the_decision_and_nothing_else(seed: int, k: int, share: float) -> None:
    scores = some_scores(seed, 20, k)
    scores[5] = 1 / k
    scores[6] = np.eye(k)[k - 1]
    remainder = share / k if share / k < 1 / k else 0.0
    delivered = ClassLabel(remainder=remainder).protect_scores(scores, CONTEXT)
    np.testing.assert_array_equal(delivered.argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_allclose(delivered.sum(axis=1), 1, atol=1e-12)
    for label in range(k):
        rows = delivered[scores.argmax(axis=1) == label]
        assert (rows == rows[:1]).all()


def test_label_wins_where_the_remainder_is_one_float_below_its_limit() -> None:
    for k in range(2, 13):
        remainder = float(np.nextafter(1 / k, 0))
        scores = np.eye(k)
        delivered = ClassLabel(remainder=remainder).protect_scores(scores, CONTEXT)
        np.testing.assert_array_equal(delivered.argmax(axis=1), np.arange(k))


def test_label_refuses_remainders_that_win() -> None:
    for remainder in (-0.1, 0.5, float("nan")):
        with pytest.raises(ValueError, match="Expected remainder"):
            ClassLabel(remainder=remainder)
    with pytest.raises(DefenceError, match=r"below 1/4"):
        ClassLabel(remainder=0.25).protect_scores(some_scores(0, 2, 4), CONTEXT)
