"""Adversaries that know the defence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attacks
import defences
from defences import NoiseSource, ScoreContext
from plumbline.figures.defences.adaptive import Ask, adaptive_adversaries
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

# --- adaptive adversaries -----------------------------------------------------------------------------------------


def world(k: int, d: int, seed: int = 0, records: int = 60) -> tuple[attacks.PredictionView, FloatArray]:
    """A view of undefended predictions with as many auxiliary records, and the (n + t, k) logits behind it."""
    generator = np.random.default_rng(seed)
    active, passive = generator.random((2 * records, 3)), generator.random((2 * records, d))
    own, other, bias = generator.normal(size=(k, 3)), generator.normal(size=(k, d)), generator.normal(size=k)
    logits = active @ own.T + passive @ other.T + bias
    scores = confidence_scores(logits)
    view = attacks.PredictionView(
        features_active=active[:records],
        scores=scores[:records],
        weights_active=own,
        weights_passive=other,
        bias=bias,
        auxiliary=attacks.AuxiliaryRows(active[records:], passive[records:], scores[records:]),
    )
    return view, logits


def defended(view: attacks.PredictionView, scores: FloatArray) -> attacks.PredictionView:
    """The view with other scores delivered."""
    assert view.auxiliary is not None
    return replace(view, scores=scores[: view.n], auxiliary=replace(view.auxiliary, scores=scores[view.n :]))


def told(adaptive: Any) -> FloatArray:
    """The scores of all records as an adaptive adversary has them."""
    return np.vstack([adaptive.view.scores, adaptive.view.auxiliary.scores])


def delivered(name: str, view: attacks.PredictionView, logits: FloatArray, **options: Any) -> tuple[Any, Ask]:
    """A defence, and the coordinator's answers under it."""
    defence = defences.load(name, **options)
    weights = np.asarray(view.weights_passive)
    context = ScoreContext(NoiseSource(1), weights @ weights.T)
    return defence, lambda shift: defence.protect_scores(confidence_scores(logits + shift), context)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("name", ["score_scheme1", "score_scheme3"])
def test_schemes_without_a_secret_come_off_exactly(name: str, k: int) -> None:
    view, logits = world(k, 6)
    defence, ask = delivered(name, view, logits)
    scores = ask(np.zeros_like(logits))
    assert np.abs(scores - confidence_scores(logits)).max() > 0.05
    (adaptive,) = adaptive_adversaries(defence, defended(view, scores), ask, 0)
    np.testing.assert_allclose(told(adaptive), confidence_scores(logits), atol=1e-9)


def test_scheme_2_comes_off_but_for_decisions_that_were_raised() -> None:
    view, logits = world(5, 6)
    defence, ask = delivered("score_scheme2", view, logits, alpha=25.0)
    scores = ask(np.zeros_like(logits))
    (adaptive,) = adaptive_adversaries(defence, defended(view, scores), ask, 0)
    before, error = (np.abs(seen - confidence_scores(logits)).max(axis=1) for seen in (scores, told(adaptive)))
    ordered = np.sort(np.log(scores), axis=1)
    raised = np.abs(ordered[:, -1] - ordered[:, -2] - defence.delta) < 1e-6
    assert 0 < raised.sum() < len(raised)
    assert error[~raised].max() < 1e-9
    assert error[raised].mean() < before[raised].mean() / 2


@pytest.mark.parametrize(("name", "tolerance"), [("class_label", 0.25), ("score_rounding", 0.1), ("score_noise", 0.35)])
def test_steering_reads_logits_through_labels_rounding_and_noise(name: str, tolerance: float) -> None:
    view, logits = world(4, 6)
    defence, ask = delivered(name, view, logits)
    found = adaptive_adversaries(defence, defended(view, ask(np.zeros_like(logits))), ask, 0)[-1]
    assert "steers" in found.words
    errors = np.log(told(found)) - logits
    errors -= errors.mean(axis=1, keepdims=True)
    assert np.abs(errors).mean() < tolerance / 2
    assert np.abs(errors).max() < 2 * tolerance


def test_parameters_are_regressed_and_signs_are_tried() -> None:
    view, logits = world(3, 4)
    disclosed = replace(view, weights_passive=-np.asarray(view.weights_passive))
    _, ask = delivered("class_label", view, logits)
    guessed, regressed = adaptive_adversaries(defences.load("parameter_rotation"), disclosed, ask, 0)
    assert guessed.view is not None
    np.testing.assert_array_equal(np.asarray(guessed.view.weights_passive), view.weights_passive)
    assert regressed.view is not None
    found = np.diff(np.asarray(regressed.view.weights_passive), axis=0)
    np.testing.assert_allclose(found, np.diff(np.asarray(view.weights_passive), axis=0), atol=1e-9)
    undone = adaptive_adversaries(defences.load("feature_transform", kind="negate"), disclosed, ask, 0)[0]
    assert undone.view is not None
    np.testing.assert_array_equal(np.asarray(undone.view.weights_passive), view.weights_passive)
    assert not adaptive_adversaries(defences.load("response_truncation"), view, ask, 0)


def test_features_trained_on_in_the_negative_come_back() -> None:
    view, logits = world(4, 2)
    weights, bias = np.asarray(view.weights_passive), np.asarray(view.bias)
    # What a party that trains on 1 - x discloses for the same scores.
    seen = replace(view, weights_passive=-weights, bias=bias + weights.sum(axis=1))
    defence = defences.load("feature_transform", kind="negate", at="training")
    undone = adaptive_adversaries(defence, seen, lambda shift: confidence_scores(logits + shift), 0)[0]
    assert undone.view is not None
    expected = attacks.load("half_star").reconstruct(view)
    np.testing.assert_allclose(attacks.load("half_star").reconstruct(undone.view), expected, atol=1e-9)
