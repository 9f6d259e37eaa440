"""Noise on a network's backward signal that makes two classes' signals alike (Marvell: Li et al. 2022, section 4.2)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceError, DefenceSpec, TrainingTerms, check_network
from defences.noise import NoiseSource
from vfl.arrays import FloatArray, IntArray

# A spread that stands for none: of the signals' own, and of the noise where theirs is none.
_LEAST_SPREAD = 1e-9
# Beyond it the bound on the area under the curve is 1.
_MOST_SUM_KL = 4.0
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class MarvellBound:
    """What a session's noise is worth, were each class's signals Gaussian and as wide in every direction.

    Attributes:
        sum_kl: of the two classes' signals of a step, both Kullback-Leibler divergences together, in nats.
        best_auc: the largest area under the curve of any guess by a record's signal of one step.
        best_auc_of_all_epochs: the same by its signals of all epochs, whose divergences add up.
        note: what the bound doesn't cover.
    """

    sum_kl: float
    best_auc: float
    best_auc_of_all_epochs: float
    note: str


@dataclass(frozen=True)
class Spreads:
    """Variances of Gaussian noise on the signals of a class: along the difference of the means, and across it."""

    along: float
    across: float


@dataclass(frozen=True)
class Marvell:
    """Adds the least Gaussian noise with which no guess by a record's signal of a step passes an area under the curve.

    What is minimised is the noise's mean square over the records of a step. The noise of a class is wider along the
    difference of the classes' means, and the rarer class gets the more of it (Li et al., Theorem 2).

    Guarantee: of one step, and as far as each class's signals are Gaussian with a variance that is the same in all
        directions; the variances and means are the step's own. By Pinsker's inequality the area under the curve is then
        at most 1/2 + sqrt(e) / 2 - e / 8, of the sum e of both Kullback-Leibler divergences (Theorem 1).

    What it does not stop: divergences add up over epochs, and ``MarvellBound`` says to what: who averages a record's
        signals of many epochs reads its label. Signals that are no Gaussians tell more. A class that a batch lacks is
        taken for one record with the opposite mean.

    For two classes.

    Attributes:
        auc: above 1/2 and below 1.

    Raises:
        ValueError: for another auc.
    """

    name: ClassVar[str] = "marvell"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active",),
        stages=("labelled_residuals",),
        keeps="nothing",
        source="Li et al. 2022, section 4.2",
        summary="the least noise that makes two classes' backward signals alike",
        cost="accuracy",
        needs=("hidden_layer",),
        stops=("labels",),
        tried_with={"auc": 0.6},
    )

    auc: float = 0.7

    def __post_init__(self) -> None:
        if not 0.5 < self.auc < 1:
            raise ValueError(f"Expected auc to be above 0.5 and below 1, got {self.auc}.")

    @property
    def sum_kl(self) -> float:
        """The sum of both divergences for which the bound is ``auc``."""
        return (2 - 2 * math.sqrt(2 * (1 - self.auc))) ** 2

    def check(self, terms: TrainingTerms) -> None:
        """Refuse a session that trains no network, or more than two classes. Raises DefenceError."""
        check_network(self.name, terms)
        if terms.classes != 2:
            raise DefenceError(
                f"marvell makes two classes' signals alike, and there are {terms.classes}: choose "
                "label_randomised_response, which works with any number, or drop it."
            )

    def prediction(self, terms: TrainingTerms) -> MarvellBound:
        """Say what the noise is worth in a session."""
        return MarvellBound(
            sum_kl=self.sum_kl,
            best_auc=self.auc,
            best_auc_of_all_epochs=largest_auc(terms.epochs * self.sum_kl),
            note="Of a record's own signals, were they Gaussian; sums of a batch tell what its records tell together.",
        )

    def protect_labelled_residuals(
        self, residuals: FloatArray, labels: IntArray, terms: TrainingTerms, noise: NoiseSource
    ) -> FloatArray:
        """Change one step's backward signals, (rows, h), of records of class 0 or 1, (rows,)."""
        rows, columns = residuals.shape
        groups = [residuals[labels == one] for one in (0, 1)]
        if missing := [one for one, group in enumerate(groups) if not len(group)]:
            groups[missing[0]] = -groups[1 - missing[0]].mean(axis=0, keepdims=True)
        apart = groups[1].mean(axis=0) - groups[0].mean(axis=0)
        squared = float(apart @ apart)
        if squared == 0:
            return residuals
        variances = (float(groups[0].var(axis=0).mean()) / squared, float(groups[1].var(axis=0).mean()) / squared)
        rarer = min(max(float(np.mean(labels == 1)), 1 / (rows + 1)), rows / (rows + 1))
        spreads = least_noise(self.sum_kl, variances, rarer, columns)
        along, across = (
            np.sqrt([getattr(spreads[one], name) for one in (0, 1)])[labels] for name in ("along", "across")
        )
        direction = apart / math.sqrt(squared)
        sample = noise.gaussian(residuals.shape)
        towards = np.outer(sample @ direction, direction)
        return residuals + math.sqrt(squared) * (along[:, None] * towards + across[:, None] * (sample - towards))


def largest_auc(sum_kl: float) -> float:
    """Bound the area under the curve of any guess between two classes with this divergence (Li et al., Theorem 1)."""
    return 1.0 if sum_kl >= _MOST_SUM_KL else 0.5 + math.sqrt(sum_kl) / 2 - sum_kl / 8


def least_noise(sum_kl: float, variances: tuple[float, float], share: float, columns: int) -> tuple[Spreads, Spreads]:
    """Choose the noise of two classes of Gaussian signals whose means are 1 apart (Li et al., Theorem 2).

    Its mean square over the records is least among all Gaussian noise that leaves at most this divergence. A geometric
    program: convex in the logarithms of the variances (Boyd et al. 2007).

    Args:
        sum_kl: both Kullback-Leibler divergences together, in nats.
        variances: per class, the variance of its signals without noise, in every direction.
        share: of the records, those of class 1.
        columns: h.

    Returns:
        Per class, the noise's variances.
    """
    from scipy.optimize import minimize  # where it is used: servers start without it

    least = np.maximum(variances, _LEAST_SPREAD)
    across = columns - 1.0
    # What is solved for: logarithms of the variances with noise, along (class 0, class 1) and across.
    weights = np.array([1 - share, share, across * (1 - share), across * share])
    factors = np.array([1, 1, 1, 1, across, across])
    powers = np.array(
        [[1, -1, 0, 0], [-1, 1, 0, 0], [0, -1, 0, 0], [-1, 0, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]], dtype=np.float64
    )
    room = 2 * (sum_kl + columns)

    def divergence(logs: FloatArray) -> FloatArray:
        return np.asarray(factors * np.exp(powers @ logs))

    # Variances that are the same for both classes always do.
    widest = max(1 / sum_kl, *least)
    start = np.log([widest, widest, max(least), max(least)])
    scale = float(weights @ np.exp(start))
    wider = np.array([[1.0, 0, -1, 0], [0, 1, 0, -1]])
    solution = minimize(
        lambda logs: weights @ np.exp(logs) / scale,
        start,
        jac=lambda logs: weights * np.exp(logs) / scale,
        bounds=[(math.log(one), None) for one in (*least, *least)],
        constraints=[
            {"type": "ineq", "fun": lambda x: room - divergence(x).sum(), "jac": lambda x: -(divergence(x) @ powers)},
            {"type": "ineq", "fun": lambda x: wider @ x, "jac": lambda _: wider},
        ],
        method="SLSQP",
    )
    logs = solution.x if solution.success and divergence(solution.x).sum() <= room * (1 + _TOLERANCE) else start
    added = np.maximum(np.exp(logs) - np.tile(variances, 2), 0.0)
    return Spreads(added[0], added[2]), Spreads(added[1], added[3])
