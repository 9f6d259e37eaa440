"""Algorithm 3's calculator and predictions: by hand, against brute force, simulation, and the definitions."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm

from vfl.arrays import FloatArray, IntArray
from vfl.learning import ResidualScheme
from vfl.theory.dp_noise import (
    CALIBRATIONS,
    AttainedPrivacy,
    Calibration,
    NoiseLevels,
    PrivacyBudget,
    Sensitivities,
    attained_privacy,
    best_success,
    largest_deviation,
    noise_levels,
    noisy_guaranteed_steps,
    norm_bound,
    sensitivities,
    sign_success,
    worst_sensitivity,
)
from vfl.theory.gaussian_mechanism import gaussian_delta, gaussian_epsilon
from vfl.theory.training import guaranteed_steps

BINARY = ResidualScheme(2)


def paper_levels(calibration: Calibration, epsilon: float = 0.5, steps: int = 30, delta: float = 0.1) -> NoiseLevels:
    """Hu's numbers for MNIST. There are 50 batches in each of 30 epochs; the paper puts T = 30."""
    return noise_levels(
        PrivacyBudget(epsilon, delta, calibration), epochs=30, steps=steps, rows=256, learning_rate=0.01
    )


def worth(levels: NoiseLevels, parties: int = 2) -> AttainedPrivacy:
    """Of the label party's noise, at the delta of its budget."""
    return attained_privacy(
        Sensitivities(
            levels.sensitivity_active / levels.sigma_active, levels.sensitivity_passive / levels.sigma_passive
        ),
        role="active",
        epochs=30,
        parties=parties,
        delta=levels.delta,
        asked=levels.epsilon,
    )


# --- the calculator ----------------------------------------------------------------------------------------------


def test_sigmas_of_the_papers_setting() -> None:
    """Delta_A^2 = 8 * 900 * 30 / 10^4 / 256 + 64 * 30 and Delta_B^2 = ... + 16 * 30; 2 ln 12.5 = 5.0514573."""
    lemma, printed = (paper_levels(calibration) for calibration in ("lemma", "printed"))
    assert lemma.sensitivity_active == pytest.approx(math.sqrt(0.084375 + 1920))
    assert lemma.sensitivity_passive == pytest.approx(math.sqrt(0.084375 + 480))
    assert lemma.sigma_active == pytest.approx(196.9692, abs=1e-3)
    assert lemma.sigma_passive == pytest.approx(98.4921, abs=1e-3)
    assert printed.sigma_active == pytest.approx(21.04037, abs=1e-4)
    assert printed.sigma_passive == pytest.approx(14.87828, abs=1e-4)


def test_the_number_of_steps_hardly_matters_where_the_paper_took_epochs_for_it() -> None:
    ratio = paper_levels("lemma", steps=1500).sigma_active / paper_levels("lemma").sigma_active
    assert 1 < ratio < 1.002


@pytest.mark.parametrize(
    ("epsilon", "exact", "lemma", "at_one_in_400"), [(0.5, 68, 197, 178), (0.2, 101, 493, 369), (0.1, 125, 986, 629)]
)
def test_the_exact_mechanism_needs_a_fraction_of_the_lemmas_noise(
    epsilon: float, exact: int, lemma: int, at_one_in_400: int
) -> None:
    """Sigma of the label party: MNIST 0/1, G = 1, 30 epochs of 50 batches, delta = 0.1 as the paper has it."""
    of = {calibration: paper_levels(calibration, epsilon, steps=1500).sigma_active for calibration in CALIBRATIONS}
    assert (round(of["exact"]), round(of["lemma"])) == (exact, lemma)
    assert round(paper_levels("exact", epsilon, steps=1500, delta=1 / 400).sigma_active) == at_one_in_400


@given(
    epsilon=st.floats(0.01, 0.99),
    delta=st.floats(1e-9, 0.99),
    epochs=st.integers(1, 50),
    batches=st.integers(1, 100),
    rows=st.integers(1, 1000),
    rate=st.floats(1e-4, 1.0),
    bound=st.floats(0.51, 5),
)
def test_exact_and_lemma_keep_their_promise_exact_with_the_least_noise_and_printed_is_lemmas_root(
    epsilon: float, delta: float, epochs: int, batches: int, rows: int, rate: float, bound: float
) -> None:
    """Lemma D.4, checked with the exact delta of the Gaussian mechanism, for both parties."""
    of = {
        calibration: noise_levels(
            PrivacyBudget(epsilon, delta, calibration),
            epochs=epochs,
            steps=epochs * batches,
            rows=rows,
            learning_rate=rate,
            gradient_bound=bound,
        )
        for calibration in CALIBRATIONS
    }
    exact, lemma, printed = (of[calibration] for calibration in CALIBRATIONS)
    for party in ("active", "passive"):
        moved, least, enough = (
            getattr(levels, f"{what}_{party}")
            for levels, what in ((exact, "sensitivity"), (exact, "sigma"), (lemma, "sigma"))
        )
        assert least <= enough
        assert gaussian_delta(moved, least, epsilon) == pytest.approx(delta, rel=1e-9)
        assert gaussian_delta(moved, enough, epsilon) <= delta
    assert worth(lemma).epsilon_of_the_run <= epsilon
    factor = math.sqrt(2 * math.log(1.25 / delta))
    assert printed.sigma_active**2 == pytest.approx(factor * lemma.sigma_active)
    assert lemma.sigma_active > lemma.sigma_passive


def test_what_each_calibration_is_worth_in_the_papers_setting() -> None:
    """At delta = 0.1 the lemma's noise hides a record but for 0.1 in total variation: its epsilon is 0."""
    exact, lemma, printed = (worth(paper_levels(calibration)) for calibration in CALIBRATIONS)
    assert exact.epsilon_of_the_run == pytest.approx(0.5, rel=1e-6)
    assert exact.delta_at_the_asked_epsilon == pytest.approx(0.1, rel=1e-9)
    assert lemma.epsilon_of_the_run == 0
    assert lemma.delta_at_the_asked_epsilon == pytest.approx(0.00121, abs=1e-5)
    assert printed.epsilon_of_the_run == pytest.approx(4.08, abs=0.01)
    assert printed.delta_at_the_asked_epsilon == pytest.approx(0.624, abs=1e-3)
    assert "not a guarantee" in paper_levels("printed").assumptions[-1]
    for calibration in ("exact", "lemma"):
        assert not any("not a guarantee" in sentence for sentence in paper_levels(calibration).assumptions)


@given(
    active=st.floats(0.05, 3),
    passive=st.floats(0.05, 3),
    epochs=st.integers(1, 30),
    parties=st.integers(2, 5),
    delta=st.floats(1e-8, 0.2),
)
def test_epochs_parties_and_sessions_add_up_as_squares(
    active: float, passive: float, epochs: int, parties: int, delta: float
) -> None:
    """m equal mechanisms are one of root m times the ratio; parts of a run make up the run."""
    of = attained_privacy(
        Sensitivities(active, passive), role="active", epochs=epochs, parties=parties, delta=delta, asked=math.inf
    )
    assert of.delta_at_the_asked_epsilon is None
    assert of.epsilon_of_the_run == gaussian_epsilon(active, 1.0, delta)
    together = math.sqrt(active**2 + (parties - 1) * passive**2)
    for epsilon, ratio in (
        (of.epsilon_of_one_epoch, active / math.sqrt(epochs)),
        (of.epsilon_of_all_parties, together),
        (of.epsilon_of_ten_sessions, math.sqrt(10) * together),
    ):
        assert epsilon == pytest.approx(gaussian_epsilon(ratio, 1.0, delta), rel=1e-6, abs=1e-8)
    assert of.epsilon_of_one_epoch <= of.epsilon_of_the_run <= of.epsilon_of_all_parties <= of.epsilon_of_ten_sessions


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
        ({"epsilon": 1.0, "calibration": "lemma"}, "between 0 and 1.*exact"),
        ({"epsilon": 1.0, "calibration": "printed"}, "between 0 and 1.*give sigma"),
        ({"epsilon": math.inf}, "epsilon"),
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
        ({"calibration": "literal"}, "exact, lemma, printed"),
    ],
)
def test_the_calculator_refuses_what_the_formula_does_not_cover(change: dict[str, Any], told: str) -> None:
    budget = {"epsilon": 0.5, "delta": 0.1, "calibration": "exact"}
    arguments: dict[str, Any] = budget | {"epochs": 3, "steps": 30, "rows": 8, "learning_rate": 0.1} | change
    epsilon, delta, calibration = (arguments.pop(name) for name in ("epsilon", "delta", "calibration"))
    with pytest.raises(ValueError, match=told):
        noise_levels(PrivacyBudget(epsilon, delta, calibration), **arguments)


# --- the range of the noise -----------------------------------------------------------------------------------------


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


# --- peers that send something else --------------------------------------------------------------------------------


def moved_shares(*, project: bool, kick: float, learning_rate: float, epochs: int = 5) -> tuple[float, float]:
    """How far one record moves the label party's shares of a run, without noise, and Delta of (71)-(72).

    The record is turned round, label and features. A peer adds ``kick`` to its share of it in every epoch.
    """
    rng = np.random.default_rng(0)
    rows, batch, share = 200, 50, math.sqrt(0.5)
    features = rng.uniform(size=(rows, 8))
    features *= share / np.linalg.norm(features, axis=1, keepdims=True)
    labels = 2 * rng.integers(0, 2, rows) - 1
    worlds = [(features, labels), (features.copy(), labels.copy())]
    worlds[1][0][0] *= -1
    worlds[1][1][0] *= -1
    thetas, squared = [np.zeros(8), np.zeros(8)], 0.0
    for _, start in itertools.product(range(epochs), range(0, rows, batch)):
        own = slice(start, start + batch)
        shares = [x[own] @ theta - 2 * y[own] for (x, y), theta in zip(worlds, thetas, strict=True)]
        squared += float(((shares[0] - shares[1]) ** 2).sum())
        for number, ((x, _), f) in enumerate(zip(worlds, shares, strict=True)):
            f[0] += kick if start == 0 else 0.0
            theta = thetas[number] - learning_rate / (4 * batch) * x[own].T @ f
            longest = norm_bound(1.0) * share if project else math.inf
            thetas[number] = theta * min(1.0, longest / max(float(np.linalg.norm(theta)), 1e-300))
    steps = epochs * rows // batch
    delta = sensitivities(epochs=epochs, steps=steps, rows=batch, learning_rate=learning_rate).active
    return math.sqrt(squared), delta


@pytest.mark.parametrize("learning_rate", [0.01, 0.1, 0.5, 1.0])
def test_peers_that_add_to_gradients_pass_what_the_theorem_counts_and_not_what_any_peer_can_do(
    learning_rate: float,
) -> None:
    """Projection alone isn't enough for (71)-(72): they take every record's residual to be bounded."""
    honest, delta = moved_shares(project=True, kick=0.0, learning_rate=learning_rate)
    assert honest <= delta
    driven, _ = moved_shares(project=True, kick=2.0**13, learning_rate=learning_rate)
    worst = worst_sensitivity(role="active", epochs=5, records=200, largest_product=norm_bound(1.0) * 0.5)
    assert delta < driven <= worst
    unbounded, _ = moved_shares(project=False, kick=2.0**13, learning_rate=1.0)
    assert unbounded > 2 * worst
