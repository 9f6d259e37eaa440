"""Conditioning on equations in closed form: known answers, the textbook formula, what holds of any prior, coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.bayes.exact import condition, factorise
from attacks.bayes.prior import GaussianPrior
from vfl.arrays import FloatArray


def random_prior(rng: np.random.Generator, n: int, d: int, rank: int | None = None) -> GaussianPrior:
    root = rng.standard_normal((d, d if rank is None else rank))
    return GaussianPrior(rng.random((n, d)), root @ root.T)


def test_two_features_known_to_sum_to_one() -> None:
    """x ~ N((1/2, 1/4), diag(4, 1)) and x_1 + x_2 = 1: the missing 1/4 goes 4 : 1, the variance left is 4/5."""
    prior = GaussianPrior(np.array([[0.5, 0.25]]), np.diag([4.0, 1.0]))
    found = condition(prior, np.array([[1.0, 1.0]]), np.array([[1.0]]))
    np.testing.assert_allclose(found.mean, [[0.7, 0.3]], atol=1e-12)
    np.testing.assert_allclose(found.spread, [[0.8**0.5, 0.8**0.5]], atol=1e-12)
    np.testing.assert_allclose(found.high - found.low, 2 * 1.6448536269514722 * found.spread, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_regular_case_is_the_textbooks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prior, matrix, sides = random_prior(rng, 4, 6), rng.standard_normal((3, 6)), rng.standard_normal((4, 3))
    S = prior.covariance
    gain = S @ matrix.T @ np.linalg.inv(matrix @ S @ matrix.T)
    found = condition(prior, matrix, sides)
    np.testing.assert_allclose(found.mean, prior.mean + (sides - prior.mean @ matrix.T) @ gain.T, rtol=1e-8)
    np.testing.assert_allclose(found.spread[0] ** 2, np.diag(S - gain @ matrix @ S), rtol=1e-6)


def test_no_equation_leaves_the_prior() -> None:
    prior = random_prior(np.random.default_rng(0), 3, 4)
    found = condition(prior, np.empty((0, 4)), np.empty((3, 0)))
    np.testing.assert_allclose(found.mean, prior.mean, atol=1e-12)
    np.testing.assert_allclose(found.spread[0] ** 2, np.diag(prior.covariance), rtol=1e-9)


@st.composite
def problems(draw: st.DrawFn) -> tuple[GaussianPrior, FloatArray, FloatArray]:
    """A prior, maybe singular or sure of all, and equations that have a solution, maybe dependent ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, m = draw(st.integers(1, 7)), draw(st.integers(0, 7))
    prior = random_prior(rng, 3, d, draw(st.integers(0, d)))
    matrix = rng.standard_normal((m, d))
    if m > 1 and draw(st.booleans()):
        matrix[0] = matrix[1:].sum(axis=0)
    return prior, matrix, rng.random((3, d)) @ matrix.T


@given(problems())
def test_solvable_equations_hold_whatever_the_prior(
    problem: tuple[GaussianPrior, FloatArray, FloatArray],
) -> None:
    """At the posterior mean, and nothing is left unsure in their directions."""
    prior, matrix, sides = problem
    conditioning = factorise(prior.covariance, matrix)
    found = conditioning.posterior(prior.mean, sides)
    scale = 1 + np.abs(found.mean).max()
    np.testing.assert_allclose(found.mean @ matrix.T, sides, atol=1e-6 * scale)
    free = conditioning.root - conditioning.root @ conditioning.informed @ conditioning.informed.T
    np.testing.assert_allclose(matrix @ free, 0, atol=1e-9)
    np.testing.assert_allclose(np.sqrt((free**2).sum(axis=1)), found.spread[0], atol=1e-12)
    assert (found.spread[0] ** 2 <= np.diag(prior.covariance) + 1e-9).all()


@given(problems(), st.randoms(use_true_random=False))
def test_columns_may_come_in_any_order(problem: tuple[GaussianPrior, FloatArray, FloatArray], random: object) -> None:
    prior, matrix, sides = problem
    order = np.random.default_rng(0).permutation(matrix.shape[1])
    found = condition(prior, matrix, sides)
    turned = GaussianPrior(prior.mean[:, order], prior.covariance[np.ix_(order, order)])
    again = condition(turned, matrix[:, order], sides)
    scale = 1 + np.abs(found.mean).max()
    np.testing.assert_allclose(again.mean, found.mean[:, order], atol=1e-6 * scale)
    np.testing.assert_allclose(again.spread, found.spread[:, order], atol=1e-6)


def test_answers_win_over_a_prior_that_rules_them_out() -> None:
    """The prior is sure that x_1 = x_2 and of x_3. The first equation is met as it says, the second by x_3's step."""
    prior = GaussianPrior(np.array([[0.5, 0.5, 0.1]]), np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 0]]))
    matrix, sides = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), np.array([[0.4, 1.0]])
    found = condition(prior, matrix, sides)
    np.testing.assert_allclose(found.mean, [[0.2, 0.2, 0.5]], atol=1e-12)
    np.testing.assert_allclose(found.spread, 0, atol=1e-9)
    assert factorise(prior.covariance, matrix).contradicts(prior.mean, sides).all()


def test_the_step_outside_is_the_limit_of_a_vanishing_variance() -> None:
    rng = np.random.default_rng(3)
    prior, matrix, sides = random_prior(rng, 2, 5, 2), rng.standard_normal((4, 5)), rng.standard_normal((2, 4))
    found = condition(prior, matrix, sides)
    for variance, error in ((1e-4, 1e-2), (1e-6, 1e-4)):
        near = GaussianPrior(prior.mean, prior.covariance + variance * np.eye(5))
        np.testing.assert_allclose(condition(near, matrix, sides).mean, found.mean, atol=error)


def test_equations_that_contradict_each_other_are_met_as_least_squares_meets_them() -> None:
    prior = GaussianPrior(np.array([[0.5]]), np.eye(1))
    found = condition(prior, np.array([[1.0], [1.0]]), np.array([[0.2, 0.6]]))
    np.testing.assert_allclose(found.mean, [[0.4]], atol=1e-12)


def test_which_answers_contradict_the_prior() -> None:
    prior = GaussianPrior(np.zeros((2, 2)), np.eye(2))
    matrix = np.array([[1.0, 0.0]])
    found = factorise(prior.covariance, matrix).contradicts(prior.mean, np.array([[3.0], [7.0]]))
    assert found.tolist() == [False, True]


def test_intervals_cover_nine_in_ten_of_what_the_model_draws() -> None:
    rng = np.random.default_rng(11)
    n, d = 4000, 6
    root = rng.standard_normal((d, d)) / 5
    prior = GaussianPrior(rng.random((n, d)), root @ root.T)
    truth = prior.mean + rng.standard_normal((n, d)) @ root.T
    matrix = rng.standard_normal((3, d))
    found = condition(prior, matrix, truth @ matrix.T)
    covered = ((found.low <= truth) & (truth <= found.high)).mean(axis=0)
    # Four standard deviations of 4,000 trials are .019.
    np.testing.assert_allclose(covered, 0.9, atol=0.02)
    assert covered.mean() == pytest.approx(0.9, abs=0.01)
