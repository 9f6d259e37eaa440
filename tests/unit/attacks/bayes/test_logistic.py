"""Fits are scikit-learn's, whose loss and solver they have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from attacks.bayes.categories import class_probabilities
from vfl.arrays import FloatArray, IntArray


def scikit_learns(known: FloatArray, classes: IntArray, asked: FloatArray, strength: float) -> FloatArray:
    model = LogisticRegression(C=strength, tol=1e-3, max_iter=200).fit(known, classes)
    probabilities: FloatArray = model.predict_proba(asked)
    return probabilities


@given(
    records=st.integers(12, 300),
    columns=st.integers(1, 15),
    classes=st.integers(2, 8),
    strength=st.sampled_from([0.03, 0.3, 3.0]),
    seed=st.integers(0, 10_000),
)
def test_probabilities_are_scikit_learns(records: int, columns: int, classes: int, strength: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    known, asked = draw.random((records, columns)), draw.random((9, columns))
    place = classes * known[:, 0] + draw.normal(0, 0.5, records)
    drawn = np.concatenate([np.arange(2), np.clip(place, 0, classes - 1).astype(np.int64)[2:]])
    labels = np.unique(drawn, return_inverse=True)[1]
    found = class_probabilities(known, labels, asked, strength)
    # The solver stops at a gradient of 1e-3: what rounding makes of its path is far below.
    np.testing.assert_allclose(found, scikit_learns(known, labels, asked, strength), rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_what_columns_tell_nothing_of_is_as_frequent_as_it_was(classes: int) -> None:
    labels = np.repeat(np.arange(classes), 40)
    found = class_probabilities(np.zeros((40 * classes, 2)), labels, np.ones((3, 2)), 0.3)
    np.testing.assert_allclose(found, 1.0 / classes, rtol=0, atol=1e-9)
