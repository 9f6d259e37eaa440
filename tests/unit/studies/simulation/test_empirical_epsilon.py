"""A lower bound of epsilon from trials: below the truth, close to it, and nothing from nothing."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from studies.simulation.empirical_epsilon import epsilon_lower_bound
from vfl.theory.gaussian_mechanism import gaussian_epsilon


def worlds(ratio: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian mechanism's answers, ratio sigmas apart."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=trials), ratio + generator.normal(size=trials)


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 3.0])
def test_the_bound_stays_below_the_exact_epsilon_as_often_as_its_confidence_says(ratio: float, delta: float) -> None:
    exact = math.inf if delta == 0 else gaussian_epsilon(ratio, 1.0, delta)
    bounds = [epsilon_lower_bound(*worlds(ratio, 2000, seed), delta=delta).epsilon for seed in range(40)]
    # 95 % of 40 at least, give or take three deviations; the two exact intervals together miss less than that.
    assert np.mean(np.array(bounds) <= exact) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 40)
    assert max(bounds) < 1.05 * exact


def test_many_trials_come_close_to_the_exact_epsilon() -> None:
    exact = gaussian_epsilon(1.5, 1.0, 1e-2)
    found = epsilon_lower_bound(*worlds(1.5, 200_000, 0), delta=1e-2).epsilon
    assert 0.85 * exact < found <= exact


def test_the_worlds_and_the_sign_may_be_exchanged() -> None:
    one, other = worlds(2.0, 5000, 3)
    found = epsilon_lower_bound(one, other, delta=1e-2).epsilon
    for pair in ((other, one), (-one, -other), (-other, -one)):
        assert epsilon_lower_bound(*pair, delta=1e-2).epsilon == pytest.approx(found, rel=0.15)


def test_worlds_that_dont_differ_prove_nothing() -> None:
    for seed in range(20):
        assert epsilon_lower_bound(*worlds(0.0, 1000, seed), delta=0.0).epsilon < 0.2
    constant = np.zeros(10)
    assert epsilon_lower_bound(constant, constant, delta=0.1).epsilon == 0.0


def test_worlds_far_apart_prove_what_so_many_trials_can() -> None:
    """All of 500 against none of 500: the ends of the exact intervals say how much that is."""
    found = epsilon_lower_bound(np.zeros(1000), np.ones(1000), delta=0.01)
    assert (found.trials, {found.hits, found.false_alarms}) == (500, {500, 0})
    low = binomtest(500, 500).proportion_ci(0.95, method="exact").low
    high = binomtest(0, 500).proportion_ci(0.95, method="exact").high
    assert found.epsilon == pytest.approx(math.log((low - 0.01) / high), rel=1e-9)


def test_the_counts_give_the_bound() -> None:
    found = epsilon_lower_bound(*worlds(1.0, 4000, 5), delta=0.02, confidence=0.9)
    low = binomtest(found.hits, found.trials).proportion_ci(0.9, method="exact").low
    high = binomtest(found.false_alarms, found.trials).proportion_ci(0.9, method="exact").high
    assert found.epsilon == pytest.approx(math.log((low - 0.02) / high), rel=1e-9)


@pytest.mark.parametrize(
    ("one", "other", "delta", "confidence"),
    [
        ([1.0], [1.0], 0.1, 0.95),
        ([1.0, 2.0], [1.0, 2.0, 3.0], 0.1, 0.95),
        ([1.0, math.nan], [1.0, 2.0], 0.1, 0.95),
        ([1.0, 2.0], [1.0, 2.0], 1.0, 0.95),
        ([1.0, 2.0], [1.0, 2.0], 0.1, 1.0),
    ],
)
def test_bad_input_is_refused(one: list[float], other: list[float], delta: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="Expected"):
        epsilon_lower_bound(np.array(one), np.array(other), delta=delta, confidence=confidence)
