"""Known answers of charts: what stands where, and what it says."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plumbline.charts.axes import WHOLE, Axis
from plumbline.charts.drawings import (
    WIDTH,
    Series,
    counts,
    cut,
    histogram,
    lines,
    roc,
    scatter,
)
from plumbline.charts.marks import Bar, Chart, Trace, Word
from tests.harness.charts import marks_of

TRUTH = np.array([0.0, 0.0, 1.0, 2.0])


def dots_of(chart: Chart) -> Trace:
    (dots,) = [one for one in marks_of(chart, Trace) if one.style == "dot"]
    return dots


def test_bars_of_a_histogram_are_as_high_as_their_shares() -> None:
    chart = histogram("Ages", "years", TRUTH, None)
    # Three values at equal steps: three bins, no gaps.
    heights = [bar.height for bar in marks_of(chart, Bar)]
    assert len(heights) == 3
    assert heights[0] / heights[1] == pytest.approx(2)
    assert heights[1] == pytest.approx(heights[2])
    floors = {round(bar.y + bar.height, 6) for bar in marks_of(chart, Bar)}
    assert len(floors) == 1
    assert "50.0 % of records" in marks_of(chart, Bar)[0].words
    assert chart.key == (("truth", "true"),)
    assert "median 0.5" in chart.description


def test_estimates_beyond_the_truth_stand_at_its_ends() -> None:
    chart = histogram("Ages", "", TRUTH, np.array([-50.0, 0.1, 1.9, 99.0]))
    (outline,) = [one for one in marks_of(chart, Trace) if one.style == "estimate"]
    lowest, highest = marks_of(chart, Bar)[0].x, marks_of(chart, Bar)[-1].x + marks_of(chart, Bar)[-1].width
    assert min(x for x, _ in outline.points) == pytest.approx(lowest, abs=1)
    assert max(x for x, _ in outline.points) == pytest.approx(highest, abs=1)
    # Half of them are in the first third, half in the last: as high as half of the truth in the first.
    assert min(y for _, y in outline.points) == pytest.approx(marks_of(chart, Bar)[0].y)


@pytest.mark.parametrize("values", [np.zeros(5), np.array([3.0]), np.full(4, 1e12)])
def test_a_constant_column_has_a_histogram_and_a_scatter(values: np.ndarray) -> None:
    assert marks_of(histogram("Same", "", values, values), Bar)
    assert len(dots_of(scatter("Same", "", values, values)).points) == len(values)


def test_exact_estimates_lie_on_the_diagonal() -> None:
    chart = scatter("Ages", "years", TRUTH, TRUTH, guess=0.75)
    (diagonal,) = [one for one in marks_of(chart, Trace) if one.style == "exact"]
    (x0, y0), (x1, y1) = diagonal.points
    for x, y in dots_of(chart).points:
        assert (x - x0) / (x1 - x0) == pytest.approx((y - y0) / (y1 - y0))
    (guess,) = [one for one in marks_of(chart, Trace) if one.style == "guess"]
    assert guess.points[0][1] == guess.points[1][1] == pytest.approx(y0 + (y1 - y0) * 0.75 / 2)
    assert "correlation is 1.00" in chart.description
    assert dots_of(chart).path.count("M") == 4


def test_lines_say_their_values_at_each_point_and_a_guess_is_no_measurement() -> None:
    series = [Series("found", (1, 2), (0.25, 0.75), "s1"), Series("guessing", (1, 2), (0.5, 0.5), "guess")]
    chart = lines("By epoch", series, Axis(1, 2, "epoch", WHOLE), Axis(0, 1))
    found, guess = (one for one in marks_of(chart, Trace) if one.style in ("s1", "guess"))
    floor, top = 0.25 - 0.5, 0.75 - 0.5
    assert (found.points[0][1] - guess.points[0][1]) / (found.points[1][1] - guess.points[1][1]) == pytest.approx(
        floor / top
    )
    assert [one.words for one in marks_of(chart, Trace) if one.is_scattered] == ["found, 1: 0.250", "found, 2: 0.750"]
    assert chart.key == (("s1", "found"), ("guess", "guessing"))


def test_roc_runs_from_corner_to_corner_and_names_points_on_the_side_with_room() -> None:
    curve = Series("model", (0, 0, 1), (0, 1, 1), "s1")
    chart = roc("Who tells", [curve], [("near", 0.1, 0.9), ("far", 0.9, 0.95)])
    diagonal = next(one for one in marks_of(chart, Trace) if one.style == "guess")
    drawn = next(one for one in marks_of(chart, Trace) if one.style == "s1")
    assert (drawn.points[0], drawn.points[-1]) == diagonal.points
    names = {one.text: one for one in marks_of(chart, Word)}
    assert (names["near"].anchor, names["far"].anchor) == ("start", "end")
    assert "near: 90 % true at 10 % false" in chart.description


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6))
@example([(0.1, 0.9)] * 4)
@example([(0.9, 0.0)] * 6)
@example([(0.1, 0.9), (0.4, 0.86), (0.1, 0.84), (0.1, 0.895)])
@settings(max_examples=20, deadline=None)
def test_no_name_of_a_point_stands_over_another(points: list[tuple[float, float]]) -> None:
    curve = Series("model", (0, 1), (0, 1), "s1")
    names = [f"attack_{number}" for number in range(len(points))]
    chart = roc("Who tells", [curve], [(name, *place) for name, place in zip(names, points, strict=True)])
    words = [one for one in marks_of(chart, Word) if one.text in names]
    assert len(words) == len(points)
    long = 6 * len(names[0])
    begins = {one: one.x - (long if one.anchor == "end" else 0) for one in words}
    assert all(0 < one.y <= chart.height for one in words)
    for one, other in itertools.combinations(words, 2):
        assert abs(one.y - other.y) >= 12 or abs(begins[one] - begins[other]) >= long, (one, other)


def test_counts_compare_shares_in_pairs() -> None:
    chart = counts("Jobs", ["cook", "x" * 40], np.array([0.75, 0.25]), np.array([0.5, 0.5]))
    assert [bar.style for bar in marks_of(chart, Bar)] == ["truth", "estimate-bar"] * 2
    assert marks_of(chart, Bar)[0].width / marks_of(chart, Bar)[2].width == pytest.approx(3)
    assert any(one.text.endswith("…") for one in marks_of(chart, Word))
    assert max(bar.x + bar.width for bar in marks_of(chart, Bar)) < WIDTH


def test_text_is_cut_with_an_ellipsis() -> None:
    assert (cut("short", 5), cut("longer", 5)) == ("short", "long…")
