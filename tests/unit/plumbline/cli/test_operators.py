"""What an operator is told: one sentence that says what to do, without gRPC's words, and a job that outlives Ctrl-C."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.federation import Federation, TrainingOutcome
from plumbline.processes import _free_addresses
from protos.v1 import active_pb2, active_pb2_grpc, common_pb2
from services.common.agreement import TrainingPlan
from services.common.certificates import CertificateFiles, create_federation_certificates
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role, role_of
from services.common.meters import TrafficMeter
from services.network.transport import Transport

OWN_PLAN = TrainingPlan(epochs=7, batch_size=33, key_bits=3072, learner_options={"learning_rate": 0.25})
STATUS_NAMES = [code.name for code in grpc.StatusCode]


class Party(active_pb2_grpc.ActiveServicer):
    """An active party that is idle, and notes which plan it is asked for."""

    def __init__(self) -> None:
        self.asked: list[active_pb2.TrainRequest] = []
        self.cancelled = 0

    def Status(self, request: Any, context: grpc.ServicerContext) -> active_pb2.StatusReply:
        return active_pb2.StatusReply(stage="idle", own_plan=OWN_PLAN.to_message(), class_names=["=cmd|'!A0", "id"])

    def Train(self, request: active_pb2.TrainRequest, context: Any) -> Iterator[active_pb2.JobEvent]:
        self.asked.append(request)
        yield active_pb2.JobEvent(stage="training")
        yield active_pb2.JobEvent(progress=active_pb2.JobProgress(steps_done=1, steps_planned=2))
        yield active_pb2.JobEvent(epoch=active_pb2.EpochResult(epoch=0, validation_loss=0.5, seconds=2))
        yield active_pb2.JobEvent(result=active_pb2.JobResult(aligned_rows=9, epochs_run=1, kept_epoch=0))

    def Predict(self, request_iterator: Any, context: grpc.ServicerContext) -> Iterator[active_pb2.PredictReply]:
        for _ in request_iterator:
            yield active_pb2.PredictReply(
                block=active_pb2.ScoreBlock(columns=2, scores=[-0.5, 1.5], missing=[1], error="@gone")
            )

    def PredictOne(self, request: Any, context: grpc.ServicerContext) -> active_pb2.RecordPrediction:
        return active_pb2.RecordPrediction()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> common_pb2.Acknowledgement:
        self.cancelled += 1
        if self.cancelled > 1:
            raise OutOfOrder("No job is running (stage: idle): there is nothing to cancel.")
        return common_pb2.Acknowledgement()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    create_federation_certificates(
        folder, [Identity(role_of(name), name) for name in ("active", "operator", "passive")]
    )
    return folder


@pytest.fixture
def party() -> Party:
    return Party()


@pytest.fixture
def address(certificates: Path, party: Party) -> Iterator[str]:
    transport = Transport(Identity(Role.ACTIVE, "active"), CertificateFiles.of(certificates, "active"), TrafficMeter())
    permissions = {
        f"/plumbline.v1.Active/{name}": frozenset({Role.OPERATOR}) for name in ("Status", "Train", "Cancel", "Predict")
    }
    server, port = transport.serve(
        "127.0.0.1:0", [lambda server: active_pb2_grpc.add_ActiveServicer_to_server(party, server)], permissions, []
    )
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def run(*arguments: str) -> tuple[int, str]:
    """Exit status and output of a command, its lines joined."""
    done = CliRunner(env={"COLUMNS": "250"}).invoke(app, list(arguments))
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


def test_train_shows_its_stages_and_changes_only_what_is_given(address: str, certificates: Path, party: Party) -> None:
    where = ("--address", address, "--certs", str(certificates))
    status, shown = run("train", *where)
    assert (status, party.asked[0].HasField("plan")) == (0, False)
    assert shown == "training ... Trained 1 epochs on 9 aligned records; epoch 1 is kept and served."
    # Once: every other term was this release's default, whatever the active party's settings said.
    assert run("train", "--epochs", "3", *where)[0] == 0
    assert TrainingPlan.from_message(party.asked[1].plan) == TrainingPlan(
        epochs=3, batch_size=33, key_bits=3072, learner_options={"learning_rate": 0.25}
    )


def test_ctrl_c_leaves_the_job_running_and_says_how_to_end_it(
    address: str, certificates: Path, party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> TrainingOutcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(Federation, "train", interrupted)
    status, shown = run("train", "--address", address, "--certs", str(certificates))
    assert status == 130
    assert shown.startswith("plumbline: The job goes on")
    assert f"`plumbline cancel --address {address} --certs {certificates}`" in shown
    assert party.cancelled == 0


def test_cancel_says_so_and_refuses_in_the_partys_own_words(address: str, certificates: Path) -> None:
    where = ("--address", address, "--certs", str(certificates))
    assert run("cancel", *where) == (0, "The job is cancelled.")
    assert run("cancel", *where) == (2, "plumbline: No job is running (stage: idle): there is nothing to cancel.")


def test_predictions_hold_no_formula_whoever_chose_the_names(address: str, certificates: Path) -> None:
    where = ("--address", address, "--certs", str(certificates))
    done = CliRunner().invoke(app, ["predict", *where, "--", "=1+1", "-x"])
    assert done.stdout == "id,'=cmd|'!A0,id,error\n'=1+1,-0.5,1.5,\n'-x,,,'@gone\n"


@pytest.mark.parametrize("command", [("status",), ("train",), ("cancel",), ("predict", "r1")])
def test_whatever_is_wrong_with_the_connection_is_one_sentence(
    tmp_path: Path, address: str, certificates: Path, command: tuple[str, ...]
) -> None:
    others = tmp_path / "others"
    create_federation_certificates(others, [Identity(Role.OPERATOR, "operator")])
    of_two_authorities = tmp_path / "mixed"
    of_two_authorities.mkdir()
    (of_two_authorities / "ca.crt").write_bytes((certificates / "ca.crt").read_bytes())
    for name in ("operator.crt", "operator.key"):
        (of_two_authorities / name).write_bytes((others / name).read_bytes())
        (of_two_authorities / name).chmod(0o600)
    nobody = _free_addresses(1)[0]
    for at, certs, words in (
        (nobody, certificates, "active does not answer: nothing listens at its address."),
        (address, others, "the certificate shown there is not of this federation's authority."),
        (address, of_two_authorities, "take both from the same run of `plumbline certs`."),
        ("no.such.host.invalid:50051", certificates, "active does not answer: its address can't be found."),
        (
            "localhost",
            certificates,
            "The address 'localhost' has no port: give the active party's, such as localhost:50051.",
        ),
        ("127.0.0.1:70000", certificates, "Expected the active party's address as HOST:PORT, got '127.0.0.1:70000'."),
        (address, tmp_path / "none", "none: give the folder of ca.crt, operator.crt and operator.key with --certs"),
    ):
        status, shown = run(*command, "--address", at, "--certs", str(certs))
        assert status == 2
        assert words in shown
        assert shown.startswith("plumbline: ")
        assert not [name for name in (*STATUS_NAMES, "Traceback", "SSL", "ipv4") if name in shown.split()]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--epochs", "-1"), "Expected epochs to be from 0 to 10000, got -1."),
        (("--batch-size", "2000000"), "Expected batch_size to be from 0 to 1048576, got 2000000."),
        (("--batch-size", "-1"), "Expected batch_size to be from 0 to 1048576, got -1."),
        (("--learning-rate", "nan"), "Expected learning_rate to be a positive number up to 1e+09, got nan."),
    ],
)
def test_a_plan_that_cannot_work_is_refused_before_it_is_sent(
    address: str, certificates: Path, party: Party, option: tuple[str, str], words: str
) -> None:
    assert run("train", *option, "--address", address, "--certs", str(certificates)) == (2, f"plumbline: {words}")
    assert not party.asked
