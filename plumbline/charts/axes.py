"""Axes: from values to places in a chart, with ticks that people would choose."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from plumbline.charts.marks import Mark, Point, Trace, Word

# Of a tick's letter, in pixels: the widest of the style sheet's fonts has no wider digits.
LETTER = 7.4
# Between ticks, by the power of ten below the least that is wide enough.
_STEPS = (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5, 5, 10, 20)
# Values that are written with a power of ten.
_LARGE, _SMALL = 1e6, 1e-3


@dataclass(frozen=True)
class Scale:
    """A linear map from values to places.

    Attributes:
        low: the value at ``start``.
        high: the value at ``end``; above ``low``.
        start: a place in pixels.
        end: another.
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Find the place of a value, kept within the axis."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + (self.end - self.start) * min(1.0, max(0.0, share))

    def points(self, other: "Scale", values: Sequence[float], heights: Sequence[float]) -> tuple[Point, ...]:
        """Places of pairs: this scale's of ``values``, the other's of ``heights``."""
        return tuple((self(value), other(height)) for value, height in zip(values, heights, strict=True))


def ticks(low: float, high: float, most: int = 5, *, whole: bool = False) -> list[float]:
    """Round values from ``low`` to ``high``, with ``most`` intervals at most; ``whole``: integers where two fit."""
    least = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(least))
    steps = [unit * digits for digits in _STEPS]
    if whole and math.floor(high) > math.ceil(low):
        steps = [step for step in steps if step > 1 and math.isclose(step, round(step))] or [2.0]
        steps.insert(0, 1.0)
    margin = (high - low) * 1e-9
    # Smaller ones where fewer than two ticks fit.
    smaller = [step for step in steps if step < least]
    for step in [*smaller, *steps[len(smaller) :][:1]][::-1]:
        first, last = math.ceil((low - margin) / step), math.floor((high + margin) / step)
        if last > first:
            break
    return [number * step for number in range(first, last + 1)]


def padded(values: Sequence[float]) -> tuple[float, float]:
    """Pad the range of finite values, half a unit to both sides where it is a single one; (0, 1) without any."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    # Too narrow for floating point to divide.
    return (low, high) if high - low > 1e-9 * max(1.0, abs(low), abs(high)) else (low - 0.5, high + 0.5)


def number_words(value: float, step: float = 0.0) -> str:
    """Write a number for an axis or a sentence; ``step``: between neighbours, which then differ; else three digits."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    if abs(value) >= _LARGE or abs(value) < _SMALL:
        mantissa, _, power = f"{value:.2e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    digits = _digits_of(step) if step else max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text if step or "." not in text else text.rstrip("0").rstrip(".")


def _digits_of(step: float) -> int:
    """Decimals that tell multiples of a step apart."""
    digits = max(0, -math.floor(math.log10(step)))
    return digits if math.isclose(round(step, digits), step, rel_tol=1e-6) else digits + 1


@dataclass(frozen=True)
class Values:
    """A kind of values on an axis.

    Attributes:
        words: how one is written, given the step between ticks; 0: by itself.
        ticks: round ones from the lowest to the highest, with so many intervals between them at most.
    """

    words: Callable[[float, float], str]
    ticks: Callable[[float, float, int], list[float]]


def power_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Whole logarithms from ``low`` to ``high``, thinned to ``most`` intervals; with 2 and 5 between where few fit."""
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    step = max(1, math.ceil((last - first) / most))
    powers = [float(value) for value in range(first, last + 1) if value % step == 0]
    if len(powers) > 2:
        return powers
    between = [power + math.log10(digit) for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
    finer = [value for value in between if low - 1e-9 <= value <= high + 1e-9]
    return finer if len(finer) > 1 else ticks(low, high, most)


NUMBERS = Values(number_words, ticks)
# An axis shows the logarithm to the base 10 of its numbers.
POWERS = Values(lambda exponent, _: number_words(10.0**exponent), power_ticks)
WHOLE = Values(number_words, partial(ticks, whole=True))


@dataclass(frozen=True)
class ChartFrame:
    """The field of a chart: its two scales and the marks of its axes.

    Attributes:
        x: from left to right.
        y: upwards.
        marks: grid lines, ticks and names of the axes.
        height: of the whole chart.
    """

    x: Scale
    y: Scale
    marks: tuple[Mark, ...]
    height: float


@dataclass(frozen=True)
class Axis:
    """One axis as a chart asks for it.

    Attributes:
        low: lowest value shown.
        high: highest value shown.
        name: what it measures, with its unit; empty for none.
        values: what its ticks are and how they are written.
        most: intervals between ticks, at most.
    """

    low: float
    high: float
    name: str = ""
    values: Values = NUMBERS
    most: int = 4

    def labelled(self) -> list[tuple[float, str]]:
        """List its ticks and their words."""
        positions = self.values.ticks(self.low, self.high, self.most)
        step = positions[1] - positions[0] if len(positions) > 1 else 0.0
        return [(value, self.values.words(value, step)) for value in positions]


def frame(width: float, height: float, across: Axis, upward: Axis) -> ChartFrame:
    """Lay out a chart's field: grid lines and ticks to the left, ticks below, names at the ends of the axes."""
    below, beside = across.labelled(), upward.labelled()
    margin = 8 + LETTER * max((len(text) for _, text in beside), default=0)
    top = 24.0 if upward.name else 8.0
    bottom = height - (18.0 if below else 4.0) - (16.0 if across.name else 0.0)
    x, y = Scale(across.low, across.high, margin, width - 10), Scale(upward.low, upward.high, bottom, top)
    marks: list[Mark] = []
    for value, text in beside:
        marks.append(Trace(((margin, y(value)), (width - 10, y(value))), "grid"))
        marks.append(Word(margin - 5, y(value) + 3.5, text, "end"))
    marks.append(Trace(((margin, bottom), (width - 10, bottom)), "axis"))
    for value, text in below:
        marks.append(Word(_inside(x(value), text, width), bottom + 16, text, "middle"))
    if across.name:
        marks.append(Word(width - 10, height - 4, across.name, "end", "axis-name"))
    if upward.name:
        marks.append(Word(2, 12, upward.name, "start", "axis-name"))
    return ChartFrame(x, y, tuple(marks), height)


def _inside(place: float, text: str, width: float) -> float:
    """Find where a centred text may stand without leaving the chart."""
    half = LETTER * len(text) / 2 + 1
    return min(max(place, half), width - half)
