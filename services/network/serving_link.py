"""Another service as far as it holds sessions and serves models, as a plain Python object over gRPC."""

from typing import Any

import grpc

from protos.v1 import common_pb2
from services.network.health_link import HealthLink
from services.network.statuses import naming_the_party

# Seconds to tell another party that a session has ended: best effort, it would notice by itself.
END_SECONDS = 1.5


@naming_the_party
class ServingLink:
    """A service over a channel, ``timeout`` seconds for each answer.

    Every method raises PeerVanished when no answer comes, and PeerRefused with the other's words when it refuses.
    """

    def __init__(self, name: str, channel: grpc.Channel, stub: Any, timeout: float) -> None:
        """Reach a service by a stub of its own."""
        self.name = name
        self._stub = stub
        self._health = HealthLink(name, channel)
        self._timeout = timeout

    def end_session(self, session_id: str, reason: str) -> None:
        """End a session, and say why to who waits for it."""
        request = common_pb2.EndSessionRequest(session_id=session_id, reason=reason)
        self._stub.EndSession(request, timeout=min(self._timeout, END_SECONDS))

    def serve_model(self, session_id: str) -> None:
        """Have a session's model served from now on, in place of the one before."""
        self._stub.ServeModel(common_pb2.SessionRequest(session_id=session_id), timeout=self._timeout)

    def holds_model(self, session_id: str) -> bool:
        """Tell whether it would answer for a session's model; raises PeerVanished when it says nothing soon."""
        return self._health.holds_model(session_id)
