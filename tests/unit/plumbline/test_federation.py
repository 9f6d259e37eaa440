"""What the operator is told when a request fails inside a service."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import UNEXPECTED, LocalProcesses
from protos.v1 import active_pb2, active_pb2_grpc
from services.common.agreement import TrainingPlan
from services.common.errors import OutOfOrder
from services.common.statuses import abort_with

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
        log.write("ERROR services.common.statuses: Unexpected error\nTraceback (most recent call last):\n")
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


def test_a_term_that_no_training_has_is_told_before_anybody_is_asked(processes: LocalProcesses) -> None:
    with (
        federation(processes, Failing(TypeError("secret"))) as running,
        pytest.raises(ValueError, match=r"^A training has no 'epoch'\. Did you mean 'epochs'\? Its terms: epochs, "),
    ):
        running.train(epoch=3)


@dataclass
class Trained(active_pb2_grpc.ActiveServicer):
    """An active party whose job ends at once, and which serves another session's model or its own."""

    serves: str

    def Train(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        yield active_pb2.JobEvent(result=active_pb2.JobResult(session_id="a" * 32, aligned_rows=9, epochs_run=1))

    def Status(self, request: Any, context: grpc.ServicerContext) -> Any:
        test = active_pb2.TestResult(test_rows=4, accuracy=0.75, auc=0.5)
        return active_pb2.StatusReply(session_id=self.serves, test=test, own_plan=TrainingPlan().to_message())


def test_an_outcome_says_how_its_own_model_does_and_no_other(processes: LocalProcesses) -> None:
    with federation(processes, Trained("a" * 32)) as running:
        outcome = running.train()
    assert (outcome.aligned_rows, outcome.accuracy, outcome.auc) == (9, 0.75, 0.5)
    with federation(processes, Trained("b" * 32)) as running:
        assert running.train().accuracy is None
