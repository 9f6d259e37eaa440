"""A server that strangers can't fill: idle connections make room, answers at work don't, the process's calls go on."""

import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from services.network.transport import is_serving
from services.watching.http_server import MOST_CONNECTIONS, BoundedHandler, BoundedServer
from tests.harness.connections import make_certificates, transport_of

# As many files as some systems let a process open, metrics and calls together.
FILES = 256
WATCHED = """
import logging, resource, sys
from pathlib import Path
from services.watching.exposition import serve_metrics
from tests.harness.connections import transport_of
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
transport = transport_of(Path(sys.argv[1]), "active")
serve_metrics("127.0.0.1:0", transport.tally)
server, port = transport.serve("127.0.0.1:0", [], {{}}, [])
print("Calls are served on port", port, flush=True)
sys.stdin.read()
"""
SECONDS = 20.0


@contextmanager
def watched(certificates: Path) -> Iterator[tuple[int, int]]:
    """A process with few files, the ports of its metrics and of its calls."""
    command = [sys.executable, "-c", WATCHED.format(files=FILES), str(certificates)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ports: dict[str, int] = {}
        while len(ports) < 2:
            what, _, port = process.stdout.readline().rstrip(".\n").partition(" are served on port ")
            if port:
                ports[what] = int(port)
        yield ports["Metrics"], ports["Calls"]
        process.kill()


def status_of(port: int, host: str = "") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", "/metrics", headers={"Host": host} if host else {})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_three_hundred_idle_connections_stop_neither_a_call_nor_the_next_scrape(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certs")
    with ExitStack() as stack:
        metrics, calls = stack.enter_context(watched(certificates))
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", metrics), SECONDS))
        channel = stack.enter_context(transport_of(certificates, "passive").dial(f"127.0.0.1:{calls}", "active"))
        assert is_serving(channel, timeout=SECONDS)
        assert status_of(metrics) == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9464", 200),
        ("10.0.3.7:9464", 200),
        ("[fd00::7]:9464", 200),
        ("passive:9464", 200),
        ("localhost", 200),
        (socket.gethostname(), 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:9464", 421),
    ],
)
def test_metrics_answer_to_addresses_and_names_that_no_page_elsewhere_has(
    port_of_metrics: int, host: str, status: int
) -> None:
    assert status_of(port_of_metrics, host) == status


@pytest.fixture(scope="module")
def port_of_metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with watched(make_certificates(tmp_path_factory.mktemp("certs"))) as (port, _):
        yield port


class Slow(BoundedHandler):
    """Answers when it may."""

    asked: threading.Semaphore
    go_on: threading.Event

    def do_GET(self) -> None:
        self.asked.release()
        self.go_on.wait(SECONDS)
        self.send_response(204)
        self.end_headers()


@pytest.fixture
def slow() -> Iterator[int]:
    # Its own: who was asked by an earlier test and not waited for is nobody of this one's.
    Slow.asked, Slow.go_on = threading.Semaphore(0), threading.Event()
    with BoundedServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_address[1]
        Slow.go_on.set()
        server.shutdown()


def test_whoever_has_asked_is_answered_and_who_comes_when_all_places_are_at_work_is_not(slow: int) -> None:
    asking = [http.client.HTTPConnection("127.0.0.1", slow, timeout=SECONDS) for _ in range(MOST_CONNECTIONS)]
    for connection in asking:
        connection.request("GET", "/")
        assert Slow.asked.acquire(timeout=SECONDS)
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        status_of(slow)
    Slow.go_on.set()
    assert [connection.getresponse().status for connection in asking] == [204] * MOST_CONNECTIONS


def test_an_idle_connection_makes_room_for_who_asks(slow: int) -> None:
    Slow.go_on.set()
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", slow), SECONDS)) for _ in range(MOST_CONNECTIONS)
        ]
        # A request that isn't whole is idle as well.
        for connection in idle:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert status_of(slow) == 204
        idle[0].settimeout(SECONDS)
        assert idle[0].recv(1) == b""
        idle[1].sendall(b"localhost\r\n\r\n")
        assert idle[1].recv(12) == b"HTTP/1.0 204"
