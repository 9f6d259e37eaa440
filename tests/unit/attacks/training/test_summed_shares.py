"""Labels from noisy shares: the sum over epochs against what theory gives, the vote, and honest trainings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.training.label_recovery import LabelRecovery
from attacks.training.recovered_labels import UNRESOLVED, RecoveredLabels
from tests.harness.noisy_views import NoisyTraining, noisy_training
from vfl.theory.dp_noise import best_success, sign_success

SIGMA, EPOCHS = 8.0, 20


@pytest.fixture(scope="module")
def noisy() -> NoisyTraining:
    return noisy_training(sigmas=(SIGMA, SIGMA), epochs=EPOCHS)


@pytest.fixture(scope="module")
def found(noisy: NoisyTraining) -> RecoveredLabels:
    return LabelRecovery().attack(noisy.passive)


def test_the_sum_is_right_as_often_as_theory_gives_and_no_more_than_the_bound(
    noisy: NoisyTraining, found: RecoveredLabels
) -> None:
    rows = len(noisy.labels)
    right = (found.labels == noisy.labels).mean()
    expected = sign_success(noisy.sums[:, 0], noisy.labels, SIGMA * math.sqrt(EPOCHS)).mean()
    spread = 0.5 / math.sqrt(rows)
    assert right == pytest.approx(expected, abs=4 * spread)
    # The bound is for who knows every product: the model's own part tells of labels, and isn't used here.
    assert right <= best_success(SIGMA, EPOCHS) + 4 * spread
    assert right > 0.75


def test_it_is_right_more_often_than_a_vote_of_signs_or_the_sum_of_whole_residuals(
    noisy: NoisyTraining, found: RecoveredLabels
) -> None:
    votes, totals = np.zeros(len(noisy.labels)), np.zeros(len(noisy.labels))
    for step in found.steps:
        votes[step.rows] += np.where(step.labels == 1, 1, -1)
    for own, step in zip(noisy.passive.steps, found.steps, strict=True):
        totals[step.rows] += np.where(step.labels == 1, -step.margin, step.margin) + 0 * own.share[:, 0]
    right = (found.labels == noisy.labels).mean()
    assert right > ((votes > 0) == (noisy.labels == 1)).mean() + 0.03
    assert right > ((totals < 0) == (noisy.labels == 1)).mean()


def test_noise_is_measured_and_voids_every_guarantee(noisy: NoisyTraining, found: RecoveredLabels) -> None:
    assert found.noise == pytest.approx(SIGMA, rel=0.03)
    assert found.facts()["noise"] == found.noise
    assert found.guaranteed_steps == 0
    assert not found.guaranteed.any()
    assert not any(step.guaranteed.any() for step in found.steps)
    assert len(found.unresolved) == 0


@given(
    start=st.sampled_from(["zero", "xavier", "kaiming"]),
    rate=st.floats(0.01, 0.5),
    classes=st.sampled_from([2, 3]),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 999),
)
def test_an_honest_training_shows_no_noise(start: str, rate: float, classes: int, epochs: int, seed: int) -> None:
    honest = noisy_training(rows=30, start=start, learning_rate=rate, classes=classes, epochs=epochs, seed=seed)
    found = LabelRecovery().attack(honest.passive)
    assert found.noise is None
    if start == "zero":
        first = found.steps[0]
        assert first.guaranteed.all()
        np.testing.assert_array_equal(first.labels, honest.labels[first.rows])


def test_classes_follow_from_sums_as_well() -> None:
    three = noisy_training(sigmas=(4.0, 0.0), classes=3)
    found = LabelRecovery().attack(three.passive)
    assert found.noise == pytest.approx(4.0, rel=0.03)
    by_step = np.mean([(step.labels == three.labels[step.rows]).mean() for step in found.steps])
    right = (found.labels == three.labels).mean()
    assert right > 0.75 > 0.6 > by_step


def test_one_epoch_is_a_sum_of_one_share_and_rows_not_seen_have_none() -> None:
    once = noisy_training(sigmas=(SIGMA, 0.0), epochs=1)
    cut = replace(once.passive, steps=once.passive.steps[:40], equations=once.passive.equations[:40])
    found = LabelRecovery().attack(cut)
    seen = np.concatenate([step.rows for step in found.steps])
    assert (found.labels[np.setdiff1d(np.arange(480), seen)] == UNRESOLVED).all()
    assert found.noise == pytest.approx(math.hypot(SIGMA, 2), rel=0.1)
    for step in found.steps:
        np.testing.assert_array_equal(found.labels[step.rows], step.labels)
