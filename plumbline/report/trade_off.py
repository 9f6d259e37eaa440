"""What sets of columns leak against what they are worth, as a chart."""

import math

from plumbline.charts.axes import Axis, frame, padded
from plumbline.charts.drawings import PERCENT, WIDTH
from plumbline.charts.marks import Chart, Mark, Trace
from plumbline.judge.column_sets import ColumnSet, WhatIf, change_words
from plumbline.telling.numbers import percent

_HEIGHT = 260


def trade_off(found: WhatIf) -> Chart | None:
    """Draw the AUC of every set against the largest part that it leaks; None where no AUC could be measured.

    The line is the frontier: one column after another left out. The chosen set and confirmed ones stand out.
    """
    sets = [one for one in found.simulated if math.isfinite(one.auc)]
    if not sets:
        return None
    low, high = padded([one.auc for one in (*sets, *found.confirmed) if math.isfinite(one.auc)])
    across, upward = Axis(0, 1, "largest part of a column", values=PERCENT), Axis(low, high, "AUC of the test records")
    field = frame(WIDTH, _HEIGHT, across, upward)

    def dot(column_set: ColumnSet, style: str) -> Trace:
        return Trace(
            ((field.x(column_set.part), field.y(column_set.auc)),), style, change_words(found.whole, column_set), True
        )

    marks: list[Mark] = list(field.marks)
    line = [one for one in found.frontier if math.isfinite(one.auc)]
    if line:
        points = field.x.points(field.y, [one.part for one in line], [one.auc for one in line])
        marks.append(Trace(points, "s1", "One column after another left out"))
    marks += [dot(one, "s1 point" if one in line else "dot") for one in sets]
    marks += [dot(found.chosen, "found point")] if found.chosen in sets and found.chosen else []
    marks += [dot(one, "s2 point") for one in found.confirmed if math.isfinite(one.auc)]
    key = [("dot", "a set of columns")]
    key += [("s1", "one column after another left out")] if line else []
    key += [("found point", "chosen")] if found.chosen else []
    key += [("s2 point", "its federation, as it was run")] if found.confirmed else []
    summary = "; ".join(f"{one.title}: {percent(one.part)}, AUC {one.auc:.3f}" for one in line or sets)
    return Chart("AUC against what leaks", f"{summary}.", WIDTH, _HEIGHT, tuple(marks), tuple(key))
