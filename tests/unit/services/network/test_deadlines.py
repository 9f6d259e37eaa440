"""Deadlines that nest: the silent party is named, and not the one that asked it. Over real servers and links."""

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest

from protos.v1 import coordinator_pb2, coordinator_pb2_grpc, passive_pb2, passive_pb2_grpc
from services.active.passive_link import PassiveLink
from services.common.errors import FederationError
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.common.scores import PartialScores
from services.network.deadlines import answering_within, carrying_the_deadline, inner_timeout
from services.network.transport import Permissions, Transport
from services.party.coordinator_link import CoordinatorLink

TIMEOUT = 2.0


def transport(name: str) -> Transport:
    return Transport(Identity(role_of(name), name), None, TrafficMeter())


@contextmanager
def serving(name: str, add: Callable[[grpc.Server], Any], methods: list[str], caller: Role) -> Iterator[str]:
    """A party's server, its gate included; its address."""
    permissions: Permissions = {method: frozenset({caller}) for method in methods}
    server, port = transport(name).serve("127.0.0.1:0", [add], permissions, [])
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Hanging(coordinator_pb2_grpc.CoordinatorServicer):
    """A coordinator that takes shares and never says so."""

    def __init__(self) -> None:
        self.freed = threading.Event()

    def SubmitPartialScores(self, request: Any, context: grpc.ServicerContext) -> coordinator_pb2.SubmissionReceipt:
        self.freed.wait(60)
        return coordinator_pb2.SubmissionReceipt()


class Asking(passive_pb2_grpc.PassiveServicer):
    """A passive party that asks the coordinator before it answers."""

    def __init__(self, coordinator: CoordinatorLink) -> None:
        self._coordinator = coordinator

    def ContributeScores(self, request: Any, context: grpc.ServicerContext) -> passive_pb2.ContributedScores:
        self._coordinator.submit_partial_scores(request.session_id, request.request_id, PartialScores(np.ones((1, 1))))
        return passive_pb2.ContributedScores()


@pytest.mark.parametrize("passive_timeout", [TIMEOUT, 60.0])
def test_the_coordinator_is_named_that_hangs_behind_the_passive_party(passive_timeout: float) -> None:
    # Once both calls had the same deadline, and the active party named the passive one. A passive party whose own
    # timeout is longer must answer in the active party's time all the same.
    hanging = Hanging()  # type: ignore[abstract]
    with (
        serving(
            "coordinator",
            lambda server: coordinator_pb2_grpc.add_CoordinatorServicer_to_server(hanging, server),
            ["/plumbline.v1.Coordinator/SubmitPartialScores"],
            Role.PASSIVE,
        ) as coordinator,
        transport("passive").dial(coordinator, "coordinator") as behind,
        serving(
            "passive",
            lambda server: passive_pb2_grpc.add_PassiveServicer_to_server(
                Asking(CoordinatorLink(behind, passive_timeout)),  # type: ignore[abstract]
                server,
            ),
            ["/plumbline.v1.Passive/ContributeScores"],
            Role.ACTIVE,
        ) as passive,
        transport("active").dial(passive, "passive") as channel,
    ):
        with pytest.raises(FederationError) as error:
            PassiveLink("passive", channel, TIMEOUT).contribute_scores("one", 1, [0])
        hanging.freed.set()
    assert str(error.value).startswith("passive: coordinator does not answer: its time is up.")


def test_an_inner_call_ends_clearly_before_the_outer_one() -> None:
    assert inner_timeout(60.0) == 60.0
    assert inner_timeout(None) is None
    with answering_within(10.0):
        assert inner_timeout(60.0) == pytest.approx(8.0, abs=0.5)
        assert inner_timeout(None) == pytest.approx(8.0, abs=0.5)
        assert inner_timeout(3.0) == 3.0
        with answering_within(1.0):
            assert inner_timeout(60.0) == pytest.approx(0.8, abs=0.1)
    assert inner_timeout(60.0) == 60.0


@pytest.mark.parametrize("seconds", [None, math.inf])
def test_a_caller_without_a_deadline_sets_none(seconds: float | None) -> None:
    with answering_within(seconds):
        assert inner_timeout(60.0) == 60.0
        assert inner_timeout(None) is None


def test_a_deadline_that_has_passed_leaves_no_time() -> None:
    with answering_within(-1.0):
        assert inner_timeout(60.0) == 0.0


def test_another_thread_carries_the_deadline_when_told_to() -> None:
    with ThreadPoolExecutor(1) as executor, answering_within(10.0):
        assert executor.submit(inner_timeout, 60.0).result() == 60.0
        carried = executor.submit(carrying_the_deadline(inner_timeout, 60.0)).result()
    assert carried is not None
    assert carried < 10.0
