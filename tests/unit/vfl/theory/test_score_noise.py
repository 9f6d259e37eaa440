"""Theorem 4: the strongest noise from the Gram matrix alone, and the closed form against Monte-Carlo."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.theory.prediction import moments, prediction_errors
from vfl.theory.score_noise import largest_noisy_error, strongest_noise

SHAPES = [(2, 1), (2, 6), (3, 1), (4, 2), (4, 3), (6, 5), (6, 18), (10, 3)]


def amplifier(weights: FloatArray) -> FloatArray:
    """A^+ J by numpy's pseudoinverse of the definition (eq. 4-6)."""
    J = np.diff(np.eye(len(weights)), axis=0)
    result: FloatArray = np.linalg.pinv(J @ weights) @ J
    return result


def noisy_error(weights: FloatArray, moment: FloatArray, correlation: FloatArray) -> float:
    """The MSE per feature of ls when logits carry noise with E[n n^T] = ``correlation`` (Rassouli eq. 86)."""
    A, amplified = np.diff(weights, axis=0), amplifier(weights)
    blind = np.eye(len(moment)) - np.linalg.pinv(A) @ A
    return float(np.sum(blind * moment) + np.sum((amplified @ correlation) * amplified)) / len(moment)


@given(seed=st.integers(0, 10**6), shape=st.sampled_from(SHAPES))
def test_direction_is_the_svds(seed: int, shape: tuple[int, int]) -> None:
    weights = np.random.default_rng(seed).standard_normal(shape)
    noise = strongest_noise(weights @ weights.T)
    _, values, right = np.linalg.svd(amplifier(weights))
    assert noise.amplification == pytest.approx(values[0] ** 2, rel=1e-6)
    if len(values) > 1 and values[1] > 0.999 * values[0]:
        return  # nearly degenerate: the direction itself is ill-conditioned
    assert abs(right[0] @ noise.direction) == pytest.approx(1, abs=1e-6)
    assert noise.direction[np.abs(noise.direction).argmax()] > 0
    assert noise.direction.sum() == pytest.approx(0, abs=1e-9)


def test_two_classes_always_get_the_same_direction() -> None:
    for seed in range(20):
        weights = np.random.default_rng(seed).standard_normal((2, 4))
        np.testing.assert_allclose(strongest_noise(weights @ weights.T).direction, [0.5**0.5, -(0.5**0.5)], atol=1e-12)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_degenerate_top_has_one_answer(order: tuple[int, ...]) -> None:
    """W = identity: every direction of sum 0 is as strong, whatever basis of them a decomposition picks."""
    permuted = np.eye(4)[list(order)]
    noise = strongest_noise(permuted @ permuted.T)
    np.testing.assert_allclose(noise.direction, np.array([3, -1, -1, -1]) / np.sqrt(12), atol=1e-12)
    # Not 1: A = J here, and v -> A^+ J v keeps what has sum 0.
    assert noise.amplification == pytest.approx(1)


@pytest.mark.parametrize("gram", [np.zeros((3, 3)), np.ones((3, 3)), 1e8 * np.ones((3, 3))])
def test_parameters_that_say_nothing_amplify_nothing(gram: FloatArray) -> None:
    noise = strongest_noise(gram)
    assert noise.amplification == 0
    np.testing.assert_allclose(noise.direction, np.array([2, -1, -1]) / np.sqrt(6), atol=1e-12)


def test_what_all_classes_share_does_not_matter() -> None:
    generator = np.random.default_rng(3)
    weights = generator.standard_normal((5, 9))
    shifted = weights + 100 * generator.standard_normal(9)
    expected, found = strongest_noise(weights @ weights.T), strongest_noise(shifted @ shifted.T)
    assert found.amplification == pytest.approx(expected.amplification, rel=1e-6)
    np.testing.assert_allclose(found.direction, expected.direction, atol=1e-6)


@pytest.mark.parametrize("gram", [np.zeros(3), np.zeros((2, 3)), np.zeros((1, 1)), np.full((3, 3), np.nan)])
def test_what_is_no_gram_matrix_is_refused(gram: FloatArray) -> None:
    with pytest.raises(ValueError, match="Gram matrix"):
        strongest_noise(gram)


@pytest.mark.parametrize(("k", "d"), [(2, 3), (4, 3), (4, 8), (6, 3)])
def test_closed_form_is_the_attacks_error(k: int, d: int) -> None:
    """Eq. 86 against ls and half* on noisy scores; noise that depends on the features too, as the schemes' does."""
    generator = np.random.default_rng(10 * k + d)
    n = 4000
    active, passive = generator.random((n, 2)), generator.random((n, d))
    own, weights = generator.standard_normal((k, 2)), generator.standard_normal((k, d))
    noise = generator.standard_normal((n, k)) @ generator.standard_normal((k, k)) + passive[:, :1]
    view = attacks.PredictionView(
        features_active=active,
        scores=confidence_scores(active @ own.T + passive @ weights.T + noise),
        weights_active=own,
        weights_passive=weights,
        bias=np.zeros(k),
    )
    known, correlation = moments(passive), noise.T @ noise / n
    for name, moment in (("ls", known.about_zero), ("half_star", known.about_half)):
        error = float(((attacks.load(name).reconstruct(view) - passive) ** 2).mean())
        assert error == pytest.approx(noisy_error(weights, moment, correlation), rel=1e-6)


def test_without_noise_it_is_theorem_2() -> None:
    generator = np.random.default_rng(0)
    weights, features = generator.standard_normal((4, 9)), generator.random((50, 9))
    known = moments(features)
    theorem_2 = prediction_errors(np.diff(weights, axis=0), known)
    nothing = np.zeros((4, 4))
    assert noisy_error(weights, known.about_zero, nothing) == pytest.approx(theorem_2.least_squares.value)
    assert noisy_error(weights, known.about_half, nothing) == pytest.approx(theorem_2.half_star.value)
    assert largest_noisy_error(weights, known.about_zero, 0.0) == pytest.approx(theorem_2.least_squares.value)


@pytest.mark.parametrize(("k", "d"), [(2, 4), (4, 9), (6, 3)])
def test_no_noise_of_the_same_budget_costs_more(k: int, d: int) -> None:
    generator = np.random.default_rng(k)
    weights, alpha = generator.standard_normal((k, d)), 2.5
    moment = moments(generator.random((100, d))).about_zero
    largest = largest_noisy_error(weights, moment, alpha)
    v = strongest_noise(weights @ weights.T).direction
    assert noisy_error(weights, moment, alpha * np.outer(v, v)) == pytest.approx(largest, rel=1e-9)
    for _ in range(1000):
        root = generator.standard_normal((k, generator.integers(1, k + 1)))
        correlation = root @ root.T
        correlation *= alpha / np.trace(correlation)
        assert noisy_error(weights, moment, correlation) <= largest * (1 + 1e-12)


def test_noise_along_all_classes_alike_costs_nothing() -> None:
    generator = np.random.default_rng(5)
    weights, moment = generator.standard_normal((3, 4)), np.eye(4)
    quiet = noisy_error(weights, moment, np.zeros((3, 3)))
    assert noisy_error(weights, moment, 7.0 * np.ones((3, 3))) == pytest.approx(quiet)


def test_shapes_and_budgets_that_do_not_fit_are_refused() -> None:
    weights = np.ones((3, 4))
    with pytest.raises(ValueError, match="moment"):
        largest_noisy_error(weights, np.eye(3), 1.0)
    for budget in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="noise budget"):
            largest_noisy_error(weights, np.eye(4), budget)
