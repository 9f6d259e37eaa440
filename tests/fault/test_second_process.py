"""A second process with a party's certificate can't end that party's jobs, and a restarted one takes its place."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from plumbline.federation import Federation
from protos.v1 import (
    common_pb2,
    coordinator_pb2,
    coordinator_pb2_grpc,
    messages_pb2,
    messages_pb2_grpc,
    passive_pb2,
    passive_pb2_grpc,
)
from services.common.agreement import TrainingPlan
from services.common.alignment import ALIGNMENT_VERSION
from tests.harness.processes import dial, quick_federation, refused
from tests.harness.strikes import assert_no_traceback, log_of

# Calls, by name, that each ended a job, given the passive party's channel, the coordinator's and the session.
Attack = Callable[[grpc.Channel, grpc.Channel, str], object]
ATTACKS: dict[str, Attack] = {
    "EndSession": lambda passive, _, session: passive_pb2_grpc.PassiveStub(passive).EndSession(
        common_pb2.EndSessionRequest(session_id=session, reason="bye"), timeout=30
    ),
    "SetUpAlignment": lambda passive, _, session: list(
        passive_pb2_grpc.PassiveStub(passive).SetUpAlignment(
            passive_pb2.AlignmentSetupRequest(session_id="ab" * 16, client_count=1, version=ALIGNMENT_VERSION),
            timeout=30,
        )
    ),
    "FinishTraining": lambda passive, _, session: passive_pb2_grpc.PassiveStub(passive).FinishTraining(
        passive_pb2.FinishTrainingRequest(session_id=session, kept_epoch=0), timeout=30
    ),
    "RunEpoch": lambda passive, _, session: list(
        passive_pb2_grpc.PassiveStub(passive).RunEpoch(
            passive_pb2.RunEpochRequest(session_id=session, epoch=1), timeout=30
        )
    ),
    "ShowKey": lambda passive, _, session: messages_pb2_grpc.MessagesStub(passive).ShowKey(
        messages_pb2.KeyMessage(session_id=session, key_id="x"), timeout=30
    ),
    "OpenSession": lambda _, coordinator, session: coordinator_pb2_grpc.CoordinatorStub(coordinator).OpenSession(
        coordinator_pb2.OpenSessionRequest(plan=TrainingPlan().to_message(), classes=2, passive_parties=["passive"]),
        timeout=30,
    ),
    "EndSession at the coordinator": lambda _, coordinator, session: coordinator_pb2_grpc.CoordinatorStub(
        coordinator
    ).EndSession(common_pb2.EndSessionRequest(session_id=session, reason="bye"), timeout=30),
}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder = tmp_path_factory.mktemp("second")
    with quick_federation(folder, epochs=40, batch_size=16, step_timeout=30) as running:
        yield running
        assert_no_traceback(running.processes)


def test_a_second_process_of_the_active_party_ends_no_job(federation: Federation) -> None:
    # Once it ended 5 of 8 jobs.
    processes = federation.processes
    outcomes: dict[str, str] = {}

    def attack_all(session_id: str) -> None:
        with (
            dial(processes, "active", "passive") as passive,
            dial(processes, "active", "coordinator") as coordinator,
        ):
            for name, attack in ATTACKS.items():
                with pytest.raises(grpc.RpcError) as error:
                    attack(passive, coordinator, session_id)
                status, words = refused(error)
                outcomes[name] = f"{status.name}: {words}"

    with ThreadPoolExecutor(2) as threads:
        attacking: list[Future[None]] = []

        def watch(event: object) -> None:
            if not attacking and federation.status().stage == "training":
                attacking.append(threads.submit(attack_all, federation.status().session_id))

        training = threads.submit(federation.train, watch=watch, epochs=400)
        while not attacking:
            assert not training.done()
        attacking[0].result(200)
        assert not training.done(), "the job must outlive the attack, or it proves nothing"
        federation.cancel()
        assert training.exception() is not None
    assert set(outcomes) == set(ATTACKS)
    for words in outcomes.values():
        assert words.startswith(
            "PERMISSION_DENIED: This session belongs to another process that holds this certificate"
        )
    for name in ("passive", "coordinator"):
        assert log_of(federation, name).count("A second process (ipv4:127.0.0.1:") == 1


def test_predictions_go_on_for_one_process_at_a_time(federation: Federation, tmp_path: Path) -> None:
    federation.train(epochs=1)
    before = federation.predict_one("r000001")
    with dial(federation.processes, "active", "passive") as passive:
        stub = passive_pb2_grpc.PassiveStub(passive)
        # The active party is silent now, so this process takes its place. It can't be told from a restarted one.
        with pytest.raises(grpc.RpcError) as error:
            stub.ContributeScores(passive_pb2.PartialScoresRequest(session_id="none", rows=[0]), timeout=30)
        assert refused(error)[0] is grpc.StatusCode.FAILED_PRECONDITION
    # And the active party takes it back as soon as the other is silent.
    assert federation.predict_one("r000001") == before
