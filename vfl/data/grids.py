"""Grids: the coarsest step that a column's values are multiples of, and how many such steps the column spans.

A column of small integers, whatever its unit, takes few binary digits in an encrypted product: x = D z with integers z.
A column that stands on no short grid is rounded to the session's fixed point instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from vfl.arrays import FloatArray
from vfl.crypto.widths import BINARY, BYTE

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
    """

    step: float = 1.0
    steps: int = 0

    @property
    def width(self) -> Width:
        """How many digits the column's integers take."""
        return "binary" if self.steps <= BINARY.bound else "byte"

    def halved(self) -> Grid | None:
        """The grid that has the middle between any two values besides: the median of some of them may be one."""
        if self.steps == 0:
            return self
        return Grid(self.step / 2, 2 * self.steps) if 2 * self.steps <= BYTE.bound else None

    def scaled(self, span: float) -> Grid:
        """The same grid where values are divided by a span of it, as min-max scaling does: 0 to 1 in whole steps.

        A span of 0 is that of rows that have the same value: it is encoded as 0 throughout.
        """
        return replace(self, step=1.0 / max(1.0, float(np.rint(span / self.step))))


UNIT_GRID = Grid(steps=1)


def width_of(grid: Grid | None) -> Width:
    """The width of a column on this grid; a column without one is full."""
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
    whole = np.rint(places)
    fits = (np.abs(places - whole) <= _TOLERANCE * steps).all(axis=0)
    if not from_zero:
        # .3 and .1 + .2: scaled to the range of nothing but such rows, their difference is no rounding any more.
        fits &= (np.diff(whole, axis=0) != 0).all(axis=0)
    return Grid(span / int(steps[fits][0]), int(steps[fits][0])) if fits.any() else None


def _distinct_values(values: FloatArray) -> FloatArray | None:
    """The different values in order, NaN left out; None where there are more than a short grid has."""
    found = np.empty(0)
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        found = np.unique(np.concatenate([found, chunk[~np.isnan(chunk)]]))
        if len(found) > _MOST_VALUES:
            return None
    return found
