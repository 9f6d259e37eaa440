"""The method of moments: exact by hand, better than its prior over many weights, what it tells not, and refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks import PassiveMoments, PredictionView, ViewError
from attacks.prediction.known_moments import known_moments
from vfl.arrays import FloatArray
from vfl.channels import Decision, Rounding
from vfl.learning import confidence_scores


def view_of(
    truth: FloatArray, weights: FloatArray, features: FloatArray | None = None, *, seed: int = 0, **pieces: Any
) -> PredictionView:
    """What a black box of (k, d) passive class rows shows, with two columns and a bias of the active party's own."""
    generator = np.random.default_rng(seed)
    own, bias = generator.normal(size=(len(weights), 2)), generator.normal(size=len(weights))
    if features is None:
        features = generator.random((len(truth), 2))
    given = {"bias": bias, "passive_features": truth.shape[1], **pieces}
    given.setdefault("moments", known_moments(truth) if len(truth) else None)
    logits = features @ own.T + truth @ weights.T + bias
    return PredictionView(features_active=features, scores=confidence_scores(logits), weights_active=own, **given)


def estimate(view: PredictionView, prior: str = "covariance") -> FloatArray:
    result: FloatArray = attacks.load("method_of_moments", prior=prior).reconstruct(view)
    assert result.shape == (view.n, view.d)
    assert np.isfinite(result).all()
    assert 0 <= result.min() <= result.max() <= 1
    return result


def loss(found: FloatArray, truth: FloatArray) -> float:
    return float(((found - truth) ** 2).mean())


def correlated(generator: np.random.Generator, n: int = 400, d: int = 4) -> FloatArray:
    """Columns that have one cause."""
    mixed = generator.random((n, 1)) * 0.5 + generator.random((n, d)) * 0.3
    return np.asarray(mixed + generator.random(d) * 0.2)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("prior", ["mean", "covariance"])
def test_one_column_is_exact(prior: str, sign: float, classes: int) -> None:
    truth = np.random.default_rng(1).random((300, 1))
    weights = sign * np.array([[0.0], [2.0], [-3.0]])[:classes]
    # Its mean is above 0 by far more than chance: what chance could do is taken off still.
    np.testing.assert_allclose(estimate(view_of(truth, weights), prior), truth, atol=3e-3)


def test_columns_that_move_together_are_read_without_a_parameter() -> None:
    truth = correlated(np.random.default_rng(2))
    view = view_of(truth, np.array([[0.0] * 4, [0.5, 2.0, 1.0, 0.7]]))
    guess = loss(truth.mean(axis=0), truth)
    assert loss(estimate(view), truth) < 0.5 * guess
    assert loss(estimate(view), truth) < loss(estimate(view, "mean"), truth) < guess


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("prior", ["mean", "covariance"])
def test_over_weights_of_any_direction_it_errs_less_than_the_prior(prior: str, classes: int) -> None:
    errors = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        truth = correlated(generator)
        view = view_of(truth, generator.normal(size=(classes, 4)))
        errors.append((loss(estimate(view, prior), truth), loss(truth.mean(axis=0), truth)))
    found, guess = np.mean(errors, axis=0)
    assert found < 0.95 * guess


@pytest.mark.parametrize("prior", ["half", "mean", "covariance"])
@pytest.mark.parametrize("tells", [0.0, 1.0, -1.0])
def test_scores_of_other_records_add_nothing_to_what_own_columns_tell(prior: str, tells: float) -> None:
    parts = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        truth = correlated(generator)
        own = np.clip(0.5 + tells * (truth[:, :2] - truth[:, :2].mean(axis=0)), 0, 1) if tells else None
        view = view_of(truth, np.array([[0.0] * 4, [0.5, 2.0, 1.0, 0.7]]), own, seed=seed)
        others = replace(view, scores=np.asarray(view.scores)[generator.permutation(view.n)])
        withheld = attacks.load("method_of_moments", prior=prior).without_scores(others)
        parts.append(1 - loss(estimate(others, prior), truth) / loss(withheld, truth))
    assert np.mean(parts) < 0.005


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_a_model_that_ignores_the_columns_leaves_the_prior(seed: int, classes: int) -> None:
    truth = correlated(np.random.default_rng(seed), n=30)
    found = estimate(view_of(truth, np.zeros((classes, 4)), seed=seed))
    np.testing.assert_allclose(found, np.tile(truth.mean(axis=0), (30, 1)), atol=1e-6)


@given(st.permutations(range(4)), st.integers(0, 100))
def test_the_order_of_classes_and_what_they_share_don_t_matter(order: list[int], seed: int) -> None:
    generator = np.random.default_rng(seed)
    truth, weights = correlated(generator, n=60), generator.normal(size=(4, 4))
    view = view_of(truth, weights, seed=seed)
    turned = replace(
        view,
        scores=np.asarray(view.scores)[:, order],
        weights_active=np.asarray(view.weights_active)[order] + 1.5,
        bias=np.asarray(view.bias)[order] - 2.0,
    )
    np.testing.assert_allclose(estimate(turned), estimate(view), atol=1e-6)


@pytest.mark.parametrize("prior", ["half", "mean", "covariance"])
@pytest.mark.parametrize("records", [0, 1])
def test_too_few_records_leave_the_prior(records: int, prior: str) -> None:
    truth = correlated(np.random.default_rng(4))
    view = view_of(truth[:records], np.ones((2, 4)) * [[0], [1]], moments=known_moments(truth))
    attack = attacks.load("method_of_moments", prior=prior)
    np.testing.assert_array_equal(attack.reconstruct(view), attack.without_scores(view))


def test_columns_of_zeros_and_records_all_alike_leave_the_prior() -> None:
    weights = np.array([[0.0] * 4, [1.0] * 4])
    for truth in (np.zeros((20, 4)), np.full((20, 4), 0.25)):
        np.testing.assert_allclose(estimate(view_of(truth, weights)), truth, atol=1e-12)


def test_rounded_scores_and_own_shifts_are_read() -> None:
    truth = correlated(np.random.default_rng(5))
    view = view_of(truth, np.array([[0.0] * 4, [0.5, 2.0, 1.0, 0.7]]))
    rounded = replace(view, scores=np.asarray(view.scores).round(3), channel=(Rounding(3),))
    np.testing.assert_allclose(estimate(rounded), estimate(view), atol=0.02)
    shift = np.random.default_rng(6).normal(size=(view.n, 2))
    moved = replace(view, scores=confidence_scores(np.log(np.asarray(view.scores)) + shift), own_shift=shift)
    np.testing.assert_allclose(estimate(moved), estimate(view), atol=1e-9)


def test_what_it_refuses() -> None:
    truth = correlated(np.random.default_rng(7))
    view = view_of(truth, np.ones((2, 4)) * [[0], [1]])
    with pytest.raises(ViewError, match="needs the bias, which isn't the active party's here"):
        estimate(replace(view, bias=None))
    with pytest.raises(ViewError, match="only decisions are left"):
        estimate(replace(view, channel=(Decision(),)))
    with pytest.raises(ViewError, match="has no moments"):
        estimate(replace(view, moments=None))
    marginals = PassiveMoments(truth.mean(axis=0), truth.var(axis=0))
    with pytest.raises(ViewError, match="only each column's variance"):
        estimate(replace(view, moments=marginals))
    with pytest.raises(ValueError, match="prior"):
        attacks.load("method_of_moments", prior="imputation")
