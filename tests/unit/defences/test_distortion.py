"""The distortion: g is met, half* errs as predicted, nothing that was tried errs more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import NonlinearConstraint, minimize

import defences
from defences.distortion import Case, distort
from tests.harness.distortions import (
    CASES,
    SEEDS,
    attacked,
    binary_error,
    half_star_error_rotated,
    interpretability_rotated,
    ls_error_rotated,
    model,
    rotation,
    rotations,
    single_feature_error,
)
from vfl.arrays import FloatArray
from vfl.theory.prediction import equations, moments

# --- what every case promises -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "k", "d"), CASES)
@pytest.mark.parametrize("share", [1e-6, 0.1, 0.9])
def test_g_is_met_and_the_attacks_err_as_predicted(case: Case, k: int, d: int, share: float) -> None:
    weights, features = model(10 * k + d, k, d)
    epsilon = share * float(np.var(weights, axis=0).mean())  # below every case's cap
    found = distort(weights, features, epsilon)
    assert (found.case, found.capped, found.epsilon) == (case, False, epsilon)
    assert found.interpretability == pytest.approx(epsilon, abs=1e-9 * float(np.mean(weights**2)))
    assert found.interpretability == pytest.approx(np.mean((found.weights - weights) ** 2))
    for attack in ("half_star",) if d >= k else ("half_star", "ls"):
        assert attacked(attack, weights, found.weights, features) == pytest.approx(found.error, rel=1e-6, abs=1e-9)


@given(seed=SEEDS, k=st.integers(2, 5), d=st.integers(1, 5), relative=st.floats(1e-4, 6))
def test_any_model_and_any_epsilon(seed: int, k: int, d: int, relative: float) -> None:
    """g is epsilon or the cap, and the parameters are finite."""
    weights, features = model(seed, k, d)
    mean_square = float(np.mean(weights**2))
    found = distort(weights, features, relative * mean_square)
    assert found.capped == (found.epsilon < relative * mean_square)
    assert found.interpretability == pytest.approx(found.epsilon, abs=1e-9 * mean_square)
    assert np.isfinite(found.weights).all()


@pytest.mark.parametrize(("k", "d"), [(2, 1), (6, 1), (2, 2), (2, 7)])
def test_more_epsilon_never_helps_the_adversary(k: int, d: int) -> None:
    """Free parameters only: rotations with exactly some g can be worse than those with less."""
    weights, features = model(7 * k + d, k, d)
    cap = distort(weights, features, None).epsilon
    errors = [distort(weights, features, share * cap).error for share in (0, 0.05, 0.3, 0.6, 1)]
    assert errors == sorted(errors)
    assert distort(weights, features, 10 * cap).error == pytest.approx(errors[-1])


@pytest.mark.parametrize(("case", "k", "d"), CASES)
def test_units_of_the_parameters_do_not_matter(case: Case, k: int, d: int) -> None:
    """W and 1,000 W are distorted alike, up to what rounding lets a search find."""
    weights, features = model(k + d, k, d)
    epsilon = 0.2 * float(np.mean(weights**2))
    found, scaled = distort(weights, features, epsilon), distort(1e3 * weights, features, 1e6 * epsilon)
    np.testing.assert_allclose(scaled.weights, 1e3 * found.weights, atol=1e-3 * np.abs(scaled.weights).max())
    assert scaled.error == pytest.approx(found.error, rel=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("exponent", [-300, -170, -155, -5, 0, 5, 100, 152])
@pytest.mark.parametrize(("case", "k", "d"), CASES)
def test_g_is_met_however_small_or_large_the_parameters_are(case: Case, k: int, d: int, exponent: int) -> None:
    """Relative to the mean squared parameter, whose own number is 0 for the smallest."""
    weights, features = model(k + d, k, d)
    scale = 10.0**exponent
    share = 0.5 * float(np.var(weights, axis=0).mean() / np.mean(weights**2))  # below every case's cap
    found = distort(scale * weights, features, share, relative=True)
    assert found.case == case
    moved = found.weights / scale - weights
    assert np.mean(moved**2) == pytest.approx(share * np.mean(weights**2), rel=1e-6)
    assert found.error == pytest.approx(distort(weights, features, share, relative=True).error, rel=1e-5)
    if abs(exponent) <= 100:
        assert found.epsilon == pytest.approx(share * np.mean((scale * weights) ** 2))
        assert found.interpretability == pytest.approx(found.epsilon, rel=1e-6)


@pytest.mark.filterwarnings("error")
@given(
    seed=SEEDS,
    shape=st.sampled_from([(2, 1), (5, 1), (2, 3), (4, 2), (3, 4)]),
    exponent=st.floats(-323, 308),
    relative=st.booleans(),
    secret=st.sampled_from(["none", "sign", "epsilon"]),
)
def test_the_defence_works_or_says_why_not_at_every_scale(
    seed: int, shape: tuple[int, int], exponent: float, relative: bool, secret: str
) -> None:
    weights, features = model(seed, *shape)
    scaled = weights / np.abs(weights).max() * 10.0**exponent
    defence = rotation(secret, relative=relative, epsilon=0.1)
    try:
        disclosed = defence.disclose(scaled, features, defences.NoiseSource(seed))
    except defences.DefenceError as error:
        assert not -307 < exponent < 150, error  # noqa: PT017 - most scales are not refused
        assert "train again" in str(error)  # noqa: PT017
        return
    assert disclosed.shape == shape
    assert np.isfinite(disclosed).all()


@pytest.mark.parametrize("secret", ["none", "sign", "epsilon"])
@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (np.nan, "NaN or infinity"),
        (np.inf, "NaN or infinity"),
        (1e155, "squares exceed every float64: lower the learning rate"),
        (1e300, "squares exceed every float64: lower the learning rate"),
        (1e-310, "too small to be distorted"),
    ],
)
def test_parameters_that_have_no_g_are_refused_whatever_the_secret_is(secret: str, bad: float, told: str) -> None:
    weights, features = model(0, 3, 4)
    for seed in range(4):  # both signs
        with pytest.raises(defences.DefenceError, match=told):
            rotation(secret).disclose(bad * weights / np.abs(weights).max(), features, defences.NoiseSource(seed))
        with pytest.raises(defences.DefenceError, match="min-max encoder"):
            rotation(secret).disclose(weights, 4 * features - 2, defences.NoiseSource(seed))


@pytest.mark.filterwarnings("error")
def test_class_rows_that_hardly_differ_come_back_as_they_are() -> None:
    """Case iii and iv move what differs, and here is nothing to move."""
    for weights in (np.array([[1.0, 0.0], [1.0, 1e-170]]), np.array([[1.0], [1.0 + 1e-15], [1.0]])):
        features = np.random.default_rng(0).random((9, weights.shape[1]))
        np.testing.assert_array_equal(distort(weights, features, 0.1).weights, weights)


def test_zero_epsilon_and_equal_class_rows_leave_the_parameters_alone() -> None:
    for k, d in ((3, 4), (2, 3), (4, 1), (5, 3)):
        weights, features = model(k + d, k, d)
        np.testing.assert_array_equal(distort(weights, features, 0.0).weights, weights)
        equal = np.repeat(weights[:1], k, axis=0)
        found = distort(equal, features, 0.3)
        np.testing.assert_array_equal(found.weights, equal)
        assert (found.capped, found.epsilon) == (True, 0.0)


# --- cases i and ii: rotations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "d"), [(3, 3), (3, 6), (4, 2), (5, 4)])
def test_a_disclosed_rotation_is_one(k: int, d: int) -> None:
    weights, features = model(k + d, k, d)
    found = distort(weights, features, 0.7 * float(np.mean(weights**2)))
    np.testing.assert_allclose(found.weights @ found.weights.T, weights @ weights.T, atol=1e-9)


@pytest.mark.parametrize(("k", "d"), [(3, 3), (3, 6), (4, 2), (5, 4), (2, 3)])
def test_the_best_of_all_rotations_beats_1000_others(k: int, d: int) -> None:
    weights, features = model(3 * k + d, k, d)
    matrix, own = equations(weights), moments(features)
    found = distort(weights, features, None, case="i" if k == 2 else None)
    others = [half_star_error_rotated(matrix, own, R) for R in (-np.eye(d), *rotations(0, d, 1000))]
    assert max(others) <= found.error + 1e-9


def rotations_with(weights: FloatArray, epsilon: float, seed: int, count: int) -> list[FloatArray]:
    """Random orthonormal R with exactly g = epsilon, far from I and near it, from both components of O(d).

    Turned by t in a random plane, g of a random R is a + b cos t + c sin t: t solves for epsilon, if anything does.
    """
    rng = np.random.default_rng(seed)
    found: list[FloatArray] = []
    d = weights.shape[1]
    start = interpretability_rotated(weights, np.zeros((d, d)))
    while len(found) < count:
        left, _, right = np.linalg.svd(rng.uniform(0, 8) * np.eye(d) + rng.standard_normal((d, d)))
        left[:, -1] *= rng.choice([-1, 1])
        plane = np.linalg.qr(rng.standard_normal((d, 2)))[0]
        turn, flat = np.outer(plane[:, 1], plane[:, 0]), plane @ plane.T
        parts = (np.eye(d) - flat, flat, turn - turn.T)
        still, cosine, sine = (interpretability_rotated(weights, left @ right @ part) - start for part in parts)
        target, amplitude = epsilon - start - still, float(np.hypot(cosine, sine))
        if abs(target) <= amplitude:
            angle = np.arctan2(sine, cosine) + rng.choice([-1, 1]) * np.arccos(target / amplitude)
            found.append(left @ right @ (parts[0] + np.cos(angle) * parts[1] + np.sin(angle) * parts[2]))
    return found


@pytest.mark.parametrize(("k", "d"), [(3, 3), (3, 5), (5, 4)])
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_rotation_beats_1000_others_with_the_same_g(k: int, d: int, share: float) -> None:
    weights, features = model(5 * k + d, k, d)
    matrix, own = equations(weights), moments(features)
    found = distort(weights, features, None, share=share)
    others = rotations_with(weights, found.epsilon, 1, 1000)
    assert np.ptp([interpretability_rotated(weights, R) for R in others]) < 1e-9
    assert interpretability_rotated(weights, others[0]) == pytest.approx(found.epsilon)
    assert max(half_star_error_rotated(matrix, own, R) for R in others) <= found.error + 1e-9


@pytest.mark.parametrize(("k", "d"), [(3, 3), (3, 4), (5, 3)])
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_no_local_search_over_rotations_finds_more(k: int, d: int, share: float) -> None:
    """scipy's SLSQP over the exponential map of skew matrices, from 20 rotations with the same g."""
    weights, features = model(k * d, k, d)
    matrix, own = equations(weights), moments(features)
    found = distort(weights, features, None, share=share)
    upper = np.triu_indices(d, 1)

    def turned(base: FloatArray, angles: FloatArray) -> FloatArray:
        skew = np.zeros((d, d))
        skew[upper] = angles
        result: FloatArray = base @ expm(skew - skew.T)
        return result

    ends = []
    for base in rotations_with(weights, found.epsilon, 2, 20):
        outcome = minimize(
            lambda angles, at: -half_star_error_rotated(matrix, own, turned(at, angles)),
            np.zeros(len(upper[0])),
            args=(base,),
            method="SLSQP",
            constraints={
                "type": "eq",
                "fun": lambda angles, at: interpretability_rotated(weights, turned(at, angles)) - found.epsilon,
                "args": (base,),
            },
            options={"maxiter": 100},
        )
        end = turned(base, outcome.x)
        if abs(interpretability_rotated(weights, end) - found.epsilon) < 1e-5 * found.epsilon:
            ends.append(half_star_error_rotated(matrix, own, end))
    assert max(ends) <= found.error * (1 + 1e-4)
    assert max(ends) == pytest.approx(found.error, rel=1e-2)


def test_without_a_bound_fewer_features_than_classes_are_negated() -> None:
    """Case ii's closed form, R = -I."""
    weights, features = model(2, 5, 3)
    found = distort(weights, features, None)
    np.testing.assert_allclose(found.weights, -weights, atol=1e-12)
    moment = moments(features).about_zero
    assert found.error == pytest.approx(ls_error_rotated(moment, -np.eye(3)))
    assert found.epsilon == pytest.approx(4 * np.mean(weights**2))


def test_two_features_by_brute_force() -> None:
    """Case ii, d = 2: O(2) is two circles, of which g leaves at most four points."""
    weights, features = model(9, 4, 2)
    moment = moments(features).about_zero
    angles = np.linspace(0, 2 * np.pi, 4_001)
    cos, sin = np.cos(angles), np.sin(angles)
    circles = [np.moveaxis(np.array([[cos, -s * sin], [sin, s * cos]]), 2, 0) for s in (1, -1)]
    for relative in (0.1, 1.0, 2.5):
        epsilon = relative * float(np.mean(weights**2))
        candidates = []
        for circle in circles:
            excess = np.array([interpretability_rotated(weights, R) for R in circle]) - epsilon
            candidates += list(circle[np.flatnonzero(np.diff(np.sign(excess)))])
        best = max(ls_error_rotated(moment, R) for R in candidates)
        assert distort(weights, features, epsilon).error == pytest.approx(best, abs=5e-3)


# --- case iii: one feature ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("relative", [0.01, 0.3, 0.9])
def test_one_feature_and_two_classes_is_remark_11(relative: float) -> None:
    """[w1 + sqrt(eps), w2 - sqrt(eps)] for w1 < w2, eps < (w1 - w2)^2/4: A shrinks by 2 sqrt(eps)."""
    weights, features = np.array([[-0.4], [1.1]]), model(0, 3, 1)[1]
    epsilon = relative * 1.5**2 / 4
    found = distort(weights, features, epsilon)
    np.testing.assert_allclose(found.weights, weights + np.sqrt(epsilon) * np.array([[1], [-1]]), rtol=1e-9)
    ratio = 1.5 / (1.5 - 2 * np.sqrt(epsilon))
    assert found.error == pytest.approx(np.mean(features**2) * (1 - ratio) ** 2)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_one_feature_is_capped_where_equal_class_rows_come_within_reach(k: int) -> None:
    """g = the variance of the class rows gives equal rows, and an error without bound."""
    weights, features = model(k, k, 1)
    found = distort(weights, features, 5.0)
    assert found.capped
    assert found.epsilon == pytest.approx(0.99 * np.var(weights))
    assert 1e3 < found.error < np.inf


@given(seed=SEEDS, k=st.integers(2, 5), share=st.floats(0.01, 0.95))
def test_one_feature_beats_random_and_local_search(seed: int, k: int, share: float) -> None:
    weights, features = model(seed, k, 1)
    if np.ptp(weights) < 0.1:
        return
    matrix, moment = equations(weights), float(np.mean(features**2))
    epsilon = share * float(np.var(weights))
    found = distort(weights, features, epsilon)
    steps = np.random.default_rng(seed).standard_normal((500, k, 1))
    steps *= np.sqrt(k * epsilon) / np.linalg.norm(steps, axis=1, keepdims=True)

    def error(step: FloatArray) -> float:
        return single_feature_error(matrix, equations(weights + step.reshape(k, 1)), moment)

    assert max(error(step) for step in steps) <= found.error * (1 + 1e-9)
    climbed = minimize(
        lambda step: -error(np.sqrt(k * epsilon) * step / np.linalg.norm(step)), max(steps, key=error)[:, 0]
    )
    assert -climbed.fun <= found.error * (1 + 1e-6)


# --- case iv: two classes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [2, 3, 8])
def test_two_classes_stay_antisymmetric(d: int) -> None:
    weights, features = model(d, 2, d)
    found = distort(weights, features, 0.3 * float(np.mean(weights**2)))
    np.testing.assert_allclose(found.weights[0], -found.weights[1], atol=1e-12)


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0")
@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("share", [0.02, 0.4, 0.9])
def test_two_classes_beat_trust_constr(d: int, share: float) -> None:
    """The paper's method on eq. 52, from three starts, and 2,000 random points of the sphere."""
    weights, features = model(20 * d, 2, d)
    true, own = equations(weights), moments(features)
    squared = share * float(np.sum(true**2))  # of theta_n - theta: 4 d epsilon
    found = distort(weights, features, squared / (4 * d))
    assert found.error == pytest.approx(binary_error(true, equations(found.weights), own))
    steps = np.random.default_rng(0).standard_normal((2000, d))
    steps *= np.sqrt(squared) / np.linalg.norm(steps, axis=1, keepdims=True)
    assert max(binary_error(true, true + step, own) for step in steps) <= found.error
    for start in steps[:3]:
        outcome = minimize(
            lambda step: -binary_error(true, true + step, own),
            start,
            method="trust-constr",
            constraints=[NonlinearConstraint(lambda step: step @ step, squared, squared)],
            options={"maxiter": 200},
        )
        if abs(outcome.x @ outcome.x - squared) < 1e-9:
            assert -outcome.fun <= found.error * (1 + 1e-6)


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_two_classes_and_two_features_by_brute_force(share: float) -> None:
    weights, features = model(4, 2, 2)
    true, own = equations(weights), moments(features)
    squared = share * float(np.sum(true**2))
    angles = np.linspace(0, 2 * np.pi, 20_001)
    circle = np.sqrt(squared) * np.column_stack([np.cos(angles), np.sin(angles)])
    best = max(binary_error(true, true + step, own) for step in circle)
    assert distort(weights, features, squared / 8).error == pytest.approx(best, rel=1e-5)


def test_two_classes_are_capped_where_no_equation_comes_within_reach() -> None:
    weights, features = model(3, 2, 4)
    found = distort(weights, features, 5.0)
    assert found.capped
    assert found.epsilon == pytest.approx(0.99 * np.sum(equations(weights) ** 2) / 16)


@pytest.mark.filterwarnings("error")
@given(seed=SEEDS, d=st.integers(2, 6), relative=st.floats(0.001, 3.9))
def test_two_classes_can_be_rotated(seed: int, d: int, relative: float) -> None:
    """A single row to turn: on the circle of d = 2, g leaves two points, and nothing to climb."""
    weights, features = model(seed, 2, d)
    found = distort(weights, features, relative * float(np.mean(weights**2)), case="i")
    np.testing.assert_allclose(found.weights @ found.weights.T, weights @ weights.T, atol=1e-9)
    assert found.interpretability == pytest.approx(found.epsilon, abs=1e-9 * float(np.mean(weights**2)))


def test_free_parameters_beat_rotations() -> None:
    """Figure 9: case iv contains all that case i can disclose with the same g."""
    weights, features = model(6, 2, 5)
    epsilon = 0.2 * float(np.mean(weights**2))
    freely, rotated = (distort(weights, features, epsilon, case=case) for case in ("iv", "i"))
    assert rotated.interpretability == pytest.approx(freely.interpretability)
    assert freely.error >= rotated.error
