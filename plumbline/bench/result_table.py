"""Results as a person reads them: on a terminal, and as Markdown."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plumbline.bench.result import Cell, Result, ResultTable, Spread

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
    return np.format_float_positional(value, precision=3, fractional=False, trim="k")


def print_result(result: Result, console: Console) -> None:
    """Print every table of a result, the machine, and what the figures mean."""
    for table in result.tables:
        _print_table(table, console)
        for note in table.notes:
            console.print(Text(note))
    console.print(Text(f"{result.machine.words}. Medians, with the smallest and the largest."))


def _print_table(table: ResultTable, console: Console) -> None:
    # The spread on a line of its own: a terminal has 80 columns.
    cells = [[cell_words(row.get(column.key)).replace(" (", "\n(") for column in table.columns] for row in table.rows]
    if _width(table, cells) > console.width:
        _print_blocks(table, console)
        return
    shown = Table(title=table.title, title_justify="left")
    for column in table.columns:
        shown.add_column(column.heading, justify="left" if _is_text(table, column.key) else "right")
    for row in cells:
        shown.add_row(*row)
    console.print(shown)


def _width(table: ResultTable, cells: Sequence[Sequence[str]]) -> int:
    """How wide a table is where nothing but a heading is broken, and that between words."""
    parts = [
        [*column.heading.split(), *(line for row in cells for line in row[index].splitlines())]
        for index, column in enumerate(table.columns)
    ]
    return sum(max(map(len, words), default=0) + _FRAME for words in parts) + 1


def _print_blocks(table: ResultTable, console: Console) -> None:
    """Where a table is wider than the terminal, each row is a block of lines."""
    console.print(Text(table.title, style="italic"))
    for row in table.rows:
        for index, column in enumerate(table.columns):
            words = cell_words(row.get(column.key))
            if words:
                console.print(Text(words if index == 0 else f"  {column.heading}: {words}"))


def markdown(table: ResultTable) -> Iterator[str]:
    """Write a table's lines as Markdown."""
    marks = ["---" if _is_text(table, column.key) else "---:" for column in table.columns]
    yield f"| {' | '.join(column.heading for column in table.columns)} |"
    yield f"|{'|'.join(marks)}|"
    for row in table.rows:
        yield f"| {' | '.join(cell_words(row.get(column.key)) for column in table.columns)} |"


def _is_text(table: ResultTable, key: str) -> bool:
    return all(isinstance(row.get(key), str | None) for row in table.rows)
