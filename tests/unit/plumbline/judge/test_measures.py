"""Known answers and properties of the leakage measures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plumbline.judge import measures
from vfl.arrays import FloatArray

RNG = np.random.default_rng(3)


def test_mse_of_half_against_uniform_features_is_a_twelfth() -> None:
    truth = RNG.random((200_000, 2))
    assert measures.mse_per_feature(truth, np.full_like(truth, 0.5)) == pytest.approx(1 / 12, abs=1e-3)


def test_random_guess_costs_a_twelfth_more_than_half() -> None:
    truth, guess = RNG.beta(2, 5, (200_000, 2)), RNG.random((200_000, 2))
    gap = measures.mse_per_feature(truth, guess) - measures.mse_per_feature(truth, np.full_like(truth, 0.5))
    assert gap == pytest.approx(1 / 12, abs=2e-3)


def test_attack_accuracy_is_one_for_the_truth_and_chance_for_noise() -> None:
    labels = RNG.integers(0, 2, 600)
    features = labels[:, None] + RNG.normal(0, 0.1, (600, 3))
    held_out, attacked = slice(0, 400), slice(400, 600)

    def accuracy(estimate: FloatArray) -> float:
        judge = measures.LikewiseLabelled(
            features[attacked], held_out=features[held_out], held_out_labels=labels[held_out]
        )
        return judge.accuracy(estimate)

    assert accuracy(features[attacked]) == 1.0
    assert 0.35 < accuracy(RNG.permutation(features[attacked])) < 0.65


def test_correlation_by_hand_and_of_constant_columns() -> None:
    active = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    passive = np.array([[5.0, 7.0], [3.0, 7.0], [1.0, 7.0]])
    # Perfect anticorrelation with the first active column, none with the constant one.
    np.testing.assert_allclose(measures.correlation_with_active(passive, active), [0.5, 0.0])


def test_entropy_of_two_equal_values_is_one_bit() -> None:
    assert measures.entropy(np.array([0.0, 1.0, 0.0, 1.0])) == pytest.approx(1.0)


def test_an_inverted_reconstruction_leaves_no_entropy() -> None:
    truth = RNG.integers(0, 2, 500).astype(float)
    assert measures.conditional_entropy(truth, 1 - truth) == pytest.approx(0.0, abs=1e-12)


def test_an_unrelated_reconstruction_leaves_almost_all_entropy() -> None:
    truth = RNG.integers(0, 4, 20_000).astype(float)
    remaining = measures.conditional_entropy(truth, RNG.random(20_000))
    assert remaining == pytest.approx(measures.entropy(truth), abs=0.01)


@given(
    arrays(np.float64, 40, elements=st.sampled_from([0.0, 0.5, 1.0])), arrays(np.float64, 40, elements=st.floats(0, 1))
)
def test_seeing_an_estimate_never_adds_entropy(truth: FloatArray, estimate: FloatArray) -> None:
    remaining = measures.conditional_entropy(truth, estimate)
    assert -1e-12 <= remaining <= measures.entropy(truth) + 1e-12


def test_few_values_are_discrete_many_are_not() -> None:
    assert measures.is_discrete(np.repeat([0.0, 0.5, 1.0], 50))
    assert not measures.is_discrete(RNG.random(150))


def test_r_squared_is_1_for_the_truth_0_for_the_mean_and_unknown_for_a_constant() -> None:
    truth = np.column_stack([RNG.random((50, 2)), np.ones(50)])
    estimate = truth.copy()
    estimate[:, 1] = truth[:, 1].mean()
    np.testing.assert_allclose(measures.r_squared(truth, estimate), [1.0, 0.0, np.nan], atol=1e-12)


def test_cells_off_by_the_tolerance_itself_are_known() -> None:
    # In floating point .35 - .3 is more than .05.
    truth, estimate = np.array([[0.3], [0.3], [0.3]]), np.array([[0.35], [0.25], [0.351]])
    assert measures.misses(truth, estimate, np.array([0.05])).ravel().tolist() == [0, 0, 1]


def test_coverage_counts_cells_between_the_ends() -> None:
    truth = np.array([[0.1, 0.5], [0.2, 0.5]])
    low, high = np.array([[0.1, 0.6], [0.1, 0.4]]), np.array([[0.1, 0.7], [0.15, 0.6]])
    assert measures.covered(truth, low, high).tolist() == [0.5, 0.5]
