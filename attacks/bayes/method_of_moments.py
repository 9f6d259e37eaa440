"""The method of moments: what many scores tell of columns by their mean and spread, where no parameter is disclosed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from attacks.base import AttackSpec, require
from attacks.bayes.logit_estimate import estimated_logits
from attacks.bayes.observation import likelihood_of
from attacks.bayes.prior import Belief, from_covariance, from_marginals, from_nothing
from attacks.views import PredictionView, ViewError
from vfl.adversary_words import Level
from vfl.arrays import FloatArray
from vfl.channels.likelihoods import EXACT_VARIANCE

_LEVELS: Mapping[str, Level] = {"half": "nothing", "mean": "marginals", "covariance": "covariance"}
_BELIEFS: Mapping[str, Callable[[PredictionView], Belief]] = {
    "half": from_nothing,
    "mean": from_marginals,
    "covariance": from_covariance,
}
# Of the passive shares' largest variance in any direction: less is rounding.
_FLAT = 1e-9


@dataclass(frozen=True)
class MethodOfMoments:
    """Estimates features by the best linear prediction from the passive share of the logits, with unknown weights.

    A record's scores, less what the active party's own columns and bias add, leave z = W x of k - 1 numbers. Over all
    attacked records these have a mean c and a covariance V. Of the weights c = W mu is all that is known, so that the
    ones to expect, a priori alike in all directions, are W = c mu^T / |mu|^2. Then Cov(x, z) = Sigma mu c^T / |mu|^2,
    and

        x = mu + Sigma mu / |mu|^2 c^T V^-1 (z - c).

    One number a record moves all columns. One passive column is found exactly, by its true moments. Weights of several
    signs whose parts of c cancel are guessed wrongly: then it errs more than mu does. What c owes to chance is taken
    off it (James and Stein), and columns never vary more with z than they vary at all. Records that don't differ, or
    fewer than two, tell nothing: mu. Never NaN, deterministic, in [0, 1]. Own columns enter z, so that they tell
    something whosever the scores are: that is counted among the guesses.

    Without the bias the method fails, and any other at level nothing: 1 - x with negated weights makes the same scores.

    Attributes:
        prior: what it knows beforehand of mu and Sigma. "half": ranges only, 1/2 and I/12; "mean": each passive
            column's mean and variance; "covariance": their covariance besides (both from the view's moments).
    """

    name: ClassVar[str] = "method_of_moments"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="black_box",
        needs=("scores", "weights_active"),
        source="this project",
        learners=("linear",),
        summary="finds what all scores' mean and spread tell of the weights, where none is disclosed, then of columns",
        cost="milliseconds",
        reads_channel=True,
        at_level={level: {"prior": prior} for prior, level in _LEVELS.items()},
    )

    prior: Literal["half", "mean", "covariance"] = "half"

    @property
    def level(self) -> Level:
        """What the adversary knows beforehand."""
        return _LEVELS[self.prior]

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without scores, own weights, the bias or what the prior needs, or for scores of which a defence
                leaves no logits.
        """
        logits, own_logits = _shares(self, view)
        shares = logits - own_logits
        return self._predicted(view, shares, _covariance(shares))

    def without_scores(self, view: PredictionView) -> FloatArray:
        """Replace each record's logits by any other's: what own columns tell alone, (n, d).

        Raises ViewError as ``reconstruct`` does.
        """
        logits, own_logits = _shares(self, view)
        middle = logits.mean(axis=0) if view.n else 0.0
        return self._predicted(view, middle - own_logits, _covariance(logits) + _covariance(own_logits))

    def _predicted(self, view: PredictionView, shares: FloatArray, covered: FloatArray) -> FloatArray:
        """Features from (n, k - 1) passive shares whose covariance is ``covered``: (n, d)."""
        believed = _BELIEFS[self.prior](view).gaussian
        if view.n < 2:
            return believed.mean
        moved = _moved(shares, covered, believed.mean[0], believed.covariance)
        return np.clip(believed.mean + moved, 0.0, 1.0)


def _shares(attack: MethodOfMoments, view: PredictionView) -> tuple[FloatArray, FloatArray]:
    """Differences of logits, and the active party's own part of them, (n, k - 1) each."""
    require(attack, view)
    if view.bias is None:
        raise ViewError(
            f"{attack.name} needs the bias, which isn't the active party's here: without it 1 - x and negated weights "
            "make the same scores, and nothing can be told at this level."
        )
    if any(stage.needs_parameter_gram for stage in view.channel):
        raise ViewError(f"{attack.name} can't read scores through a scheme that follows from undisclosed parameters.")
    estimate = estimated_logits(*likelihood_of(np.asarray(view.scores), view.channel, None))
    if estimate is None:
        raise ViewError(f"{attack.name} needs logits, and only decisions are left of these scores.")
    shift = 0.0 if view.own_shift is None else view.own_shift
    own_logits = view.features_active @ np.asarray(view.weights_active).T + view.bias + shift
    return np.diff(estimate.middle, axis=1), np.diff(own_logits, axis=1)


def _covariance(values: FloatArray) -> FloatArray:
    """Compute the covariance of (n, m) values, (m, m); zeros of fewer than two."""
    if len(values) < 2:
        return np.zeros((values.shape[1], values.shape[1]))
    return np.atleast_2d(np.cov(values.T))


def _moved(shares: FloatArray, covered: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Tell how far (n, k - 1) shares of covariance ``covered`` move columns of a mean (d,) and covariance: (n, d)."""
    centre, length = shares.mean(axis=0), float(mean @ mean)
    # What only rounding moves tells nothing.
    flat = max(_FLAT, EXACT_VARIANCE / max(float(covered.trace()), EXACT_VARIANCE))
    inverse = np.linalg.pinv(covered, rcond=flat, hermitian=True)
    squared = float(centre @ inverse @ centre)
    if not squared or not length:
        return np.zeros((len(shares), len(mean)))
    by_chance = min(1.0, len(centre) / (len(shares) * squared))
    slope = covariance @ mean / length
    # The share of the columns' variance, in the direction that matters, that the shares would explain.
    explained = float(mean @ slope) / length * squared
    scale = (1.0 - by_chance) / max(1.0, np.sqrt(explained))
    moved: FloatArray = np.outer((shares - centre) @ inverse @ centre, slope) * scale
    return moved
