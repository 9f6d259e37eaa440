"""rcc1 and rcc2: equal to cvxpy, feasible, ordered as Theorem 1 says, and the certificate that the two coincide."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks.prediction import chebyshev
from attacks.prediction.chebyshev import centres_coincide
from attacks.prediction.linear_system import linear_system
from attacks.solving.box_projection import project_onto_solutions
from studies.simulation.error_theory import sample_ordering
from vfl.arrays import FloatArray
from vfl.data.catalogue import load_dataset
from vfl.data.datasets import DatasetNotFound
from vfl.data.encoders import fit_encoder
from vfl.learning.confidence import confidence_scores
from vfl.theory.prediction import RowSpace, row_space

DATA_DIR = os.environ.get("PLUMBLINE_DATA_DIR")


def federation(seed: int, n: int, k: int, d: int, spread: float = 0.3) -> tuple[attacks.PredictionView, FloatArray]:
    """A random linear model's view, and the passive features: normal around a random mean, clipped to [0, 1]."""
    rng = np.random.default_rng(seed)
    active = rng.random((n, 2))
    passive = np.clip(0.2 + 0.6 * rng.random(d) + spread * rng.standard_normal((n, d)), 0, 1)
    weights_active, weights_passive, bias = (rng.standard_normal(shape) for shape in ((k, 2), (k, d), (k,)))
    view = attacks.PredictionView(
        features_active=active,
        scores=confidence_scores(active @ weights_active.T + passive @ weights_passive.T + bias),
        weights_active=weights_active,
        weights_passive=weights_passive,
        bias=bias,
    )
    return view, passive


def space_and_sides(view: attacks.PredictionView) -> tuple[RowSpace, FloatArray, FloatArray]:
    system = linear_system(attacks.load("rcc2"), view)
    return system.space, system.matrix, system.right_hand_sides


def projection_by_cvxpy(matrix: FloatArray, side: FloatArray, point: float) -> FloatArray:
    """The definition, as written: the feasible solution closest to a point."""
    cp: Any = import_module("cvxpy")
    x = cp.Variable(matrix.shape[1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - point)), [matrix @ x == side, x >= 0, x <= 1])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    value: FloatArray = x.value
    return value


def dual_of_eq_16(space: RowSpace, side: FloatArray) -> tuple[float, FloatArray]:
    """Rassouli eq. 15-16 and 31 by cvxpy, with the paper's Q_i, g_i, t_i: the radius squared, and rcc1."""
    cp: Any = import_module("cvxpy")
    q = space.pseudoinverse @ side
    W = chebyshev.null_basis(space)
    d, p = W.shape
    alpha, bound = cp.Variable(d, nonneg=True), cp.Variable((1, 1))
    weighted = W.T @ cp.diag(alpha) @ W
    g = cp.reshape(W.T @ cp.multiply(q - 0.5, alpha), (p, 1), order="F")
    objective = cp.Minimize(bound[0, 0] + cp.sum(cp.multiply(q * (1 - q), alpha)))
    problem = cp.Problem(objective, [cp.bmat([[weighted, g], [g.T, bound]]) >> 0, weighted >> np.eye(p)])
    problem.solve(solver=cp.CLARABEL)
    M = W.T @ np.diag(alpha.value) @ W
    return float(problem.value), q - W @ np.linalg.solve(M, W.T @ (alpha.value * (q - 0.5)))


def primal_of_eq_14(space: RowSpace, sides: FloatArray) -> FloatArray:
    """rcc1 by Rassouli eq. 14 and cvxpy: the variable is [[Delta, u], [u^T, 1]] >= 0, which says Delta >= u u^T."""
    cp: Any = import_module("cvxpy")
    kernel = chebyshev.null_basis(space)
    d, p = kernel.shape
    lifted = cp.Variable((p + 1, p + 1), PSD=True)
    squares, unknown = lifted[:p, :p], lifted[:p, p]
    base, product = cp.Parameter(d), cp.Parameter(d)
    spread = cp.sum(cp.multiply(kernel @ squares, kernel), axis=1)
    # Q_i . Delta + 2 g_i^T u + t_i <= 0 with the Q_i, g_i and t_i of Prop. 2.
    quadratic = spread + cp.multiply(2 * base - 1, kernel @ unknown) - product <= 0
    objective = cp.Maximize(cp.trace(squares) - cp.sum_squares(unknown))
    problem = cp.Problem(objective, [lifted[p, p] == 1, quadratic])
    estimates = []
    for solution in sides @ space.pseudoinverse.T:
        base.value, product.value = solution, solution * (1 - solution)
        problem.solve(solver=cp.CLARABEL)
        estimates.append(np.clip(solution + kernel @ unknown.value, 0.0, 1.0))
    return np.array(estimates)


@pytest.mark.parametrize(("k", "d"), [(2, 2), (2, 9), (3, 3), (4, 12), (6, 30)])
@pytest.mark.parametrize("spread", [0.2, 0.8])
def test_rcc2_is_the_projection_of_half(k: int, d: int, spread: float) -> None:
    pytest.importorskip("cvxpy")
    view, _ = federation(100 * k + d, 15, k, d, spread)
    _, A, b = space_and_sides(view)
    estimate = attacks.load("rcc2").reconstruct(view)
    expected = np.array([projection_by_cvxpy(A, side, 0.5) for side in b])
    np.testing.assert_allclose(estimate, expected, atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 8), d=st.integers(1, 24), spread=st.floats(0.01, 2.0))
def test_rcc2_satisfies_the_projections_inequality(seed: int, k: int, d: int, spread: float) -> None:
    """(x - 1/2)^T (y - x) >= 0 for all feasible y characterises the projection; linear programs find the worst y."""
    optimize = import_module("scipy.optimize")
    view, passive = federation(seed, 8, k, d, spread)
    _, A, b = space_and_sides(view)
    estimate = attacks.load("rcc2").reconstruct(view)
    assert ((estimate - 0.5) * (passive - estimate)).sum(axis=1).min() > -1e-7
    worst = optimize.linprog(estimate[0] - 0.5, A_eq=A, b_eq=A @ estimate[0], bounds=(0, 1))
    assert np.abs(A @ estimate[0] - b[0]).max() < 1e-7
    if worst.success:
        assert (estimate[0] - 0.5) @ (worst.x - estimate[0]) > -1e-6


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 8), d=st.integers(1, 24), spread=st.floats(0.01, 2.0))
def test_theorem_1_holds_record_by_record(seed: int, k: int, d: int, spread: float) -> None:
    view, passive = federation(seed, 30, k, d, spread)
    rcc2, half_star = (attacks.load(name).reconstruct(view) for name in ("rcc2", "half_star"))
    assert sample_ordering(passive, rcc2, half_star).violation() < 1e-8


def test_theorem_1_fails_for_distorted_scores() -> None:
    """The guarantee is about undistorted scores; this shows that the check can fail."""
    view, passive = federation(0, 200, 3, 6)
    assert view.scores is not None
    other = attacks.PredictionView(
        features_active=view.features_active,
        scores=view.scores[::-1],
        weights_active=view.weights_active,
        weights_passive=view.weights_passive,
        bias=view.bias,
    )
    rcc2, half_star = (attacks.load(name).reconstruct(other) for name in ("rcc2", "half_star"))
    assert sample_ordering(passive, rcc2, half_star).violation() > 0.1


@pytest.mark.parametrize(("k", "d", "spread"), [(2, 3, 0.9), (3, 4, 0.5), (6, 7, 0.3), (6, 10, 0.25), (4, 16, 0.6)])
def test_rcc1_is_the_semidefinite_programs(k: int, d: int, spread: float) -> None:
    """Both programs of the paper, by Clarabel; it stops at a gap of 1e-8, which leaves some 1e-5 in x."""
    pytest.importorskip("cvxpy")
    view, _ = federation(7 * k + d, 12, k, d, spread)
    space, _, b = space_and_sides(view)
    estimate = attacks.load("rcc1").reconstruct(view)
    np.testing.assert_allclose(estimate, primal_of_eq_14(space, b), atol=3e-5)
    for row in (0, 1):
        _, expected = dual_of_eq_16(space, b[row])
        np.testing.assert_allclose(estimate[row], expected, atol=1e-4)


@pytest.mark.parametrize(("k", "d"), [(2, 3), (3, 4), (6, 10)])
def test_rcc1_attains_the_relaxed_radius(k: int, d: int) -> None:
    """At rcc1 the best Z gives the dual's minimum: equality of the optimum, where Clarabel is sharper than in x."""
    cp: Any = pytest.importorskip("cvxpy")
    view, _ = federation(3 * k + d, 4, k, d, 0.5)
    space, _, b = space_and_sides(view)
    W = chebyshev.null_basis(space)
    for estimate, side in zip(attacks.load("rcc1").reconstruct(view), b, strict=True):
        Z = cp.Variable((W.shape[1], W.shape[1]), PSD=True)
        room = cp.sum(cp.multiply(W @ Z, W), axis=1) <= estimate * (1 - estimate)
        attained = cp.Problem(cp.Maximize(cp.trace(Z)), [room]).solve(solver=cp.CLARABEL)
        assert attained == pytest.approx(dual_of_eq_16(space, side)[0], abs=1e-6)


def test_rcc1_differs_from_rcc2_where_no_certificate_exists() -> None:
    view, _ = federation(60, 200, 6, 7)
    space, _, _ = space_and_sides(view)
    rcc1, rcc2 = (attacks.load(name).reconstruct(view) for name in ("rcc1", "rcc2"))
    certified = centres_coincide(space, rcc2)
    assert not certified.all()
    assert np.abs(rcc1 - rcc2)[~certified].max() > 0.05


def test_rcc1_says_how_many_records_are_certified_and_who_solved_the_rest() -> None:
    view, _ = federation(60, 200, 6, 7)
    space, _, _ = space_and_sides(view)
    certified = int(centres_coincide(space, attacks.load("rcc2").reconstruct(view)).sum())
    found = attacks.reconstruct(attacks.load_prediction("rcc1"), view)
    np.testing.assert_array_equal(found.estimate, attacks.load("rcc1").reconstruct(view))
    assert found.notes == (
        f"{certified} of 200 records are certified to equal rcc2.",
        f"{200 - certified} records are solved by the batched interior point, to 1e-7.",
    )
    assert attacks.reconstruct(attacks.load_prediction("half"), view).notes == ()


@pytest.mark.parametrize(("k", "d", "spread"), [(2, 3, 0.9), (2, 8, 0.3), (4, 20, 0.6), (6, 30, 0.4)])
def test_certified_records_need_no_program(k: int, d: int, spread: float) -> None:
    """Where the certificate holds, the interior point method, which doesn't know of it, finds rcc2 as well."""
    view, _ = federation(11 * k + d, 60, k, d, spread)
    space, _, b = space_and_sides(view)
    coordinates = b @ space.pseudoinverse.T @ space.basis
    rcc2 = project_onto_solutions(space, coordinates, 0.5).points
    certified = centres_coincide(space, rcc2)
    assert certified.any()
    solved, converged = chebyshev.centre1_by_interior_point(space, coordinates, rcc2)
    assert converged.all()
    np.testing.assert_allclose(solved[certified], rcc2[certified], atol=1e-5)


def test_certificate_with_two_classes_is_the_polygon_inequality() -> None:
    """A = (3, 4): lengths |a_i| sqrt(v_i) are 0.28 and 0.35, which close no polygon; for A = (1, 1), b = 1 they do."""
    assert centres_coincide(row_space(np.array([[3.0, 4.0]])), np.array([[0.68, 0.74]])).tolist() == [False]
    assert centres_coincide(row_space(np.array([[1.0, 1.0]])), np.array([[0.5, 0.5]])).tolist() == [True]


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(2, 7), d=st.integers(1, 16))
def test_vertices_are_feasible_for_both_centres(seed: int, k: int, d: int) -> None:
    """Features at 0 and 1 only: the feasible solutions may have no interior, down to a single point."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((k, d))
    passive = rng.integers(0, 2, (12, d)).astype(np.float64)
    view = attacks.PredictionView(
        features_active=np.zeros((12, 1)),
        scores=confidence_scores(passive @ weights.T),
        weights_active=np.zeros((k, 1)),
        weights_passive=weights,
        bias=np.zeros(k),
    )
    A = np.diff(weights, axis=0)
    for name in ("rcc1", "rcc2"):
        estimate = attacks.load(name).reconstruct(view)
        assert estimate.min() >= 0
        assert estimate.max() <= 1
        assert np.abs((estimate - passive) @ A.T).max() < 1e-6


@pytest.mark.parametrize("scale", [1e-5, 1e5])
def test_the_weights_scale_does_not_matter(scale: float) -> None:
    """The active features are the passive ones with opposite weights, so that scores stay away from 0 at any scale."""
    rng = np.random.default_rng(9)
    weights, remainder, passive = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.random((30, 5))

    def centre(factor: float) -> FloatArray:
        view = attacks.PredictionView(
            features_active=passive,
            scores=confidence_scores(passive @ remainder.T),
            weights_active=remainder - factor * weights,
            weights_passive=factor * weights,
            bias=np.zeros(3),
        )
        estimate: FloatArray = attacks.load("rcc1").reconstruct(view)
        return estimate

    np.testing.assert_allclose(centre(scale), centre(1.0), atol=2e-5)


def test_single_feasible_points_are_found() -> None:
    """x_1 + x_2 + x_3 = 0 leaves the corner only."""
    view = attacks.PredictionView(
        features_active=np.zeros((1, 1)),
        scores=np.array([[0.5, 0.5]]),
        weights_active=np.zeros((2, 1)),
        weights_passive=np.array([[0.0, 0, 0], [1, 1, 1]]),
        bias=np.zeros(2),
    )
    for name in ("rcc1", "rcc2", "cls"):
        np.testing.assert_allclose(attacks.load(name).reconstruct(view), 0, atol=1e-6)


def test_what_the_batch_cannot_finish_keeps_its_best_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = federation(42, 200, 6, 7)
    expected = attacks.load("rcc1").reconstruct(view)
    monkeypatch.setattr(chebyshev, "_CONVERGED", 0.0)
    found = attacks.reconstruct(attacks.load_prediction("rcc1"), view)
    np.testing.assert_allclose(found.estimate, expected, atol=1e-4)
    assert found.notes[-1].endswith("records converged to less than 1e-7 only.")


def test_real_predictions_are_equal_to_cvxpys() -> None:
    """Satellite with d = 30, as the benchmark has it, on a few records."""
    pytest.importorskip("cvxpy")
    if DATA_DIR is None:
        pytest.skip("PLUMBLINE_DATA_DIR is not set")
    try:
        raw = load_dataset("satellite", Path(DATA_DIR)).features
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    features = fit_encoder("minmax", raw).transform(raw)[:8]
    weights = np.random.default_rng(0).standard_normal((6, 36))
    view = attacks.PredictionView(
        features_active=features[:, 30:],
        scores=confidence_scores(features @ weights.T),
        weights_active=weights[:, 30:],
        weights_passive=weights[:, :30],
        bias=np.zeros(6),
    )
    space, matrix, sides = space_and_sides(view)
    np.testing.assert_allclose(attacks.load("rcc1").reconstruct(view), primal_of_eq_14(space, sides), atol=1e-5)
    projections = [projection_by_cvxpy(matrix, side, 0.5) for side in sides]
    np.testing.assert_allclose(attacks.load("rcc2").reconstruct(view), projections, atol=1e-5)


def test_infeasible_records_of_features_that_are_fully_determined_but_for_one_without_weight() -> None:
    """Nothing is left to centre among the features that have a weight; the other one is a half."""
    rng = np.random.default_rng(3)
    view = attacks.PredictionView(
        features_active=rng.random((6, 2)),
        scores=rng.dirichlet(np.ones(2), 6),
        weights_active=rng.standard_normal((2, 2)),
        weights_passive=np.array([[-1.0, 0.0], [1.0, 0.0]]),
        bias=np.zeros(2),
    )
    estimates = [attacks.load(name).reconstruct(view) for name in ("rcc1", "rcc2")]
    np.testing.assert_allclose(*estimates)
    np.testing.assert_array_equal(estimates[0][:, 1], 0.5)
