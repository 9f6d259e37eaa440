"""A peer's part of the logits from its noisy shares, averaged over epochs (ours, against ``dp_noise``).

A passive party's share of a record is theta^T x over its own columns, plus fresh noise once per epoch. As theta grows
out of its small start, late shares say more than early ones. All parties' products grow alike, since one residual
drives them: shares are weighed by the size of the adversary's own products at the time (a matched filter).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import AttackSpec, Json, require
from attacks.training.recovered_values import value_arrays
from attacks.training.summed_shares import noise_shows, solved_shares
from attacks.training_views import StepSolution, TrainingView, solve_steps
from attacks.views import ViewError
from vfl.arrays import FloatArray
from vfl.theory.training import residual


@dataclass(frozen=True, eq=False)
class RecoveredProducts:
    """What followed about every peer's part of the logits.

    Attributes:
        products: by peer, (n, columns), theta^T x over its columns near the end of training; NaN without an answer.
        told: by peer, which part of its products' variance the estimate should tell, in [0, 1].
        reason: why nothing followed; empty when something did.
    """

    kind: ClassVar[str] = "products"
    products: Mapping[str, FloatArray]
    told: Mapping[str, float]
    reason: str = ""

    def facts(self) -> Mapping[str, Json]:
        """Tell which part of each peer's products should be told, and why nothing was."""
        return {"expected": {peer: round(part, 4) for peer, part in self.told.items()}, "reason": self.reason}

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give the products of each peer."""
        return value_arrays(self.products)


@dataclass(frozen=True)
class AveragedProducts:
    """Estimates the products theta^T x of every peer from all shares of a record, by the party with the labels.

    Where no noise shows (``training.summed_shares``) a record's last share is the answer. Else it is the average, drawn
    towards its mean as far as noise is left in it.
    """

    name: ClassVar[str] = "averaged_products"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=("equations",),
        source="Hu, section 6 (Algorithm 3), Theorem 3.1; the average: ours",
        learners=("linear",),
        summary="averages a record's shares over epochs, and reads the other party's part of its score",
        cost="milliseconds",
        seconds=lambda extent: 0.5 + 0.0005 * extent.steps,
    )

    def attack(self, view: TrainingView) -> RecoveredProducts:
        """Estimate every peer's products. Raises ViewError for a passive party's view, or one without shares."""
        if view.role != "active" or view.labels is None or not view.linear:
            raise ViewError(
                "averaged_products is the attack of the party with the labels, on first-order shares: mount it there."
            )
        require(self, view)
        solutions = solve_steps(view)
        sizes = np.sqrt(np.nanmean(_by_epoch(view, _own_products(view, solutions)) ** 2, axis=(0, 2)))
        products, certainty = {}, {}
        for peer in view.peer_features:
            if not (shares := solved_shares(view, solutions, peer)):
                continue
            arranged = _by_epoch(view, {one.step: one.values for one in shares})
            if noise_shows(view, shares):
                products[peer], certainty[peer] = _averaged(arranged, sizes)
            else:
                products[peer], certainty[peer] = _latest(arranged), 1.0
        reason = "" if products else next((one.reason for one in solutions if one.reason), "No step was seen.")
        return RecoveredProducts(products, certainty, reason)


def _own_products(view: TrainingView, solutions: tuple[StepSolution, ...]) -> dict[int, FloatArray]:
    """Compute the adversary's own theta^T x by step: its shares without the labels' part."""
    labels = np.zeros(view.n, dtype=np.int64) if view.labels is None else view.labels
    return {
        one.own.step: one.own.share
        - residual("first_order", np.zeros_like(one.own.share), labels[one.own.rows], view.classes)
        for one in solutions
    }


def _by_epoch(view: TrainingView, values: Mapping[int, FloatArray]) -> FloatArray:
    """Values of steps as (n, epochs, columns), NaN where a record has none."""
    per_epoch = view.steps_per_epoch or 1 + view.steps[-1].step
    epochs = 1 + view.steps[-1].step // per_epoch
    arranged = np.full((view.n, epochs, view.columns), np.nan)
    for equations in view.steps:
        if equations.step in values:
            arranged[equations.rows, equations.step // per_epoch] = values[equations.step]
    return arranged


def _latest(shares: FloatArray) -> FloatArray:
    """Find each record's last share, of (n, epochs, columns) with NaN where there is none."""
    latest = shares[:, 0]
    for epoch in range(1, shares.shape[1]):
        latest = np.where(np.isfinite(shares[:, epoch]), shares[:, epoch], latest)
    return latest


def _averaged(shares: FloatArray, sizes: FloatArray) -> tuple[FloatArray, float]:
    """Average one peer's shares (n, epochs, columns) to products, (n, columns), and tell which part of them is told."""
    epochs = np.flatnonzero(np.isfinite(shares).any(axis=(0, 2)))
    shares, weights = shares[:, epochs], sizes[epochs] if sizes[epochs[-1]] > 0 else np.ones(len(epochs))
    estimate, noise_left = _matched(shares, weights / weights[-1])
    signal, noise = _variances(shares, weights / weights[-1])
    shrinkage = signal / (signal + noise * noise_left) if signal > 0 else np.zeros_like(noise_left)
    finite = np.isfinite(estimate)
    mean = estimate[finite.all(axis=1)].mean(axis=0)
    return mean + shrinkage * (estimate - mean), float(shrinkage[finite].mean())


def _variances(shares: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Estimate variances, of the last epoch's products and of a share's noise. Noise of one epoch isn't told apart.

    Noise of different epochs is independent: what the last epoch and all others have in common is the products' own.
    """
    last = shares[:, -1]
    if shares.shape[1] == 1:
        return float(np.nanvar(last)), 0.0
    before, _ = _matched(shares[:, :-1], weights[:-1])
    both = np.isfinite(last) & np.isfinite(before)
    if not both.any():
        return 0.0, 1.0
    signal = float(np.mean((last[both] - last[both].mean()) * (before[both] - before[both].mean())))
    return signal, max(float(last[both].var()) - signal, 0.0)


def _matched(shares: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the least noisy multiple of c that shares c_t p + noise tell, at c = 1, and its variance in the noise's."""
    there = np.isfinite(shares)
    power = (there * weights[:, None] ** 2).sum(axis=1)
    power = np.where(power > 0, power, np.nan)
    return (np.where(there, shares, 0.0) * weights[:, None]).sum(axis=1) / power, 1 / power
