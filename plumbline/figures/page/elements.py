"""Elements of pages of experiments: drawings as SVG text, tables of text, JSON that any reader takes."""

import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def svg_text(figure: "Figure", *, tight: bool = False, with_text: bool = False) -> str:
    """Draw a figure as an SVG document; the same figure gives the same text.

    Arguments:
        figure: what to draw.
        tight: without white margins.
        with_text: words stay text in the reader's font; otherwise they are drawn as paths.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    # Without a fixed salt every drawing has other ids, and the same run other files.
    with rc_context({"svg.hashsalt": "plumbline", "svg.fonttype": "none" if with_text else "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight" if tight else None)
    return buffer.getvalue()


def inline(svg: str) -> Markup:
    """Cut the svg element out of one of our own drawings, for a page."""
    return Markup(svg[svg.index("<svg") :])  # noqa: S704 - our own drawing


def json_text(content: Any) -> str:
    """Write JSON without NaN or infinity, which it doesn't know.

    Raises:
        ValueError: for content that has some.
    """
    return json.dumps(content, indent=1, allow_nan=False)
