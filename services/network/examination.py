"""What another party shows of itself before any session: whether it is reached, its versions, and its clock."""

from __future__ import annotations  # grpc's generics exist for the type checker only

import math
import time
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.network.statuses import error_of
from services.network.transport import Transport
from services.network.versions import CLOCK_KEY, RELEASE_KEY, WIRE_KEY, said_by

_SECONDS = 5.0
# The clock is told to a tenth of a second.
_ROUNDING = 0.05


@dataclass(frozen=True)
class PeerFacts:
    """What one call of a party's health service has shown.

    Attributes:
        trouble: why there was no answer or a refusal, and what to do; empty when it serves.
        wire: which version of the wire it says that it speaks; None of an older release, and without an answer.
        release: its version of Plumbline; likewise.
        seconds_ahead: its clock minus this machine's; likewise.
        seconds_unsure: that difference may be larger or smaller by so much.
    """

    trouble: str = ""
    wire: str | None = None
    release: str | None = None
    seconds_ahead: float | None = None
    seconds_unsure: float = 0.0


def examine(transport: Transport, address: str, peer: str) -> PeerFacts:
    """Ask the health service of ``peer`` at HOST:PORT: its name is looked up, connected to, and TLS set up as ever."""
    with transport.dial(address, peer) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        begin = time.time()
        try:
            _, call = stub.Check.with_call(health_pb2.HealthCheckRequest(), timeout=_SECONDS)  # type: ignore[attr-defined]
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call):
                raise
            return PeerFacts(trouble=str(error_of(peer, error)))
        end = time.time()
        metadata = said_by(call.trailing_metadata())
    return PeerFacts(
        "", metadata.get(WIRE_KEY), metadata.get(RELEASE_KEY), *_compared(metadata.get(CLOCK_KEY), begin, end)
    )


def _compared(clock: str | None, begin: float, end: float) -> tuple[float | None, float]:
    """Tell how far another clock was ahead when it was read between two moments of this one, and how sure that is."""
    try:
        moment = float(clock or "nan")
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        return None, 0.0
    return moment - (begin + end) / 2, (end - begin) / 2 + _ROUNDING
