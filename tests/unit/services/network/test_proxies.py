"""Behind a proxy: this machine's own services are reached without it, and it is named where it is in the way."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.party_checks import _peer
from services.network.examination import PeerFacts, examine
from services.network.proxies import Proxy, is_loopback, proxy_of
from services.network.transport import is_serving
from tests.harness.connections import make_certificates, transport_of

ELSEWHERE = "10.0.0.3:50051"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A proxy that lets nobody through, as the machine's own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def refuse() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                with caller:
                    caller.recv(1024)
                    caller.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

        threading.Thread(target=refuse, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://user:secret@{address}")
        for name in ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield address
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("is_secure", [True, False])
def test_services_of_this_machine_are_reached_without_the_proxy(tmp_path: Path, proxy: str, is_secure: bool) -> None:
    secure = transport_of(make_certificates(tmp_path), "active")
    active = secure if is_secure else replace(secure, certificates=None)
    server, port = active.serve("127.0.0.1:0", [], {}, [])
    try:
        with active.dial(f"127.0.0.1:{port}", "active") as channel:
            assert is_serving(channel)
        with active.dial(f"localhost:{port}", "active") as channel:
            assert is_serving(channel)
    finally:
        server.stop(None).wait()


def test_a_proxy_in_the_way_is_named_with_its_variable_and_the_peer(tmp_path: Path, proxy: str) -> None:
    transport = transport_of(make_certificates(tmp_path), "active")
    facts = examine(transport, ELSEWHERE, "passive")
    assert "the proxy on the way lets nobody through to it." in facts.trouble
    assert f"The connection to passive goes by the proxy {proxy}, which http_proxy names" in facts.trouble
    (finding,) = _peer("passive", ELSEWHERE, facts)
    assert finding.level == "wrong"
    assert finding.words.count(proxy) == 1
    assert "secret" not in finding.words


def test_a_doctor_names_the_proxy_where_the_transport_does_not(proxy: str) -> None:
    (told,) = _peer("passive", ELSEWHERE, PeerFacts("passive does not answer: its time is up."))
    assert f"goes by the proxy {proxy}, which http_proxy names: put the host of passive into no_proxy" in told.words
    assert f"by the proxy {proxy}" in next(_peer("passive", ELSEWHERE, PeerFacts("", "0"))).words
    assert "proxy" not in next(_peer("passive", "127.0.0.1:1", PeerFacts("passive does not answer."))).words


@pytest.mark.parametrize(
    ("address", "here"),
    [
        *((f"{host}:1", True) for host in ("127.0.0.1", "127.8.8.8", "[::1]", "localhost", "LOCALHOST")),
        *((f"{host}:1", False) for host in ("10.0.0.1", "passive", "localhost.example.com", "8.8.8.8")),
    ],
)
def test_what_is_on_this_machine(address: str, here: bool) -> None:
    assert is_loopback(address) is here


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"http_proxy": "http://p.example:3128"}, Proxy("p.example:3128", "http_proxy")),
        ({"http_proxy": "p.example"}, Proxy("p.example:80", "http_proxy")),
        ({"http_proxy": "http://a:1", "https_proxy": "http://b:2"}, Proxy("b:2", "https_proxy")),
        ({"https_proxy": "http://b:2", "grpc_proxy": "http://c:3"}, Proxy("c:3", "grpc_proxy")),
        ({"http_proxy": "http://user:secret@a:1"}, Proxy("a:1", "http_proxy")),
        ({"http_proxy": "http://a:1", "no_proxy": "example.com, 10.0.0.3"}, None),
        ({"http_proxy": "http://a:1", "no_proxy": "10.0.0.0/8"}, None),
        ({"http_proxy": "http://a:1", "no_proxy": "10.1.0.0/16,b"}, Proxy("a:1", "http_proxy")),
        ({"http_proxy": "http://a:1", "no_grpc_proxy": "b", "no_proxy": "10.0.0.3"}, Proxy("a:1", "http_proxy")),
        # gRPC reads small letters alone.
        ({"HTTP_PROXY": "http://a:1"}, None),
    ],
)
def test_the_proxy_of_a_connection_is_grpcs(variables: dict[str, str], found: Proxy | None) -> None:
    assert proxy_of(ELSEWHERE, variables) == found
    assert proxy_of("127.0.0.1:1", variables) is None


def test_hosts_are_exempt_by_their_endings() -> None:
    variables = {"http_proxy": "http://a:1", "no_proxy": ".example.com"}
    assert proxy_of("passive.example.com:1", variables) is None
    assert proxy_of("passive.example.org:1", variables) is not None
