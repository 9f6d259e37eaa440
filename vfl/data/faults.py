"""What is wrong with a table, said to a person: all of it at once, with columns and row numbers and never a cell.

Rows are counted from 1, a header line not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

# Names that a message lists, and letters of a name, of all names in a list, and of a path.
_MOST_NAMES, _MOST_OF_A_NAME, _MOST_OF_A_LIST, _MOST_OF_A_PATH = 20, 60, 240, 160
# Letters of a fault, and faults of a message: whatever a sentence holds, no file goes through it.
_MOST_OF_A_FAULT, _MOST_FAULTS = 500, 20


class TableError(ValueError):
    """A table cannot be used as it is; the message has a line for each fault, with where it is and what to do.

    Attributes:
        problems: the lines: at most twenty of 500 letters, and how many more there are.
    """

    def __init__(self, *problems: str) -> None:
        sentences = [_cut(problem, _MOST_OF_A_FAULT) for problem in problems[:_MOST_FAULTS]]
        if len(problems) > _MOST_FAULTS:
            sentences.append(f"And {counted(len(problems) - _MOST_FAULTS, 'more fault')}.")
        super().__init__("\n".join(sentences))
        self.problems = tuple(sentences)


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
    numbers = ", ".join(f"{row:,}" for row in rows[:3])
    return f"row {numbers}" if len(rows) == 1 else f"rows {numbers}" + (", ..." if len(rows) > 3 else "")


def counted(number: int, noun: str) -> str:
    """Say how many there are, with the noun in its number."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def bounded(name: str) -> str:
    """A column's name for a message: the beginning of its first line. What follows may be cells, of an open quote."""
    line = name.strip().partition("\n")[0].partition("\r")[0]
    return _cut(line if line == name.strip() else f"{line}…", _MOST_OF_A_NAME)


def quoted(name: str) -> str:
    """A column's name, bounded and between quotes."""
    return repr(bounded(name))


def quoted_path(path: object) -> str:
    """A path between quotes; of a long one its end."""
    text = str(path)
    return repr(text if len(text) <= _MOST_OF_A_PATH else f"…{text[1 - _MOST_OF_A_PATH :]}")


def name_list(names: Sequence[str]) -> str:
    """List names of columns: up to twenty, and no more letters than a line has."""
    quoted_names: list[str] = []
    for name in names[:_MOST_NAMES]:
        if quoted_names and sum(map(len, quoted_names)) + len(name) > _MOST_OF_A_LIST:
            break
        quoted_names.append(quoted(name))
    listed = ", ".join(quoted_names) or "none"
    return listed if len(names) <= len(quoted_names) else f"{listed} and {len(names) - len(quoted_names):,} more"


def _cut(sentence: str, most: int) -> str:
    return sentence if len(sentence) <= most else f"{sentence[: most - 1]}…"
