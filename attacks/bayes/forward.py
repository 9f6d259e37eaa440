"""What happens to scores on their way, by stages that anyone can repeat: temperatures, shifts, purifiers, rounding."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from vfl.arrays import FloatArray
from vfl.channels import Purifier, Rounding, StrongestDirection, Temperature
from vfl.theory.logit_schemes import logits_of, maximisers, scheme1_noise, without_shift, without_temperature
from vfl.theory.score_noise import strongest_noise

Stage: TypeAlias = Temperature | StrongestDirection | Purifier | Rounding


@dataclass(frozen=True, eq=False)
class Forward:
    """Stages without a secret, one after the other, from logits to log scores.

    Attributes:
        stages: in the session's order.
        gram: (k, k), W W^T of the passive class rows, which tells v_1; None where no stage needs it.
    """

    stages: tuple[Stage, ...] = ()
    gram: FloatArray | None = None

    def log_scores(self, logits: FloatArray) -> FloatArray:
        """Log scores after the last stage, (m, k), of (m, k) logits; normalised but for what rounding leaves."""
        values = normalised(logits)
        for stage in self.stages:
            values = self._passed(values, stage)
        return values

    def undone(self, log_scores: FloatArray) -> FloatArray | None:
        """Logits that would come out as these, (m, k), up to a constant; None where a purifier stands in between.

        Only a start for a search: decisions that were raised are put in the middle, and rounding is left alone.
        """
        values = log_scores
        for stage in reversed(self.stages):
            if isinstance(stage, Purifier):
                return None
            if isinstance(stage, Temperature):
                values = without_temperature(values, stage)
            elif isinstance(stage, StrongestDirection) and self.gram is not None:
                values = without_shift(values, stage, self.gram).logits
        return values

    def jacobian(self, logits: FloatArray) -> FloatArray:
        """Derivatives of log scores by logits, (m, k, k), at (m, k) logits, by central differences; rounding aside."""
        smooth = Forward(tuple(stage for stage in self.stages if not isinstance(stage, Rounding)), self.gram)
        step = 1e-5
        columns = [
            (smooth.log_scores(logits + step * unit) - smooth.log_scores(logits - step * unit)) / (2 * step)
            for unit in np.eye(logits.shape[1])
        ]
        return np.stack(columns, axis=2)

    def _passed(self, values: FloatArray, stage: Stage) -> FloatArray:
        match stage:
            case Temperature(factor):
                return normalised(values * factor)
            case Purifier():
                return normalised(stage.network.partial_scores(np.exp(values)))
            case Rounding(decimals):
                scores: FloatArray = np.exp(values)
                return logits_of(scores.round(decimals))
        return normalised(self._shifted(values, stage))

    def _shifted(self, values: FloatArray, stage: StrongestDirection) -> FloatArray:
        assert self.gram is not None  # noqa: S101 - for the type checker
        direction, winners = stage.sign * strongest_noise(self.gram).direction, maximisers(values)
        if stage.scheme == 1:
            return values + scheme1_noise(winners, direction, stage.alpha)
        moved = values + math.sqrt(stage.alpha) * direction
        lead = np.where(winners, moved, moved + stage.delta).max(axis=1, keepdims=True)
        return np.where(winners, lead, moved)


def normalised(logits: FloatArray) -> FloatArray:
    """The logarithms of softmax scores, (m, k)."""
    lowered = logits - logits.max(axis=1, keepdims=True)
    log_scores: FloatArray = lowered - np.log(np.exp(lowered).sum(axis=1, keepdims=True))
    return log_scores
