"""The looks at pages themselves: each finds what it is for, and nothing on a page that has nothing of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.pages import LOOKS, MOST_BYTES, Look, problems_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

WIDE, PAPER = Look("wide", 1400), LOOKS[-1]
PLAIN = "<p>Words.</p>"
TABLE = '<table><caption>Of two.</caption><tr><th scope="col">one</th></tr><tr><td>1</td></tr></table>'
DRAWING = '<svg width="100" height="100" role="img"><title>A dot</title><circle cx="50" cy="50" r="9"/></svg>'


def seen(browser: "Browser", folder: Path, body: str, look: Look = WIDE, style: str = "") -> list[str]:
    file = folder / "page.html"
    file.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>'
        f"<style>{style}</style></head><body><main><h1>A page</h1>{body}</main></body></html>"
    )
    return problems_of(browser, file, look)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_nothing_is_wrong_with_a_plain_page(browser: "Browser", tmp_path: Path, look: Look) -> None:
    assert seen(browser, tmp_path, PLAIN + TABLE + DRAWING, look) == []


@pytest.mark.parametrize(
    ("body", "style", "words"),
    [
        ("<script>console.error('oh')</script>", "", "The console says: oh"),
        ("<script>throw new Error('oh')</script>", "", "The console says: oh"),
        ('<img alt="" src="other.png">', "", "/other.png."),
        ('<p class="wide">Words.</p>', ".wide { width: 1500px }", "wide in a window of 1400"),
        ('<p class="far">Words.</p>', ".far { margin-left: -60px }", '"Words." is cut off by the edge of the page'),
        ('<p class="cut">Many words.</p>', ".cut { width: 30px; height: 9px; overflow: hidden }", "is cut off by <p"),
        (
            '<p class="dots">Many words.</p>',
            ".dots { width: 30px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis }",
            '"Many words." is cut off by <p class="dots">',
        ),
        (DRAWING.replace("50", "99"), "", "<circle>"),
        (
            '<svg width="60" height="20"><title>T</title><text y="15">A legend of words</text></svg>',
            "",
            "<text>",
        ),
        ('<svg width="60" height="20"></svg>', "", "A drawing has no title"),
        (TABLE.replace("<caption>Of two.</caption>", ""), "", "A table has no caption"),
        (TABLE.replace(' scope="col"', ""), "", "doesn't say whether of a row or a column"),
        ('<p class="pale">Words.</p>', ".pale { color: #bbb }", "color-contrast"),
        ('<details><summary>More</summary><p style="color: #bbb">Words.</p></details>', "", "color-contrast"),
        ("<button></button>", "", "button-name"),
        (f"<!-- {'x' * MOST_BYTES} -->", "", "more than 2,000,000"),
    ],
)
def test_what_is_wrong_is_found(browser: "Browser", tmp_path: Path, body: str, style: str, words: str) -> None:
    assert any(words in problem for problem in seen(browser, tmp_path, PLAIN + body, style=style))


DETAILS = "<details><summary>More</summary><p>Words.</p></details>"
OPENS = "@media print { details::details-content { content-visibility: visible } }"
SCROLLS = '<div class="box" tabindex="0"><p>Words.</p></div>'
DARK = "@media (prefers-color-scheme: dark) { body { background: black; color: white } }"
WIDER = ".box { overflow-x: auto; width: 200px } .box p { width: 300px; text-align: right }"


def test_paper_has_open_details_and_scrolls_nowhere(browser: "Browser", tmp_path: Path) -> None:
    assert any("Details are closed on paper" in one for one in seen(browser, tmp_path, DETAILS, PAPER))
    assert seen(browser, tmp_path, DETAILS, PAPER, OPENS) == []
    assert any("which scrolls" in one for one in seen(browser, tmp_path, SCROLLS, PAPER, WIDER))
    assert seen(browser, tmp_path, SCROLLS, WIDE, WIDER) == []


def test_paper_is_white_for_who_prefers_dark_screens(browser: "Browser", tmp_path: Path) -> None:
    assert any("Paper is not white" in one for one in seen(browser, tmp_path, PLAIN, PAPER, DARK))
    assert seen(browser, tmp_path, PLAIN, PAPER, DARK.replace("@media", "@media screen and")) == []
