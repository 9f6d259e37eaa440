"""Curves in panels: what is drawn of them, how they are told apart, and that JSON keeps them."""

import json
import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.charts.marks import Signs, Trace, Word
from studies.page.panel_charts import document, looks_of, panel_chart, restored_panels, stored_panels
from studies.page.plots import Curve, Panel, Plot
from tests.harness.charts import marks_of

DS = (1.0, 2.0, 3.0, 4.0)


def panel(*curves: Curve, **options: object) -> Panel:
    return Panel("satellite", "d / k", "MSE per feature", curves, **options)  # type: ignore[arg-type]


def lines(one: Panel) -> list[Trace]:
    return [mark for mark in marks_of(panel_chart(one, looks_of([one])), Trace) if mark.style.startswith("line")]


def test_the_same_label_looks_the_same_in_every_panel_and_no_two_labels_do() -> None:
    curves = [Curve(f"attack {n}", DS, DS) for n in range(30)]
    first, second = panel(*curves), panel(*reversed(curves))
    looks = looks_of([first, second])
    assert list(looks) == [curve.label for curve in curves]
    assert len({(look.line, look.sign) for look in looks.values()}) == len(curves)


def test_ours_are_heavier_and_said_to_be_ours() -> None:
    plot = Plot("one", [panel(Curve("half*", DS, DS), Curve("posterior", DS, DS, ours=True))], "Errors.")
    looks = looks_of(plot.panels)
    assert [look.ours for look in looks.values()] == [False, True]
    assert "ours" in looks["posterior"].line
    (own,) = (mark for mark in marks_of(panel_chart(plot.panels[0], looks), Signs) if mark.words == "posterior")
    assert own.style == f"sign {looks['posterior'].line}"


def test_what_is_no_number_interrupts_a_line_and_its_interval() -> None:
    curve = Curve("ls", (1, 2, 3, 4, 5), (0.1, 0.2, math.nan, 0.2, math.inf), (0.0,) * 5, (1, 1, math.nan, 1, 1))
    one = panel(curve)
    assert [len(line.points) for line in lines(one)] == [2]
    chart = panel_chart(one, looks_of([one]))
    assert sum(mark.style.startswith("band") for mark in marks_of(chart, Trace)) == 2
    (signs,) = marks_of(chart, Signs)
    assert len(signs.points) == 3


def test_a_line_ends_where_it_leaves_the_panel_and_comes_back() -> None:
    one = panel(Curve("ls", DS, (0.0, 2.0, 2.0, 0.0)), most_y=1.0)
    out, back = lines(one)
    top = min(y for _, y in out.points)
    assert out.points[-1][1] == pytest.approx(top)
    assert back.points[0][1] == pytest.approx(top)
    assert out.points[-1][0] < back.points[0][0]


@pytest.mark.parametrize("log_y", [False, True])
def test_every_point_of_an_uncut_line_lies_within_its_axes(log_y: bool) -> None:
    one = panel(Curve("ls", DS, (1e-4, 0.1, 10.0, 3000.0)), log_y=log_y)
    ((line,), chart) = lines(one), panel_chart(one, looks_of([one]))
    heights = [y for _, y in line.points]
    assert heights == sorted(heights, reverse=True)
    assert all(0 <= y <= chart.height for y in heights)
    assert len(set(heights)) == 4


def test_powers_of_ten_are_written_as_numbers() -> None:
    one = panel(Curve("ls", (1.0, 1000.0), (1e-4, 3000.0)), log_y=True, log_x=True)
    words = [word.text for word in marks_of(panel_chart(one, looks_of([one])), Word)]
    assert {"1", "10", "100", "1,000"} <= set(words)


def test_a_value_that_has_no_logarithm_is_left_out() -> None:
    (line,) = lines(panel(Curve("ls", DS, (0.0, 0.1, 1.0, 10.0)), log_y=True))
    assert len(line.points) == 3


def test_a_plot_is_a_document_with_its_titles_and_one_legend() -> None:
    curves = (Curve("<ls> & co.", DS, DS), Curve("nothing", (), ()))
    plot = Plot("errors", [panel(*curves), panel(*curves, marks=((2.0, "d = k"),))], "Errors.")
    root = ElementTree.fromstring(document(plot))  # noqa: S314 - our own drawing
    texts = [element.text for element in root.iter() if element.tag.endswith("}text")]
    assert texts.count("satellite") == 2
    assert texts.count("<ls> & co.") == 1
    assert "nothing" not in texts
    assert texts.count("d = k") == 1
    assert not re.search(r"https?://(?!www\.w3\.org)", document(plot))
    assert document(plot) == document(Plot("errors", plot.panels, "Errors."))


def test_an_empty_panel_is_drawn_empty() -> None:
    assert "satellite" in document(Plot("empty", [panel(), panel(Curve("a", (1.0,), (math.nan,)))], "None."))


def test_points_without_a_height_are_refused() -> None:
    with pytest.raises(ValueError, match="'ls'"):
        Plot("errors", [panel(Curve("ls", DS, (1.0,)))], "Errors.")
    with pytest.raises(ValueError, match="'ls'"):
        Plot("errors", [panel(Curve("ls", DS, DS, DS, (1.0,)))], "Errors.")


NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=4).map(tuple)


@given(NUMBERS, st.booleans(), st.sampled_from([None, 0.5]))
def test_panels_come_back_from_json(values: tuple[float, ...], ours: bool, most: float | None) -> None:
    curve = Curve("half*", values, values, values, values, ours)
    one = panel(curve, marks=((1.0, "d = k"),), most_y=most)
    assert restored_panels(json.loads(json.dumps(stored_panels([one]), allow_nan=False))) == [one]


def test_what_is_no_number_comes_back_as_none() -> None:
    (one,) = restored_panels(stored_panels([panel(Curve("ls", DS, (math.inf, math.nan, 1.0, 2.0)))]))
    assert [math.isnan(y) for y in one.curves[0].y] == [True, True, False, False]
