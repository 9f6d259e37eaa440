"""What Varasteh's data sets are like: columns, moments, covariance; measured on the scaled columns of all parties."""

from typing import Any

import numpy as np

from studies.simulation.linear_models import TrainedModel
from studies.simulation.scaled_tables import ScaledTable


def moments_of(table: ScaledTable) -> dict[str, Any]:
    """Count records, columns and classes, and take every column's mean and variance (Varasteh Table I, Figure 2).

    ``half`` is the error of 1/2 for every cell: the mean over columns of variance + (mean - 1/2)^2.
    """
    means, variances = table.features.mean(axis=0), table.features.var(axis=0)
    return {
        "records": len(table.features),
        "columns": table.features.shape[1],
        "classes": len(table.class_names),
        "names": list(table.feature_names),
        "means": means.tolist(),
        "variances": variances.tolist(),
        "mean_of_means": float(means.mean()),
        "half": float((variances + (means - 0.5) ** 2).mean()),
    }


def covariance_of(table: ScaledTable) -> dict[str, Any]:
    """Take the covariance of all columns (Varasteh Figure 6), and how much of it is off the diagonal.

    ``off_diagonal`` is the share of the squared entries; ``correlation`` the mean magnitude of the correlations of
    different columns, those that vary.
    """
    covariance = np.atleast_2d(np.cov(table.features, rowvar=False))
    squares = covariance**2
    varying = np.diag(covariance) > 0
    spread = np.sqrt(np.diag(covariance)[varying])
    correlations = np.abs(covariance[np.ix_(varying, varying)] / np.outer(spread, spread))
    apart = ~np.eye(len(spread), dtype=np.bool_)
    return {
        "names": list(table.feature_names),
        "covariance": covariance.tolist(),
        "off_diagonal": float(1 - np.trace(squares) / squares.sum()),
        "correlation": float(correlations[apart].mean()),
    }


def accuracy_of(model: TrainedModel) -> dict[str, Any]:
    """Measure the model's accuracy on held-out records, and that of always saying the most frequent class."""
    return {
        "accuracy": float((model.scores.argmax(axis=1) == model.labels).mean()),
        "majority": float(np.bincount(model.labels_train).max() / len(model.labels_train)),
    }
