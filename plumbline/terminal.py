"""Words for a terminal, whoever chose them: they are no markup, move no cursor, and end."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from services.common.words import escaped

if TYPE_CHECKING:
    from rich.table import Table

# Of a line that holds what another party, or a table, says.
MOST_SHOWN = 2_000


def shown(text: str) -> str:
    """Make another party's words fit for a terminal: one line that moves no cursor, changes no colour and no title."""
    return escaped(text, MOST_SHOWN)


def shown_text(text: str, style: str = "") -> Text:
    """Make them a text of rich, which reads no markup in them."""
    return Text(shown(text), style)


def folded_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    """Make a table whose cells fold where there is little room, and may be anybody's words."""
    from rich.table import Column, Table  # slow to import

    table = Table(*(Column(heading, overflow="fold") for heading in headings), title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(shown_text, row))
    return table
