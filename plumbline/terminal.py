"""Words for a terminal, whoever chose them: they are no markup, move no cursor, and end."""

from rich.text import Text

from services.common.words import escaped

# Of a line that holds what another party, or a table, says.
MOST_SHOWN = 2_000


def shown(text: str) -> str:
    """Make another party's words fit for a terminal: one line that moves no cursor, changes no colour and no title."""
    return escaped(text, MOST_SHOWN)


def shown_text(text: str, style: str = "") -> Text:
    """Make them a text of rich, which reads no markup in them."""
    return Text(shown(text), style)
