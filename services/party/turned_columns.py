"""A party's columns as its learner turns them before they are shared: X R in place of X, by a matrix R of its own.

What is shared, trained and served are weights V of X R. W = R V, of the columns themselves, is its owner's.
"""

import logging
import math
from dataclasses import dataclass, field

import numpy as np

from vfl.arrays import FloatArray
from vfl.data import snap_to_grid
from vfl.learning.networks import product_by_record

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Turn:
    """One party's R. Where the learner turns no columns, all that goes in comes out.

    Attributes:
        matrix: (d, d) R, invertible; None for a learner that turns no columns.
        norm: of the longest record that cells have room for.
        fraction_bits: cells are whole multiples of 2 to minus this.
    """

    matrix: FloatArray | None = field(repr=False, default=None)
    norm: float = math.inf
    fraction_bits: int = 0

    def cells(self, features: FloatArray) -> FloatArray:
        """Turn records, (n, d), and put them on the fixed point: a record's are the same whatever stands beside it.

        One that is longer than any trained record can be is cut to the range's end.
        """
        if self.matrix is None:
            return features
        turned = product_by_record(features, self.matrix)
        lengths = np.sqrt((turned**2).sum(axis=1, keepdims=True))
        longer = lengths > self.norm
        if longer.any():
            _log.warning(
                "%d of %d records are longer than any that is trained on may be: on shares they are scored as if they "
                "were as long.",
                longer.sum(),
                len(features),
            )
            turned = np.where(longer, turned * (self.norm / np.maximum(lengths, self.norm)), turned)
        return snap_to_grid(turned, self.fraction_bits)

    def weights_of_cells(self, weights: FloatArray) -> FloatArray:
        """Make V of W, both (d, k)."""
        if self.matrix is None:
            return weights
        return np.linalg.solve(self.matrix, weights).astype(np.float64)

    def weights(self, of_cells: FloatArray) -> FloatArray:
        """Make W of V, both (d, k)."""
        return of_cells if self.matrix is None else self.matrix @ of_cells

    def sums(self, of_cells: FloatArray) -> FloatArray:
        """Make X^T f of (X R)^T f, both (d, k)."""
        if self.matrix is None:
            return of_cells
        return np.linalg.solve(self.matrix.T, of_cells).astype(np.float64)
