"""Errors under distorted parameters: the closed forms against the attacks themselves, each other, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from studies.simulation.error_theory import greatest_ls_error
from tests.harness.distortions import (
    binary_error,
    half_star_error_rotated,
    interpretability_rotated,
    ls_error_rotated,
    ls_error_transformed,
    mean_squared_error,
    single_feature_error,
)
from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.distortion import disclosed_errors, interpretability, worst_transform
from vfl.theory.prediction import Moments, equations, moments, prediction_errors

SEEDS = st.integers(0, 2**32 - 1)
CLASSES, FEATURES = st.integers(2, 6), st.integers(1, 8)


def model(seed: int, k: int, d: int, n: int = 30) -> tuple[FloatArray, FloatArray, Moments]:
    """(k, d) class rows, (n, d) features and their moments."""
    rng = np.random.default_rng(seed)
    features = rng.random((n, d)) ** rng.uniform(0.2, 4, d)
    return rng.standard_normal((k, d)), features, moments(features)


def orthonormal(seed: int, d: int) -> FloatArray:
    matrix: FloatArray = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]
    return matrix


def measured(attack: str, weights: FloatArray, disclosed: FloatArray, features: FloatArray) -> float:
    """The error of an attack on the scores of ``weights`` that was given ``disclosed``."""
    rng = np.random.default_rng(1)
    k, active, bias = len(weights), rng.random((len(features), 2)), rng.standard_normal(len(weights))
    weights_active = rng.standard_normal((k, 2))
    view = attacks.PredictionView(
        features_active=active,
        scores=confidence_scores(active @ weights_active.T + features @ weights.T + bias),
        weights_active=weights_active,
        weights_passive=disclosed,
        bias=bias,
    )
    return mean_squared_error(features, attacks.load(attack).reconstruct(view))


# --- against the attacks ------------------------------------------------------------------------------------------


@given(seed=SEEDS, k=CLASSES, d=FEATURES)
def test_the_attacks_err_as_predicted_whatever_is_disclosed(seed: int, k: int, d: int) -> None:
    weights, features, own = model(seed, k, d)
    disclosed = np.random.default_rng(seed + 1).standard_normal(weights.shape)
    values = np.linalg.svd(equations(disclosed), compute_uv=False)
    if values[-1] < 1e-2 * values[0]:
        return
    predicted = disclosed_errors(equations(weights), equations(disclosed), own)
    assert measured("ls", weights, disclosed, features) == pytest.approx(predicted.least_squares, rel=1e-6)
    assert measured("half_star", weights, disclosed, features) == pytest.approx(predicted.half_star, rel=1e-6)


@given(seed=SEEDS, k=CLASSES, d=FEATURES)
def test_true_parameters_give_theorem_2(seed: int, k: int, d: int) -> None:
    weights, _, own = model(seed, k, d)
    matrix = equations(weights)
    errors, expected = disclosed_errors(matrix, matrix, own), prediction_errors(matrix, own)
    assert errors.least_squares == pytest.approx(expected.least_squares.value, abs=1e-9)
    assert errors.half_star == pytest.approx(expected.half_star.value, abs=1e-9)


def test_fresh_records_err_so_on_average() -> None:
    """Moments of 200,000 records predict the error on 200,000 others, to Monte-Carlo error."""
    rng = np.random.default_rng(0)
    seen, fresh = rng.beta(2, 5, (200_000, 4)), rng.beta(2, 5, (200_000, 4))
    weights, rotation = rng.standard_normal((3, 4)), orthonormal(3, 4)
    predicted = half_star_error_rotated(equations(weights), moments(seen), rotation)
    assert measured("half_star", weights, weights @ rotation, fresh) == pytest.approx(predicted, rel=5e-3)


# --- the papers' cases are what the general form becomes ----------------------------------------------------------


@given(seed=SEEDS, k=CLASSES, d=FEATURES)
def test_a_rotation_and_a_transform_are_two_views_of_the_same(seed: int, k: int, d: int) -> None:
    """Rassouli eq. 82 with H = R^T, Varasteh eq. 38; both for tall A as well."""
    weights, _, own = model(seed, k, d)
    matrix, rotation = equations(weights), orthonormal(seed, d)
    errors = disclosed_errors(matrix, matrix @ rotation, own)
    assert ls_error_transformed(matrix, own.about_zero, rotation.T) == pytest.approx(errors.least_squares, abs=1e-9)
    assert half_star_error_rotated(matrix, own, rotation) == pytest.approx(errors.half_star, abs=1e-9)


@given(seed=SEEDS, d=FEATURES, more=st.integers(1, 4))
def test_fewer_features_than_classes_need_the_second_moment_only(seed: int, d: int, more: int) -> None:
    """Varasteh eq. 45, and its maximum at R = -I."""
    weights, _, own = model(seed, d + more, d)
    matrix, rotation = equations(weights), orthonormal(seed, d)
    expected = disclosed_errors(matrix, matrix @ rotation, own)
    assert ls_error_rotated(own.about_zero, rotation) == pytest.approx(expected.least_squares, abs=1e-9)
    assert expected.half_star == pytest.approx(expected.least_squares, abs=1e-9)
    greatest = ls_error_rotated(own.about_zero, -np.eye(d))
    assert greatest == pytest.approx(4 * np.trace(own.about_zero) / d)
    assert greatest_ls_error(matrix, own.about_zero) == pytest.approx(greatest)
    assert greatest >= expected.least_squares


@given(seed=SEEDS, k=CLASSES)
def test_one_feature_and_any_parameters(seed: int, k: int) -> None:
    weights, _, own = model(seed, k, 1)
    matrix = equations(weights)
    disclosed = equations(np.random.default_rng(seed + 1).standard_normal((k, 1)))
    expected = disclosed_errors(matrix, disclosed, own)
    assert single_feature_error(matrix, disclosed, own.about_zero[0, 0]) == pytest.approx(expected.least_squares)


@given(seed=SEEDS, d=FEATURES)
def test_two_classes_and_any_parameters(seed: int, d: int) -> None:
    weights, _, own = model(seed, 2, d)
    matrix = equations(weights)
    disclosed = np.random.default_rng(seed + 1).standard_normal((1, d))
    expected = disclosed_errors(matrix, disclosed, own)
    assert binary_error(matrix, disclosed, own) == pytest.approx(expected.half_star)


def test_without_equations_the_attacks_are_blind() -> None:
    weights, _, own = model(0, 2, 3)
    matrix, nothing = equations(weights), np.zeros((1, 3))
    assert binary_error(matrix, nothing, own) == pytest.approx(np.trace(own.about_half) / 3)
    assert disclosed_errors(matrix, nothing, own).half_star == pytest.approx(np.trace(own.about_half) / 3)
    assert single_feature_error(np.ones((2, 1)), np.zeros((2, 1)), 0.25) == 0.25


def test_one_feature_by_hand() -> None:
    """A = 2 told as 1: the estimate is 2 x, the error E[x^2] (1 - 2)^2; told as -2: -x, so 4 E[x^2]."""
    matrix = np.array([[2.0]])
    assert single_feature_error(matrix, np.array([[1.0]]), 0.3) == pytest.approx(0.3)
    assert single_feature_error(matrix, np.array([[-2.0]]), 0.3) == pytest.approx(4 * 0.3)


def test_how_class_rows_are_combined_matters_for_one_feature_but_not_under_rotation() -> None:
    combination = np.array([[2.0, 1.0], [0.0, 1.0]])
    weights, _, own = model(5, 3, 1)
    matrix, disclosed = equations(weights), equations(np.array([[0.3], [-1.0], [0.9]]))
    errors = [single_feature_error(T @ matrix, T @ disclosed, 1.0) for T in (np.eye(2), combination)]
    assert errors[0] != pytest.approx(errors[1], rel=1e-2)
    weights, _, own = model(5, 3, 2)
    matrix, rotation = equations(weights), orthonormal(5, 2)
    rotated = [half_star_error_rotated(T @ matrix, own, rotation) for T in (np.eye(2), combination)]
    assert rotated[0] == pytest.approx(rotated[1], abs=1e-12)


# --- maxima, gradients, interpretability --------------------------------------------------------------------------


@given(seed=SEEDS, k=CLASSES, d=FEATURES)
def test_theorem_3_is_attained_and_beats_other_transforms(seed: int, k: int, d: int) -> None:
    weights, _, own = model(seed, k, d)
    matrix, moment = equations(weights), own.about_zero
    worst, greatest = worst_transform(matrix, moment), greatest_ls_error(matrix, moment)
    np.testing.assert_allclose(worst @ worst.T, np.eye(d), atol=1e-10)
    assert ls_error_transformed(matrix, moment, worst) == pytest.approx(greatest, abs=1e-10)
    others = [ls_error_transformed(matrix, moment, orthonormal(seed + i, d)) for i in range(20)]
    assert max([*others, ls_error_transformed(matrix, moment, -np.eye(d))]) <= greatest + 1e-10


@given(seed=SEEDS, k=CLASSES, d=FEATURES)
def test_interpretability_of_a_rotation(seed: int, k: int, d: int) -> None:
    """Eq. 34 is eq. 33 for W R; -I is the farthest, at four times the mean squared parameter."""
    weights, _, _ = model(seed, k, d)
    rotation = orthonormal(seed, d)
    expected = interpretability(weights, weights @ rotation)
    assert interpretability_rotated(weights, rotation) == pytest.approx(expected, abs=1e-12)
    assert interpretability_rotated(weights, -np.eye(d)) == pytest.approx(4 * np.mean(weights**2))


def test_matrices_that_do_not_fit_are_refused() -> None:
    _, _, own = model(0, 3, 2)
    with pytest.raises(ValueError, match="two matrices over 2 features"):
        disclosed_errors(np.zeros((2, 2)), np.zeros((2, 3)), own)
