"""What is left of a view's scores once all that can be undone is undone: equations, a region, or a likelihood.

Channels are undone from the last one backwards, as long as they can be. What is left is the likelihood of what was
delivered, given the scores that went into the first stage that can't be undone. All that came before that stage is
repeated forwards from the logits, so that nothing is approximated.
"""

from dataclasses import dataclass, field

import numpy as np

from attacks.bayes.forward import ForwardStages
from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.channels import ChannelError, Delivered, Likelihood, RepeatableChannel, ScoreChannel, Undeclared
from vfl.channels.likelihoods import EXACT_VARIANCE, NARROWEST, DifferenceIntervals, NearEquality
from vfl.learning.networks import DenseNetwork
from vfl.theory.logit_schemes import logits_of
from vfl.theory.prediction import equations

# No positive float64 is smaller; a score of 0 is at most this.
_SMALLEST = 5e-324


@dataclass(frozen=True, eq=False)
class ExactLogits(Likelihood):
    """All differences of the logits are known: records are where they are as delivered.

    Attributes:
        logits: (n, k), up to a constant per record.
    """

    logits: FloatArray

    def log_density(self, log_scores: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """0: what is searched lies on solutions."""
        return np.zeros(len(rows))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Take the logits, which are off by rounding alone."""
        return self.logits, np.full(self.logits.shape, EXACT_VARIANCE)


@dataclass(frozen=True, eq=False)
class Observation:
    """What an adversary has to condition on, for n records of k classes and d passive features.

    Attributes:
        known: (n, k), the part of the logits that it knows: its own share, what it added to that, and the bias.
        model: the passive part of the logits: (k, d) class rows, or a network.
        likelihood: of the delivered scores, given the scores after ``forward``; or logits that are known.
        forward: what stands between the logits and ``likelihood``; nothing for ``ExactLogits``.
        error: (k, k) covariance of what the class rows get wrong of a record's logits; None where they are right.
    """

    known: FloatArray
    model: FloatArray | DenseNetwork
    likelihood: Likelihood
    forward: ForwardStages = field(default_factory=ForwardStages)
    error: FloatArray | None = None

    @property
    def is_linear(self) -> bool:
        """Whether scores are known exactly, of a linear model that is known exactly: then A x = b, and no more."""
        return isinstance(self.likelihood, ExactLogits) and isinstance(self.model, np.ndarray) and self.error is None

    def linear_equations(self) -> tuple[FloatArray, FloatArray]:
        """Find A, (k-1, d), and b, (n, k-1), of A x = b (Rassouli eq. 3-6), where ``is_linear``."""
        assert isinstance(self.likelihood, ExactLogits)  # noqa: S101 - for the type checker
        assert isinstance(self.model, np.ndarray)  # noqa: S101 - as above
        return equations(self.model), np.diff(self.likelihood.logits - self.known, axis=1)


def nothing_observed(n: int, d: int) -> Observation:
    """Leave what there is where no score is seen: a model of which nothing is told."""
    return Observation(np.zeros((n, 2)), np.zeros((2, d)), ExactLogits(np.zeros((n, 2))))


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
    own_logits, model = _shares(view)
    gram = model @ model.T if isinstance(model, np.ndarray) else None
    if gram is None and any(stage.needs_parameter_gram for stage in view.channel):
        raise ViewError("score_scheme1 and 2 follow from a linear model's parameters, and this model is a network.")
    forward, likelihood = likelihood_of(view.scores, view.channel, gram)
    if isinstance(likelihood, ExactLogits) and isinstance(model, DenseNetwork):
        likelihood = NearEquality(forward.log_scores(likelihood.logits))
    return Observation(own_logits, model, likelihood, forward, error)


def likelihood_of(
    scores: FloatArray, channel: tuple[ScoreChannel, ...], gram: FloatArray | None
) -> tuple[ForwardStages, Likelihood]:
    """Split a channel into what can be repeated and the likelihood of the delivered (n, k) scores given the rest.

    Raises:
        ViewError: for a channel that tells nothing usable.
    """
    try:
        return _read(scores, channel, gram)
    except ChannelError as error:
        raise ViewError(str(error)) from None


def _read(
    scores: FloatArray, channel: tuple[ScoreChannel, ...], gram: FloatArray | None
) -> tuple[ForwardStages, Likelihood]:
    logits = logits_of(scores)
    for stage in channel:
        if isinstance(stage, Undeclared):
            stage.likelihood(Delivered(scores, logits))
    decision = next((place for place, stage in enumerate(channel) if stage.is_decision), len(channel))
    if not all(stage.keeps_decision for stage in channel[decision + 1 :]):
        raise ViewError("Decisions pass another defence that may change them: put the decision last.")
    channel = channel[: decision + 1]
    for place in reversed(range(len(channel))):
        before, stage = channel[:place], channel[place]
        delivered = Delivered(scores, logits, place + 1 < len(channel), gram)
        if before and not isinstance(before[-1], RepeatableChannel):
            likelihood = stage.likelihood_after(before[-1], delivered)
            if likelihood is not None:
                return _repeated(before[:-1], gram), likelihood
        likelihood = stage.likelihood(delivered)
        if likelihood is not None:
            return _repeated(before, gram), likelihood
        plain = stage.inverse(logits, gram)
        if plain is None:
            return _repeated(channel[: place + 1], gram, smooth=True), NearEquality(delivered.log_scores)
        logits = plain
    return ForwardStages(), _exact(logits, scores)


def _shares(view: PredictionView) -> tuple[FloatArray, FloatArray | DenseNetwork]:
    """Find the known part of the logits, and the passive model."""
    shift = 0.0 if view.own_shift is None else view.own_shift
    if view.network is not None:
        own_logits, passive = view.network.active.partial_scores(view.features_active), view.network.passive
        if passive.is_linear:
            return own_logits + passive.biases[0] + shift, passive.weights[0].T
        return own_logits + shift, passive
    if view.weights_active is None or view.weights_passive is None or view.bias is None:
        raise ViewError("posterior needs the model's parameters, which this view lacks: disclose them.")
    return view.features_active @ view.weights_active.T + view.bias + shift, view.weights_passive


def _exact(logits: FloatArray, scores: FloatArray) -> Likelihood:
    """Equations, unless a score is 0: that one is only smaller than any number."""
    nothing = scores <= 0.0
    if not nothing.any():
        return ExactLogits(logits)
    reference = logits.argmax(axis=1)
    lead = logits - logits.max(axis=1, keepdims=True)
    low, high = lead - NARROWEST, lead + NARROWEST
    smallest = np.log(_SMALLEST)
    return DifferenceIntervals(reference, np.where(nothing, -np.inf, low), np.where(nothing, smallest, high))


def _repeated(stages: tuple[ScoreChannel, ...], gram: FloatArray | None, *, smooth: bool = False) -> ForwardStages:
    """Stages to repeat forwards. Raises ViewError for one with a secret, and where all must be smooth."""
    repeatable = []
    for stage in stages:
        if not isinstance(stage, RepeatableChannel):
            raise ViewError("Noise comes before another defence that can't be undone: no likelihood of both is known.")
        if smooth and not stage.is_smooth:
            raise ViewError("Scores are rounded before they are purified: what comes out can't be traced back.")
        repeatable.append(stage)
    return ForwardStages(tuple(repeatable), gram)
