"""Spans of the calls that a service answers, for OpenTelemetry: where its standard variables ask for them.

What a span says is which call it was, when, how long it took and the kind of error that ended it. The instrumentation
also notes errors' texts, which may quote an id or another party, and addresses: `plain` takes all of that out before
anything is exported. Calls that the gate refuses have no span; metrics count them.

Calls that a party makes have none either: what OpenTelemetry would add to them tells the other party which of its calls
belong together.
"""

import logging
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_log = logging.getLogger(__name__)

_ASKING = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_KEPT = frozenset({"rpc.system", "rpc.service", "rpc.method", "rpc.grpc.status_code"})
# Of health and reflection: hundreds of calls that mean nothing.
_UNTRACED = "/grpc."
_FLUSH_SECONDS = 1.0

# Of this process: a server has one.
_providers: "list[TracerProvider]" = []


def tracers(party: str) -> list[Any]:
    """Make the server interceptors that trace; none where no variable asks, or the extra isn't installed."""
    asking = [name for name in _ASKING if os.environ.get(name)]
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none"
    if not asking or off:
        return []
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        interceptors = [traced(OTLPSpanExporter(), party)]
    except ImportError:
        _log.warning("%s is set, and nothing is traced: pip install 'plumbline[otel]'.", asking[0])
        return []
    _log.info("Calls are traced (%s).", asking[0])
    return interceptors


def traced(exporter: "SpanExporter", party: str) -> Any:
    """Make a server interceptor whose spans go to ``exporter``, once they are plain."""
    from opentelemetry.instrumentation.grpc import server_interceptor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Plain(SpanExporter):
        def export(self, spans: Sequence["ReadableSpan"]) -> SpanExportResult:
            return exporter.export([plain(span) for span in spans])

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return exporter.force_flush(timeout_millis)

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": f"plumbline-{party}"}
    # Its own way to end waits half a minute for a collector that is gone.
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Plain()))
    _providers.append(provider)
    return server_interceptor(  # type: ignore[no-untyped-call]
        provider, filter_=lambda details: not details.method.startswith(_UNTRACED)
    )


def flush() -> None:
    """Export what is left before the process ends, as far as that takes no longer than a service may take to stop."""
    for provider in _providers:
        flushing = threading.Thread(target=provider.force_flush, daemon=True)
        flushing.start()
        flushing.join(_FLUSH_SECONDS)


def plain(span: "ReadableSpan") -> "ReadableSpan":
    """Strip a span of what an error, a caller or an address has written.

    An error is left as its type: a class of this program's, or of a library's.
    """
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext
    from opentelemetry.trace.status import Status, StatusCode

    def own(context: Any) -> Any:
        # Without the state, which is whatever a caller says.
        return context and SpanContext(context.trace_id, context.span_id, context.is_remote, context.trace_flags)

    attributes = {name: value for name, value in (span.attributes or {}).items() if name in _KEPT}
    status = Status(span.status.status_code)
    if errors := [event for event in span.events if event.name == "exception"]:
        # It is the gate, outside, that gives the status.
        attributes.pop("rpc.grpc.status_code", None)
        attributes["error.type"] = str((errors[-1].attributes or {}).get("exception.type", "unknown"))
        status = Status(StatusCode.ERROR)
    return ReadableSpan(
        name=span.name,
        context=own(span.context),
        parent=own(span.parent),
        resource=span.resource,
        attributes=attributes,
        kind=span.kind,
        status=status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
