"""A small HTTP server that strangers can't fill: few connections, each for a short time, asked by its own names.

Guarantee: whoever connects, at most ``MOST_CONNECTIONS`` are open, with a thread each, beside threads whose connection
was just ended. Where all places are taken, the connection that has waited longest without a whole request, or has had
its time, makes room for the next one.
"""

import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

MOST_CONNECTIONS = 16
# From its beginning on, an answer to a slow reader included, where others wait.
_SECONDS_OF_A_CONNECTION = 60.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


class BoundedServer(ThreadingHTTPServer):
    """Serves HTTP at an address of either family, over few connections."""

    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        """Bind to HOST and port, 0 for any; raises OSError for an address that can't be had."""
        resolved = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = resolved[0]
        self._lock = threading.Lock()
        # When each began, the oldest first; and those whose request is whole.
        self._begun: dict[socket.socket, float] = {}
        self._answered: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection on a thread of its own, if there is room or can be made."""
        with self._lock:
            has_room = len(self._begun) < MOST_CONNECTIONS or self._make_room()
            if has_room:
                self._begun[request] = time.monotonic()
        if has_room:
            super().process_request(request, client_address)
        else:
            super().shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """End a connection, which makes room."""
        with self._lock:
            self._begun.pop(request, None)
            self._answered.discard(request)
        super().shutdown_request(request)

    def has_asked(self, connection: socket.socket) -> None:
        """Note that a connection's request is whole: it is answered before it makes room."""
        with self._lock:
            self._answered.add(connection)

    def _make_room(self) -> bool:
        """End the oldest connection that may be ended. Its thread ends at its next read or write."""
        last = time.monotonic() - _SECONDS_OF_A_CONNECTION
        for connection, begun in self._begun.items():
            if connection not in self._answered or begun < last:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                del self._begun[connection]
                self._answered.discard(connection)
                return True
        return False


class BoundedHandler(BaseHTTPRequestHandler):
    """Answers who asks by a name of this server. A page elsewhere, whose name is made to lead here, is refused."""

    server_version, sys_version = "plumbline", ""
    # Of a read or write in which nothing comes or goes.
    timeout = 20

    def handle(self) -> None:
        """Answer a caller; one that goes away or says nothing meanwhile is no error."""
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    def parse_request(self) -> bool:
        """Read a request, and refuse what isn't for this server before anything is looked for."""
        if not super().parse_request():
            return False
        cast(BoundedServer, self.server).has_asked(self.connection)
        host = self.headers.get("Host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if not self.is_own_name(name.lower()):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, self.advice())
            return False
        return True

    def is_own_name(self, name: str) -> bool:
        """Tell whether this server may be asked by a name, or by an address as a URL has it."""
        return name in _LOOPBACK

    def advice(self) -> str:
        """Say by which names it may be asked."""
        return "Ask for 127.0.0.1 or localhost"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of what was answered."""
