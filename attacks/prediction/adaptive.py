"""Takes off a view what its channel added, as far as anyone can who knows the session's defences (Kerckhoffs).

So an attack that knows of no defence meets scores and parameters as if fewer were on. What a channel has destroyed
(rounding, noise, a bare decision, a purifier) stays in the view's channel.
"""

from dataclasses import dataclass, replace

import numpy as np

from attacks.prediction.equation_solving import HalfStar
from attacks.prediction.linear_system import linear_system
from attacks.solving.box_projection import project_onto_solutions
from attacks.views import PredictionView
from vfl.adversary_words import LEVELS, Level
from vfl.arrays import FloatArray
from vfl.channels import Distorted, Undeclared
from vfl.learning import confidence_scores
from vfl.theory.logit_schemes import logits_of


@dataclass(frozen=True, eq=False)
class UndistortedView:
    """A view with fewer distortions.

    Attributes:
        view: what to attack in place of the one that was given; the same where nothing could be taken off.
        channels: how many channels of scores were taken off, the last ones of the view's.
        disclosure: whether disclosed parameters were put right.
        level: what that took to know beforehand: "records" where parameters were learned from complete ones.
    """

    view: PredictionView
    channels: int = 0
    disclosure: bool = False
    level: Level = "nothing"

    @property
    def is_changed(self) -> bool:
        """Whether anything was taken off."""
        return self.channels > 0 or self.disclosure


def undo_channel(view: PredictionView) -> PredictionView:
    """Take off the view all that can be (``undo``)."""
    return undo(view).view


def undo(view: PredictionView) -> UndistortedView:
    """Take off what a session's defences did to scores and disclosed parameters, the last first.

    A temperature and schemes 1 and 2 come off scores, those of auxiliary records included, and the adversary's own
    shift where no channel is left; -I, and what complete records tell by regression, off parameters.
    """
    scores, removed = _with_plain_scores(view)
    undistorted = _with_true_parameters(scores)
    if undistorted is None:
        return UndistortedView(scores, removed)
    parameters, level = undistorted
    return UndistortedView(replace(parameters, disclosure=None), removed, True, level)


def highest(level: Level, other: Level) -> Level:
    """Choose the one of two levels that knows more."""
    return max(level, other, key=LEVELS.index)


# --- scores -------------------------------------------------------------------------------------------------------


def _with_plain_scores(view: PredictionView) -> tuple[PredictionView, int]:
    """Take off the view its last channels, and count them."""
    removed, gram = 0, _parameter_gram(view)
    while view.channel and view.scores is not None:
        last, auxiliary = view.channel[-1], view.auxiliary
        plain = last.inverse(logits_of(view.scores), gram)
        if plain is None:
            break
        if auxiliary is not None and len(auxiliary.scores):
            of_records = last.inverse(logits_of(auxiliary.scores), gram)
            auxiliary = replace(auxiliary, scores=confidence_scores(np.asarray(of_records)))
        view = replace(view, scores=confidence_scores(plain), auxiliary=auxiliary, channel=view.channel[:-1])
        removed += 1
    shift = view.own_shift
    if shift is not None and view.scores is not None and not view.channel:
        view = replace(view, scores=confidence_scores(logits_of(view.scores) - shift), own_shift=None)
    return view, removed


def _parameter_gram(view: PredictionView) -> FloatArray | None:
    """W W^T of the passive class rows; None where the disclosed rows don't tell it."""
    weights, disclosure = view.weights_passive, view.disclosure
    if weights is None or isinstance(disclosure, Undeclared):
        return None
    # An orthonormal matrix, -I included, drops out of W W^T.
    if disclosure is not None and disclosure.kind == "any":
        return None
    return weights @ weights.T


# --- parameters ---------------------------------------------------------------------------------------------------


def _with_true_parameters(view: PredictionView) -> tuple[PredictionView, Level] | None:
    """Make a view of parameters that scores follow from, and say what they were learned from; None without any."""
    disclosure = view.disclosure
    if disclosure is None or view.weights_passive is None or view.bias is None:
        return None
    if isinstance(disclosure, Distorted) and disclosure.kind == "negated":
        return negated(view, disclosure.about), "nothing"
    if (learned := regressed(view)) is not None:
        return learned, "records"
    if isinstance(disclosure, Distorted) and disclosure.sign_is_guess:
        return _likelier_sign(view), "nothing"
    return None


def negated(view: PredictionView, about: float) -> PredictionView:
    """Make the view of who takes features x for 2 about - x: W (2 about - x) = -W x + 2 about W 1."""
    weights, bias = np.asarray(view.weights_passive), np.asarray(view.bias)
    return replace(view, weights_passive=-weights, bias=bias + 2 * about * weights.sum(axis=1))


def regressed(view: PredictionView) -> PredictionView | None:
    """Fit class rows and bias by least squares to complete records with their scores; disclosed rows aren't looked at.

    None where there are too few records: one more than passive features. Rows are up to what all classes share, which
    no score shows.
    """
    rows, weights_active = view.auxiliary, view.weights_active
    if rows is None or weights_active is None or len(rows.scores) <= rows.features_passive.shape[1]:
        return None
    log_ratios = np.diff(logits_of(rows.scores), axis=1) - rows.features_active @ np.diff(weights_active, axis=0).T
    unknown = np.hstack([rows.features_passive, np.ones((len(log_ratios), 1))])
    weights = np.linalg.lstsq(unknown, log_ratios, rcond=None)[0].T
    by_class = np.vstack([np.zeros(weights.shape[1]), np.cumsum(weights, axis=0)])
    return replace(view, weights_passive=by_class[:, :-1], bias=by_class[:, -1])


def _likelier_sign(view: PredictionView) -> PredictionView:
    """Put -W in place of W where more records then have a solution in [0, 1]: reconstructions that leave it tell."""
    turned = negated(view, 0.0)
    return turned if _feasible(turned) > _feasible(view) else view


def _feasible(view: PredictionView) -> int:
    system = linear_system(HalfStar(), view)
    return int(project_onto_solutions(system.space, system.coordinates, 0.5).feasible.sum())
