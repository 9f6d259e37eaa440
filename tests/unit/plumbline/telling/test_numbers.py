"""Numbers in words: nothing and everything are said of nothing and everything only, and every place says the same."""

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.judge.measures import Interval
from plumbline.telling import numbers
from plumbline.telling.numbers import hundredths, percent, seconds, share_words, span_words


@settings(max_examples=20)
@given(share=st.floats(0, 1), places=st.integers(0, 1))
def test_nothing_and_everything_are_said_of_themselves_only(share: float, places: int) -> None:
    words = percent(share, places)
    near = 1e-9
    assert (words in ("0 %", "0.0 %")) == (share <= near)
    assert (words in ("100 %", "100.0 %")) == (share >= 1 - near)
    figure = float(words.removeprefix("over ").removeprefix("under ").removesuffix(" %"))
    assert figure == pytest.approx(100 * share, abs=1.0 / 10**places)


@pytest.mark.parametrize(
    ("share", "words"),
    [(None, "-"), (-0.001, "0 %"), (-0.2, "-20 %"), (0.1 + 0.2 + 0.7, "100 %"), (0.995, "over 99 %"), (0.994, "99 %")],
)
def test_what_is_at_an_edge(share: float | None, words: str) -> None:
    assert percent(share) == words


def test_an_interval_begins_with_the_share_as_it_is_said_without_one() -> None:
    share = Interval(0.997, 0.98, 1.0)
    assert share_words(share) == f"{percent(0.997)} (98 to 100)" == "over 99 % (98 to 100)"
    assert share_words(Interval(0.12, -0.0001, 0.16), 1) == "12.0 % (0.0 to 16.0)"
    assert hundredths(-0.0004, 1) == "0.0"


def test_the_examples_hold() -> None:
    found = doctest.testmod(numbers)
    assert (found.attempted, found.failed) == (1, 0)


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 s"), (0.2, "1 s"), (20.1, "21 s"), (99, "99 s"), (100, "2 min"), (2400, "40 min"), (7800, "2 h 10 min")],
)
def test_durations_are_said_as_exactly_as_one_can_tell(count: float, words: str) -> None:
    assert seconds(count) == words


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (4, 11, "4 to 11 s"),
        (40, 120, "40 s to 2 min"),
        (0.2, 0.6, "1 s"),
        (60 * 24, 60 * 68, "24 to 68 min"),
        (7800, 21720, "2 h 10 min to 6 h 2 min"),
    ],
)
def test_a_range_is_said_with_its_unit_once_where_both_ends_have_it(low: float, high: float, words: str) -> None:
    assert span_words(low, high) == words
