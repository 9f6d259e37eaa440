"""The equations A x = b that exact scores of a linear model tell of each record (Rassouli, section III, eq. 3-6)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations of the records that share their left-hand side.

    Attributes:
        records: (r,) indices.
        matrix: A, (m, d); m is one less than the number of classes with a positive score.
        sides: b, (r, m).
    """

    records: IntArray
    matrix: FloatArray
    sides: FloatArray


def exact_equations(view: PredictionView) -> Iterator[Equations]:
    """Form the equations of a view's records, a block for each set of classes whose scores are positive.

    A score of 0 has no logarithm: its class tells an inequality of hundreds, and no equation.

    Raises:
        ViewError: when the view lacks scores or parameters.
    """
    scores, weights_active, weights_passive, bias = _pieces(view)
    own = view.features_active @ weights_active.T + bias
    if view.own_shift is not None:
        own = own + view.own_shift
    patterns, which = np.unique(scores > 0, axis=0, return_inverse=True)
    for index, positive in enumerate(patterns):
        records = np.flatnonzero(which.ravel() == index)
        classes = np.flatnonzero(positive)
        logits = np.log(scores[np.ix_(records, classes)]) - own[np.ix_(records, classes)]
        yield Equations(records, np.diff(weights_passive[classes], axis=0), np.diff(logits, axis=1))


def _pieces(view: PredictionView) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    if view.scores is None:
        raise ViewError("posterior needs scores, which this view lacks: run predictions first.")
    if view.weights_active is None or view.weights_passive is None or view.bias is None:
        raise ViewError(
            "posterior needs the model's parameters, which this view lacks: disclose them; without them the answer is "
            "that of its prior, which imputation gives from auxiliary records."
        )
    return view.scores, view.weights_active, view.weights_passive, view.bias
