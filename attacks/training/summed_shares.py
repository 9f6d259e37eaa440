"""Shares with noise on them, summed over epochs: what ``dp_noise`` leaves of labels (ours).

A record is used once per epoch, and each time its share is g^A - 2 y plus fresh noise. Who follows Neyman and Pearson
adds the shares up; who lets the signs vote throws their sizes away. The adversary's own product is left out of the sum:
as the model learns, it moves f towards 0. Nothing else is gained by weighing epochs: g^A takes the same part from both
classes, and little of it.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from attacks.training.recovered_labels import UNRESOLVED, RecoveredLabels
from attacks.training_views import StepSolution, TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.theory.training import initial_product_bound

_ROUNDING = 1e-6
# Probability with which a random initialisation may look like noise, or break a guarantee.
_FAILURE = 0.01


@dataclass(frozen=True, eq=False)
class PeerShares:
    """One peer's shares of one step.

    Attributes:
        step: counted from 0.
        rows: (s,) indices in the common order.
        values: (s, columns).
        peer: whose they are.
    """

    step: int
    rows: IntArray
    values: FloatArray
    peer: str


def assumed_squared_norm(view: TrainingView, assumed: float) -> float:
    """Raise an assumption on the largest ||x||^2 of whole rows to what the adversary sees: its own, and the bias."""
    return max(assumed, float((view.features**2).sum(axis=1).max()) + view.label_party_bias)


def first_product_bound(view: TrainingView, squared_norm: float) -> float:
    """Bound the largest |theta_0^T x| of all records, except with a probability of 1 %."""
    return initial_product_bound(
        view.regression.initialisation,
        view.features.shape[1] + sum(view.peer_features.values()),
        view.n,
        columns=view.columns,
        squared_norm=squared_norm,
        failure=_FAILURE,
    )


def summed_over_epochs(
    view: TrainingView, solutions: tuple[StepSolution, ...], recovered: RecoveredLabels, *, norm: float
) -> RecoveredLabels:
    """Give every record the label that the sum of its shares tells, and no guarantee, where noise shows.

    Noise shows where a share is larger than Lemma 4.4 lets an honest one be at its step. Where none is, ``recovered``
    stays as it is.

    Args:
        view: of a passive party.
        solutions: its steps.
        recovered: what the steps tell one by one.
        norm: the largest ||x||^2 that the adversary assumes.
    """
    shares = solved_shares(view, solutions, str(view.label_party))
    if not noise_shows(view, shares, norm=norm):
        return recovered
    sums, uses, spread = _moments(view, shares)
    labels = np.where(uses > 0, _smallest(sums), UNRESOLVED)
    nothing = np.zeros(view.n, dtype=np.bool_)
    return replace(
        recovered,
        labels=labels,
        guaranteed=nothing,
        unresolved=np.setdiff1d(
            np.unique(np.concatenate([step.rows for step in recovered.steps])), np.flatnonzero(uses)
        ),
        steps=tuple(replace(step, guaranteed=np.zeros_like(step.guaranteed)) for step in recovered.steps),
        guaranteed_steps=0,
        noise=spread,
    )


def solved_shares(view: TrainingView, solutions: tuple[StepSolution, ...], peer: str) -> list[PeerShares]:
    """List a peer's shares of the steps whose equations determine them; none where f is no sum of shares."""
    if not view.linear:
        return []
    solved = [(one.own, one.shares[peer].values) for one in solutions]
    return [PeerShares(own.step, own.rows, values, peer) for own, values in solved if values is not None]


def noise_shows(view: TrainingView, shares: list[PeerShares], *, norm: float = 1.0) -> bool:
    """Say whether a share is larger than Lemma 4.4 lets an honest one be at its step.

    |g| + c grows by at most 1 + eta ||x||^2 / k' per step, and the label party's share is at most that; a share without
    labels is smaller by c.
    """
    divisor, label_term = (4, 2.0) if view.classes == 2 else (view.classes, view.classes - 1.0)
    squared_norm = assumed_squared_norm(view, norm)
    # Of several classes' products the mean is taken off.
    centring = 1.0 if view.classes == 2 else 2 * (1 - 1 / view.classes)
    first = math.log(label_term + centring * first_product_bound(view, squared_norm))
    growth = math.log1p(view.regression.learning_rate * squared_norm / divisor)
    for share in shares:
        if share.step and view.regression.steps != "plain":
            continue  # the lemma is of plain steps
        without_labels = 0.0 if share.peer == view.label_party else label_term
        largest = float(np.abs(share.values).max()) + without_labels
        if math.log(max(largest, _ROUNDING)) > first + growth * share.step + _ROUNDING:
            return True
    return False


def _moments(view: TrainingView, shares: list[PeerShares]) -> tuple[FloatArray, IntArray, float]:
    """Sum up each record's shares, (n, columns), count them, and find the spread of the shares about their mean.

    Of records used once, the spread is that about 0.
    """
    sums, squares = np.zeros((view.n, view.columns)), np.zeros((view.n, view.columns))
    uses = np.zeros(view.n, dtype=np.int64)
    for share in shares:
        sums[share.rows] += share.values
        squares[share.rows] += share.values**2
        uses[share.rows] += 1
    free = np.maximum(uses - 1, uses == 1)[:, None]
    about_mean = squares - np.where(uses[:, None] > 1, sums**2 / np.maximum(uses, 1)[:, None], 0)
    return sums, uses, math.sqrt(float(about_mean.sum()) / (float(free.sum()) * view.columns))


def _smallest(residuals: FloatArray) -> IntArray:
    """y = -sign(f), or the class with the smallest f, of (n, columns) residuals."""
    return (residuals[:, 0] < 0).astype(np.int64) if residuals.shape[1] == 1 else residuals.argmin(axis=1)
