"""Numbers and sizes that take down who believes them: each refused at once, and without their memory."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import grpc
import pytest

from plumbline.federation import Federation, FederationFailed
from protos.v1 import common_pb2, coordinator_pb2, coordinator_pb2_grpc, messages_pb2, passive_pb2
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError
from tests.harness.hostile import (
    assert_sound,
    code_of,
    forget_memory,
    memory_of,
    raw_channel,
    scores_of,
    served_federation,
)
from tests.harness.wire_fuzz import Call, calls, sent, status_of

# Its services are started as anywhere: what a process has of its own is looked at.
COLD = True

Code = grpc.StatusCode
MEBIBYTE = 1 << 20
MOST_MEMORY = 50 * MEBIBYTE
# As the issue asks; elsewhere the machine is shared.
SECONDS, GENEROUS = 1.0, 30.0
REFUSALS = {Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.PERMISSION_DENIED, Code.RESOURCE_EXHAUSTED}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with served_federation(tmp_path_factory.mktemp("federation")) as running:
        yield running
        assert_sound(running.processes)


def call_of(name: str) -> Call:
    return next(call for call in calls() if call.name == name)


def open_session(federation: Federation, **changes: Any) -> tuple[Code, str]:
    """Status of an OpenSession of the active party, and the session's id when it is taken."""
    terms = {"classes": 2, "passive_parties": ["passive"], **changes}
    request = coordinator_pb2.OpenSessionRequest(plan=replace(TrainingPlan(), batch_size=64).to_message(), **terms)
    with raw_channel(federation.processes, "active", "coordinator") as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        try:
            return Code.OK, stub.OpenSession(request, timeout=GENEROUS).session_id
        except grpc.RpcError as error:
            return code_of(error), ""


def train_request(**changes: Any) -> bytes:
    plan = replace(TrainingPlan(), batch_size=64).to_message()
    for name, value in changes.items():
        setattr(plan, name, value)
    return b"\n" + bytes(_varint(plan.ByteSize())) + plan.SerializeToString()


def _varint(value: int) -> Iterator[int]:
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value


def of_vector(session: str, count: int, width: int, mebibytes: int) -> Iterator[bytes]:
    """A ciphertext vector as Send streams it."""
    header = messages_pb2.MessageHeader(session_id=session, step=0, key_id="x", count=count, width=width)
    yield messages_pb2.MessagePart(header=header).SerializeToString()
    part = messages_pb2.MessagePart(data=bytes(MEBIBYTE)).SerializeToString()
    for _ in range(mebibytes):
        yield part


def of_ids(session: str, count: int) -> Iterator[bytes]:
    """A common order of so many ids, as FixOrder streams it."""
    yield passive_pb2.CommonIds(session_id=session).SerializeToString()
    for start in range(0, count, 10_000):
        yield passive_pb2.CommonIds(
            ids=[f"r{number:09d}" for number in range(start, start + 10_000)]
        ).SerializeToString()


@dataclass(frozen=True)
class Bomb:
    """What a caller with a valid certificate sends to one process."""

    name: str
    caller: str
    callee: str
    call: str
    request: Callable[[str], Iterator[bytes] | list[bytes]]


def joining(**facts: int) -> Callable[[str], list[bytes]]:
    """A passive party's JoinSession with these facts about itself."""

    def request(session: str) -> list[bytes]:
        given: dict[str, Any] = {"name": "passive", "feature_count": 3, "aligned_rows": 500, **facts}
        party = common_pb2.PartyDescription(**given)
        return [coordinator_pb2.JoinSessionRequest(session_id=session, party=party).SerializeToString()]

    return request


KEY = '{"key_bits": 32768}'
BOMBS = [
    Bomb(
        "a key of 32768 bits",
        "operator",
        "active",
        "Train",
        lambda _: [train_request(cipher_options=KEY)],
    ),
    Bomb("four billion epochs", "operator", "active", "Train", lambda _: [train_request(epochs=2**32 - 1)]),
    Bomb("a batch of four billion", "operator", "active", "Train", lambda _: [train_request(batch_size=2**32 - 1)]),
    Bomb("a hundred million features", "passive", "coordinator", "JoinSession", joining(feature_count=10**8)),
    Bomb("four billion rows", "passive", "coordinator", "JoinSession", joining(aligned_rows=2**32 - 1)),
    Bomb(
        "200 MiB of residuals for no session",
        "passive",
        "active",
        "Send",
        lambda _: of_vector("no such session", 200, MEBIBYTE, 200),
    ),
    Bomb("20 million ids for no session", "active", "passive", "FixOrder", lambda _: of_ids("none", 20_000_000)),
    Bomb("20 million ids", "active", "passive", "FixOrder", lambda session: of_ids(session, 20_000_000)),
    Bomb(
        "scores of a hundred million rows",
        "passive",
        "coordinator",
        "SubmitPartialScores",
        lambda session: [
            common_pb2.PartialScores(session_id=session, request_id=1, rows=10**8, columns=1).SerializeToString()
        ],
    ),
]


def explode(federation: Federation, bomb: Bomb) -> tuple[Code, float, int]:
    """Send a bomb: its status, seconds, and the memory that it took in the process that got it."""
    # A session that has begun, so that what is refused is the bomb.
    _, session = open_session(federation)
    process_id = federation.processes.process(bomb.callee).pid
    forget_memory(process_id)
    before = memory_of(process_id)
    with raw_channel(federation.processes, bomb.caller, bomb.callee) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        start = time.monotonic()
        code, _ = status_of(channel, call_of(bomb.call), bomb.request(session), timeout=GENEROUS)
        seconds = time.monotonic() - start
    return code, seconds, memory_of(process_id) - before


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_bomb_is_refused_without_its_memory(federation: Federation, bomb: Bomb) -> None:
    code, seconds, memory = explode(federation, bomb)
    assert code in REFUSALS
    assert memory < MOST_MEMORY, f"{memory / MEBIBYTE:.0f} MiB"
    assert seconds < GENEROUS


@pytest.mark.parametrize("classes", [15_000, 1_000_000, 2**32 - 1])
def test_a_session_of_a_million_classes_is_refused_without_their_memory(federation: Federation, classes: int) -> None:
    """Once 15,000 took 1.9 GB, and a million a MemoryError."""
    process_id = federation.processes.process("coordinator").pid
    forget_memory(process_id)
    before = memory_of(process_id)
    code, _ = open_session(federation, classes=classes)
    assert code in REFUSALS
    assert memory_of(process_id) - before < MOST_MEMORY


def test_a_dozen_bodies_at_once_for_no_session_are_not_kept(federation: Federation) -> None:
    """Once twelve of 200 MiB took 3.1 GB, kept after they were cancelled."""
    process_id = federation.processes.process("active").pid
    forget_memory(process_id)
    before = memory_of(process_id)
    with raw_channel(federation.processes, "passive", "active") as channel:
        path = call_of("Send").path
        sending = [sent(channel, path, of_vector("none", 200, MEBIBYTE, 200), timeout=GENEROUS) for _ in range(12)]
        codes = {one.code() for one in sending}
    assert codes <= REFUSALS
    assert memory_of(process_id) - before < MOST_MEMORY


def test_many_sessions_push_out_no_served_one(federation: Federation) -> None:
    """Once the ninth OpenSession made the served session unknown."""
    expected = scores_of(federation)
    for _ in range(30):
        open_session(federation)
    assert scores_of(federation).equals(expected)


def test_what_an_operator_asks_too_much_of_is_refused_in_a_sentence(federation: Federation) -> None:
    expected = scores_of(federation)
    wrong: list[dict[str, Any]] = [{"key_bits": 32_768}, {"epochs": 2**32 - 1}, {"batch_size": 5_000}]
    for changes in wrong:
        with pytest.raises((FederationFailed, FederationError)) as refused:
            federation.train(**changes)
        assert "\n" not in str(refused.value)
        assert not [code.name for code in Code if code.name in str(refused.value)]
    assert scores_of(federation).equals(expected)


@pytest.mark.hostile_long
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_bomb_is_refused_within_a_second(federation: Federation, bomb: Bomb) -> None:
    code, seconds, memory = explode(federation, bomb)
    assert code in REFUSALS
    assert seconds < SECONDS
    assert memory < MOST_MEMORY
