"""One party's part of a linear model: a column of weights for each output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray
from vfl.learning.confidence import class_rows
from vfl.learning.networks import product_by_record


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A party's weights, and what they answer.

    Attributes:
        weights: (d, columns); one column for two classes, else one per class.
    """

    weights: FloatArray

    def shares(self, features: FloatArray) -> FloatArray:
        """X W of (n, d) features, (n, columns); a record's to the last bit whatever stands beside it."""
        return product_by_record(features, self.weights)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The weights."""
        return {"weights": self.weights}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "LinearPart":
        """The part that ``arrays`` wrote, or that was kept as a network of one layer; raises ValueError."""
        weights = arrays.get("weights", arrays.get("weights_0"))
        if weights is None or weights.ndim != 2 or weights.dtype.kind != "f":
            raise ValueError("a linear part has one matrix of weights")
        return cls(weights.astype(np.float64))

    @property
    def class_rows(self) -> FloatArray:
        """(k, d) class rows."""
        return class_rows(self.weights)

    def with_class_rows(self, rows: FloatArray) -> "LinearPart":
        """The part of other class rows: in one column where that says the same, as of rows that nothing distorted."""
        if self.weights.shape[1] == 1 and np.array_equal(rows[0], -rows[1]):
            return LinearPart(2 * rows[1][:, None])
        return LinearPart(rows.T)
