"""A network's backward signal in a few values only (Fu et al. 2022, section 7.1, DiscreteSGD)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceSpec, TrainingTerms, check_network
from defences.noise import NoiseSource
from vfl.arrays import FloatArray

_FEWEST_BINS, _MOST_BINS = 1, 1 << 20
# Of all values of a step, on either side of their mean (Fu et al.).
_DEVIATIONS = 2.0


@dataclass(frozen=True)
class DiscreteGradients:
    """Rounds every number of the backward signal to the nearest end of some equal bins of mean +- 2 deviations.

    Mean and deviation are of all numbers of the step, where the paper takes those of the first epoch: signals shrink in
    training. What lies outside takes the nearest end.

    What it does not stop: the sign of a signal is what tells a label of two classes, and rounding keeps it unless it
    rounds to the middle. With an odd number of bins there is no middle; with two there is little else.

    Attributes:
        bins: a whole number from 1.

    Raises:
        ValueError: for another number of bins.
    """

    name: ClassVar[str] = "discrete_gradients"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active",),
        stages=("residuals",),
        keeps="nothing",
        source="Fu et al. 2022, section 7.1",
        summary="rounds a network's backward signal to a few values",
        cost="accuracy",
        needs=("hidden_layer",),
        stops=("labels",),
    )

    bins: int = 12

    def __post_init__(self) -> None:
        if not _FEWEST_BINS <= self.bins <= _MOST_BINS:
            raise ValueError(f"Expected bins to be from {_FEWEST_BINS} to {_MOST_BINS:,}, got {self.bins}.")

    def check(self, terms: TrainingTerms) -> None:
        """Refuse a session that trains no network. Raises DefenceError."""
        check_network(self.name, terms)

    def prediction(self, terms: TrainingTerms) -> None:
        """Theory says nothing of it."""

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        """Change one step's backward signals, (rows, h)."""
        middle, reach = residuals.mean(), _DEVIATIONS * residuals.std()
        if reach == 0:
            return residuals
        nearest = np.round(np.clip((residuals - middle) / reach + 1, 0, 2) * (self.bins / 2))
        rounded: FloatArray = middle + reach * (nearest * (2 / self.bins) - 1)
        return rounded
