"""Completes what an attack believes of labels by few known ones.

Fu et al. (USENIX Security 2022, section 4) complete a party's bottom model to a whole one with some labelled records.
Of a linear model the completion is a regression on the own columns and the own part of the score.
"""

from typing import Any

import numpy as np

from vfl.arrays import FloatArray, IntArray


def completed(features: FloatArray, probabilities: FloatArray, known: IntArray, labels: IntArray) -> FloatArray:
    """Complete an attack's estimate by few known labels: the class probabilities of all records.

    Args:
        features: (n, d), the adversary's own.
        probabilities: (n, k), what the attack believes.
        known: (m,) rows whose labels are known.
        labels: (m,) their classes, of at least two kinds.

    Returns:
        (n, k); 0 for a class that no known label has.
    """
    believed = np.log(np.clip(probabilities, 1e-6, 1.0))
    inputs = np.column_stack([features, believed - believed.mean(axis=1, keepdims=True)])
    classifier = own_classifier().fit(inputs[known], labels)
    found = np.zeros_like(probabilities)
    found[:, classifier.classes_] = classifier.predict_proba(inputs)
    return found


def own_classifier() -> Any:
    """A logistic regression on standardised columns, as a party makes one of known labels."""
    # Slow to import: no command waits for it that ends with a mistake.
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
