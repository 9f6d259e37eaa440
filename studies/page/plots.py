"""Curves in panels, the published ones and ours in one plot: what is drawn, apart from how (``panel_charts``)."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from studies.claims.statement import interval_over


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        label: in the legend; the same label has the same look in every panel of a plot.
        x, y: points; a y that is no finite number interrupts the line.
        low, high: ends of an interval around y, or empty.
        ours: drawn heavier, its signs filled: not in the paper.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: above it, in a few words.
        x_label, y_label: of the axes, with units.
        curves: its lines; those without points are left out.
        marks: lines at some x with a word each.
        log_y, log_x: whether an axis has powers of ten; values that aren't positive are left out then.
        most_y: curves are cut where they rise above it; None shows all of them.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    marks: tuple[tuple[float, str], ...] = ()
    log_y: bool = False
    log_x: bool = False
    most_y: float | None = None


@dataclass(frozen=True)
class Plot:
    """Panels with one legend.

    Attributes:
        name: of the file.
        panels: a page lays them out as its width allows.
        caption: the sentence below them.
        columns: how many stand side by side, at most.

    Raises:
        ValueError: for a curve whose points or interval are of different lengths.
    """

    name: str
    panels: Sequence[Panel]
    caption: str
    columns: int = 2

    def __post_init__(self) -> None:
        """Refuse what can't be drawn where it is made, not where it is written."""
        for curve in (curve for panel in self.panels for curve in panel.curves):
            if len({len(curve.x), len(curve.y)} | {len(end) for end in (curve.low, curve.high) if end}) > 1:
                raise ValueError(f"Expected as many x as y and interval ends of the curve {curve.label!r}.")


def mean_curve(
    rows: pd.DataFrame, x: str, label: str, *, measure: str = "mse", ours: bool = False, banded: bool = True
) -> Curve:
    """Draw means of a measure against a column, ``banded`` with their intervals over windows and seeds."""
    measured = rows.dropna(subset=[measure])
    points = [(float(str(at)), interval_over(here, measure)) for at, here in measured.groupby(x)]
    low, high = (tuple(getattr(mean, end) for _, mean in points) if banded else () for end in ("low", "high"))
    return Curve(label, tuple(at for at, _ in points), tuple(mean.mean for _, mean in points), low, high, ours=ours)


def error_curve(rows: pd.DataFrame, x: str, label: str, *, measure: str, ours: bool = False) -> Curve:
    """Draw means of a measure against a column, with their standard errors over what else there is, as seeds."""
    groups = rows.groupby(x)[measure]
    mean, error = groups.mean().astype(float), groups.sem().fillna(0.0).astype(float)
    at = tuple(mean.index.astype(float))
    return Curve(label, at, tuple(mean), tuple(mean - error), tuple(mean + error), ours=ours)
