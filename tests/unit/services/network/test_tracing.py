"""Spans: of every call that is let in, where the standard variables ask, and with nothing in them but its name."""

import builtins
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from protos.v1 import common_pb2, coordinator_pb2_grpc
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.coordinator import servicer
from services.coordinator.sessions import Sessions
from services.network import tracing, transport
from services.network.transport import Transport

pytest.importorskip("opentelemetry.instrumentation.grpc", reason="needs plumbline[otel]")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
trace_service_pb2 = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
trace_service_pb2_grpc = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc")
PLANTED = "zanzibar"


@contextmanager
def coordinator() -> Iterator[coordinator_pb2_grpc.CoordinatorStub]:
    """One that is served, as the active party calls it."""
    sessions = Sessions(5.0)
    handler = servicer.CoordinatorServicer(sessions)
    server, port = Transport(Identity(Role.COORDINATOR, "coordinator"), None, TrafficMeter()).serve(
        "127.0.0.1:0",
        [lambda one: coordinator_pb2_grpc.add_CoordinatorServicer_to_server(handler, one)],
        servicer.PERMISSIONS,
        [servicer.SERVICE_NAME],
    )
    caller = Transport(Identity(Role.ACTIVE, "active"), None, TrafficMeter())
    with caller.dial(f"127.0.0.1:{port}", "coordinator") as channel:
        yield coordinator_pb2_grpc.CoordinatorStub(channel)
    server.stop(None).wait()
    sessions.close()


def test_a_span_has_the_call_and_nothing_that_a_caller_or_an_error_says(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = memory.InMemorySpanExporter()
    monkeypatch.setattr(transport, "tracers", lambda party: [tracing.traced(exporter, party)])
    said = (
        ("tracestate", f"{PLANTED}=1"),
        ("traceparent", f"00-{'1' * 32}-{'2' * 16}-01"),
        ("baggage", f"a={PLANTED}"),
    )
    with coordinator() as stub:
        with pytest.raises(grpc.RpcError) as refused:
            stub.GetSession(common_pb2.SessionRequest(session_id=PLANTED), timeout=10, metadata=said)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        stub.EndSession(common_pb2.EndSessionRequest(session_id=PLANTED, reason=PLANTED), timeout=10)
        # Whom the gate refuses never comes so far.
        with pytest.raises(grpc.RpcError):
            stub.SubmitPartialScores(common_pb2.PartialScores(), timeout=10)
    tracing.flush()
    failed, done = exporter.get_finished_spans()
    assert failed.name == f"/{servicer.SERVICE_NAME}/GetSession"
    assert dict(failed.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": servicer.SERVICE_NAME,
        "rpc.method": "GetSession",
        "error.type": "services.common.errors.OutOfOrder",
    }
    assert (failed.status.is_ok, failed.status.description) == (False, None)
    assert done.attributes["rpc.grpc.status_code"] == 0
    assert done.resource.attributes["service.name"] == "plumbline-coordinator"
    for span in (failed, done):
        assert not span.events
        assert PLANTED not in span.to_json()


@pytest.mark.parametrize(
    "variables",
    [{}, {"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}],
    ids=["unset", "disabled", "none"],
)
def test_nothing_is_traced_unless_a_variable_asks(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    if variables:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tracing.tracers("active") == []


def test_spans_reach_the_collector_that_a_variable_names(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []

    class Collector:
        def Export(self, request: Any, context: grpc.ServicerContext) -> Any:
            received.append(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    with coordinator() as stub:
        stub.EndSession(common_pb2.EndSessionRequest(session_id=PLANTED), timeout=10)
    tracing.flush()
    server.stop(None).wait()
    (spans,) = received[0].resource_spans
    assert [span.name for scope in spans.scope_spans for span in scope.spans] == [
        f"/{servicer.SERVICE_NAME}/EndSession"
    ]
    assert {one.key: one.value.string_value for one in spans.resource.attributes}["service.name"] == "mine"
    assert PLANTED not in str(received)


def test_without_the_extra_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    imported = builtins.__import__

    def lacking(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setattr(builtins, "__import__", lacking)
    assert tracing.tracers("active") == []
    assert caplog.messages == [
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, and nothing is traced: pip install 'plumbline[otel]'."
    ]
