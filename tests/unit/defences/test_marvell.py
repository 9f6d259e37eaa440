"""marvell: the bound holds, its noise is the least that keeps it, and a step's signals get what was computed."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import defences
from defences import DefenceError, NoiseSource, TrainingTerms
from defences.marvell import Marvell, Spreads, largest_auc, least_noise

TERMS = TrainingTerms("active", epochs=3, steps=30, rows=64, learning_rate=0.1, residual_limit=128.0, hidden=4)
SPREADS = st.floats(0, 50)


def divergence(noise: tuple[Spreads, Spreads], own: tuple[float, float], columns: int) -> float:
    """Both Kullback-Leibler divergences of two Gaussians whose means are 1 apart on the first axis."""
    variances = [
        # Signals and noise are floored together: noise that brings one class to the other leaves them alike.
        np.maximum([one.along + mine, *[one.across + mine] * (columns - 1)], 1e-9)
        for one, mine in zip(noise, own, strict=True)
    ]
    apart = np.eye(columns)[0]
    first, second = (0.5 * ((a + apart**2) / b - 1 + np.log(b / a)).sum() for a, b in (variances, reversed(variances)))
    return float(first + second)


def power(noise: tuple[Spreads, Spreads], share: float, columns: int) -> float:
    each = [one.along + (columns - 1) * one.across for one in noise]
    return (1 - share) * each[0] + share * each[1]


@given(st.floats(0.01, 3.9), SPREADS, SPREADS, st.floats(0.01, 0.99), st.integers(1, 64))
@example(1.0, 6e-8, 0.0, 0.5, 7)
def test_whatever_the_signals_the_divergence_keeps_its_bound_by_noise_that_is_wider_along(
    sum_kl: float, first: float, second: float, share: float, columns: int
) -> None:
    noise = least_noise(sum_kl, (first, second), share, columns)
    assert divergence(noise, (first, second), columns) <= sum_kl * (1 + 1e-4) + 1e-4 * columns
    for one in noise:
        assert one.across >= 0
        assert one.along >= one.across - 1e-6 * (1 + one.across)


@pytest.mark.parametrize(
    ("sum_kl", "own", "share", "columns"),
    [(0.2, (0.0, 0.0), 0.1, 1), (3.0, (0.1, 0.3), 0.1, 3), (0.5, (0.4, 0.1), 0.3, 2), (0.2, (5.0, 0.01), 0.02, 4)],
)
def test_no_other_noise_on_a_grid_does_with_less(
    sum_kl: float, own: tuple[float, float], share: float, columns: int
) -> None:
    chosen = least_noise(sum_kl, own, share, columns)
    assert divergence(chosen, own, columns) <= sum_kl * (1 + 1e-5)
    # Around what was chosen, and far from it.
    steps = [np.unique([one * s for s in (0.5, 0.9, 0.97, 1, 1.03, 1.1, 2)]) for pair in chosen for one in _both(pair)]
    found = [
        power(other, share, columns)
        for a, b, c, d in np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, 4)
        if divergence(other := (Spreads(a, b), Spreads(c, d)), own, columns) <= sum_kl
    ]
    assert found
    assert min(found) >= power(chosen, share, columns) * (1 - 1e-4)


def _both(spreads: Spreads) -> tuple[float, float]:
    return spreads.along, spreads.across


def test_known_answers() -> None:
    """Signals without a spread of their own, equally many of each class: 1 / e along, and nothing across."""
    zero, one = least_noise(0.25, (0.0, 0.0), 0.5, 16)
    assert (zero.along, one.along) == pytest.approx((4.0, 4.0))
    assert max(zero.across, one.across) < 1e-6
    # What is alike already needs none.
    assert max(_both(least_noise(0.2, (100.0, 100.0), 0.5, 8)[0])) < 1e-9
    assert largest_auc(0.0) == 0.5
    assert largest_auc(1.0) == pytest.approx(0.875)
    assert largest_auc(4.0) == 1.0
    for auc in (0.51, 0.7, 0.99):
        assert largest_auc(Marvell(auc).sum_kl) == pytest.approx(auc)


def test_signals_get_the_noise_of_their_class_around_their_own_values() -> None:
    """Both classes' means stand, and each class's spread along and across is what was chosen."""
    rng = np.random.default_rng(0)
    labels = (rng.random(40_000) < 0.2).astype(np.int64)
    signals = 0.1 * rng.normal(size=(len(labels), 4)) + np.outer(2 * labels - 1.0, [0.6, 0.8, 0, 0])
    protected = Marvell(0.7).protect_labelled_residuals(signals, labels, TERMS, NoiseSource(1))
    chosen = least_noise(Marvell(0.7).sum_kl, (0.0025, 0.0025), 0.2, 4)
    for one in (0, 1):
        added = (protected - signals)[labels == one]
        along = added @ np.array([0.6, 0.8, 0, 0])
        assert abs(along.mean()) < 5 * along.std() / math.sqrt(len(along))
        assert along.var() == pytest.approx(4 * chosen[one].along, rel=0.05)
        assert added[:, 2:].var() == pytest.approx(4 * chosen[one].across, rel=0.05, abs=1e-4)
    # The best guess of one step, which knows the axis, keeps the bound.
    from sklearn.metrics import roc_auc_score

    axis = protected @ np.array([0.6, 0.8, 0, 0])
    assert roc_auc_score(labels, signals[:, 0]) > 0.999
    assert 0.5 < roc_auc_score(labels, axis) < 0.7


@pytest.mark.parametrize("alone", [0, 1])
def test_a_batch_of_one_class_is_disturbed_all_the_same(alone: int) -> None:
    signals = np.tile([0.3, -0.1], (8, 1))
    labels = np.full(8, alone)
    protected = Marvell().protect_labelled_residuals(signals, labels, TERMS, NoiseSource(0))
    assert (np.abs(protected - signals).max(axis=1) > 0.05).all()


def test_signals_that_tell_nothing_stay() -> None:
    signals = np.ones((6, 3))
    assert Marvell().protect_labelled_residuals(signals, np.arange(6) % 2, TERMS, NoiseSource(0)) is signals


def test_its_bound_is_told_before_training_and_grows_with_epochs() -> None:
    told = Marvell(0.6).prediction(TERMS)
    assert told.best_auc == 0.6
    assert told.best_auc < told.best_auc_of_all_epochs == largest_auc(3 * told.sum_kl) < 1


def test_what_it_is_not_for_is_refused_in_words() -> None:
    Marvell().check(TERMS)
    with pytest.raises(DefenceError, match=r"marvell protects what a network's hidden layer tells.*learner=network"):
        Marvell().check(TrainingTerms("active", 1, 1, 8, 0.1, 128.0))
    with pytest.raises(DefenceError, match="two classes' signals alike, and there are 3: choose label_randomised"):
        Marvell().check(TrainingTerms("active", 1, 1, 8, 0.1, 128.0, hidden=4, classes=3))
    for auc in (0.5, 1.0, 2.0):
        with pytest.raises(ValueError, match=r"Expected auc to be above 0\.5 and below 1"):
            defences.load("marvell", auc=auc)
