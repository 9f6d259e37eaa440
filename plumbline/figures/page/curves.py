"""Curves in panels, the published ones and ours in one plot."""

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.figures.page.elements import svg_text
from plumbline.figures.page.section import Plot


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        label: in the legend; the same label has the same look in every panel.
        x, y: points.
        low, high: ends of an interval around y, or empty.
        ours: drawn heavier, dashed: not in the paper.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a title, its curves, and lines at some x with a word each."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    marks: tuple[tuple[float, str], ...] = ()
    log_y: bool = False


def draw_panels(name: str, panels: Sequence[Panel], caption: str, *, columns: int = 2) -> Plot:
    """Draw panels side by side with one legend."""
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * min(columns, len(panels)), 3.0 * rows + 0.6), layout="constrained")
    grid = figure.subplots(rows, min(columns, len(panels)), squeeze=False)
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    colours = {label: _COLOURS[number % len(_COLOURS)] for number, label in enumerate(labels)}
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    handles = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        for curve in panel.curves:
            look = {"linewidth": 2.2, "linestyle": "--"} if curve.ours else {"linewidth": 1.2, "linestyle": "-"}
            (handles[curve.label],) = axes.plot(curve.x, curve.y, color=colours[curve.label], label=curve.label, **look)
            if curve.low:
                axes.fill_between(curve.x, curve.low, curve.high, color=colours[curve.label], alpha=0.18, linewidth=0)
        for where, word in panel.marks:
            axes.axvline(where, color="#999999", linewidth=0.8, linestyle=":")
            axes.annotate(word, (where, 1), xycoords=("data", "axes fraction"), fontsize=7, ha="left", va="top")
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.log_y:
            axes.set_yscale("log")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return Plot(name, svg_text(figure), caption)


_COLOURS = ("#1b6ca8", "#c8553d", "#2a9d8f", "#8e6bbf", "#e9a23b", "#7fb6d9", "#444444", "#1d2733", "#999999")
