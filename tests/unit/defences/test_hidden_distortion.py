"""hidden_noise and hidden_rounding: how much they move, that asking again tells nothing, what they refuse."""

import numpy as np
import pytest
from scipy.stats import kstest

import defences
from defences import NoiseSource
from defences.hidden_distortion import HiddenNoise, HiddenRounding

PRODUCTS = np.random.default_rng(0).normal(size=(4_000, 3))


def test_noise_is_gaussian_and_the_same_for_who_asks_again() -> None:
    noise, secret = NoiseSource(1), HiddenNoise(0.25)
    sent = secret.protect_hidden(PRODUCTS, noise)
    assert kstest(((sent - PRODUCTS) / 0.25).ravel(), "norm").pvalue > 0.001
    # In whatever company a record is asked for.
    np.testing.assert_array_equal(secret.protect_hidden(PRODUCTS[7:9], noise), sent[7:9])
    assert not np.isclose(secret.protect_hidden(PRODUCTS, NoiseSource(2)), sent).any()
    moved = secret.protect_hidden(PRODUCTS + 1e-3, noise)
    assert abs(np.corrcoef((moved - PRODUCTS)[:, 0], (sent - PRODUCTS)[:, 0])[0, 1]) < 0.08


def test_rounding_leaves_multiples_of_its_step_half_a_step_away_at_most() -> None:
    sent = HiddenRounding(0.25).protect_hidden(PRODUCTS, NoiseSource(0))
    np.testing.assert_array_equal(sent, np.round(4 * sent) / 4)
    assert 0.12 < np.abs(sent - PRODUCTS).max() <= 0.125
    np.testing.assert_array_equal(HiddenRounding(0.25).protect_hidden(sent, NoiseSource(0)), sent)


@pytest.mark.parametrize(("name", "option"), [("hidden_noise", "sigma"), ("hidden_rounding", "step")])
def test_an_option_that_means_nothing_is_refused(name: str, option: str) -> None:
    for value in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"{option}"):
            defences.load(name, **{option: value})
