"""Noise on the logits that leaves the decision (Rassouli VII-B, eq. 83-94, and scheme 3 of VIII-D).

The coordinator delivers softmax(z + n). It works from the scores it is given, whose logarithms are z up to a constant
per record that softmax ignores, so that the schemes come in any order with other score defences. Scores are floored
at 1e-300 before the logarithm: one that is 0 stays below every other.

All three are deterministic, so they protect against those who don't know of them, and no one else. An adversary in
white box knows A, and with it v_1 up to its sign:

- Scheme 1 adds what alpha, the sign and the delivered decision determine. Who knows all three subtracts it and has
  the exact scores. Who doesn't know alpha can still leave out the one direction of n and keeps k - 2 equations.
- Scheme 2 is subtracted the same way, but for the entry of the decision in records where it was overwritten (told by
  a lead of exactly delta): there k - 2 equations are left, and an inequality.
- Scheme 3 divides all equations by one number, the same for all records.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from defences.base import DefenceError, DefenceSpec, ScoreContext
from defences.decision import decisions, keep_decision
from vfl.arrays import FloatArray
from vfl.channels import RepeatableChannel, StrongestDirection, Temperature
from vfl.learning import confidence_scores
from vfl.theory.logit_schemes import logits_of

Sign = Literal[1, -1]


@dataclass(frozen=True)
class ScoreScheme1:
    """Adds noise along the direction that least squares amplify most, and raises its entry at the decision (eq. 91-93).

    For two classes v_1 = (1, -1) / sqrt(2) times the sign: records of one class move by all of it, those of the other
    not at all. Scheme 2 has no such half.

    Attributes:
        alpha: the noise budget ||n||^2, in squared logits. 4 moves the logits by 2 altogether.
        sign: v_1 is taken with its entry of largest magnitude positive, times this. The scheme isn't invariant to it:
            n = sqrt(alpha) v_1 exactly for records of the class where v_1 is largest, and is weaker for the others.

    Raises:
        ValueError: unless alpha is positive and finite and sign is 1 or -1.
    """

    name: ClassVar[str] = "score_scheme1"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="decision",
        source="Rassouli VII-B, eq. 91-93",
        summary="adds noise where least squares amplify it most, and keeps the decision",
        cost="accuracy of the scores",
        needs=("parameter_gram",),
        stops=("columns",),
    )

    alpha: float = 4.0
    sign: Sign = 1

    def __post_init__(self) -> None:
        _check_budget(self.alpha)

    def channel(self, classes: int) -> StrongestDirection:
        """Say what both sides know of it: a shift along v_1."""
        return StrongestDirection(1, self.alpha, self.sign)

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Disturb (n, k) scores: rows that sum to 1 out, with the same first-index arg max.

        Raises:
            DefenceError: without the Gram matrix of the parameters.
        """
        return _passed(self.channel(scores.shape[1]), scores, _checked_gram(self.name, scores, context))


@dataclass(frozen=True)
class ScoreScheme2:
    """Adds the noise that Theorem 4 asks for, and raises the decision's entry where it was overtaken (eq. 94).

    Attributes:
        alpha: the noise budget, as in ``score_scheme1``; every entry but the decision's moves by exactly sqrt(alpha)
            v_1.
        delta: the lead in logits that the decision keeps at least. The paper's eq. 94 has none and only ties with the
            overtaker, which loses decisions to the first index. 0.01 is a lead of 0.005 in the score at most, which
            survives rounding to three decimals while both are large.
        sign: as in ``score_scheme1``.

    Raises:
        ValueError: unless alpha and delta are positive and finite and sign is 1 or -1.
    """

    name: ClassVar[str] = "score_scheme2"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="decision",
        source="Rassouli VII-B, eq. 94",
        summary="shifts scores along the direction that tells most, and keeps the decision",
        cost="accuracy of the scores",
        needs=("parameter_gram",),
        stops=("columns",),
    )

    alpha: float = 4.0
    delta: float = 0.01
    sign: Sign = 1

    def __post_init__(self) -> None:
        _check_budget(self.alpha)
        if not 0 < self.delta < math.inf:
            raise ValueError(f"Expected delta to be a positive number, got {self.delta}: at 0 decisions tie.")

    def channel(self, classes: int) -> StrongestDirection:
        """Say what both sides know of it: a shift along v_1, and the lead of decisions that it would have changed."""
        return StrongestDirection(2, self.alpha, self.sign, self.delta)

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Disturb (n, k) scores: rows that sum to 1 out, with the same first-index arg max.

        Raises:
            DefenceError: without the Gram matrix of the parameters.
        """
        return _passed(self.channel(scores.shape[1]), scores, _checked_gram(self.name, scores, context))


@dataclass(frozen=True)
class ScoreScheme3:
    """Scales logits down to z (1 - alpha) + alpha, a higher temperature (Rassouli VIII-D, "scheme 3").

    It needs no parameters, so it also serves networks.

    Attributes:
        alpha: in [0, 1). 0 changes nothing, towards 1 all scores approach 1/k, 1/2 takes the square root of every
            score, normalised.

    Raises:
        ValueError: unless 0 <= alpha < 1.
    """

    name: ClassVar[str] = "score_scheme3"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="decision",
        source="Rassouli VIII-D, scheme 3",
        summary="softens scores by a temperature, and keeps the decision",
        cost="accuracy of the scores",
        stops=("columns",),
    )

    alpha: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise ValueError(f"Expected alpha to be at least 0 and below 1, got {self.alpha}.")

    def channel(self, classes: int) -> Temperature:
        """Say what both sides know of it: logits times 1 - alpha."""
        return Temperature(1.0 - self.alpha)

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Flatten (n, k) scores: rows that sum to 1 out, with the same first-index arg max."""
        return _passed(self.channel(scores.shape[1]), scores)


def _check_budget(alpha: float) -> None:
    if not 0 < alpha < math.inf:
        raise ValueError(f"Expected alpha to be a positive number, got {alpha}.")


def _passed(channel: RepeatableChannel, scores: FloatArray, gram: FloatArray | None = None) -> FloatArray:
    """Scores behind a channel, each row with the decision that it had."""
    return keep_decision(confidence_scores(channel.passed(logits_of(scores), gram)), decisions(scores))


def _checked_gram(name: str, scores: FloatArray, context: ScoreContext) -> FloatArray:
    """Take W W^T, (k, k). Raises DefenceError without one of k classes."""
    gram, k = context.parameter_gram, scores.shape[1]
    if gram is None:
        raise DefenceError(
            f"{name} needs the Gram matrix of the passive parties' parameters, which exists only where this "
            "federation trained a linear model: use score_scheme3 or class_label, which need nothing."
        )
    if gram.shape != (k, k) or not np.isfinite(gram).all():
        raise DefenceError(
            f"{name} got a Gram matrix of shape {gram.shape} for {k} classes; it must be ({k}, {k}) finite numbers, "
            "W W^T of all passive parties' class rows together."
        )
    return gram
