"""The health service and what a server knows of its caller, over real mTLS."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.identity import Caller, Identity, Role
from services.network.callers import require_caller
from services.network.health import Held, session_service
from services.network.transport import Transport, is_serving
from tests.harness.connections import NAMELESS, PARTIES, make_certificates, raw_channel, transport_of

ECHO = "/tests.Echo/Instance"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


def add_echo(server: grpc.Server) -> None:
    """A method that answers with the caller's instance."""
    echo = grpc.unary_unary_rpc_method_handler(
        lambda _, context: health_pb2.HealthCheckRequest(service=require_caller(context).instance),
        request_deserializer=health_pb2.HealthCheckRequest.FromString,
        response_serializer=health_pb2.HealthCheckRequest.SerializeToString,
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tests.Echo", {"Instance": echo})])


@pytest.fixture(scope="module")
def address(certificates: Path) -> Iterator[str]:
    server, port = transport_of(certificates, "active").serve(
        "127.0.0.1:0",
        [add_echo],
        {ECHO: frozenset({Role.PASSIVE})},
        ["plumbline.v1.Active"],
        held=Held(session={"one"}.__contains__, model={"two"}.__contains__),
    )
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("caller", PARTIES)
@pytest.mark.parametrize(
    ("service", "serving"),
    [
        ("", True),
        ("plumbline.v1.Active", True),
        ("plumbline.v1.Passive", False),
        (session_service("one"), True),
        (session_service("another"), False),
        ("model/two", True),
        ("model/one", False),
        ("predictions", False),
        (session_service(""), False),
        ("one", False),
    ],
)
def test_health_tells_of_the_process_its_services_and_the_sessions_it_holds(
    certificates: Path, address: str, caller: str, service: str, serving: bool
) -> None:
    channel = transport_of(certificates, caller).dial(address, "active")
    assert is_serving(channel, service, timeout=10) is serving


def test_who_shows_no_identity_hears_only_that_the_process_serves(certificates: Path, address: str) -> None:
    channel = raw_channel(certificates, NAMELESS, address, "active")
    assert is_serving(channel)
    assert not is_serving(channel, session_service("one"))
    assert not is_serving(channel, "plumbline.v1.Active")


def test_nobody_can_watch_health_and_hold_a_thread(certificates: Path, address: str) -> None:
    stub = health_pb2_grpc.HealthStub(transport_of(certificates, "passive").dial(address, "active"))
    with pytest.raises(grpc.RpcError) as error:
        next(stub.Watch(health_pb2.HealthCheckRequest(), timeout=10))  # type: ignore[attr-defined]
    assert isinstance(error.value, grpc.Call)
    assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_is_serving_waits_no_longer_than_it_is_told() -> None:
    channel = grpc.insecure_channel("127.0.0.1:1")
    assert not is_serving(channel, timeout=0.2)


# -- callers ----------------------------------------------------------------------------------------------------------


def instance_seen(certificates: Path, address: str, transport: Transport) -> str:
    ask = transport.dial(address, "active").unary_unary(
        ECHO,
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckRequest.FromString,
    )
    reply: health_pb2.HealthCheckRequest = ask(health_pb2.HealthCheckRequest(), timeout=10)
    return reply.service


def test_every_call_tells_which_process_it_comes_from(certificates: Path, address: str) -> None:
    one, other = transport_of(certificates, "passive"), transport_of(certificates, "passive")
    seen = [instance_seen(certificates, address, transport) for transport in (one, one, other)]
    assert seen == [one.instance, one.instance, other.instance]
    assert one.instance != other.instance


@pytest.mark.parametrize("instance", ["No.", "AB", "0" * 65, "ab\tcd"])
def test_an_instance_that_is_no_hexadecimal_number_is_none(certificates: Path, address: str, instance: str) -> None:
    transport = transport_of(certificates, "passive")
    forged = Transport(transport.identity, transport.certificates, transport.meter, instance)
    if instance.isprintable():
        assert instance_seen(certificates, address, forged) == ""
    else:
        # gRPC itself refuses it; older releases fail while they word their own error.
        with pytest.raises((grpc.RpcError, ValueError, TypeError)):
            instance_seen(certificates, address, forged)


def test_callers_are_equal_when_their_identities_are() -> None:
    passive = Identity(Role.PASSIVE, "passive")
    one, other = Caller(Role.PASSIVE, "passive", "ab"), Caller(Role.PASSIVE, "passive", "cd")
    assert one == other == passive == one
    assert len({one, other, passive}) == 1
    assert one != Caller(Role.PASSIVE, "clinic", "ab")
    assert one != Identity(Role.ACTIVE, "passive")
