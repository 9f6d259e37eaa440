"""Elements of pages of experiments: drawings, tables and heat maps, numbers in words, JSON that any reader takes."""

import io
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

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
        figure.savefig(
            buffer, format="svg", metadata={"Date": None}, bbox_inches="tight" if tight else None, transparent=True
        )
    return buffer.getvalue()


def inline(svg: str, title: str) -> Markup:
    """Make one of our own drawings part of a page: its colours are the page's, and no style of its own is left.

    A page lets no style sheet act but its own, so what matplotlib writes as styles becomes attributes.

    Arguments:
        svg: the document.
        title: for those who don't see it.
    """
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(svg[svg.index("<svg") :])  # noqa: S314 - our own drawing
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        for name, value in _properties(element.attrib.pop("style", "")):
            element.set(name, _PAGE_COLOURS.get(value, value))
    # What matplotlib's own style sheet says of all.
    root.attrib.update({"stroke-linejoin": "round", "stroke-linecap": "butt"})
    root.attrib.update({"class": "plot", "role": "img", "fill": "currentColor"})
    named = ElementTree.Element(f"{{{_SVG}}}title")
    named.text = title
    root.insert(0, named)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 - our own drawing, its title escaped


_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
# What drawings are drawn with, and what stands for it on a light page and on a dark one (templates/elements/style.css).
_PAGE_COLOURS = {
    **dict.fromkeys(("#000000", "#1d2733"), "currentColor"),
    **dict.fromkeys(("#444444", "#666666", "#999999"), "var(--soft)"),
    **dict.fromkeys(("#1b6ca8", "#1f77b4"), "var(--s1)"),
    **dict.fromkeys(("#c8553d", "#ff7f0e"), "var(--s2)"),
    **dict.fromkeys(("#2a9d8f", "#2ca02c"), "var(--s3)"),
    **dict.fromkeys(("#8e6bbf", "#6b4c9a", "#7b5ea7"), "var(--s4)"),
    **dict.fromkeys(("#e9a23b", "#e0a030"), "var(--s5)"),
    "#7fb6d9": "var(--s6)",
    "#dde3e9": "var(--line)",
}


def _properties(style: str) -> list[tuple[str, str]]:
    """Names and values of a style; of a font given in one word, the size, since its family is the page's."""
    pairs = [(name.strip(), value.strip()) for name, _, value in (one.partition(":") for one in style.split(";"))]
    fonts = {"font": "font-size", "font-family": ""}
    pairs = [(fonts.get(name, name), value.split(" ")[0] if name == "font" else value) for name, value in pairs]
    return [(name, value) for name, value in pairs if name]


# A number below this is written with a power of ten, as is a larger one than the other.
_SMALLEST, _LARGEST = 1e-5, 1e9
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number_words(value: float, digits: int = 2) -> str:
    """Write a number for reading, with so many digits that count: 0.00076, 34, 1,200,000, 6.1 × 10⁻¹⁴, ∞."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    if value and not _SMALLEST <= abs(value) < _LARGEST:
        return f"{value:.{digits - 1}e}".partition("e")[0] + " × 10" + str(exponent).translate(_RAISED)
    decimals = max(0, digits - 1 - exponent) if value else 0
    return f"{round(value, digits - 1 - exponent):,.{decimals}f}"


def json_text(content: Any) -> str:
    """Write JSON without NaN or infinity, which it doesn't know.

    Raises:
        ValueError: for content that has some.
    """
    return json.dumps(content, indent=1, allow_nan=False)
