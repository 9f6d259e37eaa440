"""max_norm and discrete_gradients: what they do to a step's backward signals, and what stays as it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import defences
from defences import DefenceError, NoiseSource, TrainingTerms
from defences.discrete_gradients import DiscreteGradients
from defences.max_norm import MaxNorm
from vfl.arrays import FloatArray

TERMS = TrainingTerms("active", epochs=1, steps=1, rows=8, learning_rate=0.1, residual_limit=128.0, hidden=4)
SIGNALS = npst.arrays(np.float64, npst.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e3, 1e3))


# -- max_norm ---------------------------------------------------------------------------------------------------------


@given(SIGNALS)
def test_max_norm_stays_on_each_records_line_and_leaves_the_longest(signals: FloatArray) -> None:
    protected = MaxNorm().protect_residuals(signals, TERMS, NoiseSource(0))
    lengths = np.linalg.norm(signals, axis=1)
    np.testing.assert_allclose(protected[lengths.argmax()], signals[lengths.argmax()])
    off_line = np.linalg.norm(protected, axis=1) * lengths - np.abs((protected * signals).sum(axis=1))
    assert np.abs(off_line).max() <= 1e-6 * (1 + lengths.max() ** 2)
    assert not protected[~signals.any(axis=1)].any()


def test_max_norm_makes_all_records_as_long_in_the_mean_square_and_keeps_the_mean() -> None:
    """Known answer (Li et al. 2022, section 4.1): E |g~|^2 = max |g|^2, E g~ = g."""
    signals = np.repeat([[3.0, 4.0], [0.3, 0.4], [0.0, 1.0]], 20_000, axis=0)
    protected = MaxNorm().protect_residuals(signals, TERMS, NoiseSource(2)).reshape(3, 20_000, 2)
    np.testing.assert_allclose((protected**2).sum(axis=2).mean(axis=1), 25.0, rtol=0.03)
    np.testing.assert_allclose(protected.mean(axis=1), signals[::20_000], atol=0.15)


def test_equally_long_signals_need_no_noise() -> None:
    signals = np.array([[3.0, 4.0], [5.0, 0.0], [0.0, -5.0]])
    np.testing.assert_array_equal(MaxNorm().protect_residuals(signals, TERMS, NoiseSource(0)), signals)


# -- discrete_gradients -----------------------------------------------------------------------------------------------


@given(SIGNALS, st.integers(1, 40))
def test_few_values_are_left_and_none_inside_moves_by_more_than_half_a_bin(signals: FloatArray, bins: int) -> None:
    rounded = DiscreteGradients(bins).protect_residuals(signals, TERMS, NoiseSource(0))
    middle, reach = signals.mean(), 2 * signals.std()
    slack = 1e-9 * (1 + np.abs(signals).max())
    if reach > slack:
        assert len(np.unique(np.round((rounded - middle) / reach * bins, 6))) <= bins + 1
    inside = np.clip(signals, middle - reach, middle + reach)
    assert np.abs(rounded - inside).max() <= reach / bins + slack


def test_discrete_gradients_known_answer() -> None:
    """Mean 0, deviation 1: with four bins the ends are -2, -1, 0, 1 and 2."""
    signals = np.array([[0.4, -0.4], [0.6, -0.6], [1.2, -1.2], [1.4, -1.4]])
    signals /= signals.std()
    rounded = DiscreteGradients(4).protect_residuals(signals, TERMS, NoiseSource(0))
    np.testing.assert_allclose(rounded, [[0.0, 0.0], [1.0, -1.0], [1.0, -1.0], [1.0, -1.0]], atol=1e-12)
    far = np.array([[100.0], *[[0.0]] * 99])
    assert DiscreteGradients(4).protect_residuals(far, TERMS, NoiseSource(0)).max() == pytest.approx(
        far.mean() + 2 * far.std()
    )


def test_a_step_whose_signals_are_all_the_same_stays() -> None:
    assert (DiscreteGradients().protect_residuals(np.ones((4, 2)), TERMS, NoiseSource(0)) == 1).all()


# -- both -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_norm", "discrete_gradients", "hidden_noise", "hidden_rounding"])
def test_a_session_that_trains_no_network_is_refused_in_words(name: str) -> None:
    defences.load(name).check(TERMS)
    with pytest.raises(DefenceError, match=f"{name} protects what a network's hidden layer tells.*learner=network"):
        defences.load(name).check(TrainingTerms("active", 1, 1, 8, 0.1, 128.0))


@pytest.mark.parametrize("bins", [0, -3, 1 << 21])
def test_a_number_of_bins_that_means_nothing_is_refused(bins: int) -> None:
    with pytest.raises(ValueError, match="Expected bins to be from 1 to"):
        defences.load("discrete_gradients", bins=bins)
