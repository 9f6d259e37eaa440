"""Page servers on a free port, and questions to them as browsers ask, and as none does."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plumbline.audit.watching.page_server import PageHandler, page_server


@contextmanager
def served(folder: Path, handler: type[PageHandler] = PageHandler) -> Iterator[int]:
    """Serves the pages of a folder; the port."""
    with page_server(folder, ("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def ask(port: int, path: str, *, method: str = "GET", host: str = "") -> tuple[int, str, http.client.HTTPMessage]:
    """Status, content and headers of an answer; ``host``: which name was asked for, by default the right one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content, answer.headers
