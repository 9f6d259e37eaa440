"""What complete records tell of a record's passive columns, from its own columns and, where known, its label."""

from importlib import import_module

import numpy as np

from attacks.bayes.categories import classify, seen_categories, told_categories
from attacks.bayes.prior import UNIFORM_VARIANCE, Belief, GaussianPrior, check_moments
from attacks.bayes.regression import predict
from attacks.views import AuxiliaryRows, PredictionView, ViewError
from vfl.arrays import FloatArray, IntArray


def from_records(view: PredictionView, records: int | None = None) -> Belief:
    """Believe what the view's auxiliary records tell: a mean for each record, and what it missed by elsewhere.

    Numbers are predicted by ridge regressions; columns that take few values, one-hot groups among them, by a classifier
    as well. The covariance is that of the errors on records left out, shrunk (Ledoit and Wolf 2004) towards its
    diagonal. It never says that t records make sure of a column: 1/t^2 of a uniform variance is added.

    Args:
        view: with auxiliary records.
        records: how many of them, the first ones; None for all.

    Raises:
        ViewError: without auxiliary records, or where they don't fit the view.
    """
    known = _records(view, records)
    if view.moments is not None:
        check_moments(view.moments, view.d)
    categories = seen_categories(known.features_passive, told_categories(view.moments))
    one_hot = _one_hot(known.labels, view.record_labels)
    targets = [known.features_passive, *(category.indicators(known.features_passive) for category in categories)]
    predicted = predict(known.features_active, np.hstack(targets), view.features_active, one_hot)
    values, residuals = predicted.values[:, : view.d].copy(), predicted.residuals[:, : view.d].copy()
    own = (known.features_active, view.features_active)
    if one_hot is not None:
        own = (np.hstack([own[0], one_hot[0]]), np.hstack([own[1], one_hot[1]]))
    found, at = [], view.d
    for category, indicators in zip(categories, targets[1:], strict=True):
        part = slice(at, at := at + indicators.shape[1])
        regressed = (indicators - predicted.residuals[:, part], predicted.values[:, part])
        category, left_out = classify(category, known.features_passive, own, regressed)
        values[:, category.columns] = category.mean
        residuals[:, category.columns] = known.features_passive[:, category.columns] - left_out @ category.values
        found.append(category)
    return Belief(GaussianPrior(np.clip(values, 0.0, 1.0), _covariance(residuals)), tuple(found))


def _covariance(residuals: FloatArray) -> FloatArray:
    """The covariance of errors (t, d) on records left out: (d, d)."""
    t, d = residuals.shape
    unsure: FloatArray = UNIFORM_VARIANCE * np.eye(d) / t**2
    if t == 1:
        return unsure
    share = float(import_module("sklearn.covariance").ledoit_wolf_shrinkage(residuals, assume_centered=True))
    covariance: FloatArray = residuals.T @ residuals / t
    shrunk: FloatArray = (1 - share) * covariance + share * np.diag(np.diag(covariance)) + unsure
    return shrunk


def _records(view: PredictionView, records: int | None) -> AuxiliaryRows:
    """The first of the view's auxiliary records, once they fit it."""
    known = view.auxiliary
    if known is None or not len(known.features_active):
        raise ViewError("What records tell needs auxiliary records, and this view has none: give complete ones.")
    first = slice(records)
    own, passive = known.features_active[first], known.features_passive[first]
    shapes = (own.shape[1:], passive.shape[1:], len(passive))
    if shapes != (view.features_active.shape[1:], (view.d,), len(own)):
        raise ViewError(
            f"The auxiliary records have {own.shape[-1]} active and {passive.shape[-1]} passive columns; the attacked "
            f"records have {view.features_active.shape[1]} and {view.d}: give records of the same tables."
        )
    labels = known.labels
    if labels is not None and labels.shape != (len(known.features_active),):
        raise ViewError("Each auxiliary record has one label or none has: give as many labels as records.")
    return AuxiliaryRows(own, passive, known.scores[first], None if labels is None else labels[first])


def _one_hot(known: IntArray | None, asked: IntArray | None) -> tuple[FloatArray, FloatArray] | None:
    """Labels of known and of asked records, one-hot; None where either isn't known."""
    if known is None or asked is None:
        return None
    classes = np.unique(known)
    # A label that no record has tells nothing of them: an average label.
    others = (asked[:, None] == classes).astype(np.float64)
    ours = (known[:, None] == classes).astype(np.float64)
    others[~others.any(axis=1)] = ours.mean(axis=0)
    return ours, others
