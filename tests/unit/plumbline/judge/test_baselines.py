"""Known answers of guesses without scores."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.evidence import constants, densest_constants, missing_losses, squared_losses

RNG = np.random.default_rng(5)


@given(st.floats(-1, 2), st.integers(0, 10_000))
def test_no_constant_errs_less_than_the_mean(value: float, seed: int) -> None:
    truth = np.random.default_rng(seed).beta(0.5, 0.8, size=(30, 1))
    best = min(one.values.mean() for one in squared_losses(truth, constants(truth)))
    assert best <= ((truth - value) ** 2).mean() + 1e-12


@given(st.floats(-1, 2), st.sampled_from([0.0, 0.05, 0.3]), st.integers(0, 10_000))
def test_no_constant_is_within_tolerance_more_often_than_the_densest_place(
    value: float, tolerance: float, seed: int
) -> None:
    truth = np.random.default_rng(seed).beta(0.5, 0.8, size=(30, 1)).round(1)
    width = np.array([tolerance])
    densest = next(one for one in densest_constants(truth, width) if one.name == "its densest place")
    (missed,) = missing_losses(truth, [densest], width)
    assert missed.values.mean() <= (np.abs(truth - value) > tolerance + 1e-9).mean()


def test_who_knows_public_ranges_only_guesses_no_mean() -> None:
    truth = RNG.random((10, 2))
    assert {one.name for one in constants(truth) if one.level == "nothing"} == {
        "guessing 0",
        "guessing 1/2",
        "guessing 1",
    }
