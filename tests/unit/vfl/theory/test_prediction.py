"""Theorems 1 and 2 and the bounds before training: by hand, against measured errors, and over random models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from studies.simulation.error_theory import sample_ordering
from tests.harness.distortions import mean_squared_error
from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.prediction import equations, moments, prediction_errors, preflight_bounds, row_space


def federation(seed: int, k: int, d: int, n: int = 40) -> tuple[attacks.PredictionView, FloatArray]:
    rng = np.random.default_rng(seed)
    active, passive = rng.random((n, 2)), rng.random((n, d)) ** rng.uniform(0.2, 5, d)
    weights_active, weights_passive, bias = (rng.standard_normal(shape) for shape in ((k, 2), (k, d), (k,)))
    view = attacks.PredictionView(
        features_active=active,
        scores=confidence_scores(active @ weights_active.T + passive @ weights_passive.T + bias),
        weights_active=weights_active,
        weights_passive=weights_passive,
        bias=bias,
    )
    return view, passive


def test_row_space_of_a_rank_one_matrix() -> None:
    """A = (1, 2)^T (3, 4): one singular value, sqrt(5) * 5, and a null space along (4, -3)."""
    space = row_space(np.array([[3.0, 4.0], [6.0, 8.0]]))
    assert (space.rank, space.nullity) == (1, 1)
    np.testing.assert_allclose(space.singular_values, [5 * np.sqrt(5)])
    np.testing.assert_allclose(space.null_projector, np.array([[16, -12], [-12, 9]]) / 25, atol=1e-15)
    np.testing.assert_allclose(space.pseudoinverse, np.outer([3, 4], [1, 2]) / 125, atol=1e-15)


def test_row_space_of_zeros_is_empty() -> None:
    space = row_space(np.zeros((2, 3)))
    assert (space.rank, space.nullity) == (0, 3)
    np.testing.assert_array_equal(space.pseudoinverse, np.zeros((3, 2)))


@pytest.mark.parametrize("matrix", [np.zeros(3), np.array([[np.nan]]), np.array([[np.inf]])])
def test_row_space_refuses_what_is_no_matrix_of_numbers(matrix: FloatArray) -> None:
    with pytest.raises(ValueError, match="matrix of finite numbers"):
        row_space(matrix)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 6), d=st.integers(1, 9))
def test_row_space_satisfies_the_moore_penrose_conditions(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, min(m, d) + 1))
    A = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))
    space = row_space(A)
    inverse = space.pseudoinverse
    scale = np.abs(A).max() * (1 + np.abs(inverse).max()) ** 2
    assert space.rank == rank
    np.testing.assert_allclose(A @ inverse @ A, A, atol=1e-9 * scale)
    np.testing.assert_allclose(inverse @ A @ inverse, inverse, atol=1e-9 * scale)
    np.testing.assert_allclose(A @ inverse, (A @ inverse).T, atol=1e-9 * scale)
    np.testing.assert_allclose(np.eye(d) - inverse @ A, space.null_projector, atol=1e-9 * scale)


def test_equations_are_differences_of_consecutive_classes() -> None:
    np.testing.assert_array_equal(equations(np.array([[1.0, 2], [4, 8], [9, 9]])), [[3, 6], [5, 1]])


def test_moments_by_hand() -> None:
    """Two records, (0, 1) and (1, 1)."""
    found = moments(np.array([[0.0, 1], [1, 1]]))
    np.testing.assert_array_equal(found.mean, [0.5, 1])
    np.testing.assert_array_equal(found.about_zero, [[0.5, 0.5], [0.5, 1]])
    np.testing.assert_array_equal(found.about_half, [[0.25, 0], [0, 0.25]])
    np.testing.assert_array_equal(found.about_mean, [[0.25, 0], [0, 0]])


@pytest.mark.parametrize("features", [np.zeros(3), np.zeros((0, 2)), np.array([[1.1]]), np.array([[-0.1]])])
def test_moments_refuses_other_features(features: FloatArray) -> None:
    with pytest.raises(ValueError, match="Expected features"):
        moments(features)


def test_moments_refuses_nan() -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        moments(np.array([[0.5, np.nan]]))


def test_theorem_2_by_hand() -> None:
    """A = (1, 0): x_2 stays unknown. Records (0, 1), (1, 1): E x_2^2 = 1, E (x_2 - 1/2)^2 = 1/4, variance 0."""
    found = prediction_errors(np.array([[1.0, 0.0]]), moments(np.array([[0.0, 1], [1, 1]])))
    assert found.least_squares.value == pytest.approx(1 / 2)
    assert found.half_star.value == pytest.approx(1 / 8)
    assert found.floor == pytest.approx(0)
    # K_0 = [[1, 1], [1, 2]] / 2 has eigenvalues (3 -+ sqrt 5)/4; K_half is I/4.
    assert found.least_squares.lower == pytest.approx((3 - np.sqrt(5)) / 8)
    assert found.least_squares.upper == pytest.approx((3 + np.sqrt(5)) / 8)
    assert found.half_star.lower == pytest.approx(1 / 8)
    assert found.half_star.upper == pytest.approx(1 / 8)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 7), d=st.integers(1, 12))
def test_theorem_2_is_the_measured_error(seed: int, k: int, d: int) -> None:
    view, passive = federation(seed, k, d)
    assert view.weights_passive is not None
    A = equations(view.weights_passive)
    values = row_space(A).singular_values
    if values[-1] < 1e-3 * values[0]:
        return  # the scores' rounding, magnified, is then part of the measured error
    found = prediction_errors(A, moments(passive))
    for name, error in (("ls", found.least_squares), ("half_star", found.half_star)):
        measured = mean_squared_error(passive, attacks.load(name).reconstruct(view))
        assert measured == pytest.approx(error.value, abs=1e-9)
        assert error.lower - 1e-12 <= error.value <= error.upper + 1e-12
        assert found.floor <= error.value + 1e-12


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 7), d=st.integers(1, 12))
def test_bounds_before_training_hold_for_every_model(seed: int, k: int, d: int) -> None:
    _, passive = federation(seed, k, d)
    before = preflight_bounds(passive, classes=k)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        after = prediction_errors(rng.standard_normal((k - 1, d)), moments(passive))
        for bounds, error in ((before.least_squares, after.least_squares), (before.half_star, after.half_star)):
            assert bounds.lower - 1e-12 <= error.value <= bounds.upper + 1e-12
        assert before.floor <= after.floor + 1e-12
    assert before.half_star.upper <= before.half + 1e-12
    assert before.least_squares.upper <= before.zero + 1e-12


def test_bounds_are_attained_by_models_along_the_eigenvectors() -> None:
    """A = the eigenvectors of K_1/2 with the largest eigenvalues leaves the smallest: the lower bound is tight."""
    _, passive = federation(0, 4, 6)
    known = moments(passive)
    values, vectors = np.linalg.eigh(known.about_half)
    before = preflight_bounds(passive, classes=4)
    strongest, weakest = prediction_errors(vectors[:, 3:].T, known), prediction_errors(vectors[:, :3].T, known)
    assert strongest.half_star.value == pytest.approx(before.half_star.lower, abs=1e-14)
    assert weakest.half_star.value == pytest.approx(before.half_star.upper, abs=1e-14)
    assert before.half_star.lower == pytest.approx(values[:3].sum() / 6)


def test_bounds_before_training_by_hand() -> None:
    """Records (0, 1) and (1, 1), two classes: rank 1, nullity 1."""
    before = preflight_bounds(np.array([[0.0, 1], [1, 1]]), classes=2)
    assert (before.rank, before.nullity, before.fully_determined) == (1, 1, False)
    assert before.half_star == type(before.half_star)(1 / 8, 1 / 8)
    assert before.floor == pytest.approx(0)
    assert (before.half, before.zero, before.random_guess) == pytest.approx((1 / 4, 3 / 4, 1 / 4 + 1 / 12))


@pytest.mark.parametrize(("classes", "d", "determined"), [(2, 1, True), (2, 2, False), (4, 3, True), (4, 4, False)])
def test_fewer_features_than_classes_leak_completely(classes: int, d: int, determined: bool) -> None:
    before = preflight_bounds(np.random.default_rng(0).random((9, d)), classes=classes)
    assert before.fully_determined is determined
    assert (before.half_star.upper == 0) is determined


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 classes"):
        preflight_bounds(np.zeros((2, 2)), classes=1)


def test_moments_of_other_features_are_refused() -> None:
    with pytest.raises(ValueError, match="over 2 features"):
        prediction_errors(np.zeros((1, 3)), moments(np.zeros((2, 2))))


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 7), d=st.integers(1, 12))
def test_half_star_gains_what_the_equations_tell(seed: int, k: int, d: int) -> None:
    """Eq. 47-48, record by record; d and k as they come, so d < k - 1 as well."""
    view, passive = federation(seed, k, d)
    assert view.weights_passive is not None
    A = equations(view.weights_passive)
    values = row_space(A).singular_values
    if values[-1] < 1e-3 * values[0]:
        return
    rcc2, half_star = (attacks.load(name).reconstruct(view) for name in ("rcc2", "half_star"))
    errors = sample_ordering(passive, rcc2, half_star)
    gain = (((passive - 0.5) @ row_space(A).basis) ** 2).sum(axis=1)
    np.testing.assert_allclose(errors.half - errors.half_star, gain, atol=1e-9)
    assert errors.violation() < 1e-9


def test_violation_is_the_largest_of_either_inequality() -> None:
    """One record at 1/2: errors 0.25 (rcc2 = 0), 0.01 and 0 break the first by 0.24 and the second by 0.01."""
    errors = sample_ordering(np.array([[0.5]]), np.array([[0.0]]), np.array([[0.6]]))
    assert errors.violation() == pytest.approx(0.24)


@pytest.mark.parametrize("combination", [np.array([[0.0, 1], [1, 0]]), np.array([[2.0, 1], [1, 1]])])
def test_errors_do_not_depend_on_how_the_rows_are_combined(combination: FloatArray) -> None:
    """Remark 3: R A for an invertible R has the same projector, here also for the tall A of d = 1."""
    for d in (1, 2, 5):
        _, passive = federation(d, 3, d)
        A = np.random.default_rng(d).standard_normal((2, d))
        first, second = (prediction_errors(matrix, moments(passive)) for matrix in (A, combination @ A))
        assert first.half_star.value == pytest.approx(second.half_star.value, abs=1e-12)
        assert first.least_squares.value == pytest.approx(second.least_squares.value, abs=1e-12)
