"""Plain distortions of confidence scores at the coordinator: rounding, noise (Jiang 6.1.3), the bare class label."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceError, DefenceSpec, ScoreContext
from defences.decision import decisions, keep_decision
from defences.noise import on_grid
from vfl.arrays import FloatArray
from vfl.channels import Decision, Noise, Rounding

# float64 holds no more decimals of a number near 1.
_MOST_DECIMALS = 15


@dataclass(frozen=True)
class ScoreRounding:
    """Rounds scores to some decimals, half to even (Jiang 6.1.3.1).

    Rows need not sum to 1. No decision is promised, since rounding makes ties: 0.44 and 0.45 both become 0.4 with one
    decimal, and the first of them is then the arg max. With decimals=0 a row whose scores are all at most 0.5 becomes
    zeros, which decide for class 0; "only the label" is ``class_label``, not this.

    What it doesn't stop: an error of 10^-decimals / 2 in a score that isn't small is an error of about as much in its
    logarithm. Records whose scores are all far above it keep their equations.

    Attributes:
        decimals: a whole number from 0 to 15.

    Raises:
        ValueError: for another number of decimals.
    """

    name: ClassVar[str] = "score_rounding"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="nothing",
        source="Jiang 6.1.3.1",
        summary="rounds scores to some decimals",
        cost="digits of the scores",
        stops=("columns",),
        tried_with={"decimals": 1},
    )

    decimals: int = 2

    def __post_init__(self) -> None:
        is_integer = isinstance(self.decimals, int) and not isinstance(self.decimals, bool)
        if not is_integer or not 0 <= self.decimals <= _MOST_DECIMALS:
            raise ValueError(
                f"Expected decimals to be a whole number from 0 to {_MOST_DECIMALS}, got {self.decimals!r}."
            )

    def channel(self, classes: int) -> Rounding:
        """Say what both sides know of it: how many decimals."""
        return Rounding(self.decimals)

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Round (n, k) scores in [0, 1] to multiples of 10^-decimals; rows sum to 1 +- k 10^-decimals / 2."""
        return np.round(scores, self.decimals)


@dataclass(frozen=True)
class ScoreNoise:
    """Adds Gaussian noise to the scores (Jiang 6.1.3.2), clips them to [0, 1] and normalises them to sum 1.

    Rows that clipping leaves without a positive score become uniform. No decision is promised: noise swaps scores that
        are close. Scores are rounded to 2^-24 first, so that those with the same noise are the same.

    The noise is a secret function of the record's own scores. Whoever asks again for the same record gets the same
    answer, so that repeating a query doesn't average the noise away. The secret lives as long as the ``NoiseSource``.

    What it doesn't stop: an active party that is let vary its own share of a record's logits gets fresh noise on scores
    that it moves by a known amount, and finds what it didn't know. Therefore the coordinator answers once per record.

    Attributes:
        sigma: standard deviation of the noise, in units of a score.

    Raises:
        ValueError: unless sigma is positive and finite.
    """

    name: ClassVar[str] = "score_noise"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="nothing",
        source="Jiang 6.1.3.2",
        summary="adds noise to scores, the same for the same record",
        cost="accuracy of the scores",
        stops=("columns",),
    )

    sigma: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"Expected sigma to be a positive number, got {self.sigma}.")

    def channel(self, classes: int) -> Noise:
        """Say what both sides know of it: how much noise, and never which."""
        return Noise(self.sigma)

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Disturb (n, k) scores: rows in [0, 1] that sum to 1 out. The same row gets the same noise each time."""
        gridded = on_grid(scores)
        noise = self.sigma * context.noise.gaussian_per_record(gridded, scores.shape[1])
        clipped = np.clip(gridded + noise, 0.0, 1.0)
        clipped[clipped.sum(axis=1) == 0.0] = 1.0
        normalised: FloatArray = clipped / clipped.sum(axis=1, keepdims=True)
        return normalised


@dataclass(frozen=True)
class ClassLabel:
    """Delivers only the decision: one fixed score for the winner, another for all the rest (Rassouli VIII-D, "class
    label").

    What it doesn't stop: the label itself. In white box it says that (W_j - W_i) x + known >= 0 for every other class
    i:
    k - 1 half-spaces instead of k - 1 equations. An adversary who knows of the defence projects its guess onto them,
    which never makes the guess worse, because the truth is in all of them. One who doesn't know solves equations that
    are not there. Where features go with the label, a reconstruction of little else still has it.

    Attributes:
        remainder: the score of each other class, in [0, 1/k); the winner gets 1 - (k - 1) remainder. 0 gives one-hot
            rows, which have no finite log ratios; Rassouli's trade-off lets the remainder approach 0. A larger one
            makes scores
            look less certain than they are, and hides nothing more: a row tells at most log2 k bits whatever the
                remainder.

    Raises:
        ValueError: unless 0 <= remainder < 1/2.
    """

    name: ClassVar[str] = "class_label"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="decision",
        source="Rassouli VIII-D, Fig. 13; Jiang 6.1.3.1",
        summary="answers with the decision alone",
        cost="the scores",
        replaces="scores",
        stops=("columns",),
    )

    remainder: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.remainder < 0.5:
            raise ValueError(f"Expected remainder to be at least 0 and below 1/k, got {self.remainder}.")

    def channel(self, classes: int) -> Decision:
        """Say what both sides know of it: the decision is all that passes."""
        return Decision()

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Replace (n, k) scores by rows that sum to 1, with the same first-index arg max.

        Raises:
            DefenceError: for a remainder of 1/k or more.
        """
        k = scores.shape[1]
        if self.remainder >= 1 / k:
            raise DefenceError(
                f"Expected remainder to be below 1/{k}, the share of each of {k} classes, got {self.remainder}: the "
                "winner would not win."
            )
        classes = decisions(scores)
        labels = np.full(scores.shape, self.remainder)
        labels[np.arange(len(scores)), classes] = 1.0 - (k - 1) * self.remainder
        return keep_decision(labels, classes)
