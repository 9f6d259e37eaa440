"""Hostile messages for every call, from who may send them and who may not: nothing breaks, nobody is disturbed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

from plumbline.federation import Federation
from protos.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc, passive_pb2_grpc
from services.common.agreement import TrainingPlan
from services.common.identity import role_of
from tests.harness.hostile import (
    PROCESSES,
    SEEDED,
    HonestJob,
    assert_sound,
    log_of,
    raw_channel,
    scores_of,
    written_weights,
)
from tests.harness.processes import quick_federation, refused
from tests.harness.wire_fuzz import FORGERY, SERVED_BY, Answers, Call, Fuzzer, calls, calls_at
from vfl.arrays import FloatArray

# Per call: half of them idle, from each caller in turn.
QUICK_REQUESTS, LONG_REQUESTS = 10, 2_000
# Who cancels a job, and may: no attack.
MAY_CANCEL = ("operator", "active")
# Of the honest jobs, one after the other for as long as the fire takes.
TERMS = {"epochs": 25, "batch_size": 32}
# More than any call waits by itself (the step timeout), with retries of the connection.
DEADLINE = 20.0
_TAKES_LONG = [pytest.mark.hostile_long, pytest.mark.timeout(3000)]
AMOUNTS = pytest.mark.parametrize(
    "amount", [pytest.param(QUICK_REQUESTS, id="quick"), pytest.param(LONG_REQUESTS, marks=_TAKES_LONG, id="long")]
)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    # Honest jobs one after the other for as long as the fire takes are more than a day's alignments.
    settings = {**SEEDED, "step_timeout": 8, "alignments_per_day": 100_000}
    with quick_federation(tmp_path_factory.mktemp("federation"), **settings) as running:
        yield running


def no_job(message: Message) -> None:
    """A plan without epochs is no plan: what a fuzzer sends must not train in the honest operator's place."""
    if message.DESCRIPTOR.name == "TrainRequest":
        message.plan.epochs = 0  # type: ignore[attr-defined]


class Attack:
    """Sends hostile requests of every call from every caller, in turn."""

    def __init__(self, federation: Federation, seed: int, kinds: Sequence[str] = ()) -> None:
        processes = federation.processes
        self.sessions = ["unknown"]
        fuzzer = Fuzzer(seed, self.sessions, kinds, no_job)
        self.answers = Answers()
        self._callers = ("operator", *processes.settings)
        self._targets = [(callee, call) for callee in processes.settings for call in calls_at(role_of(callee))]
        self._requests = {call: fuzzer.requests(call) for _, call in self._targets}
        self._stack = ExitStack()
        self._channels = {
            (caller, callee): self._stack.enter_context(raw_channel(processes, caller, callee))
            for caller in self._callers
            for callee in processes.settings
        }

    def round(self, amount: int) -> None:
        """Send ``amount`` requests of every call to everybody who serves it."""
        for callee, call in self._targets:
            callers = [one for one in self._callers if call.name != "Cancel" or one not in MAY_CANCEL]
            for number, request in enumerate(islice(self._requests[call], amount)):
                channel = self._channels[callers[number % len(callers)], callee]
                self.answers.send(channel, call, request, DEADLINE)

    def close(self) -> None:
        self._stack.close()


def assert_all_answered(answers: Answers, amount: int) -> None:
    assert not answers.wrong, f"{len(answers.wrong)} wrong answers, such as\n" + "\n".join(answers.wrong[:20])
    assert not [call.path for call in calls() if answers.sent(call) < amount]


def test_every_service_has_somebody_who_serves_it() -> None:
    assert {call.service for call in calls()} <= set(SERVED_BY)
    assert len(calls()) >= 22


@AMOUNTS
def test_an_idle_federation_refuses_every_hostile_message_in_words(federation: Federation, amount: int) -> None:
    """Once undecodable bytes were INTERNAL with a traceback, and a name or a reason wrote lines of its own."""
    attack = Attack(federation, seed=amount)
    attack.round(amount)
    attack.close()
    assert_all_answered(attack.answers, amount)
    assert_sound(federation.processes)
    # And it goes on as if nothing had been.
    federation.train()
    assert (scores_of(federation)["error"] == "").any()


@AMOUNTS
def test_an_honest_session_under_fire_ends_with_the_same_bits(federation: Federation, amount: int) -> None:
    check_under_fire(federation, amount, within=0.0)


# One round where it has to be quick: the job has processes of its own.
@pytest.mark.parametrize(
    ("amount", "parties"),
    [
        pytest.param(2, 2, id="quick"),
        *(pytest.param(LONG_REQUESTS, parties, marks=_TAKES_LONG, id=f"long-{parties}") for parties in (2, 3)),
    ],
)
def test_an_honest_session_on_shared_weights_under_fire_ends_with_the_same_weights(
    tmp_path: Path, amount: int, parties: int
) -> None:
    """But for the last bit that is opened: shares are rounded by themselves."""
    settings = {**SEEDED, "step_timeout": 8, "alignments_per_day": 100_000, "protocol": "shared", "opening": "always"}
    settings["calibrated"] = False  # a slope would scale the last bit
    with quick_federation(tmp_path, parties=parties, **settings) as running:
        check_under_fire(running, amount, within=2 * 2.0**-16)


@AMOUNTS
def test_an_honest_session_of_trees_under_fire_ends_with_the_same_scores(tmp_path: Path, amount: int) -> None:
    """Of messages that the session's table has, at parties whose mailboxes are open."""
    options = {"n_estimators": 25, "max_depth": 3, "max_bin": 8, "gradient_bits": 12}
    settings = {**SEEDED, "step_timeout": 8, "alignments_per_day": 100_000}
    trees = {"learner": "boosted_trees", "learner_options": options, "epochs": 25, "batch_size": 0}
    kinds = ["key", "order", "mask_key"]
    kinds += [
        f"{kind} {level} 1" for kind in ("derivatives", "sums", "splits", "divided", "routes") for level in range(3)
    ]
    with quick_federation(tmp_path, **{**settings, **trees}) as running:
        check_under_fire(running, amount, terms={}, within=0.0, read=known_scores, kinds=kinds)


def known_scores(federation: Federation) -> list[FloatArray]:
    return [scores_of(federation).drop(columns="error").to_numpy(dtype=np.float64)]


def check_under_fire(
    federation: Federation,
    amount: int,
    *,
    within: float,
    terms: Mapping[str, Any] = TERMS,
    read: Callable[[Federation], list[FloatArray]] = written_weights,
    kinds: Sequence[str] = (),
) -> None:
    """Train honestly, again and again, while hostile requests come: weights are those of a job in peace."""
    federation.train(**terms)
    expected = read(federation)
    attack = Attack(federation, amount + 1, kinds)
    sent = jobs = 0
    while sent < amount:
        job = HonestJob(federation, **terms)
        job.await_training()
        attack.sessions[:] = ["unknown", federation.status().session_id]
        while job.is_running and sent < amount:
            attack.round(4)
            sent += 4
        job.await_end(300)
        for ours, undisturbed in zip(read(federation), expected, strict=True):
            np.testing.assert_allclose(ours, undisturbed, rtol=0.0, atol=within)
        jobs += 1
    attack.close()
    assert_all_answered(attack.answers, amount)
    assert sent >= amount
    assert jobs
    assert_sound(federation.processes)


def test_words_of_a_peer_write_no_line_of_their_own(federation: Federation) -> None:
    """Once a reason, and the name under which a party joined, wrote a line as if the party had written it."""
    processes = federation.processes
    with (
        raw_channel(processes, "active", "coordinator") as one,
        raw_channel(processes, "passive", "coordinator") as two,
    ):
        stub, other = coordinator_pb2_grpc.CoordinatorStub(one), coordinator_pb2_grpc.CoordinatorStub(two)
        terms = coordinator_pb2.OpenSessionRequest(
            plan=TrainingPlan().to_message(), classes=2, passive_parties=["passive"]
        )
        session = stub.OpenSession(terms, timeout=10).session_id
        party = common_pb2.PartyDescription(name=FORGERY, feature_count=3, aligned_rows=500)
        with pytest.raises(grpc.RpcError):
            other.JoinSession(coordinator_pb2.JoinSessionRequest(session_id=session, party=party), timeout=10)
        other.EndSession(common_pb2.EndSessionRequest(session_id=session, reason=FORGERY), timeout=10)
        own = common_pb2.PartyDescription(name="active", feature_count=3, aligned_rows=500)
        with pytest.raises(grpc.RpcError) as ended:
            stub.JoinSession(coordinator_pb2.JoinSessionRequest(session_id=session, party=own), timeout=10)
        # It is told to the others, too: in one line.
        assert "Aligned 9999" in refused(ended)[1]
        assert refused(ended)[1].isprintable()
    with raw_channel(processes, "active", "passive") as channel:
        ending = common_pb2.EndSessionRequest(session_id=federation.status().session_id, reason=FORGERY)
        with suppress(grpc.RpcError):
            passive_pb2_grpc.PassiveStub(channel).EndSession(ending, timeout=10)
    assert any("Aligned 9999" in log_of(processes, name) for name in PROCESSES)
    assert_sound(processes)


def test_the_same_seed_makes_the_same_requests() -> None:
    for call in calls():
        one, other = (list(islice(Fuzzer(3).requests(call), 30)) for _ in range(2))
        assert one == other
        assert len({tuple(request) for request in one}) > 5, call.path


def test_a_wrong_answer_is_noticed() -> None:
    """The suite itself: an answer that may not be is counted."""
    call: Call = calls()[0]

    class Sending(list[bytes]):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.INTERNAL

        def details(self) -> str:
            return "Unexpected ValueError"

    class Channel:
        def stream_stream(self, path: str) -> object:
            return lambda request, timeout: Sending()

    answers = Answers()
    answers.send(Channel(), call, [b""], 1.0)  # type: ignore[arg-type]
    assert answers.sent(call) == 1
    assert "INTERNAL" in answers.wrong[0]
