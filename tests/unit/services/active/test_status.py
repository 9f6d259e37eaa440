"""What the active party answers its operator at each stage of a job, and which of the others it says are there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protos.v1 import active_pb2
from services.active.progress import Reachability
from services.active.servicer import PERMISSIONS, SERVICE_NAME, ActiveServicer
from services.common.errors import FederationError
from services.common.heartbeat import Answer
from services.common.identity import Role
from tests.harness.parties import House, Watcher, house, party_data, small_settings

PLAIN = small_settings(cipher="plain")


class Asking(Watcher):
    """Asks for the status whenever it hears of the job, on the job's own thread: nothing moves meanwhile."""

    def __init__(self, ask: Callable[[], active_pb2.StatusReply]) -> None:
        super().__init__()
        self.ask = ask
        self.heard: list[tuple[str, active_pb2.StatusReply]] = []

    def stage(self, name: str) -> None:
        self.heard.append((f"stage {name}", self.ask()))

    def step(self, done: int, planned: int, *_: Any) -> None:
        self.heard.append((f"step {done}", self.ask()))

    def epoch(self, outcome: Any) -> None:
        self.heard.append((f"epoch {outcome.epoch}", self.ask()))

    def at(self, moment: str) -> active_pb2.StatusReply:
        """The last answer at such a moment."""
        return [reply for heard, reply in self.heard if heard == moment][-1]


def asking(home: House, *, quick: bool = True) -> Callable[[], active_pb2.StatusReply]:
    servicer = ActiveServicer(home.active, home.settings.plan())
    return lambda: servicer.Status(active_pb2.StatusRequest(quick=quick), None)  # type: ignore[arg-type]


def test_a_job_is_told_stage_by_stage(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        ask = asking(home)
        before = ask()
        assert (before.stage, before.aligned_rows) == ("idle", 0)
        assert not before.HasField("job")
        assert not before.HasField("test")
        assert [(party.name, party.feature_count) for party in before.parties] == [
            ("active", 0),
            ("passive", 0),
            ("coordinator", 0),
        ]
        watcher = Asking(ask)
        home.active.train(home.settings.plan(), watcher)

        aligning = watcher.at("stage aligning")
        assert (aligning.stage, aligning.aligned_rows) == ("aligning", 0)
        agreeing = watcher.at("stage agreeing")
        assert (agreeing.aligned_rows, agreeing.job.steps_planned) == (55, 0)
        training = watcher.at("stage training")
        assert [party.feature_count for party in training.parties] == [3, 3, 0]
        assert (before.protocol, aligning.protocol, training.protocol, training.serving) == ("", "", "hu", "opened")
        assert (training.job.epochs_done, training.job.epochs_planned) == (0, 2)
        assert not training.job.HasField("seconds_left")
        half = watcher.at("epoch 0")
        assert half.job.steps_done * 2 == half.job.steps_planned
        assert half.job.epochs_done == 1
        assert half.job.validation_loss > 0
        assert half.job.HasField("seconds_left")
        # The model of this job answers nobody yet.
        assert not watcher.at("stage testing").HasField("test")

        after = ask()
        assert (after.stage, after.aligned_rows) == ("serving", 55)
        assert not after.HasField("job")
        tested = home.tested()
        right = (tested.scores[:, 1] > tested.scores[:, 0]) == tested.labels.astype(bool)
        accuracy = right.mean()
        assert after.test.accuracy == pytest.approx(accuracy)
        assert after.test.test_rows == len(right)
        assert list(after.test.by_class) == np.bincount(tested.labels, minlength=2).tolist()


@pytest.mark.parametrize(("opening", "serving"), [("always", "opened"), ("guarded", "shared")])
def test_what_becomes_of_shared_weights_is_told_as_the_parties_agreed(
    tmp_path: Path, opening: str, serving: str
) -> None:
    """The plan proposes to open them, and is overruled where that could tell too much."""
    settings = small_settings(protocol="shared", opening=opening, epochs=1)
    with house(tmp_path, settings=settings) as home:
        home.train()
        reply = asking(home)()
    assert (reply.protocol, reply.serving) == ("shared", serving)
    assert json.loads(reply.own_plan.protocol_options)["serving"] == "opened"


def test_while_another_job_runs_the_model_that_answers_is_the_one_that_was_tested(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
        served = asking(home)().test
        watcher = Asking(asking(home))
        home.active.train(small_settings(cipher="plain", epochs=1, learning_rate=1e-6).plan(), watcher)
        assert watcher.at("stage testing").test == served


def test_a_failed_job_says_why_and_is_no_job_any_more(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN, passive=[party_data(rows=range(100, 160))]) as home:
        with pytest.raises(FederationError):
            home.train()
        reply = asking(home)()
        assert reply.stage == "failed"
        assert "no id in common" in reply.failure
        assert not reply.HasField("job")
        assert reply.aligned_rows == 0


def test_nothing_of_another_partys_table_is_told(tmp_path: Path) -> None:
    """Field by field: who adds one thinks of what it tells."""
    told = {
        "StatusReply": "stage failure session_id class_names warnings obstacle own_plan parties aligned_rows job test "
        "protocol serving",
        "PartyStatus": "name feature_count answers binary_features byte_features",
        "JobStatus": "steps_done steps_planned epochs_done epochs_planned validation_loss seconds_left at_work "
        "waiting_for waiting_since interruptions",
        "TestResult": "test_rows accuracy auc by_class",
    }
    assert _fields(active_pb2.StatusReply.DESCRIPTOR) == {name: set(fields.split()) for name, fields in told.items()}
    # What labels say of the model is for those who may ask for every score: nobody else is answered at all.
    assert PERMISSIONS[f"/{SERVICE_NAME}/Status"] == {Role.OPERATOR, Role.ACTIVE}


def _fields(message: Any) -> dict[str, set[str]]:
    """Names of the fields of a message and of those in it, by the message; what the plan says is the operator's own."""
    own = {message.name: {field.name for field in message.fields}}
    for field in message.fields:
        if field.message_type is not None and field.message_type.name != "TrainingPlan":
            own |= _fields(field.message_type)
    return own


class Peer:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Answer], None]] = []

    def ask(self, session_id: str, seconds: float, answered: Callable[[Answer], None]) -> None:
        self.asked.append(answered)


def test_who_asks_while_another_does_shares_its_answers() -> None:
    near, far = Peer(), Peer()
    reachability = Reachability({"near": near, "far": far})
    first, second = reachability.ask(), reachability.ask()
    assert len(near.asked) == len(far.asked) == 1
    near.asked[0](Answer.FORGOT)
    assert not first.done()
    far.asked[0](Answer.SILENT)
    assert first.result(0) == second.result(0) == {"near": True, "far": False}
    assert not reachability.ask().done()
    assert len(near.asked) == 2


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [
        (Answer.KNOWS, True),
        (Answer.FORGOT, True),
        (Answer.ALIVE, True),
        (Answer.UNREACHABLE, False),
        (Answer.SILENT, False),
    ],
)
def test_whoever_says_anything_is_there(answer: Answer, is_there: bool) -> None:
    peer = Peer()
    asked = Reachability({"passive": peer}).ask()
    peer.asked[0](answer)
    assert asked.result(0) == {"passive": is_there}


def test_a_party_without_others_waits_for_nobody() -> None:
    assert Reachability({}).ask().result(0) == {}


def test_a_quick_question_reaches_nobody(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        peer = Peer()
        home.active.reachability = Reachability({"passive": peer})
        assert not asking(home)().parties[1].HasField("answers")
        assert not peer.asked
