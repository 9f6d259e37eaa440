"""Idle streams by the hundred, of each kind and from each role: training, health and predictions go on."""

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from plumbline.federation import Federation
from protos.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc
from services.common.agreement import TrainingPlan
from tests.harness.hostile import PROCESSES, HonestJob, assert_sound, raw_channel, served_federation, trained
from tests.harness.storms import is_healthy, prediction_seconds, storm, stream_paths
from tests.harness.wire_fuzz import calls, sent

CALLERS = ("operator", "coordinator", "active", "passive")
COUNT, QUICK_COUNT = 200, 40
CALLS = 200
TERMS = {"epochs": 4, "batch_size": 32}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with served_federation(tmp_path_factory.mktemp("federation"), step_timeout=8) as running:
        yield running
        assert_sound(running.processes)


# A kind of each: what an operator may open, what anybody's certificate reaches, what a peer sends.
QUICK = [
    ("operator", "active", "/plumbline.v1.Active/Predict"),
    ("passive", "active", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
    ("passive", "active", "/plumbline.v1.Messages/Send"),
    ("active", "passive", "/plumbline.v1.Passive/FixOrder"),
    ("operator", "coordinator", "/grpc.health.v1.Health/Watch"),
]


def test_a_storm_of_idle_streams_stops_no_training_and_no_health_check(federation: Federation) -> None:
    """Once 32 idle streams stopped a service, and in mid-training they killed the job."""
    expected = trained(federation, **TERMS)
    with ExitStack() as storms:
        job = HonestJob(federation, **TERMS)
        job.await_training()
        for caller, callee, path in QUICK:
            storms.enter_context(storm(federation.processes, caller, callee, path, QUICK_COUNT))
        assert [is_healthy(federation.processes, callee) for callee in PROCESSES] == [True] * 3
        for ours, undisturbed in zip(job.result(120), expected, strict=True):
            np.testing.assert_array_equal(ours, undisturbed)
        # Another one, that begins in the storm.
        for ours, undisturbed in zip(trained(federation, **TERMS), expected, strict=True):
            np.testing.assert_array_equal(ours, undisturbed)
        assert federation.predict_one("r000001")


@pytest.mark.hostile_long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("caller", CALLERS)
def test_two_hundred_idle_streams_of_each_kind_stop_nothing(federation: Federation, caller: str) -> None:
    expected = trained(federation, **TERMS)
    for callee in PROCESSES:
        for path in stream_paths(callee):
            job = HonestJob(federation, **TERMS)
            job.await_training()
            with storm(federation.processes, caller, callee, path, COUNT):
                assert all(is_healthy(federation.processes, one) for one in PROCESSES), f"{caller} {path} at {callee}"
                for ours, undisturbed in zip(job.result(120), expected, strict=True):
                    np.testing.assert_array_equal(ours, undisturbed, f"{caller} {path} at {callee}")


@pytest.mark.hostile_long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("caller", CALLERS)
def test_predictions_take_at_most_twice_as_long_in_a_storm(federation: Federation, caller: str) -> None:
    trained(federation, **TERMS)
    for callee in PROCESSES:
        for path in stream_paths(callee):
            quiet = prediction_seconds(federation, CALLS)[int(0.99 * CALLS)]
            with storm(federation.processes, caller, callee, path, COUNT):
                stormy = prediction_seconds(federation, CALLS)[int(0.99 * CALLS)]
            assert stormy <= 2 * quiet, f"{caller} {path} at {callee}: {stormy:.4f} s, {quiet:.4f} s in quiet"


@pytest.mark.hostile_long
@pytest.mark.timeout(900)
def test_a_crowd_that_joins_stops_nothing(federation: Federation) -> None:
    """40 callers of JoinSession once held every thread of the coordinator."""
    processes = federation.processes
    (join,) = [call for call in calls() if call.name == "JoinSession"]
    plan = TrainingPlan().to_message()
    opening = coordinator_pb2.OpenSessionRequest(plan=plan, classes=2, passive_parties=["passive"])
    party = common_pb2.PartyDescription(name="active", feature_count=3, aligned_rows=500)
    with raw_channel(processes, "active", "coordinator") as channel:
        session = coordinator_pb2_grpc.CoordinatorStub(channel).OpenSession(opening, timeout=10).session_id
        message = coordinator_pb2.JoinSessionRequest(session_id=session, party=party).SerializeToString()
        waiting = [sent(channel, join.path, [message], 60) for _ in range(COUNT)]
        assert all(is_healthy(processes, one) for one in PROCESSES)
        assert federation.predict_one("r000001")
        for one in waiting:
            one.cancel()
