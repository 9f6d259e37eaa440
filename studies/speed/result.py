"""What a benchmark found, as it is written, read back, and shown: on a terminal, and as Markdown."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.common.durable import write_durably
from studies.speed.machine import Machine, this_machine, versions

SCHEMA = 1


@dataclass(frozen=True)
class Spread:
    """Repeated measurements of one quantity.

    Attributes:
        median: of all repetitions.
        least: the smallest.
        most: the largest.
        runs: how many repetitions.
    """

    median: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarise some repetitions, at least one."""
        return cls(float(median(values)), float(min(values)), float(max(values)), len(values))

    def scaled(self, factor: float) -> "Spread":
        """The same quantity in another unit, or of so many equal operations."""
        return Spread(self.median * factor, self.least * factor, self.most * factor, self.runs)


Cell = Spread | float | int | str | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        key: its name in rows.
        heading: what stands above it, with the unit.
    """

    key: str
    heading: str


@dataclass(frozen=True)
class ResultTable:
    """Rows that were measured in one run, so that they may be compared.

    Attributes:
        key: the table's name, which stays.
        title: what was measured.
        columns: in the order in which they are shown.
        rows: a cell per column; None where there is nothing to say.
        notes: sentences about what the figures mean.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Cell], ...]
    notes: tuple[str, ...] = ()

    def row(self, **wanted: Cell) -> Row | None:
        """Find the first row with these cells; None where there is none."""
        return next((row for row in self.rows if all(row.get(key) == cell for key, cell in wanted.items())), None)


@dataclass(frozen=True)
class Result:
    """Everything that one run of one subject found.

    Attributes:
        subject: what was measured, such as ``he``.
        command: the command that measures it again.
        tables: in the order in which they are shown.
        machine: what it ran on.
        versions: of what ran, by name.
        schema: version of this format.
    """

    subject: str
    command: str
    tables: tuple[ResultTable, ...]
    machine: Machine = field(default_factory=this_machine)
    versions: dict[str, str] = field(default_factory=versions)
    schema: int = SCHEMA

    def table(self, key: str) -> ResultTable | None:
        """Find a table by its name; None where it wasn't measured."""
        return next((one for one in self.tables if one.key == key), None)

    def as_json(self) -> dict[str, Any]:
        """The same facts as a JSON document has them."""
        return asdict(self)


def command_of(subject: str, asked: Any, always: Sequence[str], given: Sequence[str] = (), more: str = "") -> str:
    """Spell the command that measures a subject again.

    Args:
        subject: of ``plumbline bench``.
        asked: a dataclass of what is measured, which has a default for every field.
        always: fields that are options and always named.
        given: fields that are options, named where they aren't the default.
        more: all that isn't the option of a number.
    """
    usual = type(asked)()
    named = (*always, *(name for name in given if getattr(asked, name) != getattr(usual, name)))
    options = (f"--{name.replace('_', '-')} {getattr(asked, name)}" for name in named)
    return " ".join(filter(None, ("plumbline bench", subject, more, *options)))


def columns_of(**headings: str) -> tuple[Column, ...]:
    """Name columns and their headings, in order."""
    return tuple(Column(key, heading) for key, heading in headings.items())


def middle(cell: Cell) -> float | None:
    """The number of a cell, the median where it was repeated; None for what is no number."""
    if isinstance(cell, Spread):
        return cell.median
    return float(cell) if isinstance(cell, int | float) else None


def write_result(result: Result, path: Path) -> None:
    """Write a result as JSON."""
    write_durably(path, (json.dumps(result.as_json(), indent=1) + "\n").encode())


def read_result(path: Path) -> Result:
    """Read a result back. Raises ValueError for a file that holds none, or one of another version."""
    try:
        found: Result = TypeAdapter(Result).validate_json(path.read_bytes())
    except ValidationError:
        raise ValueError(f"{path.name} holds no benchmark's result: run `plumbline bench` again.") from None
    if found.schema != SCHEMA:
        raise ValueError(f"{path.name} was written by another version: run `{found.command}` again.")
    return found


Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing of what is being measured."""


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
