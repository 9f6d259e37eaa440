"""The charts of our pages: distributions, scatters, lines over steps, ROC curves, bars with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plumbline.charts.axes import NUMBERS, WHOLE, Axis, ChartFrame, Values, frame, padded, ticks
from plumbline.charts.marks import Anchor, Bar, Chart, Mark, Trace, Word
from plumbline.telling.numbers import percent
from vfl.arrays import FloatArray

WIDTH = 340.0
# Of a letter of a name, on average and generously.
_LETTER = 6.5
# From one name to the next below.
_LINE = 13.0
_BINS = 24
_KEY = (("truth", "true"), ("estimate", "estimated"))


@dataclass(frozen=True)
class Series:
    """A line of a chart.

    Attributes:
        name: what it is, for the key.
        x: values along the axis.
        y: values above it, as many.
        style: class of the style sheet.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: str


PERCENT = Values(lambda share, step: percent(share, 0 if not step or step >= 0.01 else 1), ticks)


def histogram(
    title: str, unit: str, truth: FloatArray, estimate: FloatArray | None, *, values: Values = NUMBERS
) -> Chart:
    """Compare how true and estimated values are distributed; estimates beyond the true values stand at their ends.

    Args:
        title: of the chart.
        unit: of the values, for the axis.
        truth: (n,), finite.
        estimate: (n,), likewise; None draws the truth alone.
        values: what kind they are.
    """
    low, high = padded(truth.tolist())
    edges = np.linspace(low, high, _bins_of(truth) + 1)
    shares = [_shares(one, edges) for one in (truth, estimate) if one is not None]
    top = max(float(one.max()) for one in shares) * 1.05
    field = frame(WIDTH, 150, Axis(low, high, unit, values), Axis(0, top, "share of records", PERCENT, most=3))
    marks: list[Mark] = [*field.marks, *_columns(field, edges, shares[0], values)]
    if estimate is not None:
        # Its steps, over the bars.
        x, y = np.repeat(edges, 2), np.concatenate([[0.0], np.repeat(shares[1], 2), [0.0]])
        marks.append(Trace(field.x.points(field.y, x.tolist(), y.tolist()), "estimate", "Estimated by the attack"))
    key = _KEY if estimate is not None else _KEY[:1]
    return Chart(title, _compared_words(truth, estimate, unit, values), WIDTH, 150, tuple(marks), key)


def _bins_of(values: FloatArray) -> int:
    """Bins that show no gaps between whole numbers or few values."""
    distinct = np.unique(values)
    steps = np.diff(distinct)
    is_regular = len(distinct) <= _BINS and len(steps) and np.allclose(steps, steps.min())
    return len(distinct) if is_regular else _BINS


def _shares(values: FloatArray, edges: FloatArray) -> FloatArray:
    shares: FloatArray = np.histogram(values.clip(edges[0], edges[-1]), edges)[0] / max(1, len(values))
    return shares


def _columns(field: ChartFrame, edges: FloatArray, shares: FloatArray, values: Values) -> list[Mark]:
    floor = field.y(0)
    return [
        Bar(
            field.x(left) + 0.5,
            field.y(share),
            max(0.5, field.x(right) - field.x(left) - 1),
            floor - field.y(share),
            "truth",
            f"{values.words(left, 0.0)} to {values.words(right, 0.0)}: {percent(share, 1)} of records",
        )
        for left, right, share in zip(edges, edges[1:], shares, strict=False)
        if share > 0
    ]


def _compared_words(truth: FloatArray, estimate: FloatArray | None, unit: str, values: Values) -> str:
    def spread(cells: FloatArray) -> str:
        low, middle, high = (values.words(float(one), 0.0) for one in np.quantile(cells, [0.05, 0.5, 0.95]))
        return f"median {middle}, 90 % of records from {low} to {high}"

    truth_text = f"True values{f' ({unit})' if unit else ''}: {spread(truth)}."
    return truth_text if estimate is None else f"{truth_text} Estimates: {spread(estimate)}."


def scatter(
    title: str,
    unit: str,
    truth: FloatArray,
    estimate: FloatArray,
    *,
    guess: float | None = None,
    values: Values = NUMBERS,
) -> Chart:
    """Set (n,) estimates against true values; on the diagonal they are exact, and a guess is one height for all.

    Args:
        title: of the chart.
        unit: of both axes.
        truth: (n,), finite.
        estimate: (n,), likewise.
        guess: a guess that is the same for every record; None draws none.
        values: what kind they are.
    """
    low, high = padded([*truth, *estimate])
    named = f", {unit}" if unit else ""
    field = frame(WIDTH, 250, Axis(low, high, f"true{named}", values), Axis(low, high, f"estimated{named}", values))
    marks: list[Mark] = [*field.marks, Trace(field.x.points(field.y, [low, high], [low, high]), "exact", "Exact")]
    key = [("dot", "a record"), ("exact", "exact")]
    if guess is not None and low <= guess <= high:
        tooltip = f"Its mean, {values.words(guess, 0.0)}, is what anyone could guess"
        marks.append(Trace(field.x.points(field.y, [low, high], [guess, guess]), "guess", tooltip))
        key.append(("guess", "its mean"))
    marks.append(Trace(field.x.points(field.y, truth.tolist(), estimate.tolist()), "dot", is_scattered=True))
    varied = len(truth) > 1 and truth.std() > 0 and estimate.std() > 0
    related = f" Their correlation is {np.corrcoef(truth, estimate)[0, 1]:.2f}." if varied else ""
    caption = f"Estimates of {len(truth)} records against their true values.{related}"
    return Chart(title, caption, WIDTH, 250, tuple(marks), tuple(key))


def lines(title: str, series: Sequence[Series], across: Axis, upward: Axis, *, height: float = 190) -> Chart:
    """Draw lines over a common axis; each point says its values to who points at it.

    Args:
        title: of the chart.
        series: its lines.
        across: the axis below.
        upward: the axis beside.
        height: of the chart.
    """
    field = frame(WIDTH, height, across, upward)
    marks: list[Mark] = list(field.marks)
    text_of = upward.values.words
    for line in series:
        points = field.x.points(field.y, line.x, line.y)
        marks.append(Trace(points, line.style, line.name))
        if len(points) <= 60 and line.style != "guess":
            marks += [
                Trace(
                    (point,),
                    f"{line.style} point",
                    f"{line.name}, {across.values.words(x, 0.0)}: {text_of(y, 0.001)}",
                    True,
                )
                for point, x, y in zip(points, line.x, line.y, strict=True)
            ]
    captions = [
        f"{one.name}: from {text_of(one.y[0], 0.001)} to {text_of(one.y[-1], 0.001)}." for one in series if one.y
    ]
    key = tuple((one.style, one.name) for one in series)
    return Chart(title, " ".join(captions), WIDTH, height, tuple(marks), key)


def loss_curve(epochs: Sequence[float], losses: Sequence[float], last: int, kept: float | None = None) -> Chart | None:
    """Draw validation losses by epoch; None where there are fewer than two.

    Args:
        epochs: those that were validated, from 1.
        losses: after each of them, in nats.
        last: epoch at which the axis ends.
        kept: the epoch whose weights are kept; None while nobody knows.
    """
    if len(losses) < 2:
        return None
    low, high = min(losses), max(losses)
    margin = max(high - low, 1e-9) * 0.05
    ends = (low - margin, high + margin)
    series = [Series("validation loss", tuple(epochs), tuple(losses), "s1")]
    if kept is not None:
        series.append(Series(f"kept: epoch {kept:.0f}", (kept, kept), ends, "guess"))
    return lines("Validation loss", series, Axis(1, last, "epoch", WHOLE), Axis(*ends, "nats"))


def roc(title: str, curves: Sequence[Series], points: Sequence[tuple[str, float, float]] = ()) -> Chart:
    """Draw true against false positives: curves of scores, and single points of who only names classes.

    Args:
        title: of the chart.
        curves: false positive rates along, true positive rates above.
        points: a name, its false and its true positive rate.
    """
    rate = Axis(0, 1, "false positives", PERCENT)
    field = frame(WIDTH, 300, rate, Axis(0, 1, "true positives", PERCENT))
    marks: list[Mark] = [*field.marks, Trace(field.x.points(field.y, [0, 1], [0, 1]), "guess", "Guessing")]
    marks += [Trace(field.x.points(field.y, one.x, one.y), one.style, one.name) for one in curves]
    places = [(field.x(false), field.y(true)) for _, false, true in points]
    for (name, false, true), place in zip(points, places, strict=True):
        tooltip = f"{name}: {percent(true, 1)} true, {percent(false, 1)} false positives"
        marks.append(Trace((place,), "found point", tooltip, True))
    names = [_beside(x, y + 14, name) for (name, _, _), (x, y) in zip(points, places, strict=True)]
    marks += _apart(names, places, field.y(0))
    key = [*((one.style, one.name) for one in curves), ("guess", "guessing")]
    caption = "; ".join(f"{name}: {percent(true)} true at {percent(false)} false" for name, false, true in points)
    described = f"Curves: {', '.join(one.name for one in curves) or 'none'}.{f' Points: {caption}.' if caption else ''}"
    return Chart(title, described, WIDTH, 300, tuple(marks), tuple(key))


def _beside(x: float, y: float, name: str) -> Word:
    """Put a point's name on the side where there is more room, as much of it as there is room for."""
    to_left = x > WIDTH / 2
    anchor: Anchor = "end" if to_left else "start"
    room = (x if to_left else WIDTH - x) - 8
    return Word(x - 8 if to_left else x + 8, y, cut(name, int(room / _LETTER)), anchor)


def _apart(names: Sequence[Word], points: Sequence[tuple[float, float]], lowest: float) -> list[Word]:
    """Move names down or up by as few lines as it takes for none to stand over another, or a point."""
    obstacles = [Word(x - _LETTER / 2, y + _LETTER / 2, "o") for x, y in points]
    placed: list[Word] = []
    for name in sorted(names, key=lambda one: one.y):
        lines = sorted(range(-len(names), len(names) + 1), key=lambda count: (abs(count), -count))
        places = (replace(name, y=name.y + count * _LINE) for count in lines)
        free = (
            one
            for one in places
            if _LINE <= one.y <= lowest and not any(_covers(one, other) for other in (*obstacles, *placed))
        )
        placed.append(next(free, name))
    return placed


def _covers(name: Word, other: Word) -> bool:
    """Tell whether two names would stand over each other."""
    (start, stop), (begin, end) = (
        (one.x - long, one.x) if one.anchor == "end" else (one.x, one.x + long)
        for one, long in ((one, _LETTER * len(one.text)) for one in (name, other))
    )
    return abs(name.y - other.y) < _LINE and start < end and begin < stop


def counts(title: str, names: Sequence[str], truth: FloatArray, estimate: FloatArray | None) -> Chart:
    """Compare how often each of a few values is true and is estimated, one pair of bars a value.

    Args:
        title: of the chart.
        names: (v,) of the values; long ones are cut.
        truth: (v,) shares of records.
        estimate: (v,) likewise; None draws the truth alone.
    """
    row, margin = 34.0, 118.0
    top = max(float(truth.max()), 0.0 if estimate is None else float(estimate.max()), 1e-9)
    room = WIDTH - margin - 52
    marks: list[Mark] = []
    for number, name in enumerate(names):
        y = 6 + row * number
        marks.append(Word(margin - 6, y + 16, cut(name, 17), "end"))
        pairs = [("truth", float(truth[number]), "true")]
        if estimate is not None:
            pairs.append(("estimate-bar", float(estimate[number]), "estimated"))
        for place, (style, share, what) in enumerate(pairs):
            tooltip = f"{name}, {what}: {percent(share, 1)}"
            marks.append(Bar(margin, y + 12 * place, max(0.5, room * share / top), 10, style, tooltip))
            marks.append(Word(margin + room * share / top + 5, y + 9 + 12 * place, percent(share), "start"))
    described = "; ".join(f"{name} {percent(float(share))}" for name, share in zip(names, truth, strict=True))
    key = (("truth", "true"),) if estimate is None else (("truth", "true"), ("estimate-bar", "estimated"))
    return Chart(title, f"True shares: {described}.", WIDTH, 8 + row * len(names), tuple(marks), key)


def cut(text: str, most: int) -> str:
    """Text of at most so many letters, with an ellipsis where some are gone."""
    return text if len(text) <= most else text[: most - 1] + "…"
