"""Summing over columns of few values: against brute force on tiny supports, the beam search, what nobody told of."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from attacks.bayes import support
from attacks.bayes.categories import CategoryPrior
from attacks.bayes.exact import condition
from attacks.bayes.prior import Belief, GaussianPrior, Posterior
from attacks.bayes.support import condition_on_supports
from vfl.arrays import FloatArray


def belief_of(rng: np.random.Generator, n: int, numbers: int, *categories: CategoryPrior) -> Belief:
    """Categories first, then so many numbers that depend on them."""
    v = sum(len(category.columns) for category in categories)
    root = rng.standard_normal((v + numbers, v + numbers)) / 4
    means = [np.broadcast_to(category.mean, (n, len(category.columns))) for category in categories]
    return Belief(GaussianPrior(np.hstack([*means, rng.random((n, numbers))]), root @ root.T), categories)


def by_enumeration(
    belief: Belief, matrix: FloatArray, sides: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and standard deviation of each record from Bayes' rule, combination by combination."""
    S, chosen = belief.gaussian.covariance, np.concatenate([one.columns for one in belief.categories])
    others = np.setdiff1d(np.arange(len(S)), chosen)
    slope = S[np.ix_(others, chosen)] @ np.linalg.inv(S[np.ix_(chosen, chosen)])
    C = S[np.ix_(others, others)] - slope @ S[np.ix_(chosen, others)]
    A_v, A_c = matrix[:, chosen], matrix[:, others]
    G = A_c @ C @ A_c.T + noise**2 * np.eye(len(matrix))
    gain = C @ A_c.T @ np.linalg.inv(G)
    means, deviations = np.empty_like(belief.gaussian.mean), np.empty_like(belief.gaussian.mean)
    for i, (mean, side) in enumerate(zip(belief.gaussian.mean, sides, strict=True)):
        weights, firsts, seconds = [], [], []
        for indices in product(*(range(len(one.values)) for one in belief.categories)):
            v = np.concatenate([one.values[index] for one, index in zip(belief.categories, indices, strict=True)])
            prior = np.prod(
                [one.of(len(sides))[i, index] for one, index in zip(belief.categories, indices, strict=True)]
            )
            m = mean[others] + slope @ (v - mean[chosen])
            weights.append(prior * multivariate_normal(A_v @ v + A_c @ m, G).pdf(side))
            x = np.empty(len(S))
            x[chosen], x[others] = v, m + gain @ (side - A_v @ v - A_c @ m)
            variance = np.zeros(len(S))
            variance[others] = np.diag(C - gain @ A_c @ C)
            firsts.append(x)
            seconds.append(x**2 + variance)
        share = np.array(weights) / np.sum(weights)
        means[i] = share @ np.array(firsts)
        deviations[i] = np.sqrt(np.maximum(share @ np.array(seconds) - means[i] ** 2, 0))
    return means, deviations


def one_column(column: int, *values: float, frequencies: tuple[float, ...]) -> CategoryPrior:
    return CategoryPrior(np.array([column]), np.array(values)[:, None], np.array(frequencies))


@pytest.mark.parametrize("equations", [0, 1, 2])
def test_tiny_supports_are_what_enumeration_gives(equations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of three values, a one-hot group of three and two numbers; noise so large that combinations compete."""
    rng = np.random.default_rng(equations)
    group = CategoryPrior(np.array([1, 2, 3]), np.eye(3), rng.dirichlet(np.ones(3), 5))
    belief = belief_of(rng, 5, 2, one_column(0, 0.0, 0.3, 1.0, frequencies=(0.5, 0.3, 0.2)), group)
    matrix = rng.standard_normal((equations, 6))
    truth = np.hstack([rng.choice([0, 0.3, 1], (5, 1)), np.eye(3)[rng.integers(0, 3, 5)], rng.random((5, 2))])
    monkeypatch.setattr(support, "_ROUNDING", 0.05)
    # The Gaussian is to step in nowhere.
    monkeypatch.setattr(support, "UNTOLD", 1e-300)
    found = condition_on_supports(belief, matrix, truth @ matrix.T)
    noise = 0.05 * np.linalg.norm(matrix, axis=1).max(initial=0.0)
    if equations:
        mean, deviation = by_enumeration(belief, matrix, truth @ matrix.T, noise)
        np.testing.assert_allclose(found.posterior.mean, mean, atol=1e-8)
        np.testing.assert_allclose(found.posterior.spread, deviation, atol=1e-7)
    else:
        np.testing.assert_allclose(found.posterior.mean, belief.gaussian.mean, atol=1e-9)
    assert found.explained.all()
    assert found.complete


def test_one_equation_tells_a_column_of_few_values_beside_numbers_that_it_outweighs() -> None:
    """3 v + x / 10 = b with v in {0, 1}: v follows from b, and then x."""
    belief = Belief(
        GaussianPrior(np.full((2, 2), 0.5), np.diag([0.25, 1 / 12])), (one_column(0, 0.0, 1.0, frequencies=(0.5, 0.5)),)
    )
    matrix, truth = np.array([[3.0, 0.1]]), np.array([[0.0, 0.8], [1.0, 0.1]])
    found = condition_on_supports(belief, matrix, truth @ matrix.T).posterior
    np.testing.assert_allclose(found.mean, truth, atol=1e-3)
    np.testing.assert_array_equal(found.low[:, 0], truth[:, 0])
    np.testing.assert_array_equal(found.high[:, 0], truth[:, 0])


def subset_sum(n: int, items: int) -> tuple[Belief, FloatArray, FloatArray]:
    """One equation in so many columns of two values, whose sums are all different."""
    rng = np.random.default_rng(7)
    categories = tuple(one_column(column, 0.0, 1.0, frequencies=(0.5, 0.5)) for column in range(items))
    belief = Belief(GaussianPrior(np.full((n, items), 0.5), np.eye(items) / 4), categories)
    return belief, rng.random((1, items)), rng.integers(0, 2, (n, items)).astype(np.float64)


def test_what_equations_leave_no_choice_in_is_found_exactly() -> None:
    belief, matrix, truth = subset_sum(20, 8)
    found = condition_on_supports(belief, matrix, truth @ matrix.T)
    np.testing.assert_allclose(found.posterior.mean, truth, atol=1e-6)
    assert found.explained.all()


def test_a_wide_beam_finds_what_enumeration_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    belief, matrix, truth = subset_sum(20, 10)
    complete = condition_on_supports(belief, matrix, truth @ matrix.T)
    monkeypatch.setattr(support, "MOST_COMBINATIONS", 100)
    searched = condition_on_supports(belief, matrix, truth @ matrix.T)
    assert not searched.complete
    assert complete.complete
    # Half of all combinations fit the beam; what undecided columns can add decides which.
    hits = (np.abs(searched.posterior.mean - complete.posterior.mean) < 1e-6).all(axis=1)
    assert hits.mean() >= 0.8
    # A record whose combination fell off the beam has the Gaussian posterior.
    gaussian = condition(belief.gaussian, matrix, truth @ matrix.T)
    np.testing.assert_allclose(searched.posterior.mean[~searched.explained], gaussian.mean[~searched.explained])


def test_a_value_that_nobody_told_of_leaves_the_gaussian() -> None:
    belief, matrix, truth = subset_sum(3, 4)
    truth[1, 2] = 0.37
    sides = truth @ matrix.T
    found = condition_on_supports(belief, matrix, sides)
    assert found.explained.tolist() == [True, False, True]
    gaussian: Posterior = condition(belief.gaussian, matrix, sides)
    np.testing.assert_allclose(found.posterior.mean[1], gaussian.mean[1])
    np.testing.assert_allclose(found.posterior.spread[1], gaussian.spread[1])


def test_blocks_of_records_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    belief = belief_of(rng, 9, 2, one_column(0, 0.0, 1.0, frequencies=(0.7, 0.3)))
    matrix, sides = rng.standard_normal((1, 3)), rng.standard_normal((9, 1))
    whole = condition_on_supports(belief, matrix, sides).posterior
    monkeypatch.setattr(support, "_BLOCK", 20)
    parts = condition_on_supports(belief, matrix, sides).posterior
    for name in ("mean", "low", "high", "spread"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_intervals_cover_nine_in_ten_of_what_the_model_draws() -> None:
    rng = np.random.default_rng(5)
    n = 3000
    values, frequencies = np.array([0.0, 0.2, 1.0]), np.array([0.5, 0.3, 0.2])
    v = rng.choice(values, n, p=frequencies)
    mean, variance = values @ frequencies, frequencies @ (values - values @ frequencies) ** 2
    slope, root = np.array([0.3, -0.2]), np.array([[0.3, 0.0], [0.1, 0.2]])
    numbers = 0.5 + (v - mean)[:, None] * slope + rng.standard_normal((n, 2)) @ root.T
    truth = np.column_stack([v, numbers])
    covariance = np.block(
        [
            [np.array([[variance]]), variance * slope[None]],
            [variance * slope[:, None], root @ root.T + variance * np.outer(slope, slope)],
        ]
    )
    category = CategoryPrior(np.array([0]), values[:, None], frequencies)
    belief = Belief(GaussianPrior(np.tile([mean, 0.5, 0.5], (n, 1)), covariance), (category,))
    matrix = np.array([[0.4, 1.0, 0.7]])
    found = condition_on_supports(belief, matrix, truth @ matrix.T).posterior
    covered = ((found.low <= truth) & (truth <= found.high)).mean(axis=0)
    assert covered[1:].mean() == pytest.approx(0.9, abs=0.02)
    # A column of three values can't be cut at exactly nine in ten.
    assert covered[0] >= 0.9
