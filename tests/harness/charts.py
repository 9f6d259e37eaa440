"""Marks of a chart by their kind, as tests of drawings look at them."""

from typing import TypeVar

from plumbline.charts.marks import Bar, Chart, Signs, Trace, Word

Kind = TypeVar("Kind", Bar, Trace, Signs, Word)


def marks_of(chart: Chart, kind: type[Kind]) -> list[Kind]:
    """The marks of one kind, from back to front."""
    return [mark for mark in chart.marks if isinstance(mark, kind)]
