"""Parameters to go by: turned back, regressed from records whatever was disclosed, or left alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.bayes.parameters import find_parameters
from attacks.bayes.prior import GaussianPrior
from vfl.arrays import FloatArray
from vfl.channels import Decision, Distorted, Rounding, ScoreChannel, StrongestDirection, Undeclared
from vfl.learning import confidence_scores
from vfl.theory.logit_schemes import logits_of, maximisers, scheme1_noise
from vfl.theory.score_noise import strongest_noise

K, D, T = 4, 5, 60


def federation(n: int = 80) -> tuple[attacks.PredictionView, FloatArray, GaussianPrior]:
    """A view with complete records, the truth, and a prior that knows about the columns."""
    generator = np.random.default_rng(0)
    factors = generator.standard_normal((D, D)) * 0.06
    covariance = factors @ factors.T + 0.03**2 * np.eye(D)
    mean = 0.3 + 0.3 * generator.random(D)
    passive = np.clip(mean + generator.standard_normal((n + T, D)) @ np.linalg.cholesky(covariance).T, 0, 1)
    own = generator.random((n + T, 2))
    rows, bias = generator.standard_normal((K, D + 2)) * 2, generator.standard_normal(K)
    scores = confidence_scores(np.hstack([own, passive]) @ rows.T + bias)
    view = attacks.PredictionView(
        features_active=own[:n],
        scores=scores[:n],
        weights_active=rows[:, :2],
        weights_passive=rows[:, 2:],
        bias=bias,
        auxiliary=attacks.AuxiliaryRows(own[n:], passive[n:], scores[n:]),
    )
    return view, passive[:n], GaussianPrior(np.tile(mean, (n, 1)), covariance)


def differences(view: attacks.PredictionView) -> FloatArray:
    consecutive: FloatArray = np.diff(np.asarray(view.weights_passive), axis=0)
    return consecutive


def turned(view: attacks.PredictionView, seed: int = 1) -> FloatArray:
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((D, D)))[0]
    rows: FloatArray = np.asarray(view.weights_passive) @ rotation.T
    return rows


def test_parameters_that_nothing_was_done_to_are_taken() -> None:
    view, _, prior = federation()
    assert find_parameters(view, prior, None).view is view


def test_what_was_trained_on_mirrored_features_is_mirrored_back() -> None:
    """z = W (2 c - x) + b was disclosed as W and b: the same scores follow from -W and b + 2 c W 1."""
    view, truth, prior = federation()
    assert view.bias is not None
    trained = -np.asarray(view.weights_passive)
    disclosed = replace(
        view,
        weights_passive=trained,
        bias=view.bias - trained.sum(axis=1),
        disclosure=Distorted("negated", about=0.5, sign_is_guess=True),
    )
    found = find_parameters(disclosed, prior, None).view
    assert found is not None
    logits = found.features_active @ np.asarray(found.weights_active).T + truth @ np.asarray(found.weights_passive).T
    np.testing.assert_allclose(confidence_scores(logits + np.asarray(found.bias)), np.asarray(view.scores), atol=1e-9)


@pytest.mark.parametrize("missing", [(), ("weights_passive", "bias"), ("weights_active", "weights_passive", "bias")])
def test_exact_records_give_the_parameters_whatever_was_disclosed(missing: tuple[str, ...]) -> None:
    view, _, prior = federation()
    changed = replace(view, weights_passive=turned(view), disclosure=Distorted("orthonormal"), passive_features=D)
    pieces: dict[str, Any] = dict.fromkeys(missing)
    found = find_parameters(replace(changed, **pieces), prior, view.auxiliary)
    assert found.view is not None
    assert found.error is None
    np.testing.assert_allclose(differences(found.view), differences(view), atol=1e-6)
    assert found.notes == (f"The class rows were regressed from {T} complete records with their scores.",)


def through(view: attacks.PredictionView, scores: FloatArray, stage: ScoreChannel) -> FloatArray:
    weights = np.asarray(view.weights_passive)
    match stage:
        case Rounding(decimals):
            return np.round(scores, decimals)
        case StrongestDirection():
            noise = scheme1_noise(
                maximisers(logits_of(scores)), strongest_noise(weights @ weights.T).direction, stage.alpha
            )
            return confidence_scores(logits_of(scores) + noise)
    decided: FloatArray = np.eye(K)[scores.argmax(axis=1)]
    return decided


@pytest.mark.parametrize("stage", [Rounding(2), Rounding(3), StrongestDirection(1, 4.0)])
def test_defended_records_give_them_with_an_error_that_is_told(stage: ScoreChannel) -> None:
    """Logits by the regressed rows are off by what the regression says, within a factor; none by a scheme."""
    view, truth, prior = federation()
    assert view.auxiliary is not None
    known = replace(view.auxiliary, scores=through(view, view.auxiliary.scores, stage))
    changed = replace(view, channel=(stage,), weights_passive=turned(view), disclosure=Distorted("orthonormal"))
    found = find_parameters(changed, prior, known)
    assert found.view is not None
    offsets = np.diff(np.asarray(found.view.bias)) - np.diff(np.asarray(view.bias))
    off = truth @ (differences(found.view) - differences(view)).T + offsets
    if isinstance(stage, StrongestDirection):
        assert np.abs(off).max() < 1e-6
    else:
        assert found.error is not None
        J = np.diff(np.eye(K), axis=0)
        said = np.diag(J @ found.error @ J.T)
        assert ((off**2).mean(axis=0) < 9 * said).all()
        assert (off**2).mean() > said.mean() / 9


def test_the_posterior_by_regressed_parameters_is_as_good_as_by_the_true_ones() -> None:
    view, truth, _ = federation()
    attack = attacks.load("posterior", prior="imputation", draws=60)
    hidden = replace(view, weights_passive=turned(view), disclosure=Distorted("orthonormal"))
    errors = [((attack.reconstruct(each) - truth) ** 2).mean() for each in (view, hidden)]
    assert errors[1] < 1.1 * errors[0]
    assert errors[1] < 0.5 * ((attack.without_scores(view) - truth) ** 2).mean()


@pytest.mark.parametrize("channel", [(), (Rounding(2),)])
def test_without_records_the_likelier_sign_is_taken(channel: tuple[ScoreChannel, ...]) -> None:
    view, _, prior = federation()
    scores = np.asarray(view.scores) if not channel else through(view, np.asarray(view.scores), channel[0])
    changed = replace(view, scores=scores, channel=channel, disclosure=Distorted("any", sign_is_guess=True))
    assert find_parameters(changed, prior, None).notes == (
        "The disclosed parameters explain the scores best as they are.",
    )
    mirrored = replace(changed, weights_passive=-np.asarray(view.weights_passive))
    found = find_parameters(mirrored, prior, None)
    assert found.view is not None
    np.testing.assert_array_equal(found.view.weights_passive, view.weights_passive)


def test_without_records_a_secret_rotation_leaves_the_prior_alone() -> None:
    """So it does where scores are decisions, or a defence says nothing of the parameters."""
    view, _, prior = federation()
    hidden = replace(view, weights_passive=turned(view), disclosure=Distorted("orthonormal"))
    assert find_parameters(hidden, prior, None).view is None
    decisions = replace(hidden, scores=through(view, np.asarray(view.scores), Decision()), channel=(Decision(),))
    assert find_parameters(decisions, prior, None).view is None
    assert find_parameters(decisions, prior, view.auxiliary).view is None
    assert find_parameters(replace(hidden, disclosure=Undeclared("mine")), prior, None).view is None
    attack = attacks.load("posterior", prior="half", draws=20)
    np.testing.assert_array_equal(attack.reconstruct(hidden), attack.without_scores(hidden))


def test_no_parameters_and_no_records_are_told_in_a_sentence() -> None:
    view, _, prior = federation()
    with pytest.raises(attacks.ViewError, match="prior=imputation, which regresses them"):
        find_parameters(replace(view, weights_passive=None, passive_features=D), prior, None)
