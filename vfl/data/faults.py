"""What is wrong with a table, said to a person: all of it at once, with columns and row numbers and never a cell.

Rows are counted from 1, a header line not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

# Names of columns that a message lists.
_MOST_NAMES = 20


class TableError(ValueError):
    """A table cannot be used as it is; the message has a line for each fault, with where it is and what to do.

    Attributes:
        problems: the lines.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass
class Problems:
    """Faults found so far, told together.

    Attributes:
        found: a sentence each.
    """

    found: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        """Note a fault."""
        self.found.append(problem)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes what is refused within, and goes on."""
        try:
            yield
        except TableError as error:
            self.found.extend(error.problems)

    def tell(self) -> None:
        """Raise TableError with all faults, if there are any."""
        if self.found:
            raise TableError(*self.found)


def row_list(rows: Sequence[int]) -> str:
    """Name rows: the first three of them."""
    shown = ", ".join(f"{row:,}" for row in rows[:3])
    return f"row {shown}" if len(rows) == 1 else f"rows {shown}" + (", ..." if len(rows) > 3 else "")


def counted(number: int, noun: str) -> str:
    """Say how many there are, with the noun in its number."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def name_list(names: Sequence[str]) -> str:
    """List names of columns, up to twenty."""
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES]) or "none"
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
