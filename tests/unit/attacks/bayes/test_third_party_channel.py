"""A defence that brings a channel of its own, written here alone: posterior reads it by what the channel says."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from attacks import PredictionView, ViewError
from attacks.bayes.posterior import BayesianAdversary, ManySessions
from attacks.prediction.adaptive import undo
from defences import DefenceSpec, NoiseSource, ScoreContext
from defences.base import channel_of
from vfl.arrays import FloatArray, IntArray
from vfl.channels import Delivered, Likelihood, RepeatableChannel, Rounding, ScoreChannel, Temperature
from vfl.learning import confidence_scores


@dataclass(frozen=True, eq=False)
class LaplaceErrors(Likelihood):
    """Each log score is off by a Laplace error."""

    delivered: FloatArray
    scale: float

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        density: FloatArray = -np.abs(log_scores - self.delivered[rows]).sum(axis=1) / np.maximum(self.scale, slack)
        return density


@dataclass(frozen=True)
class LaplaceFactors(ScoreChannel):
    """Each score is multiplied by exp(e), e from a Laplace distribution."""

    scale: float

    def likelihood(self, delivered: Delivered) -> LaplaceErrors:
        return LaplaceErrors(delivered.log_scores, self.scale)


@dataclass(frozen=True)
class MultiplicativeNoise:
    """The defence that is declared so."""

    name: ClassVar[str] = "multiplicative_noise"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("coordinator",), ("scores",), "nothing", "a test")

    scale: float = 0.1

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        generator = np.random.default_rng(0)
        blurred: FloatArray = scores * np.exp(generator.laplace(scale=self.scale, size=scores.shape))
        return blurred

    def channel(self, classes: int) -> LaplaceFactors:
        return LaplaceFactors(self.scale)


@dataclass(frozen=True)
class Mixing(RepeatableChannel):
    """A tenth of each row is spread over all classes: nothing is secret, and no inverse is given."""

    def passed(self, log_scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        mixed: FloatArray = np.log(0.9 * np.exp(log_scores) + 0.1 / log_scores.shape[1])
        return mixed


def defended(defence: MultiplicativeNoise, n: int = 60, seed: int = 3) -> tuple[PredictionView, FloatArray]:
    """A view of a session under the defence, and the passive features."""
    generator = np.random.default_rng(seed)
    own, passive = generator.random((n, 2)), generator.random((n, 3))
    rows = generator.standard_normal((4, 2)), 3 * generator.standard_normal((4, 3))
    scores = confidence_scores(own @ rows[0].T + passive @ rows[1].T)
    view = PredictionView(
        features_active=own,
        scores=defence.protect_scores(scores, ScoreContext(NoiseSource(0))),
        weights_active=rows[0],
        weights_passive=rows[1],
        bias=np.zeros(4),
        channel=(channel_of(defence, 4),),
    )
    return view, passive


def error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


def test_who_knows_the_channel_errs_less_than_who_sees_no_score_or_takes_scores_for_plain() -> None:
    view, truth = defended(MultiplicativeNoise(0.5))
    adversary = BayesianAdversary(draws=60)
    informed = error(adversary.reconstruct(view), truth)
    assert informed < 0.6 * error(adversary.without_scores(view), truth)
    assert informed < 0.9 * error(adversary.reconstruct(replace(view, channel=())), truth)


def test_the_density_is_the_channels_own() -> None:
    """More noise, as the channel says, tells less of the same delivered scores."""
    view, _ = defended(MultiplicativeNoise(0.1))

    def widths(scale: float) -> float:
        found = BayesianAdversary(draws=60).reconstruct_with_notes(replace(view, channel=(LaplaceFactors(scale),)))
        assert found.low is not None
        assert found.high is not None
        return float((found.high - found.low).mean())

    assert widths(0.05) < widths(0.2) < widths(2.0)


def test_it_stands_among_other_channels() -> None:
    view, truth = defended(MultiplicativeNoise(0.1))
    mine, adversary = view.channel, BayesianAdversary(draws=30)
    assert view.scores is not None
    softened = replace(view, scores=confidence_scores(0.5 * np.log(view.scores)), channel=(*mine, Temperature(0.5)))
    assert error(adversary.reconstruct(softened), truth) < 0.6 * error(adversary.without_scores(view), truth)
    with pytest.raises(ViewError, match="no likelihood of both"):
        adversary.reconstruct(replace(view, channel=(*mine, Rounding(2))))
    assert undo(view).channels == 0


def test_sessions_with_it_are_put_together() -> None:
    first, truth = defended(MultiplicativeNoise(0.3))
    weights = np.random.default_rng(9).standard_normal((4, 3)) * 3
    scores = confidence_scores(first.features_active @ np.asarray(first.weights_active).T + truth @ weights.T)
    protected = MultiplicativeNoise(0.3).protect_scores(scores, ScoreContext(NoiseSource(0)))
    second = replace(first, weights_passive=weights, scores=protected)
    alone = ManySessions(draws=60).reconstruct(first)
    assert error(ManySessions(draws=60).reconstruct(replace(first, earlier=(second,))), truth) < error(alone, truth)


def test_what_nobody_draws_is_repeated_forwards() -> None:
    view, truth = defended(MultiplicativeNoise(1e-9))
    assert view.scores is not None
    mixed = replace(view, scores=0.9 * view.scores + 0.1 / 4, channel=(Mixing(),))
    adversary = BayesianAdversary(draws=60)
    informed = error(adversary.reconstruct(mixed), truth)
    assert informed < 0.5 * error(adversary.without_scores(view), truth)
    assert informed < 0.9 * error(adversary.reconstruct(replace(mixed, channel=())), truth)
