"""What a chart is made of: marks at places in its own units, each with a style class and words for who points at it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Bar:
    """A rectangle.

    Attributes:
        x: its left end.
        y: its upper end.
        width: to the right.
        height: downwards.
        style: class of the style sheet.
        words: for who points at it; empty for nothing.
    """

    x: float
    y: float
    width: float
    height: float
    style: str
    words: str = ""
    shape: ClassVar = "bar"


@dataclass(frozen=True)
class Trace:
    """A line through points, or, where it is scattered, the points alone.

    Attributes:
        points: from first to last.
        style: class of the style sheet.
        words: for who points at it; empty for nothing.
        is_scattered: whether points stand alone, as round dots of the line's width.
    """

    points: tuple[Point, ...]
    style: str
    words: str = ""
    is_scattered: bool = False
    shape: ClassVar = "trace"

    @property
    def path(self) -> str:
        """The same as commands of an SVG path."""
        if self.is_scattered:
            return "".join(f"M{_short(x)} {_short(y)}h0" for x, y in self.points)
        return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in self.points)


@dataclass(frozen=True)
class Word:
    """Text at a place.

    Attributes:
        x: where it begins, is centred or ends, as ``anchor`` says.
        y: of its baseline.
        text: what it says.
        anchor: ``start``, ``middle`` or ``end``.
        style: class of the style sheet.
    """

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    style: str = "tick"
    shape: ClassVar = "word"


@dataclass(frozen=True)
class Signs:
    """Small shapes at points: what tells lines apart where colours don't.

    Attributes:
        points: of their centres.
        sign: number of the shape; ``SIGNS`` has them.
        style: class of the style sheet.
        words: for who points at one; empty for nothing.
    """

    points: tuple[Point, ...]
    sign: int
    style: str
    words: str = ""
    shape: ClassVar = "trace"

    @property
    def path(self) -> str:
        """The same as commands of an SVG path."""
        outline = SIGNS[self.sign]
        return "".join(f"M{_short(x)} {_short(y)}{outline}" for x, y in self.points)


# Outlines around a centre: square, triangle, diamond, cross, triangle on its head, plus, bar, arrow, hexagon, dot.
SIGNS = (
    "m-2.6-2.6h5.2v5.2h-5.2z",
    "m0-3.6l3.4 6h-6.8z",
    "m0-3.9l3.9 3.9l-3.9 3.9l-3.9-3.9z",
    "m-2.7-2.7l5.4 5.4m0-5.4l-5.4 5.4",
    "m0 3.6l3.4-6h-6.8z",
    "m-3.5 0h7m-3.5-3.5v7",
    "m-1.3-3.6h2.6v7.2h-2.6z",
    "m-2.4-3.4l6 3.4l-6 3.4z",
    "m-3.4 0l1.7-3h3.4l1.7 3l-1.7 3h-3.4z",
    "m-2.9 0a2.9 2.9 0 1 0 5.8 0a2.9 2.9 0 1 0-5.8 0z",
)

Mark = Bar | Trace | Signs | Word


@dataclass(frozen=True)
class Chart:
    """A drawing.

    Attributes:
        title: what it shows, in a few words.
        description: what it says, for who can't see it.
        width: of the drawing, in CSS pixels where there is room.
        height: likewise.
        marks: from back to front.
        key: what styles mean: pairs of a style class and words; empty where words beside the lines say it.
    """

    title: str
    description: str
    width: float
    height: float
    marks: tuple[Mark, ...]
    key: tuple[tuple[str, str], ...] = ()


def _short(value: float) -> str:
    """Write a coordinate to a tenth: what a screen shows, and a page of fifty charts stays small."""
    return f"{value:.1f}".removesuffix(".0")
