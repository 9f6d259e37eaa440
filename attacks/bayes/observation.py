"""What is left of a view's scores once all that can be undone is undone: equations, a region, or a likelihood.

Channels are undone from the last one backwards, as long as they can be. What is left is the likelihood of what was
delivered, given the scores that went into the first stage that can't be undone. All that came before that stage is
repeated forwards from the logits, so that nothing is approximated.
"""

from dataclasses import dataclass, field

import numpy as np

from attacks.bayes.forward import Forward
from attacks.bayes.told import NARROWEST, Differences, Exactly, Intervals, Near, Told, Winner
from attacks.bayes.told_by_noise import NoisyIntervals, NoisyRow, NoisyWinner
from attacks.views import PredictionView, ViewError
from vfl.arrays import BoolArray, FloatArray
from vfl.channels import Decision, Noise, Purifier, Rounding, ScoreChannel, StrongestDirection, Temperature, Undeclared
from vfl.learning.networks import DenseNetwork
from vfl.theory.logit_schemes import logits_of, without_shift, without_temperature
from vfl.theory.prediction import equations

# No positive float64 is smaller; a score of 0 is at most this.
_SMALLEST = 5e-324
# Far from a multiple of the rounding's unit, after the sum was put right.
_OFF_THE_GRID = 1e-3
# Noise of this width leaves nothing of a score in [0, 1].
_WIDEST = 1e3


@dataclass(frozen=True, eq=False)
class Observation:
    """What an adversary has to condition on, for n records of k classes and d passive features.

    Attributes:
        known: (n, k), the part of the logits that it knows: its own share, what it added to that, and the bias.
        model: the passive part of the logits: (k, d) class rows, or a network.
        told: what the delivered scores tell of the scores after ``forward``.
        forward: what stands between the logits and ``told``; nothing for ``Exactly``.
        error: (k, k) covariance of what the class rows get wrong of a record's logits; None where they are right.
    """

    known: FloatArray
    model: FloatArray | DenseNetwork
    told: Told | Exactly
    forward: Forward = field(default_factory=Forward)
    error: FloatArray | None = None

    @property
    def is_linear(self) -> bool:
        """Whether scores are known exactly, of a linear model that is known exactly: then A x = b, and no more."""
        return isinstance(self.told, Exactly) and isinstance(self.model, np.ndarray) and self.error is None

    def linear_equations(self) -> tuple[FloatArray, FloatArray]:
        """A, (k-1, d), and b, (n, k-1), of A x = b (Rassouli eq. 3-6), where ``is_linear``."""
        assert isinstance(self.told, Exactly)  # noqa: S101 - for the type checker
        assert isinstance(self.model, np.ndarray)  # noqa: S101 - as above
        return equations(self.model), np.diff(self.told.logits - self.known, axis=1)


def nothing_observed(n: int, d: int) -> Observation:
    """What is left where no score is seen: a model of which nothing is told."""
    return Observation(np.zeros((n, 2)), np.zeros((2, d)), Exactly(np.zeros((n, 2))))


def observe(view: PredictionView, error: FloatArray | None = None) -> Observation:
    """Undo what can be undone of a view's channel.

    Args:
        view: with the parameters that scores follow from.
        error: (k, k) covariance of what these get wrong of a record's logits; None where they are right.

    Raises:
        ViewError: without scores or a model, and for a channel that tells nothing usable, with the stage's name.
    """
    if view.scores is None:
        raise ViewError("posterior needs scores, which this view lacks: run predictions first.")
    known, model = _shares(view)
    gram = model @ model.T if isinstance(model, np.ndarray) else None
    if gram is None and any(isinstance(stage, StrongestDirection) for stage in view.channel):
        raise ViewError("score_scheme1 and 2 follow from a linear model's parameters, and this model is a network.")
    forward, told = told_by(view.scores, view.channel, gram)
    if isinstance(told, Exactly) and isinstance(model, DenseNetwork):
        told = Near(forward.log_scores(told.logits))
    return Observation(known, model, told, forward, error)


def told_by(
    scores: FloatArray, channel: tuple[ScoreChannel, ...], gram: FloatArray | None
) -> tuple[Forward, Told | Exactly]:
    """Split a channel into what can be repeated and what the delivered (n, k) scores tell of the rest.

    Raises:
        ViewError: for a channel that tells nothing usable.
    """
    for stage in channel:
        if isinstance(stage, Undeclared):
            raise ViewError(f"{stage.defence} doesn't declare what it lets pass of scores: nothing can be concluded.")
    decisions = [place for place, stage in enumerate(channel) if isinstance(stage, Decision)]
    if decisions:
        return _told_by_decision(scores, channel[: decisions[0]], channel[decisions[0] + 1 :], gram)
    logits, place = logits_of(scores), len(channel)
    while place:
        stage = channel[place - 1]
        if isinstance(stage, Temperature):
            logits = without_temperature(logits, stage)
        elif isinstance(stage, StrongestDirection) and gram is not None:
            cleared = without_shift(logits, stage, gram)
            if cleared.raised.any():
                bounds = (cleared.lowest, cleared.highest)
                return _repeatable(channel[: place - 1], gram), _between(cleared.logits, cleared.decided, *bounds)
            logits = cleared.logits
        else:
            return _told_by_lossy(logits, channel[:place], place < len(channel), gram)
        place -= 1
    return Forward(), _exactly(logits, scores)


def _shares(view: PredictionView) -> tuple[FloatArray, FloatArray | DenseNetwork]:
    """The known part of the logits, and the passive model."""
    shift = 0.0 if view.own_shift is None else view.own_shift
    if view.network is not None:
        own, passive = view.network.active.partial_scores(view.features_active), view.network.passive
        if passive.is_linear:
            return own + passive.biases[0] + shift, passive.weights[0].T
        return own + shift, passive
    if view.weights_active is None or view.weights_passive is None or view.bias is None:
        raise ViewError("posterior needs the model's parameters, which this view lacks: disclose them.")
    return view.features_active @ view.weights_active.T + view.bias + shift, view.weights_passive


def _exactly(logits: FloatArray, scores: FloatArray) -> Exactly | Differences:
    """Equations, unless a score is 0: that one is only smaller than any number."""
    nothing = scores <= 0.0
    if not nothing.any():
        return Exactly(logits)
    reference = logits.argmax(axis=1)
    lead = logits - logits.max(axis=1, keepdims=True)
    low, high = lead - NARROWEST, lead + NARROWEST
    smallest = np.log(_SMALLEST)
    return Differences(reference, np.where(nothing, -np.inf, low), np.where(nothing, smallest, high))


def _between(logits: FloatArray, decided: BoolArray, lowest: FloatArray, highest: FloatArray) -> Differences:
    """All differences but the decision's, which lies between its ends."""
    others = np.where(decided, -np.inf, logits)
    reference = others.argmax(axis=1)
    level = others.max(axis=1, keepdims=True)
    low = np.where(decided, lowest[:, None], logits) - level - NARROWEST
    high = np.where(decided, highest[:, None], logits) - level + NARROWEST
    return Differences(reference, low, high)


def _repeatable(stages: tuple[ScoreChannel, ...], gram: FloatArray | None, *, rounding: bool = True) -> Forward:
    """Stages to repeat forwards. Raises ViewError for one with a secret."""
    kept = []
    for stage in stages:
        if isinstance(stage, Noise):
            raise ViewError("Noise comes before another defence that can't be undone: no likelihood of both is known.")
        if isinstance(stage, Rounding) and not rounding:
            raise ViewError("Scores are rounded before they are purified: what comes out can't be traced back.")
        assert not isinstance(stage, Decision | Undeclared)  # noqa: S101 - the caller has dealt with these
        kept.append(stage)
    return Forward(tuple(kept), gram)


def _told_by_decision(
    scores: FloatArray, before: tuple[ScoreChannel, ...], after: tuple[ScoreChannel, ...], gram: FloatArray | None
) -> tuple[Forward, Told]:
    for stage in after:
        if isinstance(stage, Noise | Purifier):
            raise ViewError("Decisions pass another defence that may change them: put the decision last.")
    chosen = scores.argmax(axis=1)
    if before and isinstance(before[-1], Noise):
        return _repeatable(before[:-1], gram), NoisyWinner(chosen, _width(before[-1]))
    return _repeatable(before, gram), Winner(chosen)


def _told_by_lossy(
    logits: FloatArray, channel: tuple[ScoreChannel, ...], undone: bool, gram: FloatArray | None
) -> tuple[Forward, Told]:
    """What the last stage's output tells, given as logits; ``undone``: whether stages after it have been undone."""
    *before, last = channel
    stages = tuple(before)
    log_scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)) if undone else logits
    match last:
        case Rounding(decimals):
            rounded = np.exp(log_scores)
            low, high = _cells(_on_grid(rounded, decimals) if undone else rounded, decimals)
            if stages and isinstance(stages[-1], Noise):
                return _repeatable(stages[:-1], gram), NoisyIntervals(low, high, _width(stages[-1]))
            with np.errstate(divide="ignore"):
                ends = np.log(low) - NARROWEST, np.log(high) + NARROWEST
            return _repeatable(stages, gram), Intervals(*ends)
        case Noise():
            return _repeatable(stages, gram), NoisyRow(np.exp(log_scores), _width(last))
    return _repeatable(channel, gram, rounding=False), Near(log_scores)


def _width(noise: Noise) -> float:
    """Its sigma, or the end of what makes a difference to float64."""
    return min(max(noise.sigma, NARROWEST), _WIDEST)


def _cells(rounded: FloatArray, decimals: int) -> tuple[FloatArray, FloatArray]:
    """The scores that are rounded to these lie between: both (n, k)."""
    half = 0.5 * 10.0**-decimals
    return np.maximum(rounded - half, 0.0), rounded + half


def _on_grid(normalised: FloatArray, decimals: int) -> FloatArray:
    """Rounded scores from what they are after division by their sum, which is one of few numbers.

    Raises:
        ViewError: where no sum puts a row on the grid.
    """
    unit, k = 10.0**-decimals, normalised.shape[1]
    sums = 1.0 + unit * np.arange(-(k // 2) - 1, k // 2 + 2)
    candidates = normalised[:, None, :] * sums[None, :, None]
    off = np.abs(candidates / unit - np.round(candidates / unit)).max(axis=2)
    off[:, sums <= 0] = np.inf
    if (off.min(axis=1) > _OFF_THE_GRID).any():
        raise ViewError("Scores don't look rounded as their channel says: check the order of the score defences.")
    best = off.argmin(axis=1)
    snapped: FloatArray = np.round(candidates[np.arange(len(best)), best], decimals)
    return snapped
