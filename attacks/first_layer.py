"""A network's first layer as a prediction view, for attacks that are made for linear models.

The label party of a network is answered with the layer's sums z = x_active W_active + b + x_passive W_passive before
their activation, h linear equations of each record, whatever lies above. Softmax of (0, z) is what a linear model of
h + 1 classes would answer with, whose class rows are 0 and the columns of W: attacks on linear models then read the
same equations from it, with disclosed weights and without, with every prior.
"""

from typing import Any

import numpy as np

from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores

# Softmax of sums farther apart isn't told from 0 in float64.
_FARTHEST = 600.0


def first_layer_view(
    sums: FloatArray,
    weights_active: FloatArray,
    bias: FloatArray,
    weights_passive: FloatArray | None = None,
    **pieces: Any,
) -> PredictionView:
    """Make the view of a linear model that says what a network's first layer says.

    Args:
        sums: (n, h), of all parties, as the label party is answered.
        weights_active: (d_a, h), the label party's, without its biases.
        bias: (h,), of the layer.
        weights_passive: (d, h), as disclosed, all passive parties'; None where they keep them.
        pieces: further ones of the view, such as ``features_active``. Scores of auxiliary records are ``layer_scores``
            of their sums.

    Raises:
        ViewError: where the pieces don't fit, and for sums that no softmax tells apart.
    """
    return PredictionView(
        scores=layer_scores(sums),
        weights_active=_class_rows(weights_active),
        bias=np.concatenate([[0.0], bias]),
        weights_passive=None if weights_passive is None else _class_rows(weights_passive),
        **pieces,
    )


def layer_scores(sums: FloatArray) -> FloatArray:
    """Scores (n, h + 1) of h + 1 classes that tell (n, h) sums of a layer; raises ViewError beyond what they can."""
    logits = np.column_stack([np.zeros(len(sums)), sums])
    if not np.isfinite(logits).all() or np.ptp(logits, axis=1).max(initial=0.0) > _FARTHEST:
        raise ViewError(f"The layer's sums are farther apart than {_FARTHEST:g}: leave those records out.")
    return confidence_scores(logits)


def _class_rows(weights: FloatArray) -> FloatArray:
    """(d, h) weights as (h + 1, d) class rows, the first of them 0."""
    rows: FloatArray = np.vstack([np.zeros(len(weights)), weights.T])
    return rows
