"""Coordinates in which a prior is standard normal, split into what logits depend on and what they don't.

x = m + T a + S w, where a and w are independent standard normal numbers beforehand. Logits depend on a alone: scores
say nothing of w but through the box. For networks all coordinates are a's.
"""

from dataclasses import dataclass

import numpy as np

from attacks.bayes.forward import slopes_of
from attacks.bayes.observation import Observation
from attacks.bayes.prior import GaussianPrior
from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import DenseNetwork

# A prior's variance is at least this: columns of which it is surer are as good as known.
_LEAST_VARIANCE = 1e-8
# A prior's mean is at most so many standard deviations outside the box, where a truncated Gaussian is near its edge.
_FURTHEST = 3.0
_RANK = 1e-9


@dataclass(frozen=True, eq=False)
class Frame:
    """The coordinates of all records.

    Attributes:
        centre: (n, d + e), m; e columns of errors follow the features where an observation has an error.
        informed: (d + e, r), T.
        uninformed: (d + e, q), S.
        known: (n, k), logits at a = 0; for a network the part without the passive features.
        effect: (k, r), how logits depend on a; None for a network.
        network: the passive part of the model where that is a network.
        features: d, how many of the columns are features.
        told: (r, d + e), a = told (x - m); None for a network.
    """

    centre: FloatArray
    informed: FloatArray
    uninformed: FloatArray
    known: FloatArray
    effect: FloatArray | None
    network: DenseNetwork | None
    features: int
    told: FloatArray | None = None

    def logits(self, coordinates: FloatArray, rows: IntArray) -> FloatArray:
        """Logits of the records ``rows`` at a, (m, r): (m, k)."""
        if self.effect is not None:
            return self.known[rows] + coordinates @ self.effect.T
        assert self.network is not None  # noqa: S101 - for the type checker
        return self.known[rows] + self.network.partial_scores(self.centre[rows] + coordinates @ self.informed.T)

    def slopes(self, coordinates: FloatArray, rows: IntArray) -> FloatArray:
        """Differentiate logits by a: (m, k, r)."""
        if self.effect is not None:
            return np.broadcast_to(self.effect, (len(rows), *self.effect.shape))
        return slopes_of(lambda moved: self.logits(moved, rows), coordinates)

    def points(self, informed: FloatArray, uninformed: FloatArray, rows: IntArray) -> FloatArray:
        """Features at a and w, (m, d)."""
        columns: FloatArray = self.centre[rows] + informed @ self.informed.T + uninformed @ self.uninformed.T
        return columns[:, : self.features]


def frame_of(prior: GaussianPrior, observation: Observation) -> Frame:
    """Choose the coordinates of a prior and an observation."""
    d = prior.mean.shape[1]
    spread = np.sqrt(np.maximum(np.diag(prior.covariance), _LEAST_VARIANCE))
    centre, root = np.clip(prior.mean, -_FURTHEST * spread, 1 + _FURTHEST * spread), square_root(prior.covariance)
    if isinstance(observation.model, DenseNetwork):
        return Frame(centre, root, np.zeros((d, 0)), observation.known, None, observation.model, d)
    rows = observation.model
    if observation.error is not None:
        k = len(rows)
        centre, rows = np.hstack([centre, np.zeros((len(centre), k))]), np.hstack([rows, np.eye(k)])
        errors = square_root(observation.error)
        root = np.block([[root, np.zeros((d, k))], [np.zeros((k, d)), errors]])
    effect = rows @ root
    left_vectors, values, right = np.linalg.svd(effect - effect.mean(axis=0))
    rank = int((values > _RANK * max(values.max(initial=0.0), 1e-12)).sum())
    informed, uninformed = right[:rank].T, right[rank:].T
    offset = observation.known + centre @ rows.T
    solver = (left_vectors[:, :rank] / values[:rank]).T @ (rows - rows.mean(axis=0))
    return Frame(centre, root @ informed, root @ uninformed, offset, effect @ informed, None, d, solver)


def square_root(covariance: FloatArray) -> FloatArray:
    """Find the symmetric R with R R = covariance, its eigenvalues raised to a least variance where they are smaller."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root: FloatArray = (vectors * np.sqrt(np.maximum(values, _LEAST_VARIANCE))) @ vectors.T
    return root
