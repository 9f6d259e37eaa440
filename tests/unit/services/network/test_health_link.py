"""A peer's health over a real channel: what it answers, and a call that waits for a peer which is starting again."""

import queue
import threading
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2

from plumbline.processes import _free_addresses
from services.common.errors import PeerVanished
from services.common.heartbeat import Answer
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.network.health import Held
from services.network.health_link import HealthLink
from services.network.transport import Transport

SECONDS = 20


def transport(name: str) -> Transport:
    return Transport(Identity(Role(name), name), None, TrafficMeter())


def serve(address: str, held: str = "") -> grpc.Server:
    server, _ = transport("passive").serve(address, [], {}, ["tests.Known"], held=Held(lambda one: one == held))
    return server


@pytest.fixture
def address() -> str:
    return _free_addresses(1)[0]


@pytest.fixture
def channel(address: str) -> Iterator[grpc.Channel]:
    with transport("active").dial(address, "passive") as made:
        yield made


def asked(link: HealthLink, session_id: str, seconds: float = SECONDS) -> Answer:
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    link.ask(session_id, seconds, answers.put)
    return answers.get(timeout=2 * SECONDS)


def test_a_peer_says_whether_it_knows_a_session_and_a_dead_one_is_unreachable(
    address: str, channel: grpc.Channel
) -> None:
    link = HealthLink("passive", channel)
    server = serve(address, held="one")
    assert asked(link, "one") is Answer.KNOWS
    assert asked(link, "two") is Answer.FORGOT
    server.stop(None).wait()
    assert asked(link, "one") is Answer.UNREACHABLE


def test_a_peer_that_hangs_is_silent(address: str, channel: grpc.Channel) -> None:
    link = HealthLink("passive", channel)
    freed = threading.Event()
    server, _ = transport("passive").serve(address, [], {}, [], held=Held(lambda _: freed.wait(SECONDS)))
    assert asked(link, "one", seconds=0.5) is Answer.SILENT
    freed.set()
    server.stop(None).wait()


def test_a_call_waits_for_a_peer_that_is_starting_again(address: str, channel: grpc.Channel) -> None:
    # Once: the first calls after a restart failed, two to four of them, while gRPC backed off.
    link = HealthLink("passive", channel)
    attempts: list[Answer] = []

    def call() -> str:
        link._stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        return "answered"

    serve(address).stop(None).wait()
    attempts.append(asked(link, "one"))
    started: list[grpc.Server] = []
    later = threading.Timer(1.5, lambda: started.append(serve(address)))
    later.start()
    assert link.insisting(call) == "answered"
    later.join()
    started[0].stop(None).wait()
    assert attempts == [Answer.UNREACHABLE]


def test_a_peer_that_does_not_come_back_is_named_with_the_reason(address: str, channel: grpc.Channel) -> None:
    with pytest.raises(PeerVanished, match=r"^passive does not answer: nothing listens at its address"):
        HealthLink("passive", channel).await_ready(0.5)


def test_health_is_not_counted_as_the_runs_traffic(address: str) -> None:
    caller = transport("active")
    server = serve(address)
    with caller.dial(address, "passive") as channel:
        assert asked(HealthLink("passive", channel), "one") is Answer.FORGOT
    server.stop(None).wait()
    assert caller.meter.snapshot() == {}
