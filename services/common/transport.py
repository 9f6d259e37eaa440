"""The one place where connections are made: mTLS channels and servers, who may call what, retries, traffic."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from protos.v1 import active_pb2, coordinator_pb2, exchange_pb2, passive_pb2
from services.common.certificates import CertificateFiles
from services.common.errors import NotAllowed, NotIdentified
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.common.statuses import abort_with

_log = logging.getLogger(__name__)

# Of unary calls only: a retried stream whose peer has died can outlive its deadline (grpcio 1.85).
_RETRIED = [
    {"service": service.full_name, "method": method.name}
    for module in (active_pb2, coordinator_pb2, exchange_pb2, passive_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if not (method.client_streaming or method.server_streaming)
]
_RETRY_POLICY = json.dumps(
    {
        "methodConfig": [
            {
                "name": _RETRIED,
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.2s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ]
    }
)
_KEEPALIVE = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]
_CHANNEL_OPTIONS = [
    *_KEEPALIVE,
    ("grpc.service_config", _RETRY_POLICY),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]
_SERVER_OPTIONS = [
    *_KEEPALIVE,
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
]
# Long calls (an epoch, a job) hold a thread each; the rest are short.
_SERVER_THREADS = 32

# Used by INSECURE servers only, where callers say who they are and nobody can check it.
_INSECURE_IDENTITY_KEY = "plumbline-identity"
_PUBLIC_SERVICES = ("/grpc.health.", "/grpc.reflection.")

Permissions = Mapping[str, frozenset[Role]]


@dataclass(frozen=True)
class Transport:
    """Makes this party's connections and servers, with its certificate or, for tests only, INSECURE.

    Attributes:
        identity: who this party is.
        certificates: what mTLS needs; None is INSECURE.
        meter: counts the bytes of the calls that this party makes.
    """

    identity: Identity
    certificates: CertificateFiles | None
    meter: TrafficMeter

    @property
    def is_insecure(self) -> bool:
        """Whether nothing is encrypted and no identity is checked."""
        return self.certificates is None

    def dial(self, address: str, peer: str) -> grpc.Channel:
        """A channel to party ``peer`` at ``address`` (host:port).

        It refuses who can't show that party's certificate.
        """
        if self.certificates is None:
            channel = grpc.insecure_channel(address, _CHANNEL_OPTIONS)
        else:
            authority, certificate, key = self.certificates.read()
            channel = grpc.secure_channel(
                address,
                grpc.ssl_channel_credentials(authority, key, certificate),
                [
                    *_CHANNEL_OPTIONS,
                    ("grpc.ssl_target_name_override", Identity(role_of(peer), peer).host_name),
                ],
            )
        return grpc.intercept_channel(channel, _ClientInterceptor(self.identity, self.is_insecure, self.meter))

    def serve(
        self,
        address: str,
        register: Iterable[Callable[[grpc.Server], None]],
        permissions: Permissions,
        service_names: Sequence[str],
    ) -> tuple[grpc.Server, int]:
        """Start a server with health and reflection.

        Returns:
            The server and its port.

        Raises:
            OSError: for a taken address.
        """
        server = grpc.server(
            ThreadPoolExecutor(_SERVER_THREADS, thread_name_prefix="rpc"),
            options=_SERVER_OPTIONS,
            interceptors=[_Gatekeeper(permissions)],
        )
        for add in register:
            add(server)
        checker = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checker, server)
        for name in ("", *service_names):
            checker.set(name, health_pb2.HealthCheckResponse.SERVING)
        reflection.enable_server_reflection([*service_names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
        try:
            port = self._bind(server, address)
        except RuntimeError as error:
            raise OSError(
                f"Cannot listen on {address}. Is another process there? Choose a free address with PLUMBLINE_LISTEN."
            ) from error
        server.start()
        return server, port

    def _bind(self, server: grpc.Server, address: str) -> int:
        if self.certificates is None:
            _log.warning("INSECURE: no TLS, callers say who they are and nobody checks it. For tests only.")
            return server.add_insecure_port(address)
        authority, certificate, key = self.certificates.read()
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=authority, require_client_auth=True
        )
        return server.add_secure_port(address, credentials)


def is_serving(channel: grpc.Channel, service: str = "") -> bool:
    """Ask the health service at the other end. False for no answer within 5 s."""
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)  # type: ignore[attr-defined]
    except grpc.RpcError:
        return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def caller_identity(context: grpc.ServicerContext) -> Identity | None:
    """The caller of an RPC, None when it shows no identity of this federation."""
    # grpc's stubs type the values as bytes; they are tuples of bytes.
    certificate = cast(Mapping[str, Iterable[bytes]], context.auth_context())
    names = [value.decode() for value in certificate.get("x509_subject_alternative_name", ())]
    # Without TLS older gRPC says nothing of security, newer "insecure".
    if {*certificate.get("transport_security_type", ())} <= {b"insecure"}:
        names = [str(value) for key, value in context.invocation_metadata() if key == _INSECURE_IDENTITY_KEY]
    for name in names:
        try:
            return Identity.parse(name)
        except ValueError:
            continue
    return None


def require_caller(context: grpc.ServicerContext) -> Identity:
    """The caller of an RPC that the server's authorisation let through."""
    identity = caller_identity(context)
    if identity is None:
        raise PermissionError("a caller without identity reached a handler")
    return identity


class _Gatekeeper(grpc.ServerInterceptor):
    """Checks the caller's role before any handler runs, and turns what a handler raises into a gRPC status."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or method.startswith(_PUBLIC_SERVICES):
            return handler
        allowed = self._permissions.get(method, frozenset())
        streams = handler.response_streaming

        def guarded(behaviour: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[..., Any]:
            def answer(request: Any, context: grpc.ServicerContext) -> Any:
                try:
                    _check_caller(context, method, allowed)
                    return behaviour(request, context)
                except Exception as error:
                    abort_with(context, error)

            def answers(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                try:
                    _check_caller(context, method, allowed)
                    yield from behaviour(request, context)
                except Exception as error:
                    abort_with(context, error)

            return answers if streams else answer

        return _rebuilt(handler, guarded)


def _check_caller(context: grpc.ServicerContext, method: str, allowed: frozenset[Role]) -> None:
    caller = caller_identity(context)
    if caller is None:
        raise NotIdentified("No identity of this federation. Call with a certificate made by `plumbline certs`.")
    if caller.role not in allowed:
        raise NotAllowed(f"{method} is not for role {caller.role}; allowed: {', '.join(sorted(allowed)) or 'none'}.")


def _rebuilt(
    handler: grpc.RpcMethodHandler[Any, Any], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> grpc.RpcMethodHandler[Any, Any]:
    """The same handler with its behaviour wrapped, whichever of the four kinds of RPC it is."""
    factories: dict[tuple[bool, bool], tuple[Callable[..., Any], Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream),
    }
    factory, behaviour = factories[bool(handler.request_streaming), bool(handler.response_streaming)]
    rebuilt: grpc.RpcMethodHandler[Any, Any] = factory(
        wrap(behaviour), handler.request_deserializer, handler.response_serializer
    )
    return rebuilt


class _Received(Iterator[Any]):
    """The messages that a call answers with, as they arrive.

    Whoever stops reading cancels it, or it holds a thread at each end until the deadline. Left to the garbage
    collector, it ends its call as well.
    """

    def __init__(self, call: Any, count: Callable[[Message], None]) -> None:
        self._call = call
        self._count = count

    def __next__(self) -> Any:
        message = next(self._call)
        self._count(message)
        return message

    def cancel(self) -> bool:
        """End the call, whether all of it, a part or nothing was read."""
        return bool(self._call.cancel())


class _ClientInterceptor(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Counts the bytes of what this party sends and receives as a client. Names the caller where TLS can't."""

    def __init__(self, identity: Identity, insecure: bool, meter: TrafficMeter) -> None:
        self._identity = identity
        self._insecure = insecure
        self._meter = meter

    def _details(self, details: grpc.ClientCallDetails) -> grpc.ClientCallDetails:
        if not self._insecure:
            return details
        metadata = (*(details.metadata or ()), (_INSECURE_IDENTITY_KEY, self._identity.uri))
        return _CallDetails(details.method, details.timeout, metadata, details.credentials, details.wait_for_ready)

    def _count(self, method: str | bytes, message: Message) -> None:
        name = method.decode() if isinstance(method, bytes) else method
        self._meter.add(f"{name.rsplit('/', 1)[1]}: {type(message).__name__}", message.ByteSize())

    def _counted(self, details: grpc.ClientCallDetails, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            self._count(details.method, message)
            yield message

    def _received(self, details: grpc.ClientCallDetails, call: Any) -> _Received:
        return _Received(call, lambda message: self._count(details.method, message))

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self._count(client_call_details.method, request)
        call = continuation(self._details(client_call_details), request)
        call.add_done_callback(lambda done: self._count_result(client_call_details, done))
        return call

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        requests = self._counted(client_call_details, request_iterator)
        call = continuation(self._details(client_call_details), requests)
        call.add_done_callback(lambda done: self._count_result(client_call_details, done))
        return call

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        self._count(client_call_details.method, request)
        return self._received(client_call_details, continuation(self._details(client_call_details), request))

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        requests = self._counted(client_call_details, request_iterator)
        return self._received(client_call_details, continuation(self._details(client_call_details), requests))

    def _count_result(self, details: grpc.ClientCallDetails, call: Any) -> None:
        if not call.cancelled() and call.exception() is None:
            self._count(details.method, call.result())


@dataclass(frozen=True)
class _CallDetails(grpc.ClientCallDetails):
    method: Any
    timeout: Any
    metadata: Any
    credentials: Any
    wait_for_ready: Any
