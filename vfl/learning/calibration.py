"""Calibrated scores: a slope and intercepts of a linear model's logits, fitted to records that nobody trained on.

The first-order gradient leaves logits too flat or too steep, and orders records all the same. Two numbers mend that: a
logistic regression of labels on logits where there are two classes (Platt 1999); of more, one slope, the inverse of a
temperature (Guo et al. 2017), and an intercept a class. Every party scales its own weights: scores are made as before.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores, log_loss
from vfl.learning.learner import Part

# Fewer records say more of themselves than of the slope, and fewer of a class of its intercept.
LEAST_RECORDS = 50
LEAST_OF_A_CLASS = 10
# A slope is told as one of 2**8 steps: 2.2 % apart, from 1/16 to 15.7.
SLOPE_BITS = 8
_STEPS_PER_DOUBLING = 32
_FIRST, _LAST = -(1 << SLOPE_BITS - 1), (1 << SLOPE_BITS - 1) - 1


@dataclass(frozen=True)
class Calibration:
    """What logits are multiplied by and what is added to them.

    Attributes:
        step: of the slope, 2**(step / 32), from -128 to 127; 0 leaves weights as they are.
        intercepts: (classes,) added to the classes' logits; empty for none, as at every party but the label party.
        loss: log loss of the records that it was fitted to, in nats; NaN at who isn't told.

    Raises ValueError for a step beyond the range.

    Examples:
        >>> Calibration(step=-32).slope
        0.5
    """

    step: int = 0
    intercepts: tuple[float, ...] = ()
    loss: float = field(default=math.nan, compare=False)

    def __post_init__(self) -> None:
        if not _FIRST <= self.step <= _LAST:
            raise ValueError(f"A slope's step is from {_FIRST} to {_LAST}, not {self.step}.")

    @property
    def slope(self) -> float:
        """What all parties' weights are multiplied by."""
        return float(2 ** (self.step / _STEPS_PER_DOUBLING))

    def scores(self, logits: FloatArray) -> FloatArray:
        """Score logits, (n, classes), anew; rows sum to 1."""
        return confidence_scores(self.slope * logits + np.array(self.intercepts or 0.0))

    def part_of(self, part: Part) -> Part:
        """Scale a party's part, which has class rows; intercepts go to the label party's bias, its last column.

        Raises:
            ValueError: for a part without class rows.
        """
        if part.class_rows is None:
            raise ValueError("only a part that has class rows can be calibrated")
        rows = self.slope * part.class_rows
        if self.intercepts:
            rows[:, -1] += self.intercepts
        return part.with_class_rows(rows)


UNCALIBRATED = Calibration()


def fitted(scores: FloatArray, labels: IntArray) -> Calibration | None:
    """Fit a slope, and an intercept a class where each has at least ten records.

    A record's own class has the target (n + 1) / (n + 2), others share the rest: where classes can be separated, labels
    themselves would ask for a slope without end. Platt's n is of the class, which flattens scores of many small ones.

    Args:
        scores: (n, classes) confidence scores of records that nobody trained on; rows sum to 1.
        labels: (n,) class indices.

    Returns:
        None where it can't be fitted (fewer than fifty records, one class, logits all the same, or beyond what scores
        hold), where labels ask for a slope of 0 or less, and where the log loss of these records isn't smaller.

    Examples:
        >>> labels = np.arange(100) % 2
        >>> overconfident = np.where(np.arange(100) % 10 < 8, labels, 1 - labels)  # right of eight in ten, and sure
        >>> fit = fitted(np.where(np.eye(2)[overconfident] > 0, 0.99, 0.01), labels)
        >>> fit.scores(np.log([[0.01, 0.99]])).round(1)
        array([[0.2, 0.8]])
    """
    classes = scores.shape[1]
    counts = np.bincount(labels, minlength=classes)
    if len(labels) < LEAST_RECORDS or np.count_nonzero(counts) < 2 or not scores.min() > 0:
        return None
    logits = np.log(scores)
    logits = logits - logits.mean(axis=1, keepdims=True)
    if not (spread := float(logits.std())) > 0:
        return None
    rest = 1 / (len(labels) + 2)
    targets = np.where(np.eye(classes)[labels] > 0, 1 - rest, rest / (classes - 1))
    has_intercepts = bool(counts.min() >= LEAST_OF_A_CLASS)
    # In units of their spread, so that the fit converges whatever the weights' length.
    slope = _minimum(logits / spread, targets, (0.0, None), has_intercepts)[0] / spread
    if not slope > 0:
        return None
    rounded = Calibration(int(np.clip(round(_STEPS_PER_DOUBLING * math.log2(slope)), _FIRST, _LAST)))
    intercepts: tuple[float, ...] = ()
    if has_intercepts:
        intercepts = _centred(_minimum(rounded.slope * logits, targets, (1.0, 1.0), has_intercepts)[1:])
    loss = log_loss(Calibration(rounded.step, intercepts).scores(logits), labels)
    return Calibration(rounded.step, intercepts, loss) if loss < log_loss(scores, labels) else None


def _centred(intercepts: FloatArray) -> tuple[float, ...]:
    """Take off what all classes have; of two, one is the other's opposite to the last bit, as class rows are."""
    centred = intercepts - intercepts.mean()
    return (-float(centred[1]), float(centred[1])) if len(centred) == 2 else tuple(centred.tolist())


def _minimum(
    logits: FloatArray, targets: FloatArray, slopes: tuple[float, float | None], has_intercepts: bool
) -> FloatArray:
    """Find the slope within its bounds and the intercepts, (1 + classes,), of the least cross-entropy."""
    # Only who calibrates a model needs them, and they take a while to import.
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    records, classes = logits.shape

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        logarithms = log_softmax(parameters[0] * logits + parameters[1:], axis=1)
        rest = np.exp(logarithms) - targets
        gradient = np.concatenate([[np.sum(rest * logits)], rest.sum(axis=0)])
        return -float(np.sum(targets * logarithms)) / records, gradient / records

    bounds = [slopes, *[(None, None) if has_intercepts else (0.0, 0.0)] * classes]
    start = np.concatenate([[1.0], np.zeros(classes)])
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-13, "gtol": 1e-9})
    minimum: FloatArray = result.x
    return minimum
