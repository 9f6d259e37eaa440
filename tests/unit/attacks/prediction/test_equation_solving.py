"""ls, half*, clamped_ls and cls: systems solved by hand, and the guarantees on any system, solvable or not."""

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks.prediction.linear_system import SCORE_FLOOR, linear_system
from attacks.solving.box_projection import project_onto_solutions
from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.prediction import row_space

IN_THE_BOX = ("cls", "rcc1", "rcc2")
LINEAR = ("ls", "half_star", "clamped_ls", *IN_THE_BOX)


def view_of(matrix: Any, sides: Any) -> attacks.PredictionView:
    """A view whose equations are A x = b for each row b of sides: class m + 1 exceeds class m by row m of A."""
    differences, right = np.asarray(matrix, dtype=np.float64), np.asarray(sides, dtype=np.float64)
    classes = len(differences) + 1
    logits = np.hstack([np.zeros((len(right), 1)), np.cumsum(right, axis=1)])
    return attacks.PredictionView(
        features_active=np.zeros((len(right), 1)),
        scores=confidence_scores(logits),
        weights_active=np.zeros((classes, 1)),
        weights_passive=np.vstack([np.zeros(differences.shape[1]), np.cumsum(differences, axis=0)]),
        bias=np.zeros(classes),
    )


def federation(seed: int, n: int = 20, k: int | None = None, d: int | None = None) -> tuple[Any, FloatArray]:
    """A random model's view with undistorted scores, and the passive features; some of them at the ends of [0, 1]."""
    rng = np.random.default_rng(seed)
    k, d = k or int(rng.integers(2, 8)), d or int(rng.integers(1, 16))
    active, passive = rng.random((n, 3)), np.clip(rng.random((n, d)) * 1.4 - 0.2, 0, 1)
    weights_active, weights_passive, bias = (rng.standard_normal(shape) for shape in ((k, 3), (k, d), (k,)))
    view = attacks.PredictionView(
        features_active=active,
        scores=confidence_scores(active @ weights_active.T + passive @ weights_passive.T + bias),
        weights_active=weights_active,
        weights_passive=weights_passive,
        bias=bias,
    )
    return view, passive


def equations_of(view: attacks.PredictionView) -> tuple[FloatArray, FloatArray]:
    """A (k-1, d) and b (n, k-1), written out from Rassouli eq. 3-6 with J as a matrix."""
    assert view.scores is not None
    assert view.weights_active is not None
    assert view.weights_passive is not None
    assert view.bias is not None
    k = view.classes
    J = np.eye(k - 1, k, 1) - np.eye(k - 1, k)
    ratios = np.log(view.scores[:, 1:] / view.scores[:, :-1])
    return J @ view.weights_passive, ratios - view.features_active @ view.weights_active.T @ J.T - view.bias @ J.T


@pytest.mark.parametrize("name", LINEAR)
def test_two_classes_one_feature(name: str) -> None:
    """2 x = 1 and 2 x = 0.5."""
    estimate = attacks.load(name).reconstruct(view_of([[2.0]], [[1.0], [0.5]]))
    np.testing.assert_allclose(estimate, [[0.5], [0.25]], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # A^+ = A^T / 25, so A^+ b = (0.6, 0.8); P 1 = 7/25 (3, 4); half of what is left of 1 is (0.08, -0.06).
        ("ls", (0.6, 0.8)),
        ("clamped_ls", (0.6, 0.8)),
        ("cls", (0.6, 0.8)),
        ("half_star", (0.68, 0.74)),
        ("rcc2", (0.68, 0.74)),
        # W = (4, -3)/5. With x = (0.68 + 0.8 u, 0.74 - 0.6 u), Z is at most x_1 (1-x_1)/0.64 and x_2 (1-x_2)/0.36,
        # which cross where 0.34 - 0.45 u - u^2 = 0.53444 + 0.8 u - u^2, at u = -7/45.
        ("rcc1", (5 / 9, 5 / 6)),
    ],
)
def test_two_classes_two_features(name: str, expected: tuple[float, float]) -> None:
    """3 x_1 + 4 x_2 = 5."""
    estimate = attacks.load(name).reconstruct(view_of([[3.0, 4.0]], [[5.0]]))
    np.testing.assert_allclose(estimate, [expected], atol=1e-8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # A^+ b = 1.1/1.0625 (1, 0.25): outside; on the edge x_1 = 1 the equation leaves x_2 = 0.4.
        ("ls", (1.1 / 1.0625, 0.275 / 1.0625)),
        ("clamped_ls", (1.0, 0.275 / 1.0625)),
        ("cls", (1.0, 0.4)),
        # I - P = [[0.0625, -0.25], [-0.25, 1]] / 1.0625.
        ("half_star", ((1.1 - 0.09375) / 1.0625, (0.275 + 0.375) / 1.0625)),
        ("rcc2", ((1.1 - 0.09375) / 1.0625, (0.275 + 0.375) / 1.0625)),
    ],
)
def test_minimum_norm_solution_outside_the_box(name: str, expected: tuple[float, float]) -> None:
    """x_1 + x_2 / 4 = 1.1."""
    estimate = attacks.load(name).reconstruct(view_of([[1.0, 0.25]], [[1.1]]))
    np.testing.assert_allclose(estimate, [expected], atol=1e-10)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ls", (0.3, 0.4, 0.4)),
        ("cls", (0.3, 0.4, 0.4)),
        ("half_star", (0.3, 0.4, 0.4)),
        ("rcc1", (0.3, 0.4, 0.4)),
        ("rcc2", (0.3, 0.4, 0.4)),
    ],
)
def test_three_classes_three_features(name: str, expected: tuple[float, ...]) -> None:
    """x_1 = 0.3, x_2 + x_3 = 0.8: the null space (0, 1, -1) has no part in 1, so every centre is symmetric."""
    estimate = attacks.load(name).reconstruct(view_of([[1.0, 0, 0], [0, 1, 1]], [[0.3, 0.8]]))
    np.testing.assert_allclose(estimate, [expected], atol=1e-8)


@pytest.mark.parametrize("name", LINEAR)
def test_three_classes_two_features_are_solved(name: str) -> None:
    """x_1 + x_2 = 0.9 and x_1 - x_2 = 0.5."""
    estimate = attacks.load(name).reconstruct(view_of([[1.0, 1], [1, -1]], [[0.9, 0.5]]))
    np.testing.assert_allclose(estimate, [[0.7, 0.2]], atol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "side", "expected"),
    [
        # x_1 = 0.2 and x_1 = 0.6: b's projection onto the range of A says 0.4, and nothing is known of x_2.
        ([[1, 0], [1, 0]], (0.2, 0.6), {"ls": (0.4, 0), "cls": (0.4, 0), "half_star": (0.4, 0.5), "rcc2": (0.4, 0.5)}),
        # x_1 + x_2 = 3: beyond the corner (1, 1).
        ([[1, 1]], (3.0,), {"ls": (1.5, 1.5), "clamped_ls": (1, 1), "cls": (1, 1), "rcc1": (1, 1), "rcc2": (1, 1)}),
        ([[1, 1]], (-1.0,), {"half_star": (-0.5, -0.5), "cls": (0, 0), "rcc1": (0, 0), "rcc2": (0, 0)}),
        # x_1 = 2: the box comes nearest where x_1 = 1, whatever x_2.
        ([[1, 0]], (2.0,), {"half_star": (2, 0.5), "cls": (1, 0), "rcc1": (1, 0.5), "rcc2": (1, 0.5)}),
        # x_1 = 2 and x_1 + x_2 = 1: on the edge x_1 = 1, ||A x - b||^2 = 1 + x_2^2.
        ([[1, 0], [1, 1]], (2.0, 1.0), {"ls": (2, -1), "cls": (1, 0), "rcc1": (1, 0), "rcc2": (1, 0)}),
        # No weights on the passive features, but scores that would need some: nothing is learned.
        (
            [[0, 0]],
            (1.0,),
            {"ls": (0, 0), "cls": (0, 0), "half_star": (0.5, 0.5), "rcc1": (0.5, 0.5), "rcc2": (0.5, 0.5)},
        ),
    ],
)
def test_systems_without_a_solution_in_the_box(
    matrix: list[list[float]], side: tuple[float, ...], expected: dict[str, tuple[float, float]]
) -> None:
    for name, point in expected.items():
        estimate = attacks.load(name).reconstruct(view_of(matrix, [side]))
        np.testing.assert_allclose(estimate, [point], atol=1e-7, err_msg=name)


def test_known_parts_are_taken_off() -> None:
    """(k, d_a, d) = (2, 1, 1): z_2 - z_1 = 2 y + 3 x - 1, so with y = 0.25 and x = 0.5 the log ratio is 1."""
    view = attacks.PredictionView(
        features_active=np.array([[0.25]]),
        scores=np.array([[1.0, np.e]]) / (1 + np.e),
        weights_active=np.array([[1.0], [3.0]]),
        weights_passive=np.array([[-1.0], [2.0]]),
        bias=np.array([0.5, -0.5]),
    )
    np.testing.assert_allclose(attacks.load("ls").reconstruct(view), [[0.5]], atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_equations_are_the_papers(seed: int) -> None:
    view, passive = federation(seed)
    system = linear_system(attacks.load("ls"), view)
    A, b = equations_of(view)
    np.testing.assert_allclose(system.matrix, A, atol=1e-12)
    np.testing.assert_allclose(system.right_hand_sides, b, atol=1e-9)
    np.testing.assert_allclose(passive @ A.T, b, atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1))
def test_estimates_solve_the_equations(seed: int) -> None:
    view, _ = federation(seed)
    A, b = equations_of(view)
    for name in ("ls", "half_star", *IN_THE_BOX):
        estimate = attacks.load(name).reconstruct(view)
        assert np.abs(estimate @ A.T - b).max() < 1e-6, name
    for name in ("clamped_ls", *IN_THE_BOX):
        estimate = attacks.load(name).reconstruct(view)
        assert estimate.min() >= 0
        assert estimate.max() <= 1


@given(seed=st.integers(0, 2**32 - 1), data=st.data())
def test_fewer_features_than_classes_are_recovered(seed: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(2, 8))
    view, passive = federation(seed, k=k, d=data.draw(st.integers(1, k - 1)))
    values = row_space(equations_of(view)[0]).singular_values
    if values[-1] < 1e-2 * values[0]:
        return  # rounding of the scores is then magnified: the bound below is for ordinary parameters
    for name in LINEAR:
        assert np.mean((attacks.load(name).reconstruct(view) - passive) ** 2) < 1e-12, name


@given(seed=st.integers(0, 2**32 - 1))
def test_half_star_is_the_solution_closest_to_half(seed: int) -> None:
    view, passive = federation(seed)
    estimate = attacks.load("half_star").reconstruct(view)
    # Orthogonal to every direction between solutions; the truth is one of them.
    assert np.abs(((passive - estimate) * (estimate - 0.5)).sum(axis=1)).max() < 1e-7


@given(seed=st.integers(0, 2**32 - 1))
def test_cls_has_the_least_norm_of_all_solutions_in_the_box(seed: int) -> None:
    view, passive = federation(seed)
    estimate = attacks.load("cls").reconstruct(view)
    # The projection of 0 onto a convex set: no other point of the set lies on the near side.
    for other in (passive, attacks.load("rcc1").reconstruct(view), attacks.load("rcc2").reconstruct(view)):
        assert ((other - estimate) * estimate).sum(axis=1).min() > -1e-6


@given(seed=st.integers(0, 2**32 - 1))
def test_records_are_attacked_one_by_one(seed: int) -> None:
    """An estimate depends on its own record only (Remark 5): order and company don't matter."""
    view, _ = federation(seed, n=6)
    order = np.random.default_rng(seed).permutation(6)
    assert view.scores is not None
    shuffled = attacks.PredictionView(
        features_active=view.features_active[order],
        scores=view.scores[order],
        weights_active=view.weights_active,
        weights_passive=view.weights_passive,
        bias=view.bias,
    )
    for name in LINEAR:
        attack = attacks.load(name)
        np.testing.assert_allclose(attack.reconstruct(shuffled), attack.reconstruct(view)[order], atol=2e-5)


@given(seed=st.integers(0, 2**32 - 1))
def test_only_differences_between_classes_count(seed: int) -> None:
    """Adding a vector to every class's weights changes no score, hence no estimate."""
    view, _ = federation(seed)
    rng = np.random.default_rng(seed)
    assert view.weights_active is not None
    assert view.weights_passive is not None
    assert view.bias is not None
    shifted = attacks.PredictionView(
        features_active=view.features_active,
        scores=view.scores,
        weights_active=view.weights_active + rng.standard_normal(3),
        weights_passive=view.weights_passive + rng.standard_normal(view.d),
        bias=view.bias + 1.5,
    )
    for name in LINEAR:
        attack = attacks.load(name)
        np.testing.assert_allclose(attack.reconstruct(shifted), attack.reconstruct(view), atol=2e-5)


@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_features_and_of_classes_does_not_matter(seed: int) -> None:
    view, _ = federation(seed, k=4, d=9)
    rng = np.random.default_rng(seed)
    columns, classes = rng.permutation(9), rng.permutation(4)
    assert view.weights_active is not None
    assert view.weights_passive is not None
    assert view.bias is not None
    assert view.scores is not None
    renamed = attacks.PredictionView(
        features_active=view.features_active,
        scores=view.scores[:, classes],
        weights_active=view.weights_active[classes],
        weights_passive=view.weights_passive[classes][:, columns],
        bias=view.bias[classes],
    )
    for name in LINEAR:
        attack = attacks.load(name)
        np.testing.assert_allclose(attack.reconstruct(renamed), attack.reconstruct(view)[:, columns], atol=2e-5)


# --- scores and parameters that the paper's assumptions exclude ---------------------------------------------


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_saturated_scores_never_give_nan(name: str, k: int, d: int) -> None:
    view, _ = federation(k * d, n=2 * k, k=k, d=d)
    labels = np.arange(2 * k) % k
    one_hot = attacks.PredictionView(
        features_active=view.features_active,
        scores=np.eye(k)[labels],
        weights_active=view.weights_active,
        weights_passive=view.weights_passive,
        bias=view.bias,
    )
    estimate = attacks.load(name).reconstruct(one_hot)
    assert estimate.shape == (2 * k, d)
    assert np.isfinite(estimate).all()
    if name not in ("ls", "half_star"):
        assert estimate.min() >= 0
        assert estimate.max() <= 1


def test_scores_are_floored_where_documented() -> None:
    view = view_of([[1.0]], [[0.0]])
    saturated = attacks.PredictionView(
        features_active=view.features_active,
        scores=np.array([[0.0, 1.0]]),
        weights_active=view.weights_active,
        weights_passive=view.weights_passive,
        bias=view.bias,
    )
    np.testing.assert_allclose(attacks.load("ls").reconstruct(saturated), [[-np.log(SCORE_FLOOR)]])
    np.testing.assert_array_equal(attacks.load("cls").reconstruct(saturated), [[1.0]])


@given(seed=st.integers(0, 2**32 - 1), decimals=st.integers(0, 3))
def test_rounded_scores_and_dependent_rows_never_give_nan(seed: int, decimals: int) -> None:
    view, _ = federation(seed, n=10)
    rng = np.random.default_rng(seed)
    assert view.scores is not None
    assert view.weights_passive is not None
    weights = view.weights_passive.copy()
    weights[rng.integers(view.classes)] = weights[rng.integers(view.classes)]
    distorted = attacks.PredictionView(
        features_active=view.features_active,
        scores=view.scores.round(decimals),
        weights_active=view.weights_active,
        weights_passive=weights,
        bias=view.bias,
    )
    for name in LINEAR:
        estimate = attacks.load(name).reconstruct(distorted)
        assert np.isfinite(estimate).all(), name
        if name not in ("ls", "half_star"):
            assert estimate.min() >= 0
            assert estimate.max() <= 1


@given(seed=st.integers(0, 2**32 - 1), noise=st.floats(-2, 3), centre=st.sampled_from([0.0, 0.5]))
def test_infeasible_records_get_the_least_squares_point_of_the_box(seed: int, noise: float, centre: float) -> None:
    """Optimality of ||A x - b|| over the box: the gradient points outwards where x is at an end, else vanishes."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 8)), int(rng.integers(1, 16))
    A = rng.standard_normal((k - 1, d))
    b = rng.random((20, d)) @ A.T + 10**noise * rng.standard_normal((20, k - 1))
    space = row_space(A)
    solutions = project_onto_solutions(space, b @ space.pseudoinverse.T @ space.basis, centre)
    x = solutions.points
    gradient = (x @ A.T - b) @ A / space.singular_values[0] ** 2
    scale = 1 + np.abs(b).max()
    assert np.abs(x - np.clip(x - gradient, 0, 1)).max() < 1e-7 * scale
    attained = np.abs(x @ space.basis - b @ space.pseudoinverse.T @ space.basis).max(axis=1) < 1e-7
    np.testing.assert_array_equal(solutions.feasible, attained)


def test_infeasible_records_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="attacks")
    attacks.load("rcc2").reconstruct(view_of([[1.0, 1.0]], [[3.0], [1.0], [-2.0]]))
    assert "rcc2: the equations of 2 of 3 records have no solution in [0, 1]" in caplog.text


def test_hard_infeasible_systems_are_finished_one_by_one() -> None:
    """A system on which the batch stalls (found by search): scipy's active-set method takes over."""
    rng = np.random.default_rng(83)
    k, d = rng.integers(2, 8), rng.integers(1, 40)
    A = rng.standard_normal((k - 1, d)) * 10 ** rng.uniform(-2, 2)
    b = rng.random((50, d)) @ A.T
    b = b + rng.standard_normal(b.shape) * 10 ** rng.uniform(-3, 3)
    space = row_space(A)
    solutions = project_onto_solutions(space, b @ space.pseudoinverse.T @ space.basis, 0.5)
    x = solutions.points
    gradient = (x @ A.T - b) @ A / space.singular_values[0] ** 2
    assert np.abs(x - np.clip(x - gradient, 0, 1)).max() < 1e-7
