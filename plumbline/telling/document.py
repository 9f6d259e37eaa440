"""What findings say as one document: a sentence, a matrix of lights, a line for each column, tables and charts.

Whoever shows findings renders this: the console, pages, the annex, a notebook and ``results.json``. It holds words and
numbers, and computes neither; ``dataclasses.asdict`` makes JSON of it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from plumbline.telling.numbers import Between, hundredths, percent, share_words

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
class Shade:
    """A cell of a map, the darker the larger its share.

    Attributes:
        share: from 0 to 1; None where there is nothing to have a share of.
    """

    share: float | None

    @property
    def words(self) -> str:
        """The share in percent, a dot for hardly anything."""
        if self.share is None:
            return "n/a"
        return hundredths(self.share) if self.share >= 0.005 else "\N{MIDDLE DOT}"


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
    rows: tuple[tuple[str | Cell | Shade, ...], ...]
    right: Collection[int] = ()
    widths: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        caption: str,
        headings: str | Sequence[str],
        rows: Iterable[Iterable[object]],
        widths: tuple[int, ...] = (),
    ) -> "Table":
        """Make a table of headings, one by one or with bars between them; one that begins with ``>`` is of numbers."""
        names = headings.split("|") if isinstance(headings, str) else headings
        right = tuple(place for place, one in enumerate(names) if one.startswith(">"))
        cells = (tuple(one if isinstance(one, Cell | Shade) else str(one) for one in row) for row in rows)
        return cls(title, caption, tuple(one.removeprefix(">") for one in names), tuple(cells), right, widths)


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
        part: of what was unknown, that is told; None where nothing is unknown, or nothing was measured.
        without: why there is no part; empty where there is one.
        by: the best attack's name; empty without one.
        alone: the share after one session alone, in words; empty where the lights are for one.
        more: what else is told of it: of records on a log scale, known, read nearly exactly.
        is_exposed: whether the part is beyond chance.
        number: its place among all columns, the most exposed first, from 1.
    """

    column: str
    party: str
    light: Light
    role: str
    level: str
    guess: str
    attack: str
    part: Between | None
    without: str
    by: str
    alone: str
    more: tuple[str, ...]
    is_exposed: bool
    number: int

    @property
    def share(self) -> str:
        """The part in percent; why there is none where there isn't."""
        return self.without if self.part is None else percent(self.part.mean)

    @property
    def interval(self) -> str:
        """The same with its interval: ``43 % (38 to 48)``."""
        return self.without if self.part is None else share_words(self.part)

    @property
    def anyway(self) -> str:
        """How far off a guess and the best attack are, in the column's units, and what else is told."""
        errors = f"{self.guess} \N{RIGHTWARDS ARROW} {self.attack}" if self.attack else f"{self.guess} by guessing"
        alone = f"after one session alone the share is {self.alone}" if self.alone else ""
        return "; ".join(filter(None, (errors, *self.more, alone)))


@dataclass(frozen=True)
class Document:
    """What findings say; its first screen alone where tables and charts are empty.

    Attributes:
        sentence: the answer.
        light: the worst of all.
        matrix: what leaks in which case; None where no parties were at it.
        columns: every column, the most exposed first.
        grounds: sentences that the answer rests on.
        tables: by name.
        charts: by name, each a dataclass of ``plumbline.charts``; those of single columns, which draw cells of tables,
            stand on a page alone.
    """

    sentence: str
    light: Light
    matrix: Glance | None
    columns: tuple[ColumnLine, ...]
    grounds: tuple[str, ...]
    tables: Mapping[str, Table] = field(default_factory=dict)
    charts: Mapping[str, object] = field(default_factory=dict)
