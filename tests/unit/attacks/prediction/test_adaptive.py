"""Undoing a channel: what the coordinator's defences and a passive party's delivered comes back as without them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attacks
import defences
from attacks.prediction.adaptive import undo, undo_channel
from defences import NoiseSource, ScoreContext, channel_of, disclosure_of
from vfl.arrays import FloatArray
from vfl.channels import Distorted, Noise, Rounding, Undeclared
from vfl.learning import confidence_scores

K, D_ACTIVE, D, N, KNOWN = 4, 3, 6, 30, 12
GENERATOR = np.random.default_rng(5)
W_ACTIVE, W_PASSIVE = GENERATOR.standard_normal((K, D_ACTIVE)), GENERATOR.standard_normal((K, D))
BIAS = GENERATOR.standard_normal(K)
ACTIVE, PASSIVE = GENERATOR.random((N + KNOWN, D_ACTIVE)), GENERATOR.random((N + KNOWN, D))
LOGITS = ACTIVE @ W_ACTIVE.T + PASSIVE @ W_PASSIVE.T + BIAS
SCORES = confidence_scores(LOGITS)
CONTEXT = ScoreContext(NoiseSource(0), W_PASSIVE @ W_PASSIVE.T)


def seen(scores: FloatArray = SCORES, **changes: Any) -> attacks.PredictionView:
    """The first records attacked, the others known in full."""
    view = attacks.PredictionView(
        weights_active=W_ACTIVE,
        weights_passive=W_PASSIVE,
        bias=BIAS,
        features_active=ACTIVE[:N],
        scores=scores[:N],
        auxiliary=attacks.AuxiliaryRows(ACTIVE[N:], PASSIVE[N:], scores[N:]),
    )
    return replace(view, **changes)


def under(*chosen: defences.ScoreDefence, scores: FloatArray = SCORES) -> attacks.PredictionView:
    """The view of scores that these defences delivered, with their channel."""
    for defence in chosen:
        scores = defence.protect_scores(scores, CONTEXT)
    return seen(scores, channel=tuple(channel_of(defence, K) for defence in chosen))


def error(view: attacks.PredictionView, attack: str = "half_star") -> float:
    return float(np.mean((attacks.load(attack).reconstruct(view) - PASSIVE[:N]) ** 2))


@pytest.mark.parametrize(
    "chosen",
    [
        [("score_scheme1", {"sign": -1})],
        [("score_scheme3", {"alpha": 0.8})],
        [("score_scheme3", {}), ("score_scheme1", {})],
        [("score_scheme1", {"alpha": 9.0}), ("score_scheme3", {"alpha": 0.25}), ("score_scheme1", {"sign": -1})],
    ],
    ids=str,
)
def test_what_can_be_inverted_is_taken_off_to_the_last_digits(chosen: list[tuple[str, dict[str, Any]]]) -> None:
    view = under(*(defences.load(name, **options) for name, options in chosen))
    assert np.abs(np.asarray(view.scores) - SCORES[:N]).max() > 0.05
    undone = undo(view)
    np.testing.assert_allclose(np.asarray(undone.view.scores), SCORES[:N], atol=1e-9)
    assert undone.view.auxiliary is not None
    np.testing.assert_allclose(undone.view.auxiliary.scores, SCORES[N:], atol=1e-9)
    assert (undone.channels, undone.disclosure, undone.level) == (len(chosen), False, "nothing")
    assert undone.view.channel == ()
    assert error(undone.view) == pytest.approx(error(seen()))
    assert error(view) > 1.2 * error(seen())


def test_scheme_2_loses_most_of_what_it_added() -> None:
    view = under(defences.load("score_scheme2"))
    undone = undo(view)
    assert undone.view.channel == ()
    assert error(undone.view, "rcc2") < 0.8 * error(view, "rcc2")


@pytest.mark.parametrize("first", ["score_rounding", "score_noise", "class_label"])
def test_only_the_last_ones_come_off_and_the_channel_says_what_is_left(first: str) -> None:
    plain, scheme = defences.load(first), defences.load("score_scheme3")
    undone = undo(under(plain, scheme))
    assert undone.channels == 1
    assert undone.view.channel == (channel_of(plain, K),)
    # Behind it nothing is reached.
    behind = under(scheme, plain)
    assert undo_channel(behind) is behind
    assert not undo(behind).is_changed


def test_without_defences_the_view_is_the_same() -> None:
    view = seen()
    assert undo(view).view is view
    blind = attacks.PredictionView(features_active=ACTIVE, channel=(Rounding(2),), passive_features=D)
    assert undo(blind).view is blind


def test_schemes_1_and_2_need_parameters_that_tell_the_direction() -> None:
    view = under(defences.load("score_scheme1"))
    black = replace(view, weights_passive=None, bias=None, passive_features=D)
    assert undo(black).channels == 0
    for disclosure in (Distorted("any"), Undeclared("velvet")):
        assert undo(replace(view, disclosure=disclosure)).channels == 0
    # Turned rows tell it as well.
    turned = np.linalg.qr(GENERATOR.standard_normal((D, D)))[0]
    undone = undo(replace(view, weights_passive=W_PASSIVE @ turned, disclosure=Distorted("orthonormal")))
    np.testing.assert_allclose(np.asarray(undone.view.scores), SCORES[:N], atol=1e-9)


def test_the_own_shift_comes_off_once_no_channel_is_left() -> None:
    shift = GENERATOR.standard_normal((N, K))
    delivered = confidence_scores(LOGITS[:N] + shift)
    undone = undo(seen(np.vstack([delivered, SCORES[N:]]), own_shift=shift))
    np.testing.assert_allclose(np.asarray(undone.view.scores), SCORES[:N], atol=1e-9)
    assert undone.view.own_shift is None
    rounded = seen(np.round(np.concatenate([delivered, SCORES[N:]]), 2), own_shift=shift, channel=(Rounding(2),))
    assert undo(rounded).view.own_shift is not None


@pytest.mark.parametrize("at", ["disclosure", "training"])
def test_minus_identity_is_turned_back(at: str) -> None:
    defence = defences.load("feature_transform", kind="negate", at=at)
    if at == "disclosure":
        disclosed, bias = defence.disclose(W_PASSIVE, PASSIVE, NoiseSource(0)), BIAS
    else:
        # Trained on 1 - x: W x + b = -W (1 - x) + b + W 1.
        np.testing.assert_array_equal(defence.transform_features(PASSIVE, NoiseSource(0)), 1 - PASSIVE)
        disclosed, bias = -W_PASSIVE, BIAS + W_PASSIVE.sum(axis=1)
    undone = undo(seen(weights_passive=disclosed, bias=bias, disclosure=disclosure_of(defence)))
    np.testing.assert_allclose(np.asarray(undone.view.weights_passive), W_PASSIVE)
    np.testing.assert_allclose(np.asarray(undone.view.bias), BIAS)
    assert (undone.view.disclosure, undone.disclosure, undone.level) == (None, True, "nothing")


@pytest.mark.parametrize(
    "defence",
    [
        defences.load("feature_transform"),
        defences.load("feature_transform", kind="permutation"),
        defences.load("parameter_rotation", secret="none"),  # noqa: S106 - no password
    ],
    ids=str,
)
def test_complete_records_tell_true_parameters(defence: Any) -> None:
    disclosed = defence.disclose(W_PASSIVE, PASSIVE, NoiseSource(0))
    view = seen(weights_passive=disclosed, disclosure=disclosure_of(defence))
    undone = undo(view)
    assert (undone.disclosure, undone.level) == (True, "records")
    assert error(undone.view) == pytest.approx(error(seen()))
    assert error(view) > 1.5 * error(seen())


def test_parameters_are_learned_from_scores_with_their_channel_taken_off() -> None:
    turned = defences.load("feature_transform")
    view = under(defences.load("score_scheme1"))
    view = replace(
        view, weights_passive=turned.disclose(W_PASSIVE, PASSIVE, NoiseSource(0)), disclosure=disclosure_of(turned)
    )
    assert error(undo_channel(view)) == pytest.approx(error(seen()))


def test_with_too_few_records_only_a_sign_is_guessed() -> None:
    few = attacks.AuxiliaryRows(ACTIVE[N : N + D], PASSIVE[N : N + D], SCORES[N : N + D])
    near = seen(weights_passive=-W_PASSIVE, auxiliary=few)
    guessed = undo(replace(near, disclosure=Distorted("any", sign_is_guess=True)))
    np.testing.assert_array_equal(np.asarray(guessed.view.weights_passive), W_PASSIVE)
    assert guessed.level == "nothing"
    kept = undo(seen(auxiliary=few, disclosure=Distorted("any", sign_is_guess=True)))
    np.testing.assert_array_equal(np.asarray(kept.view.weights_passive), W_PASSIVE)
    assert undo(replace(near, disclosure=Distorted("orthonormal"))).view.disclosure == Distorted("orthonormal")
    assert not undo(replace(near, channel=(Noise(0.1),), disclosure=Undeclared("velvet"))).is_changed
