"""Certificates that are renewed while their party runs, over real TLS: nothing is restarted, and no call cut off."""

import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from grpc_health.v1 import health_pb2

from services.common.certificates import CertificateFiles, create_authority, issue_certificate
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.network import credentials
from services.network.transport import Permissions, Transport, is_serving
from tests.harness.connections import make_certificates, raw_channel

SERVICE = "tests.Echo"
PERMISSIONS: Permissions = {f"/{SERVICE}/{method}": frozenset({Role.PASSIVE}) for method in ("Serial", "Echo")}
SECONDS = 20.0
Message = health_pb2.HealthCheckRequest


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_SECONDS_BETWEEN_LOOKS", 0.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def folders(made: Path, tmp_path: Path) -> dict[str, Path]:
    """A folder of certificates for each end, as in a real federation."""
    return {name: Path(shutil.copytree(made, tmp_path / name)) for name in ("active", "passive")}


def add_echo(server: grpc.Server) -> None:
    """``Serial`` answers with the number of the certificate that the caller has shown, ``Echo`` with what it sent."""

    def serial(_: Message, context: Any) -> Message:
        (shown,) = context.auth_context()["x509_pem_cert"]
        return Message(service=str(x509.load_pem_x509_certificate(shown).serial_number))

    def echo(requests: Iterator[Message], _: Any) -> Iterator[Message]:
        yield from requests

    coders = (Message.FromString, Message.SerializeToString)
    methods = {
        "Serial": grpc.unary_unary_rpc_method_handler(serial, *coders),
        "Echo": grpc.stream_stream_rpc_method_handler(echo, *coders),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])


def transport_of(folders: dict[str, Path], name: str) -> Transport:
    return Transport(Identity(role_of(name), name), CertificateFiles.of(folders[name], name), TrafficMeter())


def serve(stack: ExitStack, folders: dict[str, Path], port: int = 0) -> tuple[grpc.Server, int]:
    server, port = transport_of(folders, "active").serve(f"127.0.0.1:{port}", [add_echo], PERMISSIONS, [])
    stack.callback(lambda: server.stop(None).wait())
    return server, port


def dial(stack: ExitStack, folders: dict[str, Path], port: int) -> Any:
    channel = transport_of(folders, "passive").dial(f"127.0.0.1:{port}", "active")
    stack.callback(channel.close)
    return channel


def renew(folder: Path, name: str, days: float = 1.0) -> int:
    """Sign a new pair, and return the number of its certificate."""
    files = issue_certificate(folder, Identity(role_of(name), name), days=days)
    return x509.load_pem_x509_certificate(files.certificate.read_bytes()).serial_number


def shown_by_server(folder: Path, port: int) -> int:
    """The number of the certificate that the server shows on a new connection."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.load_cert_chain(folder / "passive.crt", folder / "passive.key")
    # gRPC's own condition.
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as raw,
        context.wrap_socket(raw, server_hostname="active.plumbline.internal") as connection,
    ):
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


def serial_method(channel: Any) -> Callable[[], int]:
    """Asks the server which certificate it sees; made once, as a stub's methods are."""
    method = channel.unary_unary(
        f"/{SERVICE}/Serial",
        request_serializer=Message.SerializeToString,
        response_deserializer=Message.FromString,
    )
    return lambda: int(method(Message(), timeout=SECONDS, wait_for_ready=True).service)


def test_a_new_connection_sees_the_servers_new_certificate(stack: ExitStack, folders: dict[str, Path]) -> None:
    _, port = serve(stack, folders)
    first = shown_by_server(folders["passive"], port)
    assert shown_by_server(folders["passive"], port) == first
    second = renew(folders["active"], "active")
    assert shown_by_server(folders["passive"], port) == second != first
    # Half of a new pair, and then no pair at all.
    shutil.copy(folders["active"] / "operator.crt", folders["active"] / "active.crt")
    assert shown_by_server(folders["passive"], port) == second
    (folders["active"] / "active.key").unlink()
    assert shown_by_server(folders["passive"], port) == second


def test_the_next_call_shows_the_callers_new_certificate_and_calls_at_work_go_on(
    stack: ExitStack, folders: dict[str, Path]
) -> None:
    _, port = serve(stack, folders)
    channel = dial(stack, folders, port)
    serial = serial_method(channel)
    first = serial()
    sent: list[threading.Event] = [threading.Event(), threading.Event()]

    def messages() -> Iterator[Message]:
        for number, may_send in enumerate(sent):
            may_send.wait(SECONDS)
            yield Message(service=str(number))

    echo = channel.stream_stream(
        f"/{SERVICE}/Echo", request_serializer=Message.SerializeToString, response_deserializer=Message.FromString
    )(messages(), timeout=SECONDS)
    sent[0].set()
    assert next(echo).service == "0"
    second = renew(folders["passive"], "passive")
    assert serial() == second != first
    sent[1].set()
    assert [message.service for message in echo] == ["1"]
    assert serial() == second


def test_certificates_that_expired_are_replaced_without_a_restart(stack: ExitStack, folders: dict[str, Path]) -> None:
    """A new connection with the old ones is refused; the same process and the same stub go on with the new ones."""
    _, port = serve(stack, folders)
    lifetime = 5.0 / 86400
    with_little_time = renew(folders["passive"], "passive", days=lifetime)
    transport = transport_of(folders, "passive")
    serial = serial_method(transport.dial(f"127.0.0.1:{port}", "active"))
    assert serial() == with_little_time
    renew(folders["active"], "active", days=lifetime)
    shown_by_server(folders["active"], port)
    threading.Event().wait(lifetime * 86400 + 1)
    # The server's certificate has expired as well, and so has the one of whoever connects to it now.
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shown_by_server(folders["active"], port)
    new_connection = transport.dial(f"127.0.0.1:{port}", "active")
    assert not is_serving(new_connection, timeout=2)
    renewed = renew(folders["passive"], "passive")
    renew(folders["active"], "active")
    assert serial() == renewed
    assert is_serving(new_connection, timeout=SECONDS)


def test_an_authority_is_replaced_without_a_restart(
    stack: ExitStack, made: Path, folders: dict[str, Path], tmp_path: Path
) -> None:
    """First everybody trusts both, then parties take pairs of the new one, and then nobody trusts the old one."""
    _, port = serve(stack, folders)
    channel = dial(stack, folders, port)
    serial = serial_method(channel)
    first = serial()
    new = tmp_path / "new"
    create_authority(new)
    old_authority, new_authority = ((folder / "ca.crt").read_bytes() for folder in (folders["active"], new))
    for folder in folders.values():
        (folder / "ca.crt").write_bytes(old_authority + new_authority)
    assert serial() == first
    for name, folder in folders.items():
        files = issue_certificate(new, Identity(role_of(name), name))
        for path in (files.key, files.certificate):
            shutil.copy(path, folder)
        serial()
    second = serial()
    for folder in folders.values():
        (folder / "ca.crt").write_bytes(new_authority)
    assert serial() == second != first
    # Who has a pair of the old authority only is a stranger now.
    shutil.copytree(made, tmp_path / "stranger")
    shutil.copy(new / "ca.crt", tmp_path / "stranger")
    address = f"127.0.0.1:{port}"
    assert not is_serving(raw_channel(tmp_path / "stranger", "passive", address, "active"), timeout=2)
    assert is_serving(raw_channel(folders["passive"], "passive", address, "active"), timeout=SECONDS)
