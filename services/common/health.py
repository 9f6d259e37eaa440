"""The standard health service: whether this process serves, and whether it holds a session."""

from __future__ import annotations  # grpc's generics exist for the type checker only

from collections.abc import Callable, Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.callers import caller_of
from services.common.errors import NotIdentified, UnknownService, one_line

_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]
SERVICE_NAME = _SERVICE.full_name
CHECK = f"/{SERVICE_NAME}/Check"
_SESSION = "session/"

HoldsSession = Callable[[str], bool]


def session_service(session_id: str) -> str:
    """The name under which health tells of a session."""
    return _SESSION + session_id


def holds_none(_: str) -> bool:
    """Of a process without sessions."""
    return False


class HealthServicer:
    """Answers SERVING for the whole process, for its services and for sessions that it holds.

    Anybody with a certificate of the authority may ask for the whole process (""), identities of this federation for
    the rest. There is no Watch: it would hold a thread for as long as the caller likes.
    """

    def __init__(self, service_names: Sequence[str], holds_session: HoldsSession = holds_none) -> None:
        self._known = {"", *service_names}
        self._holds_session = holds_session

    def add_to(self, server: grpc.Server) -> None:
        """Register with a server that has not started."""
        check = grpc.unary_unary_rpc_method_handler(
            self.Check,
            request_deserializer=health_pb2.HealthCheckRequest.FromString,
            response_serializer=health_pb2.HealthCheckResponse.SerializeToString,
        )
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE_NAME, {"Check": check})])

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        """Tell whether the process, one of its services or ``session/ID`` is served here."""
        service, status = request.service, health_pb2.HealthCheckResponse
        if service and caller_of(context) is None:
            raise NotIdentified("Only parties of this federation are told of services and sessions.")
        if service.startswith(_SESSION):
            held = self._holds_session(service.removeprefix(_SESSION))
            return status(status=status.SERVING if held else status.SERVICE_UNKNOWN)
        if service not in self._known:
            raise UnknownService(f"There is no service {one_line(service)!r} here.")
        return status(status=status.SERVING)


def is_serving(channel: grpc.Channel, service: str = "", timeout: float = 5.0) -> bool:
    """Ask the health service at the other end. False for no answer within ``timeout`` seconds."""
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)  # type: ignore[attr-defined]
    except grpc.RpcError:
        return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)
