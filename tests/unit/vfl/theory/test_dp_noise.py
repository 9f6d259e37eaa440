"""Algorithm 3's calculator and predictions: by hand, against brute force, simulation, and the definitions."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from vfl.arrays import FloatArray, IntArray
from vfl.learning import ResidualScheme
from vfl.theory.dp_noise import (
    READINGS,
    NoiseLevels,
    PrivacyBudget,
    Reading,
    best_success,
    gaussian_delta,
    gaussian_epsilon,
    largest_deviation,
    noise_levels,
    noisy_guaranteed_steps,
    sign_success,
)
from vfl.theory.training import guaranteed_steps

BINARY = ResidualScheme(2)


def paper_levels(reading: Reading, epsilon: float = 0.5, steps: int = 30) -> NoiseLevels:
    """Hu's numbers for MNIST."""
    return noise_levels(
        PrivacyBudget(epsilon, 0.1), epochs=30, steps=steps, rows=256, learning_rate=0.01, reading=reading
    )


# --- the calculator ----------------------------------------------------------------------------------------------


def test_sigmas_of_the_papers_setting() -> None:
    """Delta_A^2 = 8 * 900 * 30 / 10^4 / 256 + 64 * 30 and Delta_B^2 = ... + 16 * 30; 2 ln 12.5 = 5.0514573."""
    lemma, printed = (paper_levels(reading) for reading in READINGS)
    assert lemma.sensitivity_active == pytest.approx(math.sqrt(0.084375 + 1920))
    assert lemma.sensitivity_passive == pytest.approx(math.sqrt(0.084375 + 480))
    assert lemma.sigma_active == pytest.approx(196.9692, abs=1e-3)
    assert lemma.sigma_passive == pytest.approx(98.4921, abs=1e-3)
    assert printed.sigma_active == pytest.approx(21.04037, abs=1e-4)
    assert printed.sigma_passive == pytest.approx(14.87828, abs=1e-4)


def test_the_number_of_steps_hardly_matters_where_the_paper_took_epochs_for_it() -> None:
    ratio = paper_levels("lemma", steps=1500).sigma_active / paper_levels("lemma").sigma_active
    assert 1 < ratio < 1.002


@given(
    epsilon=st.floats(0.01, 0.99),
    delta=st.floats(1e-9, 0.99),
    epochs=st.integers(1, 50),
    batches=st.integers(1, 100),
    rows=st.integers(1, 1000),
    rate=st.floats(1e-4, 1.0),
    bound=st.floats(0.51, 5),
)
def test_the_lemma_reading_keeps_its_promise_and_the_printed_one_is_its_root(
    epsilon: float, delta: float, epochs: int, batches: int, rows: int, rate: float, bound: float
) -> None:
    """Lemma D.4, checked with the exact delta of the Gaussian mechanism, for both parties."""
    lemma, printed = (
        noise_levels(
            PrivacyBudget(epsilon, delta),
            epochs=epochs,
            steps=epochs * batches,
            rows=rows,
            learning_rate=rate,
            gradient_bound=bound,
            reading=reading,
        )
        for reading in READINGS
    )
    assert gaussian_delta(lemma.sensitivity_active, lemma.sigma_active, epsilon) <= delta
    assert gaussian_delta(lemma.sensitivity_passive, lemma.sigma_passive, epsilon) <= delta
    assert lemma.attained_epsilon <= epsilon
    factor = math.sqrt(2 * math.log(1.25 / delta))
    assert printed.sigma_active**2 == pytest.approx(factor * lemma.sigma_active)
    assert lemma.sigma_active > lemma.sigma_passive


def test_the_printed_reading_does_not_keep_it() -> None:
    printed = paper_levels("printed")
    assert gaussian_delta(printed.sensitivity_active, printed.sigma_active, 0.5) > 0.6
    assert printed.attained_epsilon == pytest.approx(4.08, abs=0.01)
    assert "not a guarantee" in printed.assumptions[-1]
    assert not any("not a guarantee" in sentence for sentence in paper_levels("lemma").assumptions)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), batch=st.integers(1, 6), epochs=st.integers(1, 4), rate=st.floats(0.05, 1.0))
def test_one_record_moves_the_shares_by_no_more_than_the_sensitivity(
    seed: int, batch: int, epochs: int, rate: float
) -> None:
    """Appendix D by brute force: train on neighbouring data with the same batches, compare all shares of the run."""
    rng = np.random.default_rng(seed)
    rows, width, own, bound = 12, 4, 2, 1.0
    features = rng.normal(size=(rows, width))
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1)
    labels = rng.integers(0, 2, rows)
    other_features, other_labels = features.copy(), labels.copy()
    other_features[0], other_labels[0] = -features[0], 1 - labels[0]
    orders = [rng.permutation(rows) for _ in range(epochs)]
    start = rng.uniform(-1, 1, (width, 1)) / 2

    def shares(x: FloatArray, y: IntArray) -> tuple[list[FloatArray], list[FloatArray], float]:
        theta, active, passive, longest = start, [], [], 0.0
        for order in orders:
            for first in range(0, rows, batch):
                chosen = order[first : first + batch]
                longest = max(longest, float(np.linalg.norm(theta)))
                active.append(BINARY.active_share(x[chosen, :own] @ theta[:own], y[chosen]))
                passive.append(x[chosen, own:] @ theta[own:])
                theta = theta - rate / (4 * len(chosen)) * x[chosen].T @ (active[-1] + passive[-1])
        return active, passive, longest

    active, passive, longest = shares(features, labels)
    other_active, other_passive, other_longest = shares(other_features, other_labels)
    assume(max(longest, other_longest) <= 4 * bound - 2)
    # The smallest batch of an epoch bounds the drift from above: a record moves theta by eta / s.
    smallest = rows % batch or batch
    levels = noise_levels(PrivacyBudget(0.5, 0.1), epochs=epochs, steps=len(active), rows=smallest, learning_rate=rate)
    moved = [
        math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(mine, other, strict=True)))
        for mine, other in ((active, other_active), (passive, other_passive))
    ]
    assert 0 < moved[0] <= levels.sensitivity_active
    assert moved[1] <= levels.sensitivity_passive


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1.0}, "between 0 and 1.*give sigma"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"learning_rate": 1.5}, "learning rate.*lower it"),
        ({"learning_rate": 0.0}, "learning rate"),
        ({"epochs": 0}, "epochs"),
        ({"rows": 0}, "rows"),
        ({"steps": 2}, "no fewer steps than epochs"),
        ({"gradient_bound": 0.5}, "gradient_bound.*1/2"),
        ({"gradient_bound": math.inf}, "gradient_bound"),
        ({"reading": "literal"}, "lemma, printed"),
    ],
)
def test_the_calculator_refuses_what_the_formula_does_not_cover(change: dict[str, float], told: str) -> None:
    arguments = {"epsilon": 0.5, "delta": 0.1, "epochs": 3, "steps": 30, "rows": 8, "learning_rate": 0.1} | change
    epsilon, delta = arguments.pop("epsilon"), arguments.pop("delta")
    with pytest.raises(ValueError, match=told):
        noise_levels(PrivacyBudget(epsilon, delta), **arguments)  # type: ignore[arg-type]


# --- the Gaussian mechanism ----------------------------------------------------------------------------------------


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


def test_largest_deviation_is_the_quantile_of_the_union_bound() -> None:
    assert largest_deviation(1, 0.05) == pytest.approx(1.959964, abs=1e-6)
    assert largest_deviation(384_000, 1e-6) == pytest.approx(norm.isf(1e-6 / 768_000))
    highest = np.abs(np.random.default_rng(0).standard_normal((2000, 50))).max(axis=1)
    assert 0.05 < (highest > largest_deviation(50, 0.1)).mean() < 0.12
    for draws, failure in ((0, 0.1), (1, 0.0), (1, 1.0)):
        with pytest.raises(ValueError, match="draws"):
            largest_deviation(draws, failure)


# --- the label attack ----------------------------------------------------------------------------------------------


def test_the_first_step_from_zero_succeeds_with_phi_of_two_over_sigma() -> None:
    labels = np.array([0, 1, 1])
    residuals = BINARY.active_share(np.zeros((3, 1)), labels)[:, 0]
    np.testing.assert_allclose(sign_success(residuals, labels, 20.0), norm.cdf(0.1))
    assert best_success(20.0, 1) == pytest.approx(norm.cdf(0.1))


def test_sign_success_is_what_simulated_noise_gives() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 50)
    residuals = rng.normal(size=50) - 2 * (2 * labels - 1)
    told = residuals + 3.0 * rng.standard_normal((20_000, 50)) < 0
    measured = (told == (labels == 1)).mean(axis=0)
    np.testing.assert_allclose(sign_success(residuals, labels, 3.0), measured, atol=5 * 0.5 / math.sqrt(20_000))


def test_without_noise_the_sign_decides_and_zero_counts_half() -> None:
    success = sign_success(np.array([-0.5, -0.5, 0.0, 1e-200]), np.array([1, 0, 1, 0]), 0.0)
    np.testing.assert_array_equal(success, [1.0, 0.0, 0.5, 1.0])


@given(
    products=st.lists(st.floats(-10, 10), min_size=1, max_size=40),
    sigma=st.floats(0.1, 1000),
    threshold=st.floats(-50, 50),
)
def test_no_threshold_on_the_sum_beats_best_success(products: list[float], sigma: float, threshold: float) -> None:
    """Whatever theta^T x was, the mean over both labels."""
    uses, total = len(products), sum(products)
    spread = sigma * math.sqrt(uses)
    of_one = norm.cdf((threshold - (total - 2 * uses)) / spread)
    of_zero = norm.sf((threshold - (total + 2 * uses)) / spread)
    assert (of_one + of_zero) / 2 <= best_success(sigma, uses) + 1e-12


def test_best_success_is_attained_by_averaging_with_known_products() -> None:
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], 40_000)
    averaged = (-2 * signs[:, None] + 20.0 * rng.standard_normal((40_000, 30))).mean(axis=1)
    assert (np.sign(-averaged) == signs).mean() == pytest.approx(best_success(20.0, 30), abs=5 * 0.5 / 200)
    for sigma, uses in ((0.0, 1), (1.0, 0)):
        with pytest.raises(ValueError, match="sigma > 0"):
            best_success(sigma, uses)


@given(
    rate=st.floats(1e-3, 2),
    epsilon=st.floats(0, 1.99),
    u=st.floats(0, 100),
    squared_norm=st.floats(0.1, 3),
)
def test_noisy_guaranteed_steps_is_where_the_worst_case_leaves_the_range(
    rate: float, epsilon: float, u: float, squared_norm: float
) -> None:
    """(67) at equality, record by record: |theta^T x| grows by eta ||x||^2 / 4 (|theta^T x| + 2 + 4 u) per step."""
    steps, product = noisy_guaranteed_steps(rate, epsilon, u, squared_norm=squared_norm), epsilon
    for _ in range(steps - 1):
        product += rate * squared_norm / 4 * (product + 2 + 4 * u)
    assert product < 2 + 1e-9
    product += rate * squared_norm / 4 * (product + 2 + 4 * u)
    assert product >= 2 - 1e-9
    assert steps <= guaranteed_steps(rate, epsilon, squared_norm=squared_norm)


def test_noisy_guaranteed_steps_at_its_ends() -> None:
    assert noisy_guaranteed_steps(0.01, 0.3, 0.0) == guaranteed_steps(0.01, 0.3)
    assert noisy_guaranteed_steps(0.01, 2.0, 1.0) == 0
    assert noisy_guaranteed_steps(0.01, 0.0, 1e18) == 1
    for bad in ((0.0, 0.0, 1.0), (0.1, -1.0, 1.0), (0.1, 0.0, -1.0)):
        with pytest.raises(ValueError, match="learning_rate > 0"):
            noisy_guaranteed_steps(*bad)
