"""A single guess at each record's logits with its width, from what was delivered: to fit and to compare models with.

Sampling never uses these; a rounded or noisy score is no Gaussian. A regression of parameters over many records, and
the choice between a few candidate models, can do with them.
"""

from dataclasses import dataclass

import numpy as np

from attacks.bayes.forward import ForwardStages
from vfl.arrays import FloatArray
from vfl.channels import Likelihood


@dataclass(frozen=True, eq=False)
class LogitEstimate:
    """Logits up to a constant per record, and how far off each may be.

    Attributes:
        middle: (n, k).
        variance: (n, k), as if errors of classes were independent.
    """

    middle: FloatArray
    variance: FloatArray

    def covariance(self) -> FloatArray:
        """Estimate the covariance of errors of the differences of consecutive classes: (n, k - 1, k - 1)."""
        differences = np.diff(np.eye(self.variance.shape[1]), axis=0)
        return (differences * self.variance[:, None, :]) @ differences.T


def estimated_logits(forward: ForwardStages, likelihood: Likelihood) -> LogitEstimate | None:
    """Guess logits; None where only a decision, or what a purifier left, is known."""
    moments = likelihood.moments()
    if moments is None:
        return None
    logits = forward.undone(moments[0])
    # Stages in between scale all errors alike, which weights don't mind.
    return None if logits is None else LogitEstimate(logits, moments[1])
