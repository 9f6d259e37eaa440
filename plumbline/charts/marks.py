"""What a chart is made of: marks at places in its own units, each with a style class and words for who points at it."""

from collections.abc import Sequence
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


Mark = Bar | Trace | Word


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

    @property
    def bars(self) -> Sequence[Bar]:
        """Its rectangles."""
        return [mark for mark in self.marks if isinstance(mark, Bar)]

    @property
    def traces(self) -> Sequence[Trace]:
        """Its lines and dots."""
        return [mark for mark in self.marks if isinstance(mark, Trace)]

    @property
    def words(self) -> Sequence[Word]:
        """Its texts."""
        return [mark for mark in self.marks if isinstance(mark, Word)]


def _short(value: float) -> str:
    """A coordinate to a tenth: what a screen shows, and a page of fifty charts stays small."""
    return f"{value:.1f}".removesuffix(".0")
