"""Puts what several sessions told of the same records together: more classes of one model, as far as a prior sees it.

Each session's logits count from its first class, and these differences stand side by side behind a class whose logit is
0. So m sessions of k classes look like one of 1 + m (k - 1) classes. Exact sessions are equations, and those that say
no more than others are left out.
"""

from collections.abc import Sequence

import numpy as np

from attacks.bayes.observation import Observation
from attacks.bayes.told import Exactly
from attacks.views import ViewError

# Directions with less than this part of the largest weight drown in float64's own error of the scores.
_LEAST_WEIGHT = 1e-13


def stacked(observations: Sequence[Observation]) -> Observation:
    """What sessions tell of the same records together; one session alone is left as it is."""
    if len(observations) == 1:
        return observations[0]
    if not all(one.is_linear for one in observations):
        raise ViewError("many_sessions reads exact scores of linear models only.")
    return _independent(observations)


def _independent(exact: Sequence[Observation]) -> Observation:
    """Orthonormal equations V^T x = t that say what all of the sessions' say."""
    parts = [one.linear_equations() for one in exact]
    matrix, sides = np.vstack([part[0] for part in parts]), np.hstack([part[1] for part in parts])
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    kept = values > _LEAST_WEIGHT * max(values.max(initial=0.0), 1e-300)
    coordinates = sides @ (left[:, kept] / values[kept])
    model = np.vstack([np.zeros(matrix.shape[1]), right[kept]])
    logits = np.hstack([np.zeros((len(sides), 1)), coordinates])
    return Observation(np.zeros_like(logits), model, Exactly(logits))
