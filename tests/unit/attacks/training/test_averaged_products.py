"""A peer's products from noisy shares: exact without noise, better than any one epoch with it."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.training.averaged_products import AveragedProducts
from attacks.views import ViewError
from tests.harness.noisy_views import NoisyTraining, noisy_training
from vfl.arrays import FloatArray

RATE = 1.0


def told(training: NoisyTraining, estimate: FloatArray) -> float:
    left = ((estimate - training.products) ** 2).sum()
    return float(1 - left / ((training.products - training.products.mean(axis=0)) ** 2).sum())


def last_shares(training: NoisyTraining) -> FloatArray:
    shares = np.empty_like(training.products)
    for one in training.active.equations:
        shares[one.rows] = np.linalg.lstsq(one.matrix.T, one.sums, rcond=None)[0]
    return shares


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("start", ["zero", "xavier"])
def test_without_noise_the_last_share_is_the_product(start: str, classes: int) -> None:
    honest = noisy_training(start=start, classes=classes, epochs=4, learning_rate=RATE)
    found = AveragedProducts().attack(honest.active)
    np.testing.assert_allclose(found.products["passive"], honest.products, atol=1e-9)
    assert found.facts() == {"expected": {"passive": 1.0}, "reason": ""}


@pytest.mark.parametrize(("sigma", "at_least"), [(0.8, 0.8), (2.0, 0.3)])
def test_all_epochs_together_tell_more_than_the_last_one_and_as_much_as_expected(sigma: float, at_least: float) -> None:
    noisy = noisy_training(sigmas=(0.0, sigma), learning_rate=RATE)
    found = AveragedProducts().attack(noisy.active)
    all_of_it = told(noisy, found.products["passive"])
    assert all_of_it > told(noisy, last_shares(noisy)) + 0.2
    assert found.told["passive"] == pytest.approx(all_of_it, abs=0.12)
    assert all_of_it > at_least


def test_weighing_by_size_beats_the_plain_mean_of_all_and_of_late_epochs() -> None:
    noisy = noisy_training(sigmas=(0.0, 1.0), learning_rate=RATE, rows=960)
    shares: list[list[FloatArray]] = [[] for _ in range(960)]
    for one in noisy.active.equations:
        values = np.linalg.lstsq(one.matrix.T, one.sums, rcond=None)[0]
        for row, value in zip(one.rows.tolist(), values, strict=True):
            shares[row].append(value)
    arranged = np.array(shares)
    matched = told(noisy, AveragedProducts().attack(noisy.active).products["passive"])
    for count in (1, 2, 5, 20):
        assert matched > told(noisy, arranged[:, -count:].mean(axis=1))


def test_mere_noise_is_drawn_to_its_mean() -> None:
    """30 sigma-to-size: what is claimed is next to nothing, and the error hardly exceeds that of knowing nothing."""
    drowned = noisy_training(sigmas=(0.0, 30.0))
    found = AveragedProducts().attack(drowned.active)
    assert found.told["passive"] < 0.2
    spread = np.sqrt(((drowned.products - drowned.products.mean(axis=0)) ** 2).mean())
    error = np.sqrt(((found.products["passive"] - drowned.products) ** 2).mean())
    assert error < 30 / np.sqrt(20) / 2 + spread


def test_a_record_that_misses_its_last_epoch_gets_an_answer_and_one_never_seen_none() -> None:
    noisy = noisy_training(sigmas=(0.0, 0.3), learning_rate=RATE)
    view = noisy.active
    kept = [step for step in view.steps if step.step % 48 != 0]
    numbers = {step.step for step in kept}
    equations = tuple(one for one in view.equations if one.step in numbers)
    found = AveragedProducts().attack(replace(view, steps=tuple(kept), equations=equations))
    assert np.isfinite(found.products["passive"]).all()
    one_step = replace(view, steps=view.steps[:1], equations=view.equations[:1])
    only = AveragedProducts().attack(one_step).products["passive"]
    assert np.isfinite(only[view.steps[0].rows]).all()
    assert np.isnan(only).sum() == len(only) - 10


def test_too_few_equations_and_a_passive_party_are_told_why() -> None:
    noisy = noisy_training(epochs=1)
    narrow = tuple(replace(one, matrix=one.matrix[:, :5], sums=one.sums[:5]) for one in noisy.active.equations)
    found = AveragedProducts().attack(replace(noisy.active, equations=narrow))
    assert not found.products
    assert "10 records in a step and 5 sums about them" in found.reason
    with pytest.raises(ViewError, match="party with the labels"):
        AveragedProducts().attack(noisy.passive)
