"""Grids: the coarsest step that a column's values are multiples of, and how many such steps the column spans.

A column of small integers, whatever its unit, takes few binary digits in an encrypted product: x = D z with integers z.
A column that stands on no short grid is rounded to the session's fixed point instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.crypto.widths import BINARY, BYTE, ColumnWidths
from vfl.data.encoders import EncoderError, is_signed, magnitude_bits, snap_to_grid

Width = Literal["binary", "byte", "full"]
WIDTHS: tuple[Width, ...] = get_args(Width)

# A grid of at most 255 steps has no more values than this.
_MOST_VALUES = BYTE.bound + 1
# Rows whose distinct values are looked for at once: a million rows never stand in memory twice.
_CHUNK = 1 << 16
# Of a column's span. Float64 decimals miss their multiples by some 2^-52 of it, and every fixed point of a session
# rounds more coarsely than this; that a random real hits one of 255 grids so well has a chance below 2^-31.
_TOLERANCE = 2.0**-40
_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Grid:
    """A column's values are whole steps from its origin, and none lies further away than ``steps``.

    Attributes:
        step: between neighbours, in the unit of the values; > 0.
        steps: from 0, where every value is the same, to 255.

    Examples:
        >>> Grid(step=0.5, steps=4).width
        'byte'
    """

    step: float = 1.0
    steps: int = 0

    @property
    def width(self) -> Width:
        """How many digits the column's integers take."""
        return "binary" if self.steps <= BINARY.bound else "byte"

    def halved(self) -> Grid | None:
        """Add the middle between any two values to the grid: the median of some of them may be one."""
        if self.steps == 0:
            return self
        return Grid(self.step / 2, 2 * self.steps) if 2 * self.steps <= BYTE.bound else None

    def scaled(self, span: float) -> Grid:
        """Divide the grid by a span of it, as min-max scaling does values: 0 to 1 in whole steps.

        A span of 0 is that of rows that have the same value: it is encoded as 0 throughout.
        """
        return replace(self, step=1.0 / max(1.0, float(np.rint(span / self.step))))


UNIT_GRID = Grid(steps=1)


def width_of(grid: Grid | None) -> Width:
    """Tell the width of a column on this grid; a column without one is full.

    Examples:
        >>> width_of(Grid(steps=1)), width_of(Grid(steps=4)), width_of(None)
        ('binary', 'byte', 'full')
    """
    return "full" if grid is None else grid.width


def grid_of(values: FloatArray, *, from_zero: bool = False) -> Grid | None:
    """Find the coarsest grid of at most 255 steps that (n,) values stand on; None where there is none.

    It looks at which values there are and at nothing else: neither their order nor how often each occurs matters. The
    span divided by the number of steps is the step, so trying 1 to 255 of them finds the coarsest; a common divisor
    by Euclid would add up the values' rounding errors.

    Counted from the least value, different values take different places: min-max scaling to the range of any rows then
    keeps to the grid. Counted from 0, where values keep their unit, a rounding error is rounded away.

    Args:
        values: finite, or NaN, which is left out.
        from_zero: whether the origin is 0, for values that keep their unit and aren't negative; otherwise it is the
            least value.

    Examples:
        >>> grid_of(np.array([10.0, 30.0, 15.0]))
        Grid(step=5.0, steps=4)
    """
    distinct = _distinct_values(values)
    if distinct is None:
        return None
    origin = 0.0 if from_zero else distinct.min(initial=np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        distances = distinct - origin
    span = float(distances.max(initial=0.0))
    if span == 0.0 and not (distances < 0).any():
        return Grid()
    # Below the smallest normal number a step has no 52 bits.
    if (distances < 0).any() or not _SMALLEST <= span / BYTE.bound < np.inf:
        return None
    steps = np.arange(1, BYTE.bound + 1)
    places = (distances / span)[:, None] * steps
    nearest = np.rint(places)
    fits = (np.abs(places - nearest) <= _TOLERANCE * steps).all(axis=0)
    if not from_zero:
        # .3 and .1 + .2: scaled to the range of nothing but such rows, their difference is no rounding any more.
        fits &= (np.diff(nearest, axis=0) != 0).all(axis=0)
    return Grid(span / int(steps[fits][0]), int(steps[fits][0])) if fits.any() else None


def _distinct_values(values: FloatArray) -> FloatArray | None:
    """List the different values in order, NaN left out; None where there are more than a short grid has."""
    distinct = np.empty(0)
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        distinct = np.unique(np.concatenate([distinct, chunk[~np.isnan(chunk)]]))
        if len(distinct) > _MOST_VALUES:
            return None
    return distinct


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

    Examples:
        >>> gridded = GriddedFeatures.of(np.array([[0.0, 0.3], [1.0, 0.12345]]))
        >>> gridded.column_widths, gridded.widths
        (('binary', 'full'), ColumnWidths(binary=1, byte=0, full=1))
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
        """Find the integers z behind (s, d) rows of the values, as float64 in the order of the wire.

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

    Examples:
        >>> put_on_grids(np.array([[1.0, 0.3]]), [UNIT_GRID, None], fraction_bits=2).values
        array([[1.  , 0.25]])
    """
    for index, grid in enumerate(grids):
        column = features[:, index]
        features[:, index] = snap_to_grid(column, fraction_bits) if grid is None else _on_grid(column, grid, index)
    scales = np.array([2.0**-fraction_bits if grid is None else grid.step for grid in grids])
    return GriddedFeatures(features, scales, tuple(width_of(grid) for grid in grids))


def _on_grid(column: FloatArray, grid: Grid, index: int) -> FloatArray:
    places = column / grid.step
    integers = np.rint(places)
    if not ((np.abs(places - integers) <= _OFF_THE_GRID) & (integers >= 0) & (integers <= grid.steps)).all():
        raise EncoderError(
            f"Feature {index + 1} leaves the grid of its whole table: set PLUMBLINE_PAD_WIDTHS=true, which does "
            "without grids."
        )
    return integers * grid.step
