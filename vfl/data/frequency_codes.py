"""Codes for the values of a column of many categories, by how often they occur and by nothing else."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OrdinalEncoder

from vfl.arrays import FloatArray
from vfl.data.columns import UNSEEN_CODE


class FrequencyCodes(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer of one column of text: 0 for the rarest value up to k - 1 for the most frequent one.

    Equally frequent values come in the order of their letters. A value unseen when fitting is UNSEEN_CODE; a missing
    one gets the median code. No label is looked at.
    """

    def fit(self, X: Any, y: None = None) -> Self:
        """Count the values of X, (n, 1) text objects with NaN for missing."""
        cells = np.asarray(X, dtype=object)
        present = np.array([cell for cell in cells[:, 0] if isinstance(cell, str)], dtype=object)
        values, counts = np.unique(present.astype(str), return_counts=True)
        order = np.lexsort((values, counts))
        # A column without any value: one that no cell has.
        categories = values[order].astype(object) if len(values) else np.array([""], dtype=object)
        self._codes = OrdinalEncoder(
            categories=[[*categories, np.nan]], handle_unknown="use_encoded_value", unknown_value=UNSEEN_CODE
        )
        self._gaps = SimpleImputer(strategy="median", keep_empty_features=True)
        self._gaps.fit(self._codes.fit_transform(cells))
        return self

    def transform(self, X: Any) -> FloatArray:
        """Make (n, 1) codes of X."""
        cells: NDArray[np.object_] = np.asarray(X, dtype=object)
        codes: FloatArray = self._gaps.transform(self._codes.transform(cells))
        return codes
