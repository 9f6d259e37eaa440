"""What noise does to a model: by simulation, against brute force, and the definitions."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.simulation.expected_models import expected_accuracy, mean_noise_covariance, product_variance
from vfl.arrays import BoolArray, FloatArray
from vfl.learning import ResidualScheme
from vfl.theory.noisy_training import TAIL_CONSTANT, error_bound

BINARY = ResidualScheme(2)


def errors(batch: FloatArray, own: int, sigmas: tuple[float, float], count: int) -> FloatArray:
    """``count`` draws of e_t (45), (count, d)."""
    rng, rows = np.random.default_rng(3), len(batch)
    of_active, of_passive = (sigma * rng.standard_normal((count, rows)) for sigma in sigmas)
    return np.hstack([of_passive @ batch[:, :own], of_active @ batch[:, own:]]) / (4 * rows)


def noise_covariance(
    batches: Sequence[FloatArray], active: BoolArray, *, learning_rate: float, sigma_active: float, sigma_passive: float
) -> FloatArray:
    """What the noise has added to theta after these batches, step by step (43, 45): exact."""
    covariance = np.zeros((len(active), len(active)))
    for batch in batches:
        scale = learning_rate / (4 * len(batch))
        keep = np.eye(len(active)) - scale * batch.T @ batch
        # Each party's columns carry the other's noise.
        of_passive, of_active = (scale * batch * mask for mask in (active, ~active))
        added = sigma_passive**2 * of_passive.T @ of_passive + sigma_active**2 * of_active.T @ of_active
        covariance = keep @ covariance @ keep + added
    return covariance


@given(k=st.floats(1, 1e6))
def test_the_tail_constant_does_what_lemma_6_3_needs(k: float) -> None:
    """1 + 2 sqrt(c k) + 2 c k <= 4 k for k >= 1, with equality at 1: a larger c would not do."""
    c = TAIL_CONSTANT
    assert 1 + 2 * math.sqrt(c * k) + 2 * c * k <= 4 * k * (1 + 1e-12)
    assert 1 + 2 * math.sqrt(c) + 2 * c == pytest.approx(4)


@pytest.mark.parametrize("rank_one", [True, False])
@pytest.mark.parametrize("k", [2.0, 5.0])
def test_errors_exceed_lemma_6_3_no_more_often_than_it_says(k: float, rank_one: bool) -> None:
    """Equal records are the worst case of the quadratic form."""
    batch = np.random.default_rng(5).normal(size=(16, 6))
    batch = np.repeat(batch[:1], 16, axis=0) if rank_one else batch
    batch /= np.linalg.norm(batch, axis=1, keepdims=True)
    lengths = np.linalg.norm(errors(batch, 3, (2.0, 2.0), 20_000), axis=1)
    assert (lengths > math.sqrt(k / 16) * 2.0).mean() <= 2 * math.exp(-TAIL_CONSTANT * k)


def test_error_bound_is_eq_48_with_its_sigma() -> None:
    u = error_bound(20.0, 256, 1500, 0.1, constant=0.5)
    assert u == pytest.approx(math.sqrt(math.log(30_000) / (0.5 * 256)) * 20)
    assert error_bound(20.0, 256, 1500, 0.1) < u
    assert error_bound(0.0, 256, 1500, 0.1) == 0
    with pytest.raises(ValueError, match=r"Lemma 6\.3 needs"):
        error_bound(1.0, 256, 1, 0.9, constant=10.0)
    for bad in ((-1.0, 1, 1, 0.1), (1.0, 0, 1, 0.1), (1.0, 1, 0, 0.1), (1.0, 1, 1, 0.0)):
        with pytest.raises(ValueError, match="Expected sigma"):
            error_bound(*bad)


def test_noise_covariance_is_that_of_simulated_trainings() -> None:
    """Thousands of noisy trainings side by side against one without noise; so is their accuracy."""
    rng, count, rate = np.random.default_rng(6), 20_000, 0.8
    features, labels = rng.normal(size=(30, 4)), rng.integers(0, 2, 30)
    active = np.array([True, False, False, True])
    batches = [rng.permutation(30)[:size] for size in (5, 7, 5, 3, 8)]
    noisy, plain = np.zeros((4, count)), np.zeros((4, 1))
    for batch in batches:
        x, scale = features[batch], rate / (4 * len(batch))
        plain = plain - scale * x.T @ BINARY.active_share(x @ plain, labels[batch])
        f = BINARY.active_share(x @ noisy, labels[batch])
        of_active, of_passive = (sigma * rng.standard_normal(f.shape) for sigma in (4.0, 2.0))
        noisy = noisy - scale * np.where(active[:, None], x.T @ (f + of_passive), x.T @ (f + of_active))
    covariance = noise_covariance(
        [features[batch] for batch in batches], active, learning_rate=rate, sigma_active=4.0, sigma_passive=2.0
    )
    measured = np.cov(noisy)
    deviation = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / count)
    assert (np.abs(measured - covariance) <= 5 * deviation).all()
    np.testing.assert_allclose(noisy.mean(axis=1), plain[:, 0], atol=5 * math.sqrt(covariance.max() / count))
    accuracies = ((features @ noisy > 0) == (labels[:, None] == 1)).mean(axis=0)
    expected = expected_accuracy((features @ plain)[:, 0], labels, product_variance(features, covariance))
    assert accuracies.mean() == pytest.approx(expected, abs=5 * accuracies.std() / math.sqrt(count))


@pytest.mark.parametrize("rank", [2, 5])
def test_the_closed_form_is_exact_where_all_batches_have_the_same_second_moment(rank: int) -> None:
    """Rank 2 of 5 columns: eigenvalues of 0."""
    rng = np.random.default_rng(7)
    batch = rng.normal(size=(9, rank)) @ rng.normal(size=(rank, 5))
    active = np.array([True, True, False, False, False])
    levels = {"learning_rate": 0.5, "sigma_active": 3.0, "sigma_passive": 1.5}
    exact = noise_covariance([batch] * 40, active, **levels)
    closed = mean_noise_covariance(batch.T @ batch / 9, active, rows=9, steps=40, **levels)
    np.testing.assert_allclose(closed, exact, atol=1e-9 * np.abs(exact).max())


def test_the_closed_form_is_close_for_other_batches() -> None:
    rng = np.random.default_rng(8)
    features = rng.normal(size=(640, 4)) * [1, 2, 0.5, 1]
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    active = np.array([True, True, False, False])
    levels = {"learning_rate": 0.1, "sigma_active": 3.0, "sigma_passive": 1.5}
    batches = [features[chosen] for _ in range(20) for chosen in np.split(rng.permutation(640), 20)]
    exact = noise_covariance(batches, active, **levels)
    closed = mean_noise_covariance(features.T @ features / 640, active, rows=32, steps=400, **levels)
    np.testing.assert_allclose(closed, exact, atol=0.05 * np.abs(exact).max())


def test_expected_accuracy_without_noise_is_the_accuracy() -> None:
    products, labels = np.array([1.0, -1.0, 2.0, -3.0]), np.array([1, 0, 0, 1])
    assert expected_accuracy(products, labels, np.zeros(4)) == 0.5
    assert expected_accuracy(products, labels, np.full(4, 1e12)) == pytest.approx(0.5)
