"""Streams that are opened and then say nothing: many of them, from one caller."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc

from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2, active_pb2_grpc
from services.common.certificates import CertificateFiles
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.network.transport import Transport, is_serving
from tests.harness.hostile import raw_channel
from tests.harness.wire_fuzz import calls_at, sent

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
WATCH = "/grpc.health.v1.Health/Watch"
# How long a caller of a storm would wait, if nobody ended its streams.
_PATIENCE = 600.0


def stream_paths(callee: str) -> list[str]:
    """Every kind of stream that a caller can hold open at one process; those that only we know of included."""
    return [call.path for call in calls_at(callee) if call.streams_in or call.streams_out] + [REFLECTION, WATCH]


@contextmanager
def storm(processes: LocalProcesses, caller: str, callee: str, path: str, count: int) -> Iterator[list[grpc.Call]]:
    """``count`` streams that never say anything, open for as long as the block takes, unless the server ends them."""
    over = threading.Event()

    def silence() -> Iterator[bytes]:
        over.wait(_PATIENCE)
        yield from ()

    with ExitStack() as stack:
        # HTTP/2 lets a connection have about a hundred streams: several connections, as a stranger would.
        channels = [stack.enter_context(raw_channel(processes, caller, callee)) for _ in range(1 + count // 50)]
        stack.callback(over.set)
        opened: list[grpc.Call] = [
            sent(channels[number % len(channels)], path, silence(), _PATIENCE) for number in range(count)
        ]
        # Sent, whatever becomes of them: the last one has reached the server or was ended by it.
        time.sleep(1.0)
        yield opened
        for one in opened:
            one.cancel()


def is_healthy(processes: LocalProcesses, callee: str) -> bool:
    """Whether a process says that it serves."""
    operator = str(Role.OPERATOR)
    files = CertificateFiles.of(processes.certificates, operator)
    channel = Transport(Identity(Role.OPERATOR, operator), files, TrafficMeter()).dial(
        processes.addresses[callee], callee
    )
    with channel:
        return is_serving(channel)


def prediction_seconds(federation: Federation, count: int) -> list[float]:
    """Durations of ``count`` calls of PredictOne, one after the other, sorted."""
    processes = federation.processes
    operator = str(Role.OPERATOR)
    files = CertificateFiles.of(processes.certificates, operator)
    transport = Transport(Identity(Role.OPERATOR, operator), files, TrafficMeter())
    seconds = []
    with transport.dial(processes.addresses[Role.ACTIVE], Role.ACTIVE) as channel:
        stub = active_pb2_grpc.ActiveStub(channel)
        request = active_pb2.PredictOneRequest(id="r000001")
        stub.PredictOne(request, timeout=20)
        for _ in range(count):
            start = time.perf_counter()
            stub.PredictOne(request, timeout=20)
            seconds.append(time.perf_counter() - start)
    return sorted(seconds)
