"""Expansions of the sigmoid: known minimax polynomials, sums of shares, and affine ones as the first order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from studies.simulation.affine_expansions import AffineExpansion, cross_term, minimax_coefficients, minimax_line
from vfl.theory.training import guaranteed_steps

NUMBER = st.floats(-4, 4)


@given(a=NUMBER, b=NUMBER, label=st.integers(0, 1))
def test_only_the_first_order_is_a_sum_of_shares(a: float, b: float, label: int) -> None:
    own, others, labels = np.array([[a]]), np.array([[b]]), np.array([label])
    assert abs(cross_term("first_order", own, others, labels)[0, 0]) < 1e-12
    # Of the cubic -0.004 z^3: -0.004 (3 a^2 b + 3 a b^2).
    assert cross_term("minimax", own, others, labels)[0, 0] == pytest.approx(-0.012 * a * b * (a + b), abs=1e-12)


def test_a_piecewise_line_compares_the_sum() -> None:
    own, others = np.array([[0.3], [0.1], [-0.6]]), np.array([[0.3], [0.1], [1.0]])
    crossing = cross_term("piecewise", own, others, np.array([1, 1, 1]))[:, 0]
    # y = 1: f is z - 1/2 inside (-1/2, 1/2), -1 below, 0 above.
    np.testing.assert_allclose(crossing, [0 + 0.2 + 0.2 - 0.5, 0.0, (0.4 - 0.5) + 1 - 0 - 0.5], atol=1e-12)


@pytest.mark.parametrize("radius", [0.5, 2.0, 5.0, 8.0])
def test_the_minimax_line_is_the_best_of_all_lines(radius: float) -> None:
    slope = minimax_line(radius).slope
    (found,), error = minimax_coefficients(1, radius)
    assert slope == pytest.approx(found, abs=1e-5)
    points = np.linspace(-radius, radius, 4001)
    errors = {
        tried: np.abs(expit(points) - 0.5 - tried * points).max() for tried in (slope, slope - 1e-3, slope + 1e-3)
    }
    assert min(errors, key=lambda tried: errors[tried]) == slope
    assert errors[slope] == pytest.approx(error, abs=1e-6)


def test_the_papers_cubic_is_the_minimax_one_rounded_to_three_decimals() -> None:
    coefficients, error = minimax_coefficients(3)
    np.testing.assert_allclose(np.round(coefficients, 3), [0.198, -0.004])
    np.testing.assert_allclose(coefficients, [0.1975129, -0.0042652], atol=1e-5)
    assert error == pytest.approx(0.03889, abs=1e-5)


@given(slope=st.floats(0.05, 0.5), rate=st.floats(0.01, 0.5), seed=st.integers(0, 100))
def test_an_affine_expansion_trains_as_the_first_order_in_other_units(slope: float, rate: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    features, signs = generator.normal(size=(20, 3)), generator.choice([-1.0, 1.0], (20, 1))
    expansion = AffineExpansion(slope)
    theta = generator.normal(size=(3, 1))
    phi = expansion.unit * theta
    for _ in range(4):
        f, first = slope * features @ theta - signs / 2, features @ phi - 2 * signs
        np.testing.assert_allclose(4 * f, first, atol=1e-9)
        theta = theta - rate / 20 * features.T @ f
        phi = phi - expansion.unit * rate / 80 * features.T @ first
    np.testing.assert_allclose(expansion.unit * theta, phi, atol=1e-9)


def test_taylors_slope_is_the_first_order_itself_and_a_flatter_line_tells_labels_for_longer() -> None:
    taylor, flat = AffineExpansion(0.25), minimax_line()
    assert (taylor.unit, taylor.threshold) == (1.0, 2.0)
    assert taylor.steps(0.01, 0.5) == guaranteed_steps(0.01, 0.5)
    assert flat.threshold == pytest.approx(3.993, abs=1e-3)
    assert flat.steps(0.01, 0.0) == pytest.approx(taylor.steps(0.01, 0.0) / flat.unit, rel=0.01)


@pytest.mark.parametrize("slope", [0.0, -0.1, float("nan")])
def test_slopes_that_do_not_rise_are_refused(slope: float) -> None:
    with pytest.raises(ValueError, match="positive slope"):
        AffineExpansion(slope)
    with pytest.raises(ValueError, match="positive radius"):
        minimax_line(slope)
