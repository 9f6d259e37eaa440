"""Predicts unknown columns from known ones by ridge regressions that a few complete records fit, mixed by how they do.

Each regression has one way of seeing the known columns (as they are, through Gaussian kernels of two widths, each with
labels and without) and one penalty. They are weighed, for each column to predict, by the errors that they make on
records left out: leave-one-out errors of ridge regressions have a closed form. An infinite penalty, which predicts the
records' mean, is among them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from vfl.arrays import FloatArray

# Kernel widths, in squared distances of a median pair of records.
_WIDTHS = (1.0, 16.0)
# What all labels together weigh beside all columns, where they are seen.
_LABEL_WEIGHT = 0.1
# In units of the mean eigenvalue of what is seen.
_PENALTIES = (*(10.0 ** np.arange(-5, 3.1, 0.5)), np.inf)
# A kernel is spanned by so many records at most: time grows with their cube.
_LANDMARKS = 500
# A column's own errors decide on its regressions together with so many times the mean over all columns.
_SHARED = 3.0
# A weight that isn't worth its residuals.
_NOTHING = 1e-9

# Maps (n, columns) to (n, what is seen).
_Sight: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Predicted:
    """What the records tell of the columns to predict.

    Attributes:
        values: (n, c), predictions for the asked records.
        residuals: (t, c), errors for the known records, each predicted from the others.
    """

    values: FloatArray
    residuals: FloatArray


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Ridge regressions of one sight, for any penalty, in the basis of its covariance.

    Attributes:
        seen: (t, f), known records, centred, in that basis.
        asked: (n, f), the others, alike.
        eigenvalues: (f,).
        targets: (t, c), centred.
        products: (f, c), the mean over records of what is seen times the target.
    """

    seen: FloatArray
    asked: FloatArray
    eigenvalues: FloatArray
    targets: FloatArray
    products: FloatArray

    def residuals(self, penalty: float) -> FloatArray:
        """Leave-one-out errors, (t, c): r / (1 - leverage)."""
        t, shrunk = len(self.seen), 1.0 / (self.eigenvalues + penalty * self.eigenvalues.mean())
        leverage = (self.seen**2 @ shrunk + 1.0) / t
        fitted = self.seen @ (shrunk[:, None] * self.products)
        errors: FloatArray = (self.targets - fitted) / np.maximum(1.0 - leverage, 1e-9)[:, None]
        return errors

    def mixture(self, weights: FloatArray) -> FloatArray:
        """Predictions less the targets' mean, (n, c), summed over penalties with weights (penalties, c)."""
        penalties = np.array(_PENALTIES)[:, None] * self.eigenvalues.mean()
        shrunk = (1.0 / (self.eigenvalues + penalties)).T @ weights
        predictions: FloatArray = self.asked @ (shrunk * self.products)
        return predictions


def predict(
    known: FloatArray, targets: FloatArray, asked: FloatArray, labels: tuple[FloatArray, FloatArray] | None = None
) -> Predicted:
    """Predict the targets of the asked records.

    Args:
        known: (t, p), the columns that both sides have, of the known records; t at least 1.
        targets: (t, c), what is to be predicted.
        asked: (n, p).
        labels: one-hot, (t, k) of the known and (n, k) of the asked records; None where unknown.
    """
    mean = targets.mean(axis=0)
    if not known.shape[1]:
        known, asked = np.zeros((len(known), 1)), np.zeros((len(asked), 1))
    if len(known) == 1:
        return Predicted(np.tile(mean, (len(asked), 1)), np.zeros_like(targets))
    ridges = [_ridge(sight, known, targets - mean, asked, label) for sight, label in _sights(known, labels)]
    regressions = [(ridge, penalty) for ridge in ridges for penalty in _PENALTIES]
    errors = [(ridge.residuals(penalty) ** 2).sum(axis=0) for ridge, penalty in regressions]
    weights = _weights(np.array(errors), len(known))
    values, residuals = np.tile(mean, (len(asked), 1)), np.zeros_like(targets)
    for ridge, part in zip(ridges, weights.reshape(len(ridges), len(_PENALTIES), -1), strict=True):
        values += ridge.mixture(part)
    # Made anew: all at once they would take memory for a hundred times the records.
    for (ridge, penalty), weight in zip(regressions, weights, strict=True):
        if weight.max() > _NOTHING:
            residuals += weight * ridge.residuals(penalty)
    return Predicted(values, residuals)


def _weights(errors: FloatArray, t: int) -> FloatArray:
    """Weigh regressions by their squared errors (regressions, c), each column's sum to 1: as likely as they make t."""
    relative = errors / np.maximum(errors[-1], 1e-300)  # the last is a mean, whatever the sight
    relative[:, errors[-1] <= 1e-24 * t] = 1.0
    criterion = relative + _SHARED * relative.mean(axis=1, keepdims=True)
    criterion = np.maximum(criterion, 1e-12)
    likelihoods = (criterion / criterion.min(axis=0)) ** (-t / 2)
    weights: FloatArray = likelihoods / likelihoods.sum(axis=0)
    return weights


def _ridge(
    sight: _Sight,
    known: FloatArray,
    targets: FloatArray,
    asked: FloatArray,
    labels: tuple[FloatArray, FloatArray] | None,
) -> _Ridge:
    seen, looked_at = _centred(sight(known), sight(asked))
    if labels is not None:
        one_hot, others = _centred(*labels)
        seen, looked_at = (
            np.hstack([seen, _LABEL_WEIGHT**0.5 * one_hot]),
            np.hstack([looked_at, _LABEL_WEIGHT**0.5 * others]),
        )
    eigenvalues, basis = np.linalg.eigh(seen.T @ seen / len(seen))
    # Where all is constant, an eigenvalue that nothing has keeps penalties apart from 0.
    eigenvalues = np.maximum(eigenvalues, 0.0) + (0.0 if eigenvalues.max(initial=0.0) > 1e-24 else 1.0)
    seen = seen @ basis
    return _Ridge(seen, looked_at @ basis, eigenvalues, targets, seen.T @ targets / len(seen))


def _centred(known: FloatArray, asked: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both less the known records' mean, and scaled so that these have a total variance of 1 where they vary."""
    mean = known.mean(axis=0)
    scale = np.sqrt(((known - mean) ** 2).sum() / len(known))
    scale = scale if scale > 1e-12 else 1.0
    return (known - mean) / scale, (asked - mean) / scale


def _sights(
    known: FloatArray, labels: tuple[FloatArray, FloatArray] | None
) -> list[tuple[_Sight, tuple[FloatArray, FloatArray] | None]]:
    """The ways of seeing the known columns, without labels and with them."""
    sights: list[_Sight] = [_as_they_are]
    landmarks = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), _LANDMARKS)).astype(np.int64))]
    distances = cdist(landmarks, landmarks, "sqeuclidean")
    if distances.any():
        median = float(np.median(distances[distances > 0]))
        sights += [_through_kernel(landmarks, distances, width * median) for width in _WIDTHS]
    return [(sight, label) for sight in sights for label in ((None, labels) if labels is not None else (None,))]


def _as_they_are(columns: FloatArray) -> FloatArray:
    return columns


def _through_kernel(landmarks: FloatArray, distances: FloatArray, width: float) -> _Sight:
    """Columns whose inner products are the kernel exp(-|x - y|^2 / width), as far as landmarks span it (Nystroem)."""
    eigenvalues, vectors = np.linalg.eigh(np.exp(-distances / width))
    kept = eigenvalues > 1e-12 * eigenvalues.max()
    projection = vectors[:, kept] / np.sqrt(eigenvalues[kept])
    return lambda columns: np.exp(-cdist(columns, landmarks, "sqeuclidean") / width) @ projection
