"""Releases that speak another version of the wire: they refuse each other in words, from either end."""

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos.v1 import common_pb2, coordinator_pb2_grpc
from services.common.errors import OutOfOrder
from services.coordinator.servicer import PERMISSIONS
from services.network import health, versions
from services.network.callers import INSTANCE_KEY
from services.network.health_link import HealthLink
from services.network.versions import CLOCK_KEY, RELEASE_KEY, WIRE_KEY, WIRE_VERSION, check_wire_version, said_by
from tests.harness.connections import NAMELESS, make_certificates, raw_channel, transport_of
from tests.harness.processes import refused as refused_with

SECONDS = 20


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def address(certificates: Path) -> Iterator[str]:
    servicer = coordinator_pb2_grpc.CoordinatorServicer()  # type: ignore[abstract]  # nobody gets so far
    server, port = transport_of(certificates, "coordinator").serve(
        "127.0.0.1:0",
        [lambda made: coordinator_pb2_grpc.add_CoordinatorServicer_to_server(servicer, made)],
        PERMISSIONS,
        [],
    )
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ([(INSTANCE_KEY, "ab")], "active speaks version 1 of Plumbline's wire"),
        (
            [(INSTANCE_KEY, "ab"), (WIRE_KEY, str(WIRE_VERSION + 1))],
            f"active speaks version {WIRE_VERSION + 1} of Plumbline's wire",
        ),
        ([(WIRE_KEY, "x" * 500)], "active speaks no known version of Plumbline's wire"),
        ([(INSTANCE_KEY, "ab"), (WIRE_KEY, str(WIRE_VERSION))], ""),
        # An operator's tool.
        ([], ""),
    ],
)
def test_a_caller_of_another_version_is_refused(
    certificates: Path, address: str, said: list[tuple[str, str]], refused: str
) -> None:
    with raw_channel(certificates, "active", address, "coordinator") as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.GetSession(common_pb2.SessionRequest(session_id="one"), timeout=SECONDS, metadata=tuple(said))
    code, words = refused_with(caught)
    if refused:
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert refused in words
        assert "install the same release" in words
    else:
        # Let through, to a servicer without methods.
        assert words.startswith("Unexpected NotImplementedError")


def test_whoever_begins_refuses_a_party_of_another_version(
    certificates: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with transport_of(certificates, "active").dial(address, "coordinator") as channel:
        link = HealthLink("coordinator", channel)
        link.await_ready(SECONDS)
        # As all releases before versions.
        monkeypatch.setattr(health, "own_facts", tuple)
        with pytest.raises(OutOfOrder, match="coordinator speaks version 1 of Plumbline's wire"):
            link.await_ready(SECONDS)


def test_health_tells_parties_alone_of_versions_and_clock(certificates: Path, address: str) -> None:
    def told(caller: str) -> dict[str, str]:
        with raw_channel(certificates, caller, address, "coordinator") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            _, call = stub.Check.with_call(health_pb2.HealthCheckRequest(), timeout=SECONDS)  # type: ignore[attr-defined]
            return said_by(call.trailing_metadata())

    facts = told("active")
    assert facts[WIRE_KEY] == str(WIRE_VERSION)
    assert facts[RELEASE_KEY]
    assert abs(float(facts[CLOCK_KEY]) - time.time()) < SECONDS
    assert not {WIRE_KEY, RELEASE_KEY, CLOCK_KEY} & told(NAMELESS).keys()


def test_one_version_talks_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    check_wire_version("active", str(WIRE_VERSION))
    monkeypatch.setattr(versions, "WIRE_VERSION", WIRE_VERSION + 1)
    with pytest.raises(
        OutOfOrder, match=f"version {WIRE_VERSION} of Plumbline's wire, its peer version {WIRE_VERSION + 1}"
    ):
        check_wire_version("active", str(WIRE_VERSION))
