"""Panels as charts: lines told apart by colour, dashes and signs, intervals shaded, axes that people would choose."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plumbline.charts.axes import NUMBERS, POWERS, WHOLE, Axis, ChartFrame, Values, frame, number_words, padded
from plumbline.charts.marks import SIGNS, Chart, Mark, Point, Signs, Trace, Word
from plumbline.report.html import environment
from studies.page.plots import Curve, Panel, Plot

# Pages of experiments; they build on those of the product.
PAGES = environment("studies")
WIDTH, HEIGHT = 340.0, 235.0
_COLOURS, _DASHES = 8, 4
# Of a standalone drawing: above each panel, between panels, a legend's line.
_TITLE, _GAP, _LINE = 22.0, 18.0, 18.0
_MOST_SIGNS = 12


@dataclass(frozen=True)
class Look:
    """How a label's lines look in all panels of a plot.

    Attributes:
        label: in the legend.
        colour: class of the style sheet.
        dash: another, of lines that the paper has.
        sign: number of its shape.
        ours: whether all of them are drawn heavier.
    """

    label: str
    colour: str
    dash: str
    sign: int
    ours: bool

    @property
    def line(self) -> str:
        """Classes of its line, for a legend."""
        return self.classes(self.ours)

    def classes(self, ours: bool) -> str:
        """Classes of one of its lines."""
        return f"{self.colour} {'ours' if ours else self.dash}"

    @property
    def sample(self) -> Signs:
        """Its sign, for a legend."""
        return Signs(((14.0, 6.0),), self.sign, f"sign {self.line}")


def looks_of(panels: Iterable[Panel]) -> dict[str, Look]:
    """A look for every label that has points, in the order of their coming."""
    curves = [curve for panel in panels for curve in panel.curves if curve.x]
    labels = {label: all(one.ours for one in curves if one.label == label) for label in (c.label for c in curves)}
    return {label: _look(label, number, ours) for number, (label, ours) in enumerate(labels.items())}


def _look(label: str, number: int, ours: bool) -> Look:
    # Colours begin anew after so many labels: with another dash.
    dash = f"d{(number + number // _COLOURS) % _DASHES}"
    return Look(label, f"c{number % _COLOURS + 1}", dash, number % len(SIGNS), ours)


def panel_chart(panel: Panel, looks: Mapping[str, Look]) -> Chart:
    """Draw a panel."""
    curves = [_shown(panel, curve) for curve in panel.curves if curve.x]
    across, upward = _axis_across(panel, curves), _axis_upward(panel, curves)
    field = frame(WIDTH, HEIGHT, across, upward)
    rules = list(_rules(panel, field))
    marks: list[Mark] = [*field.marks, *(line for line, _ in rules)]
    for curve in curves:
        marks += _band(field, curve, looks[curve.label])
    for curve in curves:
        marks += _line(field, curve, looks[curve.label])
    marks += [word for _, word in rules]
    return Chart(panel.title, _described(panel), WIDTH, HEIGHT, tuple(marks))


def _shown(panel: Panel, curve: Curve) -> Curve:
    """A curve with logarithms where axes have them; what has none is no number."""

    def placed(values: Sequence[float], *, log: bool) -> tuple[float, ...]:
        return tuple(math.log10(v) if v > 0 else math.nan for v in values) if log else tuple(values)

    x = placed(curve.x, log=panel.log_x)
    y, low, high = (placed(values, log=panel.log_y) for values in (curve.y, curve.low, curve.high))
    return Curve(curve.label, x, y, low, high, curve.ours)


def _axis_across(panel: Panel, curves: Sequence[Curve]) -> Axis:
    values = [x for curve in curves for x in curve.x] + [_logged(at, panel.log_x) for at, _ in panel.marks]
    low, high = padded(values)
    return Axis(low, high, panel.x_label, _kind(values, log=panel.log_x), most=5)


def _axis_upward(panel: Panel, curves: Sequence[Curve]) -> Axis:
    """From 0 where that takes not much room, to the highest value that is shown."""
    values = [y for curve in curves for y in (*curve.y, *curve.low, *curve.high) if math.isfinite(y)]
    low, high = padded(values)
    if not panel.log_y and 0 <= min(values, default=0.0) <= 0.5 * high:
        low = 0.0
    if panel.most_y is not None:
        high = min(high, _logged(panel.most_y, panel.log_y))
    low, high = padded((low, high))
    margin = 0.04 * (high - low)
    return Axis(low if low == 0 else low - margin, high + margin, panel.y_label, _kind(values, log=panel.log_y))


def _logged(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def _kind(values: Sequence[float], *, log: bool) -> Values:
    if log:
        return POWERS
    return WHOLE if len(values) and all(float(v).is_integer() for v in values if math.isfinite(v)) else NUMBERS


def _rules(panel: Panel, field: ChartFrame) -> Iterator[tuple[Trace, Word]]:
    """Lines at some x, their words one below the other so that neighbours don't meet."""
    top, bottom = field.y(field.y.high), field.y(field.y.low)
    for number, (at, words) in enumerate(panel.marks):
        x = field.x(_logged(at, panel.log_x))
        to_left = x > WIDTH * 0.7
        place, anchor = (x - 4, "end") if to_left else (x + 4, "start")
        yield (
            Trace(((x, top), (x, bottom)), "rule", words),
            Word(place, top + 9 + 12 * (number % 3), words, anchor, "rule-word"),  # type: ignore[arg-type]
        )


def _band(field: ChartFrame, curve: Curve, look: Look) -> Iterator[Trace]:
    """The interval around a line, a shade for each of its uninterrupted parts."""
    if not (curve.low and curve.high):
        return
    for part in _parts(curve.x, curve.low, curve.high):
        upper = [(field.x(x), field.y(high)) for x, _, high in part]
        lower = [(field.x(x), field.y(low)) for x, low, _ in reversed(part)]
        if len(part) > 1:
            yield Trace((*upper, *lower), f"band {look.colour}")


def _line(field: ChartFrame, curve: Curve, look: Look) -> Iterator[Mark]:
    classes = look.classes(curve.ours)
    for part in _parts(curve.x, curve.y):
        for piece in _below(part, field.y.high):
            points = tuple((field.x(x), field.y(y)) for x, y in piece)
            if len(points) > 1:
                yield Trace(points, f"line {classes}", curve.label)
    inside = [(x, y) for x, y in zip(curve.x, curve.y, strict=True) if math.isfinite(y) and y <= field.y.high]
    step = -(-len(inside) // _MOST_SIGNS) or 1
    # Shifted, so that the signs of two lines that run together don't hide each other.
    first = min(look.sign % step, max(len(inside) - 1, 0))
    points = tuple((field.x(x), field.y(y)) for x, y in inside[first::step])
    if points:
        yield Signs(points, look.sign, f"sign {classes}", curve.label)


def _parts(*columns: Sequence[float]) -> Iterator[list[tuple[float, ...]]]:
    """Runs of points in which every number is finite."""
    part: list[tuple[float, ...]] = []
    for point in zip(*columns, strict=True):
        if all(map(math.isfinite, point)):
            part.append(point)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _below(part: Sequence[tuple[float, ...]], most: float) -> Iterator[list[Point]]:
    """Pieces of a line that lie below a height, each up to where it crosses it."""
    piece: list[Point] = []
    previous: Point | None = None
    for x, y in part:
        if previous is not None and (y > most) != (previous[1] > most):
            share = (most - previous[1]) / (y - previous[1])
            piece.append((previous[0] + share * (x - previous[0]), most))
            if y > most:
                yield piece
                piece = []
        if y <= most:
            piece.append((x, y))
        previous = (x, y)
    if piece:
        yield piece


def _described(panel: Panel) -> str:
    """Each curve from its first point to its last, for who can't see it."""
    told = []
    for curve in panel.curves:
        values = [y for y in curve.y if math.isfinite(y)]
        if values:
            told.append(f"{curve.label}: from {number_words(values[0])} to {number_words(values[-1])}.")
    return f"{panel.y_label} against {panel.x_label}. " + " ".join(told)


# --- as a page and as a document ------------------------------------------------------------------------------------


def shown_panels(panels: Sequence[Panel]) -> dict[str, Any]:
    """What a template draws: charts, and the looks of their legend."""
    looks = looks_of(panels)
    return {"charts": [panel_chart(panel, looks) for panel in panels], "looks": list(looks.values())}


def document(plot: Plot) -> str:
    """Draw panels as an SVG document with their titles and one legend."""
    panels, columns = plot.panels, max(1, min(plot.columns, len(plot.panels)))
    width = columns * WIDTH + (columns - 1) * _GAP
    row = _TITLE + HEIGHT + _GAP
    shown = shown_panels(panels)
    placed = [
        {"chart": chart, "x": (WIDTH + _GAP) * (number % columns), "y": row * (number // columns)}
        for number, chart in enumerate(shown["charts"])
    ]
    top = row * -(-len(panels) // columns)
    entries = list(_legend(shown["looks"], width, top))
    height = entries[-1]["y"] + _LINE if entries else top
    return PAGES.get_template("panels.svg").render(
        placed=placed, entries=entries, width=width, height=height, title_height=_TITLE
    )


def _legend(looks: Sequence[Look], width: float, top: float) -> Iterator[dict[str, Any]]:
    """Places of a legend's entries, in lines that the drawing's width has room for."""
    x, y = 0.0, top
    for look in looks:
        needed = 34 + 6.6 * len(look.label) + 16
        if x and x + needed > width:
            x, y = 0.0, y + _LINE
        yield {"look": look, "x": x, "y": y}
        x += needed


def stored_panels(panels: Iterable[Panel]) -> list[dict[str, Any]]:
    """Panels as JSON: what is no finite number is null."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain(one) for one in value]
        if isinstance(value, str | bool) or value is None:
            return value
        return float(value) if math.isfinite(value) else None

    return [plain(asdict(panel)) for panel in panels]


def restored_panels(stored: Iterable[Mapping[str, Any]]) -> list[Panel]:
    """Panels from JSON."""

    def numbers(values: Iterable[float | None]) -> tuple[float, ...]:
        return tuple(math.nan if value is None else value for value in values)

    def curve(one: Mapping[str, Any]) -> Curve:
        lists = {name: numbers(one[name]) for name in ("x", "y", "low", "high")}
        return Curve(label=one["label"], ours=one["ours"], **lists)

    return [
        Panel(
            **{
                **panel,
                "curves": tuple(map(curve, panel["curves"])),
                "marks": tuple((at, words) for at, words in panel["marks"]),
            }
        )
        for panel in stored
    ]
