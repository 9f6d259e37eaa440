"""What complete records tell of a record's passive columns, from its own columns and, where known, its label.

Ridge regressions that the records fit predict numbers, mixed by how they do. Each regression has one way of seeing the
known columns (as they are, through Gaussian kernels of two widths, each with labels and without) and one penalty. They
are weighed, for each column to predict, by the errors that they make on records left out: leave-one-out errors of ridge
regressions have a closed form. An infinite penalty, which predicts the records' mean, is among them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import ClassVar, TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from attacks.base import AttackSpec, require
from attacks.bayes.categories import CategoryPrior, classify, published_categories, seen_categories
from attacks.bayes.prior import UNIFORM_VARIANCE, Belief, GaussianPrior, check_moments
from attacks.bayes.rehearsal import HeldOutRecords
from attacks.views import AuxiliaryRows, PassiveMoments, PredictionView, ViewError
from vfl.arrays import FloatArray, IntArray


def from_records(view: PredictionView, records: int | None = None) -> Belief:
    """Believe what the view's auxiliary records tell: a mean for each record, and what it missed by elsewhere.

    Numbers are predicted by ridge regressions; columns that take few values, one-hot groups among them, by a classifier
    as well. The covariance is that of the errors on records left out, shrunk (Ledoit and Wolf 2004) towards its
    diagonal, and towards the covariance of all records where that is published. It never says that t records make sure
    of a column: 1/t^2 of a uniform variance is added.

    Args:
        view: with auxiliary records.
        records: how many of them, the first ones; None for all.

    Raises:
        ViewError: without auxiliary records, or where they don't fit the view.
    """
    return learned(view, records)[0]


def learned(view: PredictionView, records: int | None = None) -> tuple[Belief, tuple[HeldOutRecords, ...]]:
    """Believe as ``from_records`` does; and what some of the records would have been believed from the others."""
    auxiliary = checked_records(view, records)
    if view.moments is not None:
        check_moments(view.moments, view.d)
    categories = seen_categories(auxiliary.features_passive, published_categories(view.moments))
    one_hot = one_hot_labels(auxiliary.labels, view.record_labels)
    targets = [
        auxiliary.features_passive,
        *(category.indicators(auxiliary.features_passive) for category in categories),
    ]
    predicted = predict(auxiliary.features_active, np.hstack(targets), view.features_active, one_hot)
    values, residuals = predicted.values[:, : view.d].copy(), predicted.residuals[:, : view.d].copy()
    features = (auxiliary.features_active, view.features_active)
    if one_hot is not None:
        features = (np.hstack([features[0], one_hot[0]]), np.hstack([features[1], one_hot[1]]))
    fitted, foretold, start = [], [], view.d
    for category, indicators in zip(categories, targets[1:], strict=True):
        part = slice(start, start := start + indicators.shape[1])
        regressed = (indicators - predicted.residuals[:, part], predicted.values[:, part])
        category, left_out = classify(category, auxiliary.features_passive, features, regressed)
        values[:, category.columns] = category.mean
        residuals[:, category.columns] = auxiliary.features_passive[:, category.columns] - left_out @ category.values
        fitted.append(category)
        foretold.append(replace(category, frequencies=left_out))
    belief = Belief(GaussianPrior(np.clip(values, 0.0, 1.0), _covariance(residuals, view.moments)), tuple(fitted))
    return belief, tuple(_left_out(auxiliary.features_passive, residuals, foretold, view.moments))


def _left_out(
    passive: FloatArray, residuals: FloatArray, foretold: Sequence[CategoryPrior], moments: PassiveMoments | None
) -> Iterator[HeldOutRecords]:
    """Leave out the first of (t, d) records, a fold at a time; nothing where there are too few."""
    t = len(passive)
    folds = np.arange(t) % _FOLDS
    for fold in range(_FOLDS if t >= _LEAST_FORETOLD else 0):
        rows = np.flatnonzero(folds[:_MOST_FORETOLD] == fold)
        # Each record's guess is from all others; a covariance would know the record by its own error.
        gaussian = GaussianPrior(
            np.clip(passive[rows] - residuals[rows], 0.0, 1.0), _covariance(residuals[folds != fold], moments)
        )
        categories = tuple(category.restricted_to(rows) for category in foretold)
        yield HeldOutRecords(rows, Belief(gaussian, categories), passive[rows])


# So few complete records say nothing of how much others may be trusted; beyond so many there is little to add.
_LEAST_FORETOLD, _MOST_FORETOLD, _FOLDS = 20, 200, 5
# What is published of all records' covariance counts as so many records: few don't show how far the rare ones lie off.
_PUBLISHED = 100.0


def _covariance(residuals: FloatArray, moments: PassiveMoments | None) -> FloatArray:
    """Estimate the covariance of errors (t, d) on records left out, and of what is published of all: (d, d)."""
    estimate, published = _of_errors(residuals), None if moments is None else moments.covariance
    if published is None:
        return estimate
    widths = np.diag(published)
    varied = widths > 0
    # Records explain a part of all columns' spread: what is published keeps its shape, and takes the errors' size.
    unexplained = min(1.0, float((np.diag(estimate)[varied] / widths[varied]).mean())) if varied.any() else 0.0
    weight = len(residuals) / (len(residuals) + _PUBLISHED)
    return weight * estimate + (1 - weight) * unexplained * published


def _of_errors(residuals: FloatArray) -> FloatArray:
    t, d = residuals.shape
    unsure: FloatArray = UNIFORM_VARIANCE * np.eye(d) / t**2
    if t == 1:
        return unsure
    share = float(import_module("sklearn.covariance").ledoit_wolf_shrinkage(residuals, assume_centered=True))
    covariance: FloatArray = residuals.T @ residuals / t
    return (1 - share) * covariance + share * np.diag(np.diag(covariance)) + unsure


def checked_records(view: PredictionView, records: int | None) -> AuxiliaryRows:
    """Take the first of the view's auxiliary records; raises ViewError where there are none, or they don't fit it."""
    auxiliary = view.auxiliary
    if auxiliary is None or not len(auxiliary.features_active):
        raise ViewError("What records tell needs auxiliary records, and this view has none: give complete ones.")
    first = slice(records)
    active, passive = auxiliary.features_active[first], auxiliary.features_passive[first]
    shapes = (active.shape[1:], passive.shape[1:], len(passive))
    if shapes != (view.features_active.shape[1:], (view.d,), len(active)):
        raise ViewError(
            f"The auxiliary records have {active.shape[-1]} active and {passive.shape[-1]} passive columns; the "
            f"attacked records have {view.features_active.shape[1]} and {view.d}: give records of the same tables."
        )
    labels = auxiliary.labels
    if labels is not None and labels.shape != (len(auxiliary.features_active),):
        raise ViewError("Each auxiliary record has one label or none has: give as many labels as records.")
    return AuxiliaryRows(active, passive, auxiliary.scores[first], None if labels is None else labels[first])


def one_hot_labels(labels: IntArray | None, attacked: IntArray | None) -> tuple[FloatArray, FloatArray] | None:
    """Encode labels of known and of asked records, one-hot; None where either isn't known."""
    if labels is None or attacked is None:
        return None
    classes = np.unique(labels)
    # A label that no record has tells nothing of them: an average label.
    theirs = (attacked[:, None] == classes).astype(np.float64)
    ours = (labels[:, None] == classes).astype(np.float64)
    theirs[~theirs.any(axis=1)] = ours.mean(axis=0)
    return ours, theirs


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
        design: (t, f), known records, centred, in that basis.
        attacked: (n, f), the others, alike.
        eigenvalues: (f,).
        targets: (t, c), centred.
        products: (f, c), the mean over records of what is seen times the target.
    """

    design: FloatArray
    attacked: FloatArray
    eigenvalues: FloatArray
    targets: FloatArray
    products: FloatArray

    def residuals(self, penalty: float) -> FloatArray:
        """Leave-one-out errors, (t, c): r / (1 - leverage)."""
        t, shrunk = len(self.design), 1.0 / (self.eigenvalues + penalty * self.eigenvalues.mean())
        leverage = (self.design**2 @ shrunk + 1.0) / t
        fitted = self.design @ (shrunk[:, None] * self.products)
        errors: FloatArray = (self.targets - fitted) / np.maximum(1.0 - leverage, 1e-9)[:, None]
        return errors

    def mixture(self, weights: FloatArray) -> FloatArray:
        """Predictions less the targets' mean, (n, c), summed over penalties with weights (penalties, c)."""
        penalties = np.array(_PENALTIES)[:, None] * self.eigenvalues.mean()
        shrunk = (1.0 / (self.eigenvalues + penalties)).T @ weights
        predictions: FloatArray = self.attacked @ (shrunk * self.products)
        return predictions


def predict(
    inputs: FloatArray, targets: FloatArray, queries: FloatArray, labels: tuple[FloatArray, FloatArray] | None = None
) -> Predicted:
    """Predict the targets of the asked records.

    Args:
        inputs: (t, p), the columns that both sides have, of the known records; t at least 1.
        targets: (t, c), what is to be predicted.
        queries: (n, p), the same columns of the asked ones.
        labels: one-hot, (t, k) of the known and (n, k) of the asked records; None where unknown.
    """
    mean = targets.mean(axis=0)
    if not inputs.shape[1]:
        inputs, queries = np.zeros((len(inputs), 1)), np.zeros((len(queries), 1))
    if len(inputs) == 1:
        return Predicted(np.tile(mean, (len(queries), 1)), np.zeros_like(targets))
    ridges = [_ridge(sight, inputs, targets - mean, queries, label) for sight, label in _sights(inputs, labels)]
    regressions = [(ridge, penalty) for ridge in ridges for penalty in _PENALTIES]
    errors = [(ridge.residuals(penalty) ** 2).sum(axis=0) for ridge, penalty in regressions]
    weights = _weights(np.array(errors), len(inputs))
    values, residuals = np.tile(mean, (len(queries), 1)), np.zeros_like(targets)
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
    inputs: FloatArray,
    targets: FloatArray,
    queries: FloatArray,
    labels: tuple[FloatArray, FloatArray] | None,
) -> _Ridge:
    design, looked_at = _centred(sight(inputs), sight(queries))
    if labels is not None:
        one_hot, attacked = _centred(*labels)
        design, looked_at = (
            np.hstack([design, _LABEL_WEIGHT**0.5 * one_hot]),
            np.hstack([looked_at, _LABEL_WEIGHT**0.5 * attacked]),
        )
    eigenvalues, basis = np.linalg.eigh(design.T @ design / len(design))
    # Where all is constant, an eigenvalue that nothing has keeps penalties apart from 0.
    eigenvalues = np.maximum(eigenvalues, 0.0) + (0.0 if eigenvalues.max(initial=0.0) > 1e-24 else 1.0)
    design = design @ basis
    return _Ridge(design, looked_at @ basis, eigenvalues, targets, design.T @ targets / len(design))


def _centred(inputs: FloatArray, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Subtract the known records' mean from both, and scale these to a total variance of 1 where they vary."""
    mean = inputs.mean(axis=0)
    scale = np.sqrt(((inputs - mean) ** 2).sum() / len(inputs))
    scale = scale if scale > 1e-12 else 1.0
    return (inputs - mean) / scale, (queries - mean) / scale


def _sights(
    inputs: FloatArray, labels: tuple[FloatArray, FloatArray] | None
) -> list[tuple[_Sight, tuple[FloatArray, FloatArray] | None]]:
    """List the ways of seeing the known columns, without labels and with them."""
    sights: list[_Sight] = [lambda columns: columns]
    landmarks = inputs[np.unique(np.linspace(0, len(inputs) - 1, min(len(inputs), _LANDMARKS)).astype(np.int64))]
    distances = cdist(landmarks, landmarks, "sqeuclidean")
    if distances.any():
        median = float(np.median(distances[distances > 0]))
        sights += [_through_kernel(landmarks, distances, width * median) for width in _WIDTHS]
    return [(sight, label) for sight in sights for label in ((None, labels) if labels is not None else (None,))]


def _through_kernel(landmarks: FloatArray, distances: FloatArray, width: float) -> _Sight:
    """Columns whose inner products are the kernel exp(-|x - y|^2 / width), as far as landmarks span it (Nystroem)."""
    eigenvalues, vectors = np.linalg.eigh(np.exp(-distances / width))
    spanned = eigenvalues > 1e-12 * eigenvalues.max()
    projection = vectors[:, spanned] / np.sqrt(eigenvalues[spanned])
    return lambda columns: np.exp(-cdist(columns, landmarks, "sqeuclidean") / width) @ projection


def check_records(attack: str, records: int | None) -> None:
    """Raise ValueError unless an option ``records`` is a positive number, or None for all."""
    if records is not None and records < 1:
        raise ValueError(f"{attack} can't learn from records={records}: take 1 or more, or none for all there are.")


@dataclass(frozen=True)
class Imputation:
    """Estimates what complete records predict for a record's own columns and, where known, its label. Sees no score.

    Numbers come from ridge regressions, mixed by their errors on records left out, and columns that take few values
    from a classifier as well: their estimate is the posterior mean, which for a one-hot column is its probability.
    Which columns take few values the view's moments tell, or else the records show. Labels serve where the records
    and the attacked ones have them.

    Attributes:
        records: learns from the first so many auxiliary records; None for all.

    Raises:
        ValueError: for records below 1.
    """

    name: ClassVar[str] = "imputation"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        needs=("auxiliary",),
        source="this project; Hoerl and Kennard 1970 with the leave-one-out errors of Allen 1974",
        summary="what complete records predict for a record, without any score: a baseline",
        cost="a second per 100 complete records",
        level="records",
        sees_scores=False,
        seconds=lambda _: 1.0,
    )

    records: int | None = None

    def __post_init__(self) -> None:
        check_records(self.name, self.records)

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without auxiliary records, or where they don't fit the view.
        """
        require(self, view)
        return from_records(view, self.records).gaussian.mean
