"""Results on a terminal of 80 columns, and as Markdown."""

import io

import pytest
from rich.console import Console

from studies.speed.result import (
    Result,
    ResultTable,
    Spread,
    cell_words,
    columns_of,
    markdown,
    number_words,
    print_result,
)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.000123, "0.000123"), (0.5, "0.500"), (1.0, "1.00"), (12.34, "12.3"), (123456.7, "123,457"), (7, "7"), (0, "0")],
)
def test_three_digits_count(value: float, words: str) -> None:
    assert number_words(value) == words


def test_a_cell_that_was_repeated_has_its_ends() -> None:
    assert cell_words(Spread(2.0, 1.0, 4.0, 3)) == "2.00 (1.00–4.00)"
    assert cell_words(Spread(2.0, 2.0, 2.0, 1)) == "2.00"
    assert cell_words(None) == ""


def table(columns: int) -> ResultTable:
    names = {f"c{number}": f"heading {number}" for number in range(columns)}
    return ResultTable("t", "Title", columns_of(**names), ({name: Spread(1.0, 0.5, 2.0, 3) for name in names},))


@pytest.mark.parametrize("columns", [2, 12])
def test_no_number_is_cut_on_a_narrow_terminal(columns: int) -> None:
    out = io.StringIO()
    print_result(Result("he", "plumbline bench he", (table(columns),)), Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert text.count("0.500") == columns


def test_markdown_has_a_cell_per_column() -> None:
    heading, rule, row = markdown(table(3))
    assert heading.count("|") == rule.count("|") == row.count("|") == 4
    assert "1.00 (0.500–2.00)" in row
