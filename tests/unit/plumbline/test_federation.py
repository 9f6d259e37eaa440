"""What the operator is told when a request fails inside a service."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from plumbline.federation import Federation, FederationFailed, _await_health
from plumbline.processes import UNEXPECTED, LocalProcesses
from protos.v1 import active_pb2, active_pb2_grpc
from services.common.agreement import TrainingPlan
from services.common.errors import OutOfOrder
from services.network.statuses import abort_with

INTERNAL = "Unexpected TypeError: the service's log has the rest."


@dataclass
class Failing(active_pb2_grpc.ActiveServicer):
    """An active party whose Status ends with an error, and whose jobs end without a result."""

    error: Exception

    def Status(self, request: Any, context: grpc.ServicerContext) -> Any:
        abort_with(context, self.error)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        abort_with(context, self.error)

    def Train(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        return iter(())

    def Predict(self, request_iterator: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        return iter(())

    def PredictOne(self, request: Any, context: grpc.ServicerContext) -> Any:
        abort_with(context, self.error)


@contextmanager
def federation(processes: LocalProcesses | None, party: active_pb2_grpc.ActiveServicer) -> Iterator[Federation]:
    server = grpc.server(ThreadPoolExecutor(1))
    active_pb2_grpc.add_ActiveServicer_to_server(party, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield Federation(grpc.insecure_channel(f"127.0.0.1:{port}"), processes)
    finally:
        server.stop(None).wait()


@pytest.fixture
def processes(tmp_path: Path) -> LocalProcesses:
    """Three parties with logs, the passive one's with a traceback."""
    logs = tmp_path / "logs"
    logs.mkdir()
    made = LocalProcesses(tmp_path, {}, logs=logs)
    for name in ("coordinator", "active", "passive"):
        made._running[name] = None  # type: ignore[assignment]
        made.log(name).write_text("INFO started\n")
    with made.log("passive").open("a") as log:
        log.write("ERROR services.network.statuses: Unexpected error\nTraceback (most recent call last):\n")
    return made


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TypeError("secret"), INTERNAL),
        # How an active party tells of a passive one's.
        (OutOfOrder(f"The session has ended: {INTERNAL}"), f"The session has ended: {INTERNAL}"),
    ],
)
def test_an_error_inside_a_service_names_it_and_its_log(
    processes: LocalProcesses, caplog: pytest.LogCaptureFixture, error: Exception, words: str
) -> None:
    # Once: "the service's log has the rest", of whichever service.
    with federation(processes, Failing(error)) as running, pytest.raises(FederationFailed) as failed:
        running.status()
    assert str(failed.value) == f"{words} It happened at passive: see {processes.log('passive')}."
    # What a service's log says, which this goes by.
    assert (UNEXPECTED in caplog.text) == isinstance(error, TypeError)


def test_what_a_service_refuses_in_its_own_words_is_left_as_it_is(processes: LocalProcesses) -> None:
    with federation(processes, Failing(OutOfOrder("not now"))) as running, pytest.raises(FederationFailed) as failed:
        running.status()
    assert str(failed.value) == "not now"


def test_of_a_federation_elsewhere_the_active_party_is_where_to_look() -> None:
    with (
        federation(None, Failing(TypeError("secret"))) as running,
        pytest.raises(FederationFailed, match="It is the active party's, or that of a party"),
    ):
        running.status()


def test_a_job_without_a_result_names_the_log(processes: LocalProcesses) -> None:
    with (
        federation(processes, Failing(TypeError("secret"))) as running,
        pytest.raises(FederationFailed, match=r"without a result; see .*/logs/active\.log\.$"),
    ):
        running.train()


@dataclass
class Trained(Failing):
    """An active party whose job ends at once, and which serves another session's model or its own."""

    error: Exception = field(default_factory=lambda: OutOfOrder("not now"))
    serves: str = ""

    def Train(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield active_pb2.JobEvent(result=active_pb2.JobResult(session_id="a" * 32, aligned_rows=9, epochs_run=1))

    def Status(self, request: Any, context: grpc.ServicerContext) -> Any:
        test = active_pb2.TestResult(test_rows=4, accuracy=0.75, auc=0.5)
        return active_pb2.StatusReply(session_id=self.serves, test=test, own_plan=TrainingPlan().to_message())


def test_an_outcome_says_how_its_own_model_does_and_no_other(processes: LocalProcesses) -> None:
    with federation(processes, Trained(serves="a" * 32)) as running:
        outcome = running.train()
    assert (outcome.aligned_rows, outcome.accuracy, outcome.auc) == (9, 0.75, 0.5)
    with federation(processes, Trained(serves="b" * 32)) as running:
        assert running.train().accuracy is None


def test_a_term_that_no_training_has_is_told_before_anybody_trains(processes: LocalProcesses) -> None:
    with (
        federation(processes, Trained()) as running,
        pytest.raises(ValueError, match=r"^A training has no 'epoch'\. Did you mean 'epochs'\? Its terms: epochs, "),
    ):
        running.train(epoch=3)


class Counting(active_pb2_grpc.ActiveServicer):
    """An active party that answers with one record's scores, and counts how often it is asked for its class names."""

    def __init__(self) -> None:
        self.class_names = ["no", "yes"]
        self.asked = 0

    def Status(self, request: Any, context: grpc.ServicerContext) -> active_pb2.StatusReply:
        self.asked += 1
        return active_pb2.StatusReply(class_names=self.class_names, own_plan=TrainingPlan().to_message())

    def PredictOne(self, request: Any, context: grpc.ServicerContext) -> active_pb2.RecordPrediction:
        return active_pb2.RecordPrediction(id=request.id, scores=[0.25, 0.75])


def test_class_names_are_not_asked_for_with_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: two calls a record, a quarter of what one costs the active party."""
    monkeypatch.setattr("plumbline.federation._CLASS_NAMES_SECONDS", 600.0)
    party = Counting()  # type: ignore[abstract]
    with federation(None, party) as running:
        assert [running.predict_one("r1") for _ in range(20)] == [{"no": 0.25, "yes": 0.75}] * 20
        assert party.asked == 1
        # Started again, with other labels, which takes it longer than names are kept.
        party.class_names = ["alive", "dead"]
        monkeypatch.setattr("plumbline.federation._CLASS_NAMES_SECONDS", 0.0)
        assert running.predict_one("r1") == {"alive": 0.25, "dead": 0.75}


@pytest.mark.parametrize(("code", "is_waited_for"), [("while True: pass", True), ("input()", False)])
def test_a_process_that_computes_is_waited_for_however_long_it_takes(
    processes: LocalProcesses, monkeypatch: pytest.MonkeyPatch, code: str, is_waited_for: bool
) -> None:
    monkeypatch.setattr("plumbline.federation._START_SECONDS", 2.0)
    # After some three times as long as a process that stands still is given.
    asked = itertools.count()
    monkeypatch.setattr("plumbline.federation.is_serving", lambda _: next(asked) == 60)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        processes._running = {"active": process}
        channel = grpc.insecure_channel("127.0.0.1:1")
        if is_waited_for:
            _await_health(channel, processes, "active")
            assert next(asked) == 61
        else:
            with pytest.raises(FederationFailed, match="active has not answered for 2 s, nor computed; see "):
                _await_health(channel, processes, "active")
        process.kill()
