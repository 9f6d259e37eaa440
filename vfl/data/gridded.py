"""A party's features as integers on grids of their own columns: what meets ciphertexts, and what leads back from it.

X^T g = D (Z^T g): Z are small integers, the scales D stay with the party. On the wire columns stand by their widths,
binary ones first (`vfl.crypto.widths`); everywhere else they keep the party's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.crypto.widths import ColumnWidths
from vfl.data.encoders import EncoderError, is_signed, magnitude_bits, snap_to_grid
from vfl.data.grids import WIDTHS, Grid, Width, grid_of, width_of

# How far from a whole number of steps a value may be: far more than rounding, far less than a neighbour.
_OFF_THE_GRID = 2.0**-20


@dataclass(frozen=True, eq=False)
class GriddedFeatures:
    """Features whose every column is integers times a scale of its own.

    Attributes:
        values: (n, d) X = D z in the party's order, each product rounded once to float64. Encrypted and plain training
            see these same numbers.
        scales: (d,) D > 0. They never leave the party.
        column_widths: d widths. Those of a session follow from the party's whole table.
    """

    values: FloatArray
    scales: FloatArray
    column_widths: tuple[Width, ...]

    @classmethod
    def of(cls, features: FloatArray, fraction_bits: int = 16) -> GriddedFeatures:
        """Find the grids of (n, d) features that are a whole table, scaled as they are trained on."""
        return put_on_grids(features.copy(), [grid_of(column, from_zero=True) for column in features.T], fraction_bits)

    @cached_property
    def order(self) -> IntArray:
        """(d,) the party's own column numbers in the order of the wire."""
        return np.argsort([WIDTHS.index(width) for width in self.column_widths], kind="stable")

    @property
    def widths(self) -> ColumnWidths:
        """How many columns there are of each width."""
        return ColumnWidths(*(self.column_widths.count(width) for width in WIDTHS))

    @property
    def integer_bits(self) -> int:
        """The integer bits that fixed point must provide for the full columns."""
        full = self._full_columns
        return magnitude_bits(full) if full.size else 0

    @property
    def signed(self) -> bool:
        """Whether any value of the full columns is negative."""
        return is_signed(self._full_columns)

    def integers_of(self, features: FloatArray) -> FloatArray:
        """The integers z behind (s, d) rows of the values, as float64 in the order of the wire.

        They are made for each batch: kept beside the values they would take as much memory again.
        """
        integers: FloatArray = features[:, self.order]
        integers /= self.scales[self.order]
        return np.rint(integers, out=integers)

    def restore(self, sums: FloatArray) -> FloatArray:
        """Make X^T g of Z^T g: (d, columns) in the order of the wire become (d, columns) in the party's order."""
        restored = np.empty_like(sums)
        restored[self.order] = sums * self.scales[self.order, None]
        return restored

    @property
    def _full_columns(self) -> FloatArray:
        return self.values[:, [width == "full" for width in self.column_widths]]


def put_on_grids(features: FloatArray, grids: Sequence[Grid | None], fraction_bits: int) -> GriddedFeatures:
    """Round every column of features to its own grid, or to the session's fixed point where it has none.

    Args:
        features: (n, d) as encoded, overwritten by the values: there may be a million rows.
        grids: of the columns as they are encoded; None is full.
        fraction_bits: of the fixed point.

    Raises:
        EncoderError: when a column leaves the grid that it was said to stand on.
    """
    for at, grid in enumerate(grids):
        column = features[:, at]
        features[:, at] = snap_to_grid(column, fraction_bits) if grid is None else _on_grid(column, grid, at)
    scales = np.array([2.0**-fraction_bits if grid is None else grid.step for grid in grids])
    return GriddedFeatures(features, scales, tuple(width_of(grid) for grid in grids))


def _on_grid(column: FloatArray, grid: Grid, at: int) -> FloatArray:
    places = column / grid.step
    integers = np.rint(places)
    if not ((np.abs(places - integers) <= _OFF_THE_GRID) & (integers >= 0) & (integers <= grid.steps)).all():
        raise EncoderError(
            f"Feature {at + 1} leaves the grid of its whole table: set PLUMBLINE_PAD_WIDTHS=true, which does without "
            "grids."
        )
    on_grid: FloatArray = integers * grid.step
    return on_grid
