"""A passive party's part of the logits from the sums of a whole training, by the party with the labels (ours).

A passive party's shares have no label term: they are theta(t)^T x alone, which ``training.smooth_shares`` reads from
all steps together, whatever the batches' size. The directions that theta(t) takes are unknown, so that features
themselves follow only with records that are known in full.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.training.averaged_products import RecoveredProducts
from attacks.training.smooth_shares import SmoothPrior, SmoothSums, SumsReader, best_basis, first_prior
from attacks.training_views import TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray

# Of label terms, which these shares don't have.
_NO_TERM = 1e-6
_LOOKS, _DRAWS, _TOLERANCE = 8, 3, 5e-3
# The least part of the products' variance that counts as an answer.
_LEAST_TOLD = 0.06
# Of the sums left out: who predicts less of them has learned nothing of shares.
_MOST_MISSED = 0.9


@dataclass(frozen=True)
class TrajectoryProducts:
    """Estimates theta^T x of every peer at the end of training from the sums of all steps.

    Attributes:
        seed: of the draws that tell how sure it is.
    """

    seed: int = 0

    name: ClassVar[str] = "trajectory_products"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=("equations",),
        source="ours",
        learners=("linear",),
        summary="reads the other party's part of a training record's score from the sums of all epochs together",
        cost="seconds per 1,000 records; minutes at 40,000",
        seconds=lambda extent: 0.5 + 0.001 * extent.steps + 0.02 * extent.distinct_batches,
    )

    def attack(self, view: TrainingView) -> RecoveredProducts:
        """Estimate every peer's products. Raises ViewError for a passive party's view, or one without shares."""
        if view.role != "active" or not view.linear:
            raise ViewError(
                "trajectory_products is the attack of the party with the labels, on first-order shares: mount it there."
            )
        require(self, view)
        products, parts = {}, {}
        for peer in view.peer_features:
            values, part = self._of_peer(view, peer)
            if part >= _LEAST_TOLD:
                products[peer], parts[peer] = values, part
        reason = "" if products else "Not possible: the sums of all steps say too little of single records."
        return RecoveredProducts(products, parts, reason)

    def _of_peer(self, view: TrainingView, peer: str) -> tuple[FloatArray, float]:
        """Find the products, (n, columns), NaN for records of no step; and which part of their variance is told."""
        equations = [one for one in view.equations if one.peer == peer]
        products = np.full((view.n, view.columns), np.nan)
        basis = best_basis(view, equations, _NO_TERM) if equations else None
        if basis is None or basis.missed > _MOST_MISSED:
            return products, 0.0
        functions = basis.functions
        reader = SumsReader(
            SmoothSums(view, equations, functions), view.columns, np.random.default_rng(self.seed), draws=_DRAWS
        )
        rows = np.unique(np.concatenate([one.rows for one in equations]))
        prior = first_prior(view, functions, _NO_TERM)
        for _ in range(_LOOKS):
            posterior = reader.condition(prior, _TOLERANCE)
            mean = posterior.rest[rows].mean(axis=0)
            prior = SmoothPrior(prior.terms, _NO_TERM, mean, posterior.second_moments, posterior.noise)
        products[rows] = posterior.rest[rows] @ functions[-1]
        unexplained = float(functions[-1] @ posterior.uncertainty @ functions[-1])
        explained = float(products[rows].var(axis=0).mean())
        return products, explained / (explained + unexplained) if explained > 0 else 0.0
