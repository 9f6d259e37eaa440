"""How well confidence scores tell the classes of records whose labels are known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray

# Of fewer records of a class, an area under the curve has no third digit.
FEW_POSITIVES = 10
# Of a normal distribution, between minus and plus this: 95 %.
_QUANTILE = 1.96


@dataclass(frozen=True)
class ScoreQuality:
    """How a model did on records that nobody trained on.

    Attributes:
        test_rows: their number.
        accuracy: share of them that the largest score labels right, in [0, 1].
        auc: area under the ROC curve, in [0, 1]; None where a class has no test record.
        by_class: test records of each class; empty where that isn't known.
    """

    test_rows: int
    accuracy: float = 0.0
    auc: float | None = None
    by_class: tuple[int, ...] = ()

    @classmethod
    def of(cls, scores: FloatArray, labels: IntArray) -> "ScoreQuality | None":
        """Measure confidence scores, (n, classes), of records with these classes; None without records."""
        if not len(labels):
            return None
        auc = area_under_curve(scores, labels)
        by_class = np.bincount(labels, minlength=scores.shape[1])
        return cls(len(labels), accuracy(scores, labels), None if math.isnan(auc) else auc, tuple(map(int, by_class)))

    @property
    def area_words(self) -> str:
        """The area under the ROC curve, with its interval and the records that carry it."""
        return area_words(self.auc, self.by_class)


def accuracy(scores: FloatArray, labels: IntArray) -> float:
    """Share of records whose largest score is their class, in [0, 1]; NaN without records.

    Args:
        scores: (n, classes) in [0, 1], one row per record.
        labels: (n,) class indices.
    """
    return float(np.mean(scores.argmax(axis=1) == labels)) if len(labels) else math.nan


def area_under_curve(scores: FloatArray, labels: IntArray) -> float:
    """Compute the area under the ROC curve, in [0, 1]; one class against the rest, averaged, for more than two.

    Args:
        scores: (n, classes) in [0, 1], one row per record.
        labels: (n,) class indices.

    Returns:
        NaN where a class has no record.
    """
    # Only who scores a model needs it, and it takes a second to import.
    from sklearn.metrics import roc_auc_score

    classes = scores.shape[1] if scores.ndim == 2 else 0
    if len(np.unique(labels)) < max(2, classes):
        return math.nan
    if classes == 2:
        return float(roc_auc_score(labels, scores[:, 1]))
    # Defended rows need not sum to 1, or to anything.
    total = scores.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, scores / np.where(total > 0, total, 1.0), 1 / classes)
    return float(roc_auc_score(labels, shares, multi_class="ovr"))


def area_interval(area: float, fewest: int) -> tuple[float, float]:
    """Bound an area under the ROC curve at 95 %: Wilson's interval (1927), of as many trials as the rarest class has.

    However scores are distributed, the variance is at most area (1 - area) / fewest (Birnbaum and Klose 1957), which is
    that of a share of so many: nothing is surer than the few records that carry it.

    Args:
        area: in [0, 1].
        fewest: records of the class that has fewest, at least 1.

    Examples:
        >>> [round(end, 2) for end in area_interval(0.9, 100)], [round(end, 2) for end in area_interval(0.0, 1)]
        ([0.83, 0.94], [0.0, 0.79])
    """
    weight = _QUANTILE**2 / fewest
    middle = (area + weight / 2) / (1 + weight)
    half = _QUANTILE * math.sqrt(area * (1 - area) / fewest + weight / fewest / 4) / (1 + weight)
    return max(0.0, middle - half), min(1.0, middle + half)


def area_figure(area: float | None, by_class: Sequence[int]) -> str:
    """Write an area under the ROC curve alone, with the digits that the rarest class carries; as ``area_words``.

    Examples:
        >>> area_figure(0.91234, (300, 100)), area_figure(0.91234, (300, 9)), area_figure(None, (300, 0))
        ('0.912', '0.91', 'not measured')
    """
    if area is None or not 0 <= area <= 1:
        return "not measured"
    return f"{area:.{2 if min(by_class, default=0) < FEW_POSITIVES else 3}f}"


def area_words(area: float | None, by_class: Sequence[int]) -> str:
    """Say an area under the ROC curve with what carries it: its interval, and the records of the rarest class.

    Args:
        area: in [0, 1]; None and NaN where a class has no record.
        by_class: records of each class, of two the second is the positive one; empty where nobody counted.

    Examples:
        >>> area_words(0.91234, (300, 100)), area_words(0.005, (399, 1))
        ('0.912 (95 %: 0.84 to 0.95), 100 positive records', '0.01 (95 %: 0.00 to 0.80), 1 positive record')
    """
    figure, fewest = area_figure(area, by_class), min(by_class, default=0)
    if area is None or not 0 <= area <= 1 or (by_class and not fewest):
        return "not measured: a class has no test record"
    if not by_class:
        return f"{figure}, of how many positive records wasn't kept"
    low, high = area_interval(area, fewest)
    positives = by_class[1] if len(by_class) == 2 else fewest
    noun = "record" if positives == 1 else "records"
    whose = f"{positives:,} positive {noun}" if len(by_class) == 2 else f"{positives:,} {noun} of the rarest class"
    return f"{figure} (95 %: {low:.2f} to {high:.2f}), {whose}"
