"""What Prometheus reads of a process: over HTTP, by the names that others use, and in a sentence where it can't be."""

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from protos.v1 import coordinator_pb2, coordinator_pb2_grpc
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.common.settings import SettingsError, settings_of
from services.coordinator import servicer
from services.coordinator.sessions import Sessions
from services.network.transport import Transport
from services.watching.exposition import Metrics, serve_metrics
from services.watching.tally import Tally
from tests.harness.metrics import exposed, samples


def test_metrics_are_served_at_the_address(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally()
    tally.answered('pa"ss', "scores", 3)
    with caplog.at_level("INFO"):
        serve_metrics("127.0.0.1:0", tally)
    port = int(caplog.messages[-1].rpartition(" ")[2].rstrip("."))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = samples(text)
    assert found["plumbline_answered_items_total"] == {(("kind", "scores"), ("peer", 'pa"ss')): 3.0}
    assert "_created" not in text
    assert not [message for message in caplog.messages if "beyond this machine" in message]


def test_a_taken_or_foreign_address_is_a_sentence() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        taken = f"127.0.0.1:{held.getsockname()[1]}"
        for address in (taken, "203.0.113.7:9464", "no.such.host.invalid:9464"):
            with pytest.raises(OSError, match=r"Cannot serve metrics on .*PLUMBLINE_METRICS"):
                serve_metrics(address, Tally())


def test_an_address_beyond_this_machine_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    serve_metrics("0.0.0.0:0", Tally())
    assert [message for message in caplog.messages if "without TLS or a login" in message]


@pytest.mark.parametrize("address", ["9464", "localhost", "localhost:99999", ":9464"])
def test_what_is_no_address_is_refused_at_the_start(address: str) -> None:
    with pytest.raises(SettingsError, match=r"PLUMBLINE_METRICS: expected HOST:PORT, such as 127\.0\.0\.1:9464"):
        settings_of({"metrics": address})


def test_services_start_without_the_library() -> None:
    roles = "import services.coordinator.server, services.active.server, services.passive.server, sys, json;"
    found = subprocess.run(
        [sys.executable, "-c", roles + "print(json.dumps([m for m in sys.modules if 'prometheus' in m]))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout) == []


@pytest.fixture
def served() -> Iterator[tuple[Metrics, str]]:
    transport = Transport(Identity(Role.COORDINATOR, "coordinator"), None, TrafficMeter())
    metrics = Metrics(transport.tally)
    sessions = Sessions(5.0)
    handler = servicer.CoordinatorServicer(sessions, transport.tally)
    server, port = transport.serve(
        "127.0.0.1:0",
        [lambda one: coordinator_pb2_grpc.add_CoordinatorServicer_to_server(handler, one)],
        servicer.PERMISSIONS,
        [servicer.SERVICE_NAME],
    )
    yield metrics, f"127.0.0.1:{port}"
    server.stop(None).wait()
    sessions.close()


def test_calls_are_counted_by_their_usual_names(served: tuple[Metrics, str]) -> None:
    metrics, address = served
    caller = Transport(Identity(Role.OPERATOR, "operator"), None, TrafficMeter())
    with caller.dial(address, "coordinator") as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        for _ in range(2):
            with pytest.raises(grpc.RpcError):
                stub.OpenSession(coordinator_pb2.OpenSessionRequest(classes=2), timeout=10)
    with grpc.insecure_channel(address) as raw:
        unknown: Any = raw.unary_unary("/plumbline.v1.Coordinator/r000001")
        with pytest.raises(grpc.RpcError):
            unknown(b"", timeout=10)
    found = samples(exposed(metrics))
    method = {"grpc_type": "unary", "grpc_service": servicer.SERVICE_NAME, "grpc_method": "OpenSession"}
    refused = tuple(sorted({**method, "grpc_code": "PermissionDenied"}.items()))
    # And nothing of a method that there isn't.
    assert found["grpc_server_handled_total"] == {refused: 2.0}
    assert found["grpc_server_handling_seconds_count"] == {tuple(sorted(method.items())): 2.0}
    assert found["plumbline_refusals_total"] == {(("peer", "operator"), ("reason", "not_allowed")): 2.0}


def test_every_metric_has_its_place_in_the_docs() -> None:
    text = (Path(__file__).parents[4] / "docs" / "how-to" / "watch.md").read_text()
    names = {family.name for family in text_string_to_metric_families(exposed(Metrics(Tally())))}
    own = {name for name in names if name.startswith(("plumbline_", "grpc_"))}
    assert len(own) >= 6
    assert not [name for name in own if f"`{name}" not in text]
