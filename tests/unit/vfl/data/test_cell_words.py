"""What texts may mean: numbers in either notation, dates in their common forms, yes and no, nothing."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.data.cell_words import (
    are_codes,
    is_missing_word,
    notation_of,
    read_dates,
    read_numbers,
    yes_or_no,
)

NAN = float("nan")


def ones(texts: list[str]) -> np.ndarray:
    return np.ones(len(texts), dtype=np.int64)


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("12", 12, 12),
        ("-3.5e2", -350, NAN),
        ("-3,5e2", NAN, -350),
        ("1,234", 1234, 1.234),
        ("1.234", 1.234, 1234),
        ("1,234,567.5", 1234567.5, NAN),
        ("1.234.567,5", NAN, 1234567.5),
        ("1 234,5", NAN, 1234.5),
        ("1\u00a0234.5", 1234.5, NAN),
        ("1'234.50", 1234.5, NAN),
        ("€ 12,50", NAN, 12.5),
        ("-$1,200.25", -1200.25, NAN),
        ("12.5 %", 12.5, NAN),
        ("−7", -7, -7),
        (".5", 0.5, NAN),
        (",5", NAN, 0.5),
        ("1.234,50 EUR", NAN, 1234.5),
        ("EUR -7.5", -7.5, NAN),
        ("CHF 12.-", 12, 12),
        ("12,— Kč", 12, 12),
        ("(12.30)", -12.3, NAN),
        ("(€ 1,200)", -1200, -1.2),
        ("12,50-", NAN, -12.5),
        ("(12", NAN, NAN),
        ("(-12)", NAN, NAN),
        ("12 apples", NAN, NAN),
        ("12,34,567", NAN, NAN),
        ("1 2", NAN, NAN),
        ("1,234 567", NAN, NAN),
        ("2024-01-31", NAN, NAN),
        ("12o", NAN, NAN),
        ("", NAN, NAN),
        ("--5", NAN, NAN),
        ("1e", NAN, NAN),
    ],
)
def test_numbers(text: str, point: float, comma: float) -> None:
    np.testing.assert_array_equal([read_numbers([text], mark)[0] for mark in (".", ",")], [point, comma])


@given(st.floats(-1e15, 1e15), st.sampled_from(".,"), st.sampled_from(["", " ", "'", "\u202f", "other"]))
def test_numbers_are_read_as_they_were_written(value: float, mark: str, group: str) -> None:
    group = {".": ",", ",": "."}[mark] if group == "other" else group
    written = f"{value:,.6f}".replace(",", "G").replace(".", mark).replace("G", group)
    # pandas reads sixteen and more digits to the neighbouring float at worst.
    np.testing.assert_array_max_ulp(read_numbers([written], mark)[0], float(f"{value:.6f}"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "notation"),
    [
        (["1", "2"], "same"),
        (["1,5", "2"], ","),
        (["1.5", "2"], "."),
        (["1,234", "5,678"], "either"),
        (["1.234", "5.678"], "either"),
        (["1,234", "1,5"], ","),
        (["1.234", "4.85"], "."),
        (["1,234.5"], "."),
        (["a, b", "c."], "same"),
        ([], "same"),
    ],
)
def test_notation(texts: list[str], notation: str) -> None:
    assert notation_of(texts, ones(texts)) == notation


def days(text: str) -> float:
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return moment.timestamp() / 86_400


@pytest.mark.parametrize(
    ("texts", "expected", "order", "ambiguous"),
    [
        (["2024-01-31", "1969-12-31"], ["2024-01-31", "1969-12-31"], "", False),
        (["2024-01-31 12:00:00", "2024-02-01 00:00:00"], ["2024-01-31 12:00", "2024-02-01"], "", False),
        (["2024-01-31T12:00:00+02:00"], ["2024-01-31 10:00"], "", False),
        (["20240131", "20231201"], ["2024-01-31", "2023-12-01"], "", False),
        (["2024/01/31"], ["2024-01-31"], "", False),
        (["31.1.2024", "1.2.2024"], ["2024-01-31", "2024-02-01"], "day first", False),
        (["01.02.2024"], ["2024-02-01"], "day first", False),
        (["31/01/2024", "01/02/2024"], ["2024-01-31", "2024-02-01"], "day first", False),
        (["01/31/2024", "02/01/2024"], ["2024-01-31", "2024-02-01"], "month first", False),
        (["01/02/2024", "03/04/2024"], ["2024-02-01", "2024-04-03"], "day first", True),
        (["01/01/2024", "02/02/2024"], ["2024-01-01", "2024-02-02"], "day first", False),
        (["01-02-24", "25-12-23"], ["2024-02-01", "2023-12-25"], "day first", False),
        (["31.01.2024 06:00"], ["2024-01-31 06:00"], "day first", False),
        (["3 Jan 2024", "15 Dec 2023"], ["2024-01-03", "2023-12-15"], "", False),
        (["Jan 3, 2024"], ["2024-01-03"], "", False),
        (["January 3, 2024", "May 5, 2020"], ["2024-01-03", "2020-05-05"], "", False),
    ],
)
def test_dates(texts: list[str], expected: list[str], order: str, ambiguous: bool) -> None:
    dates = read_dates(texts, ones(texts))
    assert dates is not None
    np.testing.assert_allclose(dates.days, [days(one) for one in expected], rtol=0, atol=1e-9)
    assert (dates.order, dates.ambiguous) == (order, ambiguous)


@given(
    st.lists(st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)), min_size=1, max_size=5, unique=True),
    st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%d-%b-%Y"]),
)
def test_dates_are_read_as_they_were_written(written: list[datetime.date], form: str) -> None:
    dates = read_dates([one.strftime(form) for one in written], np.ones(len(written), dtype=np.int64))
    assert dates is not None
    assert dates.days.tolist() == [(one - datetime.date(1970, 1, 1)).days for one in written]


@pytest.mark.parametrize("texts", [["clerk", "smith"], ["A1-2", "B2-3"], ["10.0.0.1"], ["may", "june"], ["99/99/2024"]])
def test_what_is_no_date(texts: list[str]) -> None:
    dates = read_dates(texts, ones(texts))
    assert dates is None or np.isnan(dates.days).all()


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["yes", "No"], [1, 0]),
        (["TRUE", "FALSE"], [1, 0]),
        (["ja", "nein"], [1, 0]),
        (["yes", "false"], None),
        (["yes", "no", "unknown"], None),
    ],
)
def test_yes_or_no(texts: list[str], values: list[float] | None) -> None:
    found = yes_or_no(texts)
    assert (None if found is None else found.tolist()) == values


def test_missing_words_and_codes() -> None:
    assert all(is_missing_word(word) for word in ("", "NA", "n/a", "NULL", "?", "-", "nan", "None"))
    assert not any(is_missing_word(word) for word in ("0", "no", "unknown", "nada"))
    assert are_codes(["01234", "99999"])
    assert not are_codes(["0", "10"])
    assert not are_codes(["01234", "0.5"])
