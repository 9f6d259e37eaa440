"""Known answers of dates on axes."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.charts.dates import DAYS, day_ticks, day_words

EPOCH = date(1970, 1, 1)


def days(year: int, month: int, day: int) -> int:
    return (date(year, month, day) - EPOCH).days


def test_days_are_dates_as_far_as_there_are_any() -> None:
    assert [day_words(one) for one in (0, 19_000.4, -1, 1e12)] == ["1970-01-01", "2022-01-08", "1969-12-31", "-"]
    assert [day_words(19_000, step) for step in (1, 31, 365)] == ["2022-01-08", "2022-01", "2022"]


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (days(2010, 6, 1), days(2021, 2, 1), ["2015", "2020"]),
        (days(2021, 11, 20), days(2022, 7, 3), ["2022-01", "2022-03", "2022-05", "2022-07"]),
        (days(2022, 3, 1), days(2022, 3, 5), ["2022-03-01", "2022-03-02", "2022-03-03", "2022-03-04", "2022-03-05"]),
    ],
)
def test_ticks_are_starts_of_years_or_months_or_days(low: int, high: int, words: list[str]) -> None:
    found = day_ticks(low, high, 5)
    assert [day_words(value, found[1] - found[0]) for value in found] == words


@given(st.floats(-1e7, 1e7), st.floats(1, 1e6))
def test_ticks_of_dates_rise_and_stay_within(low: float, width: float) -> None:
    found = DAYS.ticks(low, low + width, 4)
    assert found == sorted(found)
    assert all(low - 1e-6 * width <= value <= low + 1.000001 * width for value in found)
    assert len(found) <= 6
