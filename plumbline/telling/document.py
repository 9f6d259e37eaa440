"""What findings say as one document: a sentence, a matrix of lights, a line for each column, tables.

Whoever shows findings renders this: the console, pages, the annex and a notebook. It holds words and numbers, and
computes neither; ``dataclasses.asdict`` makes JSON of it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.telling.numbers import percent

# What a light says; grey: not measured or not shown, so never a word of safety.
Light = Literal["green", "amber", "red", "grey"]
LIGHT_WORDS: Mapping[Light, str] = {
    "red": "Leaks much",
    "amber": "Leaks something",
    "green": "Leaks little",
    "grey": "Not shown",
}
# The light's colour where no style sheet says it: those of our pages by day.
COLOURS: Mapping[Light, str] = {"red": "#b3261e", "amber": "#8a5a00", "green": "#007a5a", "grey": "#5b6672"}


@dataclass(frozen=True)
class Cell:
    """What leaks in one case.

    Attributes:
        light: the worst of what is counted.
        words: how much: ``6 of 15``, ``76 % told``, ``not measured``.
    """

    light: Light
    words: str


NOT_MEASURED = Cell("grey", "not measured")


@dataclass(frozen=True)
class Table:
    """Rows of words and lights, whoever draws them.

    Attributes:
        title: what it is of, in a few words.
        caption: how it is read; empty where headings say it.
        headings: one a column.
        rows: as many cells each; the first names the row.
        right: places of the columns of numbers, which stand flush right.
        widths: of the columns on paper, in percent; empty for what they need.
    """

    title: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str | Cell, ...], ...]
    right: Collection[int] = ()
    widths: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, title: str, caption: str, headings: str, rows: Iterable[Iterable[object]], widths: tuple[int, ...] = ()
    ) -> "Table":
        """Make a table of our own headings, with bars between them; one that begins with ``>`` is of numbers."""
        table = cls.under(headings.split("|"), title, rows)
        right = tuple(place for place, one in enumerate(table.headings) if one.startswith(">"))
        names = tuple(one.removeprefix(">") for one in table.headings)
        return replace(table, caption=caption, headings=names, right=right, widths=widths)

    @classmethod
    def under(cls, headings: Iterable[str], title: str, rows: Iterable[Iterable[object]]) -> "Table":
        """Make a table of headings that others chose."""
        cells = tuple(tuple(one if isinstance(one, Cell) else str(one) for one in row) for row in rows)
        return cls(title, "", tuple(headings), cells)


@dataclass(frozen=True)
class Glance:
    """The answer in one sentence, whether to join, and a matrix.

    Attributes:
        sentence: at most twenty words.
        parameters: what passive parties do with theirs, from left to right.
        sessions: after how many, within each of these.
        rows: by what can leak, a cell for each of ``parameters`` x ``sessions``.
        learns: of each row what its cells count: how many of whose who learns.
        audited: number of the one of ``parameters`` that the run is of.
        joining: whether to join, by the rule of ``plumbline.judge.joining``; empty where nobody asked.
    """

    sentence: str
    parameters: tuple[str, ...]
    sessions: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    learns: tuple[str, ...] = ()
    audited: int = 0
    joining: str = ""

    @property
    def headings(self) -> tuple[tuple[str, str], ...]:
        """What stands above each cell: what becomes of parameters, and after how many sessions."""
        after = ["one session" if count == 1 else f"{count} sessions" for count in self.sessions]
        return tuple((does, when) for does in self.parameters for when in after)

    @property
    def unmeasured(self) -> str:
        """Say of which cells nothing was measured; empty where something was of each."""
        phrases, count = list[str](), len(self.sessions)
        for place, does in enumerate(self.parameters):
            gaps = {name: cells[place * count : (place + 1) * count].count(NOT_MEASURED) for name, cells in self.rows}
            if names := [name if gap == count else f"{name} in part" for name, gap in gaps.items() if gap]:
                phrases.append(f"where {'it' if phrases else 'a party'} {does}: {', '.join(names)}")
        return f"Not measured {'; '.join(phrases)}." if phrases else ""

    @property
    def named_rows(self) -> tuple[tuple[str, str, tuple[Cell, ...]], ...]:
        """Rows with what they are of, who learns it (empty where nobody says), and cells."""
        learns = self.learns or ("",) * len(self.rows)
        return tuple((name, who, cells) for (name, cells), who in zip(self.rows, learns, strict=True))


@dataclass(frozen=True)
class ColumnLine:
    """One column, as every table of columns says it.

    Attributes:
        column: its name.
        party: whose it is, as a person calls it.
        light: the verdict on it.
        role: ``sensitive`` or ``public``; empty for neither.
        level: what the adversary of these numbers knows beforehand.
        guess: how far off the best guess is, in the table's units, or how often it is right.
        attack: the same of the best attack; empty where none was judged.
        part: of what was unknown, from 0 to 1, that is told; None where nothing is unknown, or nothing was measured.
        ends: of its 95 % interval, in percent: ``38 to 48``; empty without a part.
        without: why there is no part; empty where there is one.
        by: the best attack's name; empty without one.
        alone: the share after one session alone, in words; empty where the lights are for one.
        more: what else is told of it: of records on a log scale, known, read nearly exactly.
        is_exposed: whether the part is beyond chance.
    """

    column: str
    party: str
    light: Light
    role: str
    level: str
    guess: str
    attack: str
    part: float | None
    ends: str
    without: str
    by: str
    alone: str
    more: tuple[str, ...]
    is_exposed: bool

    @property
    def share(self) -> str:
        """The part in percent; why there is none where there isn't."""
        return self.without if self.part is None else percent(self.part)

    @property
    def interval(self) -> str:
        """The same with its interval: ``43 % (38 to 48)``."""
        return f"{self.share} ({self.ends})" if self.ends else self.share


@dataclass(frozen=True)
class Document:
    """The first screen.

    Attributes:
        sentence: the answer.
        light: the worst of all.
        matrix: what leaks in which case; None where no parties were at it.
        columns: every column, the most exposed first.
        grounds: sentences that the answer rests on.
    """

    sentence: str
    light: Light
    matrix: Glance | None
    columns: tuple[ColumnLine, ...]
    grounds: tuple[str, ...]
