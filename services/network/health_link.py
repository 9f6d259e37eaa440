"""A peer's health over its channel: whether it is there, and whether it knows a session."""

from __future__ import annotations  # grpc's generics exist for the type checker only

from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common.heartbeat import READY_SECONDS, RESTART_SECONDS, Answer
from services.network.health import model_service, session_service
from services.network.statuses import naming
from services.network.unanswered import is_cut
from services.network.versions import WIRE_KEY, check_wire_version, said_by

T = TypeVar("T")

_STATUS = health_pb2.HealthCheckResponse
# Who asks whether a prediction would be answered wants to know it soon.
_ASK_SECONDS, _LAST_ATTEMPT_SECONDS = 2.0, 1.0
_SILENT = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


class HealthLink:
    """Asks the health service of party ``name`` at the other end of a channel."""

    def __init__(self, name: str, channel: grpc.Channel) -> None:
        self.name = name
        self._stub: Any = health_pb2_grpc.HealthStub(channel)

    def ask(self, session_id: str, seconds: float, on_answer: Callable[[Answer], None]) -> None:
        """Ask whether it knows a session, without waiting."""
        request = health_pb2.HealthCheckRequest(service=session_service(session_id))
        call = self._stub.Check.future(request, timeout=seconds)
        call.add_done_callback(lambda done: on_answer(_answer_of(done)))

    def await_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until a party that is starting again serves.

        Raises:
            PeerVanished: when it doesn't in time.
            OutOfOrder: when it speaks another version of the wire.
        """
        with naming(self.name):
            _, call = self._check("", seconds)
        check_wire_version(self.name, said_by(call.trailing_metadata()).get(WIRE_KEY))

    def holds_model(self, session_id: str) -> bool:
        """Ask whether it would answer for a session's model; raises PeerVanished when it says nothing soon."""
        with naming(self.name):
            reply, _ = self._check(model_service(session_id), _ASK_SECONDS)
        return bool(reply.status == _STATUS.SERVING)

    def _check(self, service: str, seconds: float) -> tuple[Any, Any]:
        """Ask once there is a connection: the answer and its call."""
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            reply, call = self._stub.Check.with_call(request, timeout=seconds, wait_for_ready=True)
        except grpc.RpcError:
            # Says only that the time is up. An attempt that doesn't wait tells why there was no connection.
            reply, call = self._stub.Check.with_call(request, timeout=_LAST_ATTEMPT_SECONDS)
        return reply, call

    def insisting(self, call: Callable[[], T]) -> T:
        """Make an idempotent call. Where the connection is refused or cut, wait until the party is back and ask again.

        Raises:
            PeerVanished: when it isn't back in time.
        """
        try:
            return call()
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call) or _answer_of(error) is not Answer.UNREACHABLE:
                raise
        self.await_ready(RESTART_SECONDS)
        return call()


def _answer_of(call: Any) -> Answer:
    """Read what a finished call of ``Check``, or a failed one of anything, says of the peer."""
    code = call.code()
    if code is grpc.StatusCode.OK:
        return Answer.KNOWS if call.result().status == _STATUS.SERVING else Answer.FORGOT
    if code is grpc.StatusCode.NOT_FOUND:
        return Answer.FORGOT
    if code in _SILENT:
        return Answer.SILENT
    if code is grpc.StatusCode.UNAVAILABLE or is_cut(call.details() or ""):
        return Answer.UNREACHABLE
    # It refuses to say, which is an answer.
    return Answer.ALIVE
