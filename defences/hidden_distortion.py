"""Plain distortions of what a passive party sends of a network's first layer: noise, rounding."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceSpec, TrainingTerms, check_network
from defences.noise import NoiseSource, on_grid
from vfl.arrays import FloatArray


@dataclass(frozen=True)
class HiddenNoise:
    """Adds Gaussian noise to every number that the party sends of its products X W, in training and in answers.

    The noise is a secret function of the record's own products: who asks again with the same weights gets the same
    numbers, so that repeating a question doesn't average the noise away.

    What it does not stop: each epoch shows every record again, with fresh noise, under weights that hardly moved:
        errors average. Products of all records have no more directions than the passive columns, noise has all: who
        projects on the largest takes most of it off. The rest a regression learns from complete records.

    Attributes:
        sigma: standard deviation, in units of a product.

    Raises:
        ValueError: unless sigma is positive and finite.
    """

    name: ClassVar[str] = "hidden_noise"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("passive",),
        stages=("hidden",),
        keeps="nothing",
        source="Titcombe et al. 2021",
        summary="noise on what a passive party sends of a network's first layer",
        cost="accuracy",
        needs=("hidden_layer",),
        stops=("columns",),
        tried_with={"sigma": 1.0},
    )

    sigma: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"Expected sigma to be a positive number, got {self.sigma}.")

    def check(self, terms: TrainingTerms) -> None:
        """Refuse a session that trains no network. Raises DefenceError."""
        check_network(self.name, terms)

    def prediction(self, terms: TrainingTerms) -> None:
        """Theory says nothing of it."""

    def protect_hidden(self, products: FloatArray, noise: NoiseSource) -> FloatArray:
        """Disturb products, (n, h). The same row gets the same noise each time."""
        gridded = on_grid(products)
        return gridded + self.sigma * noise.gaussian_per_record(gridded, products.shape[1])


@dataclass(frozen=True)
class HiddenRounding:
    """Rounds every number that the party sends of its products X W to a multiple of a step.

    What it does not stop: over the records and units of a session rounding errors are as good as noise of standard
        deviation step / sqrt(12), and ``HiddenNoise`` says what that doesn't stop. Products far below a step are 0.

    Attributes:
        step: in units of a product.

    Raises:
        ValueError: unless step is positive and finite.
    """

    name: ClassVar[str] = "hidden_rounding"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("passive",),
        stages=("hidden",),
        keeps="nothing",
        source="Plumbline; after Jiang 6.1.3.1",
        summary="rounds what a passive party sends of a network's first layer",
        cost="accuracy",
        needs=("hidden_layer",),
        stops=("columns",),
        tried_with={"step": 2.0},
    )

    step: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.step < math.inf:
            raise ValueError(f"Expected step to be a positive number, got {self.step}.")

    def check(self, terms: TrainingTerms) -> None:
        """Refuse a session that trains no network. Raises DefenceError."""
        check_network(self.name, terms)

    def prediction(self, terms: TrainingTerms) -> None:
        """Theory says nothing of it."""

    def protect_hidden(self, products: FloatArray, noise: NoiseSource) -> FloatArray:
        """Round products, (n, h), to multiples of the step, half to even."""
        return np.round(products / self.step) * self.step
