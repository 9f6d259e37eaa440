"""What happens to scores on their way, by channels that anyone can repeat, such as temperatures or rounding."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray
from vfl.channels import RepeatableChannel
from vfl.channels.base import normalised

_STEP = 1e-5


@dataclass(frozen=True, eq=False)
class ForwardStages:
    """Stages without a secret, one after the other, from logits to log scores.

    Attributes:
        stages: in the session's order.
        gram: (k, k), W W^T of the passive class rows, which tells v_1; None where no stage needs it.
    """

    stages: tuple[RepeatableChannel, ...] = ()
    gram: FloatArray | None = None

    def log_scores(self, logits: FloatArray) -> FloatArray:
        """Log scores after the last stage, (m, k), of (m, k) logits; normalised but for what rounding leaves."""
        values = normalised(logits)
        for stage in self.stages:
            values = stage.passed(values, self.gram)
        return values

    def undone(self, log_scores: FloatArray) -> FloatArray | None:
        """Logits that would come out as these, (m, k), up to a constant; None where a stage in between has no inverse.

        Only a start for a search: decisions that were raised are put in the middle, and rounding is left alone.
        """
        values = log_scores
        for stage in reversed(self.stages):
            plain = stage.inverse(values, self.gram)
            if plain is not None:
                values = plain
            elif stage.is_smooth:
                return None
        return values

    def jacobian(self, logits: FloatArray) -> FloatArray:
        """Differentiate log scores by logits, (m, k, k), at (m, k) logits, by central differences; rounding aside."""
        smooth = ForwardStages(tuple(stage for stage in self.stages if stage.is_smooth), self.gram)
        return slopes_of(smooth.log_scores, logits)


def slopes_of(function: Callable[[FloatArray], FloatArray], points: FloatArray) -> FloatArray:
    """Differentiate a function from (m, r) to (m, k) by each row's own numbers, (m, k, r), by central differences."""
    steps = _STEP * np.eye(points.shape[1])
    return np.stack([(function(points + step) - function(points - step)) / (2 * _STEP) for step in steps], axis=2)
