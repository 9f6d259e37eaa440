"""What axe-core finds against WCAG 2.2 AA on the pages of the built site, on a wide light screen and a narrow dark one.

make docs && python -m scripts.site_barriers gallery.html faq.html
"""

import argparse
import sys
import threading
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.pages import CHROMIUM, LOOKS, Look, barriers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SITE = Path("build/site")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def found_on(browser: "Browser", address: str, look: Look) -> list[str]:
    """Open a page in one look; a sentence for each barrier, and one where it is wider than the screen."""
    context = browser.new_context(viewport={"width": look.width, "height": 900}, color_scheme=look.scheme)
    try:
        page = context.new_page()
        page.goto(address, wait_until="load")
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return barriers(page) + ([f"It is {wider} pixels wider than the screen."] if wider > 1 else [])
    finally:
        context.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every barrier once, with the page and the look where it was first met; 1 where there are any."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(prog="python -m scripts.site_barriers", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="within build/site; default: all")
    pages = parser.parse_args(arguments).pages
    pages = pages or sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
    if not pages:
        parser.error(f"there is no site in {SITE}: run `make docs` first.")
    if CHROMIUM is None:
        parser.error("there is no Chromium here: install the package chromium.")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    seen: set[str] = set()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        for name in pages:
            for look in (LOOKS[0], LOOKS[3]):
                for words in found_on(browser, f"http://127.0.0.1:{server.server_port}/{name}", look):
                    if words not in seen:
                        print(f"{name}, {look.name}: {words}", flush=True)
                    seen.add(words)
    print(f"{len(pages)} pages, {len(seen)} barriers.")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
