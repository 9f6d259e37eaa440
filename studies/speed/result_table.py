"""Results as a person reads them: on a terminal, and as Markdown."""

import math
from collections.abc import Iterator
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from studies.speed.result import Cell, Result, ResultTable, Spread

# Of a column besides its words.
_FRAME = 3


def cell_words(cell: Cell) -> str:
    """Three digits of a number; a repeated one with its smallest and largest value."""
    if isinstance(cell, Spread):
        ends = f" ({number_words(cell.least)}–{number_words(cell.most)})"
        return number_words(cell.median) + (ends if cell.runs > 1 else "")
    if isinstance(cell, int | float):
        return number_words(cell)
    return "" if cell is None else cell


def number_words(value: float) -> str:
    """Three digits that count, and whole numbers whole."""
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 2
    return f"{value:.{decimals}f}"


def print_result(result: Result, console: Console) -> None:
    """Print every table of a result, the machine, and what the figures mean."""
    for table in result.tables:
        _print_table(table, console)
        for note in table.notes:
            console.print(Text(note), soft_wrap=False)
        console.print()
    console.print(Text(f"{result.machine.words}. Medians, with the smallest and the largest."), soft_wrap=False)


def _print_table(table: ResultTable, console: Console) -> None:
    # The spread on a line of its own: a terminal has 80 columns.
    cells = [[cell_words(row.get(column.key)).replace(" (", "\n(") for column in table.columns] for row in table.rows]
    widths = [
        max(map(len, [*column.heading.split(), *(line for row in cells for line in row[index].splitlines())]))
        for index, column in enumerate(table.columns)
    ]
    if sum(widths) + _FRAME * len(widths) + 1 > console.width:
        _print_paragraphs(table, console)
        return
    shown = Table(title=table.title, title_justify="left")
    for column, width in zip(table.columns, widths, strict=True):
        justify: Literal["left", "right"] = "left" if _is_text(table, column.key) else "right"
        shown.add_column(column.heading, justify=justify, min_width=width)
    for row in cells:
        shown.add_row(*row)
    console.print(shown)


def _print_paragraphs(table: ResultTable, console: Console) -> None:
    """Where a table is wider than the terminal, each row is a paragraph."""
    console.print(Text(table.title, style="bold"), soft_wrap=False)
    first, *others = table.columns
    for row in table.rows:
        facts = [f"{one.heading} {words}" for one in others if (words := cell_words(row.get(one.key)))]
        console.print(Text(f"{cell_words(row.get(first.key))}: {', '.join(facts)}"), soft_wrap=False)


def markdown(table: ResultTable) -> Iterator[str]:
    """Write a table's lines as Markdown."""
    marks = ["---" if _is_text(table, column.key) else "---:" for column in table.columns]
    yield f"| {' | '.join(column.heading for column in table.columns)} |"
    yield f"|{'|'.join(marks)}|"
    for row in table.rows:
        yield f"| {' | '.join(cell_words(row.get(column.key)) for column in table.columns)} |"


def _is_text(table: ResultTable, key: str) -> bool:
    return all(isinstance(row.get(key), str | None) for row in table.rows)
