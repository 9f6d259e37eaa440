"""Noise that makes a network's backward signals of all records equally long (Li et al. 2022, section 4.1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceSpec, TrainingTerms, check_network
from defences.noise import NoiseSource
from vfl.arrays import FloatArray


@dataclass(frozen=True)
class MaxNorm:
    """Adds noise along each record's own backward signal, as much as brings it to the longest of the step.

    Guarantee: none beyond the lengths. The mean square length is the same for every record of a step, and the noise has
        mean 0, so that gradients are right on average.

    What it does not stop: the noise stays on the line of the signal, which of two classes is nearly the same for all
        records. Who knows of it adds up where a record's signals of all epochs lie on that line. A signal of exactly
        zero stays zero.
    """

    name: ClassVar[str] = "max_norm"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active",),
        stages=("residuals",),
        keeps="nothing",
        source="Li et al. 2022, section 4.1",
        summary="noise that makes all records' backward signals of a step equally long",
        cost="accuracy",
        needs=("hidden_layer",),
        stops=("labels",),
    )

    def check(self, terms: TrainingTerms) -> None:
        """Refuse a session that trains no network. Raises DefenceError."""
        check_network(self.name, terms)

    def prediction(self, terms: TrainingTerms) -> None:
        """Theory says nothing of it."""

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        """Change one step's backward signals, (rows, h)."""
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        added = np.sqrt(np.maximum(lengths.max(initial=0.0) ** 2 - lengths**2, 0.0)) * noise.gaussian(lengths.shape)
        directions = np.divide(residuals, lengths, out=np.zeros_like(residuals), where=lengths > 0)
        protected: FloatArray = residuals + added * directions
        return protected
