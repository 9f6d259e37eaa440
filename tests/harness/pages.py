"""Looks at pages in a headless Chromium as their readers do, and says what is wrong with what they see."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Never one that a package downloads: that of the system, under whichever of its names.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MOST_BYTES = 2_000_000
# Where to leave pictures of what was seen, for who looks as well. Read before the tests' own environment is made.
_PICTURES = os.environ.get("PLUMBLINE_TEST_PICTURES")
_STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_CHECKS = (Path(__file__).parent / "page_checks.js").read_text()


@dataclass(frozen=True)
class Look:
    """One way to look at a page.

    Attributes:
        name: of the way.
        width: of the window, in CSS pixels.
        scheme: which colours the reader prefers.
        media: a screen, or paper.
    """

    name: str
    width: int
    scheme: Literal["light", "dark"] = "light"
    media: Literal["screen", "print"] = "screen"


# Paper is A4 between margins of a centimetre; who prefers dark screens prints on white all the same.
LOOKS = (
    Look("wide, light", 1400),
    Look("wide, dark", 1400, "dark"),
    Look("narrow, light", 400),
    Look("narrow, dark", 400, "dark"),
    Look("paper", 718, "dark", "print"),
)


@dataclass
class Visit:
    """A page that is open in one look.

    Attributes:
        page: Playwright's.
        look: how it is looked at.
        said: errors and warnings of the page's console, as they come.
        asked: addresses that the page asked for beside its own, as it asks.
    """

    page: "Page"
    look: Look
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def visited(browser: "Browser", file: Path, look: Look) -> Iterator[Visit]:
    """Opens a page's file, in a browser that remembers nothing, until nothing of it is left to load."""
    context = browser.new_context(viewport={"width": look.width, "height": 900}, color_scheme=look.scheme)
    # pytest has a limit: on a busy machine a page takes as long as it takes.
    context.set_default_timeout(0)
    try:
        visit = Visit(context.new_page(), look)
        own = file.resolve().as_uri()
        visit.page.on("console", lambda one: visit.said.append(one.text) if one.type in ("error", "warning") else None)
        visit.page.on("pageerror", lambda error: visit.said.append(str(error)))
        visit.page.on("request", lambda one: visit.asked.append(one.url) if _is_foreign(one.url, own) else None)
        visit.page.emulate_media(media=look.media, color_scheme=look.scheme)
        visit.page.goto(own, wait_until="load")
        yield visit
    finally:
        context.close()


def _is_foreign(address: str, own: str) -> bool:
    return address.partition("#")[0] != own and not address.startswith(("data:", "blob:"))


def problems_of(browser: "Browser", file: Path, look: Look, *, most_bytes: int = MOST_BYTES) -> list[str]:
    """Look at a page, with its details closed and open; what is wrong, in sentences, and nothing where all is well."""
    size = file.stat().st_size
    problems = [f"The file has {size:,} bytes, more than {most_bytes:,}."] if size > most_bytes else []
    with visited(browser, file, look) as visit:
        problems += visit.page.evaluate(_CHECKS, look.media == "print")
        _keep_picture(visit, file)
        if look.media == "screen":
            visit.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            problems += visit.page.evaluate(_CHECKS, False)
        else:
            # What a page does of itself when it is printed, and whether anything stops it.
            visit.page.pdf()
        problems += barriers(visit.page)
        problems += [f"The console says: {text}" for text in visit.said]
        problems += [f"The page asks for {address}." for address in visit.asked]
    return list(dict.fromkeys(problems))


def barriers(page: "Page") -> list[str]:
    """What axe-core finds against WCAG 2.2, levels A and AA, one sentence per rule and place."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"runOnly": {"type": "tag", "values": _STANDARDS}, "resultTypes": ["violations"]}
    found = Axe().run(page, options=options).response["violations"]
    if page.evaluate("matchMedia('print').matches"):
        # Nobody touches paper.
        found = [rule for rule in found if rule["id"] != "target-size"]
    return [
        f"{rule['help']} ({rule['id']}): {node['html'][:160]} {_one_line(node.get('failureSummary', ''))}"
        for rule in found
        for node in rule["nodes"]
    ]


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _keep_picture(visit: Visit, file: Path) -> None:
    if _PICTURES:
        name = f"{file.parent.name}-{file.stem}-{visit.look.name}".replace(", ", "-")
        visit.page.screenshot(path=Path(_PICTURES) / f"{name}.png", full_page=True)
