"""How well confidence scores tell the classes of records whose labels are known."""

import math
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class ScoreQuality:
    """How a model did on records that nobody trained on.

    Attributes:
        test_rows: their number.
        accuracy: share of them that the largest score labels right, in [0, 1].
        auc: area under the ROC curve, in [0, 1]; None where a class has no test record.
    """

    test_rows: int
    accuracy: float = 0.0
    auc: float | None = None

    @classmethod
    def of(cls, scores: FloatArray, labels: IntArray) -> "ScoreQuality | None":
        """Measure confidence scores, (n, classes), of records with these classes; None without records."""
        if not len(labels):
            return None
        auc = area_under_curve(scores, labels)
        return cls(len(labels), accuracy(scores, labels), None if math.isnan(auc) else auc)


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
