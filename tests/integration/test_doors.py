"""Real processes over mTLS, and legitimate roles that mean harm: who is in a table, and what fills a memory."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from plumbline.federation import Federation
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
from services.common.agreement import PartyDescription, TrainingPlan
from services.common.alignment import ALIGNMENT_VERSION, alignment_context
from tests.harness.memory import MEGABYTE, cost_of
from tests.harness.processes import dial, quick_federation, refused
from vfl.data import PsiClient

Code = grpc.StatusCode
# An id that both shares of breast_cancer hold, and one that nobody does.
MEMBER, STRANGER = "r000001", "\0x"
# Generous: machines that run tests are busy. `make hostile` has the strict numbers.
SECONDS, GROWTH = 10.0, 50 * MEGABYTE


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with quick_federation(tmp_path_factory.mktemp("federation")) as running:
        running.train()
        scores = running.predict_one(MEMBER)
        yield running
        running.processes.check()
        running.train()
        assert running.predict_one(MEMBER) == pytest.approx(scores)
        assert not running.processes.logs_of_errors()


@pytest.fixture
def passive(federation: Federation) -> Iterator[passive_pb2_grpc.PassiveStub]:
    with dial(federation.processes, "active", "passive") as channel:
        yield passive_pb2_grpc.PassiveStub(channel)


@pytest.fixture
def coordinator(federation: Federation) -> Iterator[coordinator_pb2_grpc.CoordinatorStub]:
    with dial(federation.processes, "active", "coordinator") as channel:
        yield coordinator_pb2_grpc.CoordinatorStub(channel)


Answer = tuple[grpc.StatusCode, str]


def answer_to(call: Callable[..., object], *arguments: object) -> Answer:
    """Status and words of a call that must be refused."""
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments)
    return refused(error)


def opened(coordinator: coordinator_pb2_grpc.CoordinatorStub, **plan: Any) -> str:
    terms = TrainingPlan(key_bits=512, batch_size=64, epochs=1).changed(**plan)
    request = coordinator_pb2.OpenSessionRequest(plan=terms.to_message(), classes=2, passive_parties=["passive"])
    return coordinator.OpenSession(request, timeout=10).session_id


def set_up(passive: passive_pb2_grpc.PassiveStub, session_id: str, count: int) -> list[passive_pb2.AlignmentPart]:
    request = passive_pb2.AlignmentSetupRequest(session_id=session_id, client_count=count, version=ALIGNMENT_VERSION)
    return list(passive.SetUpAlignment(request, timeout=10))


def fix_order(passive: passive_pb2_grpc.PassiveStub, session_id: str, *parts: Iterable[str]) -> object:
    messages = (passive_pb2.CommonIds(session_id=session_id, ids=part) for part in parts)
    return passive.FixOrder(messages, timeout=10)


def aligned(
    passive: passive_pb2_grpc.PassiveStub, coordinator: coordinator_pb2_grpc.CoordinatorStub, asked: list[str]
) -> str:
    """A session whose one query asked about these ids."""
    session_id = opened(coordinator)
    set_up(passive, session_id, len(asked))
    client = PsiClient(asked, alignment_context(session_id, "passive"))
    parts = (passive_pb2.AlignmentPart(session_id=session_id, data=data) for data in client.request())
    assert b"".join(part.data for part in passive.Align(parts, timeout=10))
    return session_id


# -- what fills a memory ----------------------------------------------------------------------------------------------

Bomb = Callable[[Federation], object]


def _stub(federation: Federation, caller: str, callee: str, kind: type) -> Any:
    return kind(dial(federation.processes, caller, callee))


def _open(federation: Federation, classes: int = 2, parties: Iterable[str] = ("passive",), **plan: Any) -> object:
    stub = _stub(federation, "active", "coordinator", coordinator_pb2_grpc.CoordinatorStub)
    message = TrainingPlan().changed(**plan).to_message()
    request = coordinator_pb2.OpenSessionRequest(plan=message, classes=classes, passive_parties=parties)
    return stub.OpenSession(request, timeout=30)


def _join(federation: Federation, **changes: Any) -> object:
    stub = _stub(federation, "active", "coordinator", coordinator_pb2_grpc.CoordinatorStub)
    described = PartyDescription("active", 3, 0, False, 100).to_message()
    for name, value in changes.items():
        setattr(described, name, value)
    return stub.JoinSession(coordinator_pb2.JoinSessionRequest(session_id=opened(stub), party=described), timeout=30)


def _train(federation: Federation, **plan: Any) -> object:
    stub = _stub(federation, "operator", "active", active_pb2_grpc.ActiveStub)
    return list(stub.Train(active_pb2.TrainRequest(plan=TrainingPlan().changed(**plan).to_message()), timeout=30))


def _scores_of_rows(federation: Federation, rows: int) -> object:
    stub = _stub(federation, "active", "passive", passive_pb2_grpc.PassiveStub)
    session_id = federation.status().session_id
    request = passive_pb2.PartialScoresRequest(session_id=session_id, request_id=7, rows=[0] * rows)
    return stub.ContributeScores(request, timeout=30)


def _share(federation: Federation, rows: int, columns: int) -> object:
    stub = _stub(federation, "active", "coordinator", coordinator_pb2_grpc.CoordinatorStub)
    message = common_pb2.PartialScores(session_id="0" * 32, rows=rows, columns=columns, values=[0.5] * (rows * columns))
    return stub.Score(message, timeout=30)


BOMBS: dict[str, tuple[str, Bomb]] = {
    "a key of 32768 bits": ("active", lambda federation: _train(federation, key_bits=32768)),
    "a million epochs": ("active", lambda federation: _train(federation, epochs=10**6)),
    "an endless name": ("active", lambda federation: _train(federation, initialisation="x" * 2_000_000)),
    "15000 classes": ("coordinator", lambda federation: _open(federation, classes=15_000)),
    "a million classes": ("coordinator", lambda federation: _open(federation, classes=10**6)),
    "a key at the coordinator": ("coordinator", lambda federation: _open(federation, key_bits=32768)),
    "100000 parties": ("coordinator", lambda federation: _open(federation, parties=map(str, range(100_000)))),
    "100 million features": ("coordinator", lambda federation: _join(federation, feature_count=100_000_000)),
    "4 billion rows": ("coordinator", lambda federation: _join(federation, aligned_rows=2**32 - 1)),
    "a million rows to score": ("passive", lambda federation: _scores_of_rows(federation, 10**6)),
    "500000 shares": ("coordinator", lambda federation: _share(federation, 500_000, 1)),
    "500000 columns": ("coordinator", lambda federation: _share(federation, 1, 500_000)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_number_beyond_its_limit_costs_nothing(federation: Federation, name: str) -> None:
    target, bomb = BOMBS[name]
    answers: list[Answer] = []
    cost = cost_of(federation.processes.process(target).pid, lambda: answers.append(answer_to(bomb, federation)))
    assert answers[0][0] is Code.INVALID_ARGUMENT, answers
    assert len(answers[0][1]) < 1000
    assert cost.seconds < SECONDS
    assert cost.growth < GROWTH


@pytest.mark.parametrize("method", ["Send", "Ask"])
@pytest.mark.parametrize("known", [False, True], ids=["no session", "trained session"])
def test_twelve_vectors_of_200_mib_for_no_step_cost_nothing(federation: Federation, method: str, known: bool) -> None:
    # Once: 3.1 GB, kept after the calls were cancelled.
    session_id = federation.status().session_id if known else "0" * 32
    count, width = 200 << 10, 1 << 10
    header = messages_pb2.MessageHeader(session_id=session_id, step=0, key_id="x", count=count, width=width)
    megabyte = bytes(1 << 20)

    def parts() -> Iterator[messages_pb2.MessagePart]:
        yield messages_pb2.MessagePart(header=header)
        for _ in range(200):
            yield messages_pb2.MessagePart(data=megabyte)

    def send(_: int) -> Answer:
        with dial(federation.processes, "active", "passive") as channel:
            stub = messages_pb2_grpc.MessagesStub(channel)
            call = getattr(stub, method)(parts(), timeout=30) if method == "Ask" else None
            return answer_to(lambda: list(call) if call is not None else stub.Send(parts(), timeout=30))

    # The federation's active party may still be heard: only then it is silent, this process has its place.
    with dial(federation.processes, "active", "passive") as channel:
        stub = passive_pb2_grpc.PassiveStub(channel)
        while answer_to(set_up, stub, "0" * 32, 2)[0] is Code.PERMISSION_DENIED:
            pass
    answers: list[Answer] = []
    with ThreadPoolExecutor(12) as threads:
        cost = cost_of(
            federation.processes.process("passive").pid, lambda: answers.extend(threads.map(send, range(12)))
        )
    # Four calls of one caller are let in at once; whether the others come meanwhile is chance.
    statuses = {status for status, _ in answers}
    assert {Code.FAILED_PRECONDITION} <= statuses <= {Code.FAILED_PRECONDITION, Code.RESOURCE_EXHAUSTED}, answers
    assert cost.seconds < SECONDS
    assert cost.growth < GROWTH


@pytest.mark.thorough
def test_sessions_that_are_only_opened_never_push_out_the_served_one(federation: Federation) -> None:
    before = federation.predict_one(MEMBER)
    for _ in range(12):
        _open(federation, key_bits=512)
    assert federation.predict_one(MEMBER) == before


# -- who is in the table ----------------------------------------------------------------------------------------------


def test_700_guesses_name_no_member(federation: Federation, passive: passive_pb2_grpc.PassiveStub) -> None:
    # Once: 557 members named, by a session that the coordinator has never heard of.
    answers: set[Answer] = set()
    for number in range(700):
        answers.add(answer_to(set_up, passive, "deadbeef", 2))
        answers.add(answer_to(set_up, passive, "deadbeef" * 4, 2))
        answers.add(answer_to(fix_order, passive, "deadbeef" * 4, [f"r{number:06d}", STRANGER]))
    assert len(answers) == 3, answers
    assert all("lacks" not in words for _, words in answers)
    assert federation.predict_one(MEMBER), "and the session that serves goes on"


def test_a_sessions_one_attempt_is_refused_in_the_same_words_whatever_is_missing(
    passive: passive_pb2_grpc.PassiveStub, coordinator: coordinator_pb2_grpc.CoordinatorStub
) -> None:
    asked = [MEMBER, "r000002", STRANGER]
    answers: set[Answer] = set()
    for guess in ([MEMBER, STRANGER], [STRANGER], [STRANGER, "\0y"], [MEMBER, MEMBER], []):
        session_id = aligned(passive, coordinator, asked)
        first = answer_to(fix_order, passive, session_id, guess)
        second, words = answer_to(fix_order, passive, session_id, [MEMBER])
        assert (second, "was sent already" in words) == (Code.FAILED_PRECONDITION, True)
        answers.add(first)
    assert len(answers) == 1, answers
    assert not any(digit in next(iter(answers))[1] for digit in "0123456789")


def test_one_record_that_stands_in_500_rows_is_refused(
    passive: passive_pb2_grpc.PassiveStub, coordinator: coordinator_pb2_grpc.CoordinatorStub
) -> None:
    session_id = opened(coordinator)
    set_up(passive, session_id, 500)
    assert answer_to(fix_order, passive, session_id, [MEMBER] * 500)[0] is Code.FAILED_PRECONDITION
    session_id = aligned(passive, coordinator, [MEMBER, *(f"\0{number}" for number in range(499))])
    assert answer_to(fix_order, passive, session_id, [MEMBER] * 500)[0] is Code.INVALID_ARGUMENT
    assert answer_to(passive.Join, common_pb2.SessionRequest(session_id=session_id))[1] == "Align before you join."


def test_20_million_streamed_ids_cost_nothing(
    federation: Federation, passive: passive_pb2_grpc.PassiveStub, coordinator: coordinator_pb2_grpc.CoordinatorStub
) -> None:
    # Once: 1.6 GB.
    session_id = aligned(passive, coordinator, [MEMBER])
    part = [f"guess-{number}" for number in range(1000)]
    cost = cost_of(
        federation.processes.process("passive").pid,
        lambda: answer_to(lambda: fix_order(passive, session_id, *([part] * 20_000))),
    )
    assert cost.seconds < SECONDS
    assert cost.growth < GROWTH


def test_weaker_terms_are_refused_before_any_alignment(
    passive: passive_pb2_grpc.PassiveStub, coordinator: coordinator_pb2_grpc.CoordinatorStub
) -> None:
    session_id = opened(coordinator, cipher="plain")
    assert "this party runs cipher=paillier" in answer_to(set_up, passive, session_id, 2)[1]
