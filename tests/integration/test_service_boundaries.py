"""Real processes over mTLS: every bad call gets its status, and the federation goes on as if it had not come."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from plumbline.federation import Federation, FederationFailed
from protos.v1 import (
    active_pb2,
    active_pb2_grpc,
    common_pb2,
    coordinator_pb2,
    coordinator_pb2_grpc,
    messages_pb2,
    messages_pb2_grpc,
    passive_pb2,
    passive_pb2_grpc,
)
from services.common.agreement import TrainingPlan
from services.common.certificates import create_federation_certificates
from services.common.identity import Identity, role_of
from services.common.limits import PREDICTION_ROWS
from tests.harness.connections import raw_channel
from tests.harness.processes import dial, quick_federation, refused

Code = grpc.StatusCode
SERVICES = {
    "coordinator": ["plumbline.v1.Coordinator"],
    "active": ["plumbline.v1.Active", "plumbline.v1.Messages"],
    "passive": ["plumbline.v1.Passive", "plumbline.v1.Messages"],
}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with quick_federation(tmp_path_factory.mktemp("federation")) as running:
        with pytest.raises(FederationFailed, match=r"^There is no trained model.*Train first"):
            running.predict_one("r000001")
        running.train()
        yield running
        for name in running.processes.settings:
            words = (running.processes.folder / f"{name}.log").read_text()
            assert "Traceback" not in words, f"{name}: {words}"
            assert "r0000" not in words, name


def assert_goes_on(federation: Federation) -> None:
    federation.processes.check()
    federation.train()
    assert sum(federation.predict_one(ALIGNED).values()) == pytest.approx(1.0)


# An id that both shares of breast_cancer hold.
ALIGNED = "r000001"


# -- who may call what ------------------------------------------------------------------------------------------------


def _decrypt(channel: grpc.Channel) -> object:
    parts = [messages_pb2.MessagePart(header=messages_pb2.MessageHeader(session_id="x", count=1, width=1))]
    return list(messages_pb2_grpc.MessagesStub(channel).Ask(iter(parts), timeout=5))


def _train(channel: grpc.Channel) -> object:
    return list(active_pb2_grpc.ActiveStub(channel).Train(active_pb2.TrainRequest(), timeout=5))


def _predict(channel: grpc.Channel) -> object:
    requests = [active_pb2.PredictRequest(ids=[ALIGNED])]
    return list(active_pb2_grpc.ActiveStub(channel).Predict(iter(requests), timeout=5))


def _predict_one(channel: grpc.Channel) -> object:
    return active_pb2_grpc.ActiveStub(channel).PredictOne(active_pb2.PredictOneRequest(id=ALIGNED), timeout=5)


def _score(channel: grpc.Channel) -> object:
    message = common_pb2.PartialScores(session_id="x", rows=1, columns=1, values=[0.5])
    return coordinator_pb2_grpc.CoordinatorStub(channel).Score(message, timeout=5)


def _submit(channel: grpc.Channel) -> object:
    message = common_pb2.PartialScores(session_id="x", rows=1, columns=1, values=[0.5])
    return coordinator_pb2_grpc.CoordinatorStub(channel).SubmitPartialScores(message, timeout=5)


def _open(channel: grpc.Channel) -> object:
    request = coordinator_pb2.OpenSessionRequest(
        plan=TrainingPlan().to_message(), classes=2, passive_parties=["passive"]
    )
    return coordinator_pb2_grpc.CoordinatorStub(channel).OpenSession(request, timeout=5)


def _join(channel: grpc.Channel) -> object:
    return passive_pb2_grpc.PassiveStub(channel).Join(common_pb2.SessionRequest(session_id="x"), timeout=5)


def _align(channel: grpc.Channel) -> object:
    request = passive_pb2.AlignmentSetupRequest(session_id="x", client_count=1)
    return list(passive_pb2_grpc.PassiveStub(channel).SetUpAlignment(request, timeout=5))


def _end(channel: grpc.Channel) -> object:
    return passive_pb2_grpc.PassiveStub(channel).EndSession(common_pb2.EndSessionRequest(session_id="x"), timeout=5)


@pytest.mark.parametrize(
    ("caller", "callee", "call"),
    [
        ("passive", "active", _predict),
        ("passive", "active", _predict_one),
        ("passive", "active", _train),
        ("coordinator", "active", _predict),
        ("coordinator", "active", _decrypt),
        ("coordinator", "passive", _decrypt),
        ("coordinator", "passive", _join),
        ("operator", "active", _decrypt),
        ("operator", "passive", _decrypt),
        ("operator", "passive", _align),
        ("operator", "passive", _end),
        ("operator", "coordinator", _score),
        ("operator", "coordinator", _open),
        ("passive", "coordinator", _score),
        ("passive", "coordinator", _open),
        ("active", "coordinator", _submit),
        ("passive", "passive", _join),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_certificate_opens_only_the_calls_of_its_role(
    federation: Federation, caller: str, callee: str, call: Callable[[grpc.Channel], object]
) -> None:
    with dial(federation.processes, caller, callee) as channel, pytest.raises(grpc.RpcError) as error:
        call(channel)
    assert refused(error)[0] is Code.PERMISSION_DENIED
    assert f"not for role {caller}" in refused(error)[1]


@pytest.mark.parametrize("callee", SERVICES)
def test_without_a_certificate_there_is_no_connection(federation: Federation, callee: str) -> None:
    authority = (federation.processes.certificates / "ca.crt").read_bytes()
    address = federation.processes.addresses[callee]
    options = [("grpc.ssl_target_name_override", f"{callee}.plumbline.internal")]
    for channel in (
        grpc.secure_channel(address, grpc.ssl_channel_credentials(authority), options),
        grpc.insecure_channel(address),
    ):
        with channel, pytest.raises(grpc.RpcError) as error:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)  # type: ignore[attr-defined]
        assert refused(error)[0] in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)


@pytest.mark.parametrize("callee", SERVICES)
def test_a_certificate_of_another_authority_makes_no_connection(
    federation: Federation, callee: str, tmp_path: Path
) -> None:
    """The caller trusts the right authority, so that it is the server who refuses."""
    create_federation_certificates(tmp_path, [Identity(role_of(name), name) for name in ("active", "operator")])
    (tmp_path / "ca.crt").write_bytes((federation.processes.certificates / "ca.crt").read_bytes())
    address = federation.processes.addresses[callee]
    with raw_channel(tmp_path, "operator", address, callee) as channel, pytest.raises(grpc.RpcError) as error:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)  # type: ignore[attr-defined]
    assert refused(error)[0] in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)


def test_strangers_who_knock_leave_no_line_in_the_log(federation: Federation) -> None:
    """Found: gRPC writes one of its own for each of them."""
    log = federation.processes.log("active")
    before = log.read_text()
    host, port = federation.processes.addresses["active"].split(":")
    for _ in range(20):
        with socket.create_connection((host, int(port)), timeout=5) as knocking:
            knocking.sendall(b"GET / HTTP/1.1\r\n\r\n")
            knocking.recv(100)
    assert sum(federation.predict_one(ALIGNED).values()) == pytest.approx(1.0)
    assert log.read_text() == before


@pytest.mark.parametrize("callee", SERVICES)
def test_health_answers_for_every_service_and_the_calls_are_not_listed(federation: Federation, callee: str) -> None:
    with dial(federation.processes, "operator", callee) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", *SERVICES[callee]):
            reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)  # type: ignore[attr-defined]
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as error:
            stub.Check(health_pb2.HealthCheckRequest(service="plumbline.v1.None"), timeout=5)  # type: ignore[attr-defined]
        assert refused(error)[0] is Code.NOT_FOUND
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        with pytest.raises(grpc.RpcError) as error:
            list(reflection.ServerReflectionInfo(iter([question]), timeout=5))
        assert refused(error)[0] is Code.UNIMPLEMENTED


# -- bad content ------------------------------------------------------------------------------------------------------


def _part(**header: object) -> messages_pb2.MessagePart:
    return messages_pb2.MessagePart(header=messages_pb2.MessageHeader(**header))  # type: ignore[arg-type]


DATA = messages_pb2.MessagePart(data=b"\xff" * 64)


@pytest.mark.parametrize("method", ["Ask", "Send"])
@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([], Code.INVALID_ARGUMENT),
        ([DATA], Code.INVALID_ARGUMENT),
        ([_part(session_id="x", count=1, width=8), DATA], Code.FAILED_PRECONDITION),
        ([_part(session_id="x", count=2**31, width=2**31)], Code.FAILED_PRECONDITION),
        ([_part(session_id="x", count=1, width=64), DATA], Code.FAILED_PRECONDITION),
        ([_part()], Code.FAILED_PRECONDITION),
    ],
    ids=["nothing", "no header", "too many bytes", "gigantic", "unknown session", "empty header"],
)
def test_a_malformed_or_misplaced_vector_gets_its_status(
    federation: Federation, method: str, parts: list[messages_pb2.MessagePart], status: grpc.StatusCode
) -> None:
    with dial(federation.processes, "active", "passive") as channel:
        stub = messages_pb2_grpc.MessagesStub(channel)
        # The reply to one is a stream, to the other a message.
        call = (
            (lambda: list(stub.Ask(iter(parts), timeout=5)))
            if method == "Ask"
            else (lambda: [stub.Send(iter(parts), timeout=5)])
        )
        with pytest.raises(grpc.RpcError) as error:
            call()
    assert refused(error)[0] is status


def test_bytes_that_are_no_message_are_refused_and_the_service_goes_on(federation: Federation) -> None:
    with dial(federation.processes, "active", "passive") as channel:
        untyped: Any = channel

        class Raw(bytes):
            """Bytes that the traffic meter can count."""

            def ByteSize(self) -> int:
                return len(self)

        with pytest.raises(grpc.RpcError) as error:
            untyped.unary_unary("/plumbline.v1.Passive/Join", request_serializer=bytes)(
                Raw(b"\xff\xff\xff\xff garbage"), timeout=5
            )
        assert refused(error)[0] is Code.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as error:
            untyped.unary_unary("/plumbline.v1.Passive/Nothing", request_serializer=bytes)(Raw(b""), timeout=5)
        assert refused(error)[0] is Code.UNIMPLEMENTED
    assert_goes_on(federation)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (coordinator_pb2.OpenSessionRequest(classes=2, passive_parties=["passive"]), "names no cipher"),
        (
            coordinator_pb2.OpenSessionRequest(
                plan=TrainingPlan().to_message(), classes=1, passive_parties=["passive"]
            ),
            "at least two",
        ),
        (coordinator_pb2.OpenSessionRequest(plan=TrainingPlan().to_message(), classes=2), "at least one passive party"),
    ],
    ids=["empty plan", "one class", "no passive party"],
)
def test_a_session_that_cannot_work_is_an_invalid_argument(
    federation: Federation, request_: coordinator_pb2.OpenSessionRequest, words: str
) -> None:
    with dial(federation.processes, "active", "coordinator") as channel, pytest.raises(grpc.RpcError) as error:
        coordinator_pb2_grpc.CoordinatorStub(channel).OpenSession(request_, timeout=5)
    assert refused(error)[0] is Code.INVALID_ARGUMENT
    assert words in refused(error)[1]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (common_pb2.PartialScores(rows=1, columns=1, values=[1.0]), Code.FAILED_PRECONDITION),
        (common_pb2.PartialScores(rows=0, columns=0), Code.INVALID_ARGUMENT),
        (common_pb2.PartialScores(rows=2, columns=1, values=[1.0]), Code.INVALID_ARGUMENT),
        (common_pb2.PartialScores(rows=1, columns=1, values=[float("nan")]), Code.INVALID_ARGUMENT),
        (common_pb2.PartialScores(rows=2**31, columns=2**31, values=[1.0]), Code.INVALID_ARGUMENT),
    ],
    ids=["unknown session", "empty", "too few", "NaN", "gigantic"],
)
def test_partial_scores_that_cannot_be_get_their_status(
    federation: Federation, message: common_pb2.PartialScores, status: grpc.StatusCode
) -> None:
    with dial(federation.processes, "passive", "coordinator") as channel, pytest.raises(grpc.RpcError) as error:
        coordinator_pb2_grpc.CoordinatorStub(channel).SubmitPartialScores(message, timeout=5)
    assert refused(error)[0] is status


@pytest.mark.parametrize(
    ("method", "message", "status"),
    [
        ("SetUpAlignment", passive_pb2.AlignmentSetupRequest(client_count=3, version=2), Code.INVALID_ARGUMENT),
        ("Join", common_pb2.SessionRequest(session_id="x"), Code.FAILED_PRECONDITION),
        ("ShowPublicKey", common_pb2.SessionRequest(session_id="x"), Code.FAILED_PRECONDITION),
        ("RunEpoch", passive_pb2.RunEpochRequest(session_id="x"), Code.FAILED_PRECONDITION),
        ("FinishTraining", passive_pb2.FinishTrainingRequest(session_id="x"), Code.FAILED_PRECONDITION),
        ("ContributeScores", passive_pb2.PartialScoresRequest(session_id="x"), Code.FAILED_PRECONDITION),
    ],
)
def test_what_a_passive_party_is_asked_outside_a_session_gets_its_status(
    federation: Federation, method: str, message: Message, status: grpc.StatusCode
) -> None:
    with dial(federation.processes, "active", "passive") as channel:
        call = getattr(passive_pb2_grpc.PassiveStub(channel), method)
        streams = method in ("SetUpAlignment", "RunEpoch")
        with pytest.raises(grpc.RpcError) as error:
            list(call(message, timeout=5)) if streams else call(message, timeout=5)
    assert refused(error)[0] is status
    assert refused(error)[1].endswith(".")


def test_scores_of_rows_beyond_the_common_ones_are_an_invalid_argument(federation: Federation) -> None:
    session_id = federation.status().session_id
    with dial(federation.processes, "active", "passive") as channel:
        for rows in ([], [10**6]):
            request = passive_pb2.PartialScoresRequest(session_id=session_id, request_id=10**6, rows=rows)
            with pytest.raises(grpc.RpcError) as error:
                passive_pb2_grpc.PassiveStub(channel).ContributeScores(request, timeout=5)
            assert refused(error)[0] is Code.INVALID_ARGUMENT
    assert_goes_on(federation)


# -- the operator's view ----------------------------------------------------------------------------------------------


def test_unknown_ids_get_an_error_each_and_the_others_their_scores(federation: Federation) -> None:
    scores = federation.predict(["nobody", ALIGNED, "", ALIGNED])
    assert scores.index.tolist() == ["nobody", ALIGNED, "", ALIGNED]
    assert scores["error"].map(bool).tolist() == [True, False, True, False]
    values = scores.drop(columns="error")
    assert values.isna().all(axis=1).tolist() == [True, False, True, False]
    assert values.iloc[1].sum() == pytest.approx(1.0)


def test_one_unknown_id_is_not_found(federation: Federation) -> None:
    with pytest.raises(FederationFailed, match=r"^This id is not among the aligned records"):
        federation.predict_one("nobody")


def test_more_ids_than_a_message_may_hold_are_refused_and_a_stream_of_them_is_answered(federation: Federation) -> None:
    request = active_pb2.PredictRequest(ids=["x"] * (PREDICTION_ROWS + 1))
    with dial(federation.processes, "operator", "active") as channel, pytest.raises(grpc.RpcError) as error:
        list(active_pb2_grpc.ActiveStub(channel).Predict(iter([request]), timeout=10))
    assert refused(error)[0] is Code.INVALID_ARGUMENT
    assert len(federation.predict([ALIGNED] * (2 * PREDICTION_ROWS + 1))) == 2 * PREDICTION_ROWS + 1
    assert federation.predict([]).empty
    with pytest.raises(ValueError, match="predict_one takes one"):
        federation.predict(ALIGNED)


def test_a_plan_that_cannot_work_is_refused_before_any_stage_and_the_model_stays(federation: Federation) -> None:
    stages: list[str] = []
    request = active_pb2.TrainRequest(plan=common_pb2.TrainingPlan(epochs=1))
    with dial(federation.processes, "operator", "active") as channel, pytest.raises(grpc.RpcError) as error:
        stages.extend(event.stage for event in active_pb2_grpc.ActiveStub(channel).Train(request, timeout=10))
    assert refused(error)[0] is Code.INVALID_ARGUMENT
    assert stages == []
    assert federation.status().stage == "serving"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 5000}, "batch of 5000 is larger than the data"),
        ({"cipher": "plain"}, "this party runs cipher=paillier"),
        ({"packing": False}, "packing=False, this party packing=True"),
    ],
    ids=str,
)
def test_terms_that_no_party_accepts_end_before_training_with_the_reason(
    federation: Federation, changes: dict[str, object], words: str
) -> None:
    stages: list[str] = []
    with pytest.raises(FederationFailed, match=words):
        federation.train(watch=lambda event: stages.append(event.stage), **changes)
    assert "training" not in stages
    status = federation.status()
    assert status.stage == "failed"
    assert words in status.failure
    assert_goes_on(federation)


def test_a_diverging_job_is_told_its_remedy(federation: Federation) -> None:
    # Found: "INTERNAL: Unexpected FixedPointOverflow; the service's log has the rest.", with a traceback there.
    with pytest.raises(FederationFailed, match=r"learning_rate|residual_integer_bits"):
        federation.train(steps="plain", learning_rate=1e6)
    assert_goes_on(federation)


def test_a_second_job_is_refused_while_one_runs(federation: Federation) -> None:
    training = threading.Event()
    first: list[object] = []

    def watch(event: active_pb2.JobEvent) -> None:
        if event.stage == "training":
            training.set()

    job = threading.Thread(target=lambda: first.append(federation.train(watch=watch, epochs=4)))
    job.start()
    try:
        assert training.wait(20)
        with pytest.raises(FederationFailed, match=r"^A job is running already"):
            federation.train()
    finally:
        job.join()
    assert first, "the first job went on to its end"
    assert federation.predict([ALIGNED])["error"].tolist() == [""]


def test_training_twice_in_a_row_gives_the_same_scores(federation: Federation) -> None:
    federation.train()
    session, scores = federation.status().session_id, federation.predict_one(ALIGNED)
    federation.train()
    assert federation.status().session_id != session
    assert federation.predict_one(ALIGNED) == pytest.approx(scores, abs=1e-12)


def test_a_dialled_server_with_another_partys_certificate_is_refused(federation: Federation) -> None:
    """The coordinator's address with the active party's name: no call is made, no retry succeeds."""
    processes = federation.processes
    addresses = dict(processes.addresses)
    processes.addresses["active"] = addresses["coordinator"]
    try:
        with dial(processes, "operator", "active") as channel, pytest.raises(grpc.RpcError) as error:
            active_pb2_grpc.ActiveStub(channel).Status(active_pb2.StatusRequest(), timeout=3)
        assert refused(error)[0] in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)
    finally:
        processes.addresses.update(addresses)
