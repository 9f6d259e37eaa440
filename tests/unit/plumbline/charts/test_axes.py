"""Known answers of scales, ticks and numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.charts.axes import Axis, Scale, frame, number_words, padded, ticks
from plumbline.charts.marks import Trace, Word

FINITE = st.floats(-1e9, 1e9)


def test_a_scale_is_linear_and_ends_where_it_ends() -> None:
    scale = Scale(10, 20, 100, 300)
    assert [scale(value) for value in (10, 15, 20, 5, 99)] == [100, 200, 300, 100, 300]
    upward = Scale(0, 1, 200, 0)
    assert scale.points(upward, [10, 20], [0, 0.5]) == ((100, 200), (300, 100))


@pytest.mark.parametrize(
    ("low", "high", "whole", "found"),
    [
        (0, 1, False, [0, 0.25, 0.5, 0.75, 1]),
        (0, 97, False, [0, 25, 50, 75]),
        (1, 4, True, [1, 2, 3, 4]),
        (1, 2, True, [1, 2]),
        (-0.3, 0.3, False, [-0.2, 0, 0.2]),
    ],
)
def test_ticks_are_round_and_within(low: float, high: float, whole: bool, found: list[float]) -> None:
    assert ticks(low, high, 4, whole=whole) == pytest.approx(found, abs=1e-12)


@given(FINITE, st.floats(1e-6, 1e9))
def test_ticks_are_few_rise_and_stay_within(low: float, width: float) -> None:
    low, high = padded([low, low + width])
    found = ticks(low, high, 4)
    assert len(found) <= 5
    assert found == sorted(found)
    assert all(low - width <= value <= high + width for value in found)


@pytest.mark.parametrize(
    ("values", "found"),
    [([3, 1, 2], (1, 3)), ([5, 5], (4.5, 5.5)), ([], (0, 1)), ([math.nan, math.inf, 2, 4], (2, 4))],
)
def test_a_range_is_never_empty(values: list[float], found: tuple[float, float]) -> None:
    assert padded(values) == found


@pytest.mark.parametrize(
    ("value", "step", "words"),
    [
        (0, 0, "0"),
        (0.5, 0.25, "0.50"),
        (0.25, 0.25, "0.25"),
        (20, 10, "20"),
        (12_345.678, 0, "12,346"),
        (123_400, 50_000, "123,400"),
        (0.012345, 0, "0.0123"),
        (1_500_000, 0, "1.5e6"),
        (0.00002, 0, "2e-5"),
        (-3.14159, 0, "-3.14"),
        (math.nan, 0, "-"),
    ],
)
def test_numbers_as_people_write_them(value: float, step: float, words: str) -> None:
    assert number_words(value, step) == words


@given(st.floats(0.01, 1e5), st.integers(1, 4))
def test_neighbouring_ticks_read_differently(width: float, most: int) -> None:
    found = ticks(0, width, most)
    steps = np.diff(found)
    if len(found) > 1:
        assert len({number_words(value, float(steps[0])) for value in found}) == len(found)


def test_a_frame_leaves_room_for_its_words() -> None:
    field = frame(340, 150, Axis(0, 1, "along"), Axis(0, 1000, "up"))
    ticks_beside = [
        mark for mark in field.marks if isinstance(mark, Word) and mark.anchor == "end" and mark.text[0].isdigit()
    ]
    assert [mark.text for mark in ticks_beside] == ["0", "250", "500", "750", "1,000"]
    assert all(mark.x - 7.4 * len(mark.text) > 0 for mark in ticks_beside)
    assert field.x(0) > ticks_beside[-1].x
    assert field.y(0) < 150 - 30, "tick and name stand below"
    assert field.y(1000) < field.y(0)
    grid = [mark for mark in field.marks if isinstance(mark, Trace) and mark.style == "grid"]
    assert [one.points[0][1] for one in grid] == pytest.approx([field.y(value) for value in (0, 250, 500, 750, 1000)])
