"""Shows pages to browsers of this machine, and nothing else to nobody else: a watched federation's, or a list of runs.

python -m plumbline.audit.watching.page_server /pages [PORT]
"""

import sys
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from typing import Any

from services.watching.http_server import BoundedHandler, BoundedServer

_PORT = 8080
_HEADERS = {
    # Pages have a stricter policy of their own; what a page can't say of itself stands here.
    "Content-Security-Policy": (
        "default-src 'self' data:; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ERROR = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%(message)s</title></head>
<body><h1>%(message)s</h1><p>%(explain)s</p></body></html>
"""


@dataclass(frozen=True)
class Page:
    """A page that is made when it is asked for."""

    html: str
    status: HTTPStatus = HTTPStatus.OK


class PageHandler(BoundedHandler, SimpleHTTPRequestHandler):
    """Answers GET and HEAD with files of one folder: no listing, no hidden file, no other site's question."""

    error_message_format = _ERROR

    def send_head(self) -> Any:
        """Make a page, or find the file that may be shown; None where neither is there."""
        if (page := self.page()) is not None:
            return self._send(page)
        if not self._is_shown():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def page(self) -> Page | None:
        """Make the page of this address; None where a file of the folder answers, as all do here."""
        return None

    def may_show(self, within: Path) -> bool:
        """Tell whether a file or folder at this place of the folder is for readers: what isn't hidden."""
        return not any(part.startswith(".") for part in within.parts)

    def _send(self, page: Page) -> BytesIO:
        content = page.html.encode()
        self.send_response(page.status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return BytesIO(content)

    def _is_shown(self) -> bool:
        """Tell whether what would be opened lies in the folder, wherever links lead, may be shown and is no pipe."""
        # As it will be opened: an encoded dot is a dot, and of a folder its first page.
        target = Path(self.translate_path(self.path))
        try:
            first = (target / "index.html", target / "index.htm") if target.is_dir() else ()
            paths = [one.resolve() for one in (target, *first)]
            within = [one.relative_to(Path(self.directory).resolve()) for one in paths]
            is_readable = all(one.is_file() or one.is_dir() or not one.exists() for one in paths)
        except (OSError, RuntimeError, ValueError):  # a name that no file has, a link in a circle, one that leads out
            return False
        return is_readable and all(map(self.may_show, within))

    def list_directory(self, path: Any) -> BytesIO | None:
        """Refuse: what there is to see, the first page links to."""
        self.send_error(HTTPStatus.NOT_FOUND, "Nothing is here yet", "Load this page again in a few seconds.")
        return None

    def end_headers(self) -> None:
        """Add what every answer says to the browser."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()


def page_server(folder: Path, address: tuple[str, int], handler: type[PageHandler] = PageHandler) -> BoundedServer:
    """Make a server, not started, of the pages in ``folder``; raises OSError for an address that can't be had."""
    return BoundedServer(address, partial(handler, directory=str(folder)))


if __name__ == "__main__":
    with page_server(Path(sys.argv[1]), ("0.0.0.0", int(sys.argv[2]) if len(sys.argv) > 2 else _PORT)) as serving:  # noqa: S104 - a container's port, published on the loopback only
        serving.serve_forever()
