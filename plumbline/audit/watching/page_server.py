"""Shows the pages of a watched federation to browsers of this machine, and nothing else to nobody else.

python -m plumbline.audit.watching.page_server /pages [PORT]
"""

import sys
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

_PORT = 8080
_HEADERS = {
    # Pages have a stricter policy of their own; what a page can't say of itself stands here.
    "Content-Security-Policy": (
        "default-src 'self' data:; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# A page elsewhere whose name is made to lead here would otherwise read reports with the reader's browser.
_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


class PageHandler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD with files of one folder: no listing, no hidden file, no other site's question."""

    server_version, sys_version = "plumbline", ""
    # Of a connection that says nothing.
    timeout = 20

    def send_head(self) -> Any:
        """Refuse what isn't for this reader before a file is looked for."""
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name not in _HOSTS:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "Ask for 127.0.0.1 or localhost")
            return None
        if not self._is_shown():
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def _is_shown(self) -> bool:
        """Whether what would be opened lies in the folder, wherever links lead, and is neither hidden nor a pipe."""
        # As it will be opened: an encoded dot is a dot, and of a folder its first page.
        asked = Path(self.translate_path(self.path))
        try:
            found = [one.resolve() for one in (asked, asked / "index.html", asked / "index.htm")]
            within = [one.relative_to(Path(self.directory).resolve()) for one in found]
            is_readable = all(one.is_file() or one.is_dir() or not one.exists() for one in found)
        except (OSError, RuntimeError, ValueError):  # a name that no file has, a link in a circle, one that leads out
            return False
        return is_readable and not any(part.startswith(".") for one in within for part in one.parts)

    def list_directory(self, path: Any) -> BytesIO | None:
        """Refuse: what there is to see, the first page links to."""
        self.send_error(HTTPStatus.NOT_FOUND, "Nothing is here yet", "Load this page again in a few seconds.")
        return None

    def end_headers(self) -> None:
        """Add what every answer says to the browser."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of pages that were shown."""


def page_server(folder: Path, address: tuple[str, int]) -> ThreadingHTTPServer:
    """A server, not started, of the pages in ``folder``; raises OSError for an address that can't be had."""
    return ThreadingHTTPServer(address, partial(PageHandler, directory=str(folder)))


if __name__ == "__main__":
    with page_server(Path(sys.argv[1]), ("0.0.0.0", int(sys.argv[2]) if len(sys.argv) > 2 else _PORT)) as serving:  # noqa: S104 - a container's port, published on the loopback only
        serving.serve_forever()
