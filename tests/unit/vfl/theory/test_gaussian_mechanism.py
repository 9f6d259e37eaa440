"""The Gaussian mechanism against its definition, another library's numbers, and the ends of float64."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from vfl.theory.gaussian_mechanism import composed, gaussian_delta, gaussian_epsilon, gaussian_sigma


@pytest.mark.parametrize(("ratio", "epsilon"), [(0.1, 0.2), (1.0, 0.0), (1.0, 1.0), (2.5, 4.0)])
def test_gaussian_delta_is_the_mass_beyond_the_likelihood_ratio(ratio: float, epsilon: float) -> None:
    """The integral of max(p - exp(epsilon) q, 0) over densities that are ``ratio`` sigmas apart."""
    grid = np.linspace(-12, 15, 2_000_001)
    excess = np.maximum(norm.pdf(grid - ratio) - math.exp(epsilon) * norm.pdf(grid), 0)
    assert gaussian_delta(ratio, 1.0, epsilon) == pytest.approx(np.trapezoid(excess, grid), abs=1e-9)


@given(ratio=st.floats(0.01, 20), delta=st.floats(1e-10, 0.9))
def test_gaussian_epsilon_inverts_gaussian_delta(ratio: float, delta: float) -> None:
    epsilon = gaussian_epsilon(ratio, 1.0, delta)
    if epsilon == 0:
        assert gaussian_delta(ratio, 1.0, 0.0) <= delta
    else:
        assert gaussian_delta(ratio, 1.0, epsilon) == pytest.approx(delta, rel=1e-4)
        assert gaussian_delta(ratio, 1.0, epsilon) <= delta


def test_the_mechanism_refuses_numbers_out_of_range() -> None:
    for bad in ((0.0, 1.0, 0.1), (1.0, 0.0, 0.1), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)):
        with pytest.raises(ValueError, match="Expected sensitivity"):
            gaussian_epsilon(*bad)


@given(ratio=st.floats(0.01, 20), epsilon=st.floats(0, 20))
def test_both_forms_of_the_theorem_agree_where_the_plain_one_has_digits(ratio: float, epsilon: float) -> None:
    plain = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
    assert gaussian_delta(ratio, 1.0, epsilon) == pytest.approx(plain, abs=1e-12)


@given(sensitivity=st.floats(1e-3, 1e3), epsilon=st.floats(1e-6, 50), delta=st.floats(1e-300, 0.999))
def test_the_least_sigma_meets_delta_and_does_not_exceed_it(sensitivity: float, epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(sensitivity, epsilon, delta)
    attained = gaussian_delta(sensitivity, sigma, epsilon)
    assert delta * (1 - 1e-9) <= attained <= delta * (1 + 1e-11)


@given(epsilon=st.floats(1e-3, 0.999), delta=st.floats(1e-12, 0.999))
def test_the_least_sigma_is_at_most_the_lemmas(epsilon: float, delta: float) -> None:
    assert gaussian_sigma(1.0, epsilon, delta) <= math.sqrt(2 * math.log(1.25 / delta)) / epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [
        (0.5, 0.1, 1.556288),
        (0.1, 0.1, 2.846924),
        (0.1, 1 / 400, 14.329084),
        (1.0, 1e-5, 3.730632),
        (3.0, 1e-10, 2.062253),
        (8.0, 1e-6, 0.652935),
    ],
)
def test_sigma_is_what_another_library_computes(epsilon: float, delta: float, sigma: float) -> None:
    """dp-accounting 0.6.0, ``GaussianPrivacyLoss.from_privacy_guarantee``."""
    assert gaussian_sigma(1.0, epsilon, delta) == pytest.approx(sigma, rel=1e-6)


@pytest.mark.parametrize(
    ("releases", "at_a_tenth", "at_1e_5"), [(1, 0.499999, 2.641162), (2, 0.975949, 3.919353), (20, 6.997488, 15.774178)]
)
def test_a_composition_is_what_another_library_computes(releases: int, at_a_tenth: float, at_1e_5: float) -> None:
    """dp-accounting 0.6.0, ``PLDAccountant``, releases of sigma = 68.268 at a sensitivity of 43.86588."""
    mu = composed([43.86588 / 68.268] * releases)
    assert gaussian_epsilon(mu, 1.0, 0.1) == pytest.approx(at_a_tenth, rel=1e-5)
    assert gaussian_epsilon(mu, 1.0, 1e-5) == pytest.approx(at_1e_5, rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1e-300, 1e-320), (1e-12, 1e-12), (1e-310, 0.1), (5.0, 5e-324), (1e6, 1e-9), (1e-6, 1 - 1e-9)],
)
def test_budgets_at_the_ends_of_float64_have_a_sigma(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(1.0, epsilon, delta)
    assert 0 < sigma < math.inf
    assert gaussian_delta(1.0, sigma / 2, epsilon) > delta


@given(ratios=st.lists(st.floats(0.01, 3), min_size=2, max_size=4), epsilon=st.floats(0, 2))
def test_a_composition_is_the_mechanism_on_all_releases_at_once(ratios: list[float], epsilon: float) -> None:
    """The likelihood ratio of independent Gaussians, moved by ``ratios`` sigmas each, is Gaussian: by definition."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((20_000, len(ratios))) + ratios
    losses = draws @ np.array(ratios) - sum(one**2 for one in ratios) / 2
    measured = np.maximum(1 - np.exp(epsilon - losses), 0).mean()
    assert gaussian_delta(composed(ratios), 1.0, epsilon) == pytest.approx(measured, abs=0.02)


def test_sigma_refuses_numbers_out_of_range() -> None:
    for bad in ((0.0, 1.0, 0.1), (1.0, 0.0, 0.1), (1.0, math.inf, 0.1), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)):
        with pytest.raises(ValueError, match="Expected sensitivity > 0, a finite epsilon"):
            gaussian_sigma(*bad)


@pytest.mark.parametrize("epsilon", [1e15, 1e17, 1e30, 1e200, 1e300])
def test_any_finite_epsilon_has_its_noise(epsilon: float) -> None:
    """mu is the root of 2 epsilon there: a promise of nothing, but no error."""
    assert gaussian_sigma(1.0, epsilon, 0.5) == pytest.approx(1 / math.sqrt(2 * epsilon), rel=1e-6)
