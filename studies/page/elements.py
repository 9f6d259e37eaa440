"""Elements of pages of experiments: tables, heat maps, numbers in words."""

from dataclasses import dataclass

from studies.number_words import number_words

__all__ = ["HeatMap", "PageTable", "number_words"]


@dataclass(frozen=True)
class PageTable:
    """A table of text.

    Attributes:
        caption: above it.
        headings: of the columns.
        rows: a row whose first cell is empty belongs to the one above it; a row of one cell is a heading of those below
            it.
        right: indices of the columns that are set flush right.
    """

    caption: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True)
class HeatMap:
    """A table whose cells are shaded by shares.

    Attributes:
        caption: above it, in a few words.
        note: below it: how to read it.
        headings: of all columns; the first stands over the names of the rows.
        rows: of text; the first cell names the row.
        shares: (rows, columns but the first) in [0, 1], the darker the larger; None without a shade.
    """

    caption: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shares: tuple[tuple[float | None, ...], ...]
