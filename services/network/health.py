"""The standard health service: whether this process serves, and whether it holds a session."""

from __future__ import annotations  # grpc's generics exist for the type checker only

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.errors import NotIdentified, UnknownService, one_line
from services.network.callers import caller_of
from services.network.occupancy import Occupancy
from services.network.versions import own_facts

_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]
SERVICE_NAME = _SERVICE.full_name
CHECK = f"/{SERVICE_NAME}/Check"
_SESSION, _MODEL = "session/", "model/"
PREDICTIONS = "predictions"


def _none(_: str) -> bool:
    return False


@dataclass(frozen=True)
class Held:
    """What health tells of besides the process and its services.

    Attributes:
        session: whether this process knows a session, by its id, ended or not (``session/ID``).
        model: whether it can answer for a session's model (``model/ID``).
        predictions: at the active party, whether a prediction would be answered now by all who have a part in it.
    """

    session: Callable[[str], bool] = _none
    model: Callable[[str], bool] = _none
    predictions: Callable[[], bool] | None = None


def session_service(session_id: str) -> str:
    """Name a session as health tells of it."""
    return _SESSION + session_id


def model_service(session_id: str) -> str:
    """Name a session's model as health tells of it."""
    return _MODEL + session_id


class HealthServicer:
    """Answers SERVING for the whole process, for its services and for sessions that it holds.

    Anybody with a certificate of the authority may ask for the whole process (""), identities of this federation for
    the rest; they are told this party's versions and its clock besides. There is no Watch: it would hold a thread for
    as long as the caller likes.
    """

    def __init__(
        self, service_names: Sequence[str], held: Held | None = None, occupancy: Occupancy | None = None
    ) -> None:
        self._known = {"", *service_names}
        self._held = held or Held()
        self._occupancy = occupancy or Occupancy()

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
        """Tell whether the process, one of its services, a session or a model is here, and predictions are answered."""
        caller, service, status = caller_of(context), request.service, health_pb2.HealthCheckResponse
        if service and caller is None:
            raise NotIdentified("Only parties of this federation are told of services and sessions.")
        if caller is not None:
            context.set_trailing_metadata(own_facts())
        if caller is not None and service.startswith(_SESSION):
            # A party asks for the session that it is at work in: a sign of life, and never of a new process.
            self._occupancy.heard(caller)
        if service == PREDICTIONS and self._held.predictions is not None:
            return status(status=status.SERVING if self._held.predictions() else status.NOT_SERVING)
        for prefix, holds in ((_SESSION, self._held.session), (_MODEL, self._held.model)):
            if service.startswith(prefix):
                is_held = holds(service.removeprefix(prefix))
                return status(status=status.SERVING if is_held else status.SERVICE_UNKNOWN)
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
