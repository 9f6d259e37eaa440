"""Messages between two parties' servers: what a mailbox takes, and what is refused before its numbers are read."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from protos.v1 import messages_pb2, messages_pb2_grpc
from services.common.agreement import TrainingPlan
from services.common.certificates import create_federation_certificates
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder, PeerRefused
from services.common.identity import Identity, Role, role_of
from services.exchange import servicer
from services.exchange.mailbox import Mailbox
from services.exchange.message_kinds import MessageKind
from services.exchange.message_link import MessageLink
from services.exchange.peer import Inbox
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector
from tests.harness.agreements import agreed
from tests.harness.connections import raw_channel, transport_of

AGREEMENT = agreed(TrainingPlan(epochs=1, batch_size=8))
A, P = (party.name for party in AGREEMENT.parties)
# In several parts.
KIND = MessageKind("numbers", frozenset({P}), frozenset({A}), lambda _: (200_000, 2))
VALUES = np.random.default_rng(3).normal(size=(200_000, 2))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    create_federation_certificates(folder, [Identity(role_of(name), name) for name in (A, P, "coordinator")])
    return folder


@pytest.fixture
def box() -> Mailbox:
    return Mailbox(AGREEMENT, A, {}, [KIND], steps=2, timeout=0.05)


@pytest.fixture
def taken() -> list[tuple[str, int]]:
    """Kinds and bytes that were counted."""
    return []


@pytest.fixture
def address(certificates: Path, box: Mailbox, taken: list[tuple[str, int]]) -> Iterator[str]:
    def mailbox_of(session_id: str) -> Mailbox:
        if session_id != AGREEMENT.session_id:
            raise OutOfOrder("No such session here.")
        return box

    server, port = transport_of(certificates, A).serve(
        "127.0.0.1:0",
        [lambda server: servicer.add_to(server, mailbox_of, lambda *message: taken.append(message))],
        servicer.PERMISSIONS,
        [servicer.SERVICE_NAME],
    )
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_numbers_arrive_to_the_bit_and_a_refusal_in_words(
    certificates: Path, address: str, box: Mailbox, taken: list[tuple[str, int]]
) -> None:
    link = MessageLink(A, transport_of(certificates, P).dial(address, A), 20.0)
    link.send(AGREEMENT.session_id, "numbers", 0, KIND.packed(0, VALUES))
    np.testing.assert_array_equal(box.take("numbers", 0)[P], VALUES)
    with pytest.raises(PeerRefused, match="Different numbers of step 0 were received already"):
        link.send(AGREEMENT.session_id, "numbers", 0, KIND.packed(0, -VALUES))
    with pytest.raises(PeerRefused, match="No such session here"):
        link.send("another", "numbers", 1, KIND.packed(1, VALUES))
    for kind, step in (("of nobody", 0), ("numbers", 7)):
        with pytest.raises(PeerRefused):
            link.send(AGREEMENT.session_id, kind, step, KIND.packed(0, VALUES))
    # What was refused is counted nowhere: who sends it chooses its kind.
    assert taken == [("numbers", VALUES.nbytes)]


class Answering(Inbox):
    """Takes keys, and answers a question with its own values."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, PublicKeyShown]] = []
        self.asked: list[tuple[str, str, int, WireVector]] = []
        self.counted: list[tuple[str, int]] = []

    def receive_key(self, peer: str, key: PublicKeyShown) -> None:
        self.keys.append((peer, key))

    def expects_question(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        header.check(QUESTION.header)

    def answer(self, peer: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        self.asked.append((peer, kind, step, vector))
        return DecryptedVector(vector.count, vector.width, vector.data)


QUESTION = WireVector("k" * 16, 70_000, 32, 7, bytes(range(256)) * (70_000 * 32 // 256))


@pytest.fixture
def asking(certificates: Path) -> Iterator[tuple[Answering, MessageLink]]:
    inbox = Answering()
    with linked(
        certificates, servicer.MessagesServicer(lambda _: inbox, lambda *asked: inbox.counted.append(asked))
    ) as link:
        yield inbox, link


@contextmanager
def linked(certificates: Path, serving: servicer.MessagesServicer) -> Iterator[MessageLink]:
    server, port = transport_of(certificates, A).serve(
        "127.0.0.1:0",
        [lambda one: messages_pb2_grpc.add_MessagesServicer_to_server(serving, one)],
        servicer.PERMISSIONS,
        [servicer.SERVICE_NAME],
    )
    yield MessageLink(A, transport_of(certificates, P).dial(f"127.0.0.1:{port}", A), 120.0)
    server.stop(None).wait()


def test_a_key_arrives_as_it_was_shown(asking: tuple[Answering, MessageLink]) -> None:
    inbox, link = asking
    key = PublicKeyShown("k" * 16, bytes(range(200)), b"m" * 32, "serving")
    link.show_key(AGREEMENT.session_id, key)
    assert inbox.keys == [(P, key)]


def test_a_question_of_several_parts_is_answered_in_several(asking: tuple[Answering, MessageLink]) -> None:
    inbox, link = asking
    answer = link.ask(AGREEMENT.session_id, "sums", 3, QUESTION)
    assert inbox.asked == [(P, "sums", 3, QUESTION)]
    assert answer == DecryptedVector(70_000, 32, QUESTION.data)
    with pytest.raises(PeerRefused, match="Wrong count"):
        link.ask(AGREEMENT.session_id, "sums", 3, replace(QUESTION, count=70_001))
    # The question and its answer; nothing of what was refused.
    assert inbox.counted == [("sums", 2 * len(QUESTION.data))]
    assert len(inbox.asked) == 1


class Endless(servicer.MessagesServicer):
    """Answers without an end."""

    def __init__(self) -> None:
        super().__init__(lambda _: Inbox())
        self.is_over = threading.Event()

    def Ask(self, request_iterator: Any, context: grpc.ServicerContext) -> Iterator[messages_pb2.AnswerPart]:
        context.add_callback(self.is_over.set)
        yield messages_pb2.AnswerPart(header=messages_pb2.AnswerHeader(count=1, width=1))
        while True:
            yield messages_pb2.AnswerPart(data=bytes(1 << 20))


def test_of_an_answer_no_more_is_read_than_a_question_has(certificates: Path) -> None:
    endless = Endless()
    with linked(certificates, endless) as link:
        with pytest.raises(InvalidMessage, match=f"at most {len(QUESTION.data)} bytes") as refused:
            link.ask(AGREEMENT.session_id, "sums", 0, QUESTION)
        # At once, not only when nobody holds the error any more, and with it the call.
        assert endless.is_over.wait(20), refused


def test_an_inbox_has_no_use_for_what_its_protocol_does_not_take() -> None:
    inbox, header = Inbox(), QUESTION.header
    for call in (
        lambda: inbox.receive_key(P, PublicKeyShown("", b"")),
        lambda: inbox.expects(P, "sums", 0, header),
        lambda: inbox.receive(P, "sums", 0, QUESTION),
        lambda: inbox.expects_question(P, "sums", 0, header),
        lambda: inbox.answer(P, "sums", 0, QUESTION),
    ):
        with pytest.raises(NotAllowed, match=f"{P} has no .* in this session"):
            call()


def test_who_is_no_party_sends_nothing(certificates: Path, address: str) -> None:
    with raw_channel(certificates, "coordinator", address, A) as channel:
        part = messages_pb2.MessagePart(header=header(KIND.header(0)))
        with pytest.raises(grpc.RpcError) as refused:
            messages_pb2_grpc.MessagesStub(channel).Send(iter([part]), timeout=20)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def header(of: VectorHeader) -> messages_pb2.MessageHeader:
    return messages_pb2.MessageHeader(session_id=AGREEMENT.session_id, kind="numbers", step=0, **vars(of))


class Caller:
    """Who calls, as the transport would say."""

    role, name = Role.PASSIVE, P


@pytest.mark.parametrize(
    ("parts", "words", "most"),
    [
        ([], "starts with its header", 0),
        ([messages_pb2.MessagePart()], "starts with its header", 1),
        ([messages_pb2.MessagePart(data=b"x"), messages_pb2.MessagePart(data=b"x")], "starts with its header", 1),
        ([messages_pb2.MessagePart(header=header(VectorHeader("", 3, 8, numbers="float64")))] * 9, "Wrong count", 1),
        ([messages_pb2.MessagePart(header=header(KIND.header(0))), messages_pb2.MessagePart()], "holds no data", 2),
        (
            [messages_pb2.MessagePart(header=header(KIND.header(0)))]
            + [messages_pb2.MessagePart(data=bytes(1 << 20))] * 9,
            "at most 3200000 bytes",
            5,
        ),
    ],
    ids=["nothing", "an empty part", "no header", "another header", "an empty part behind it", "more than announced"],
)
def test_what_is_refused_is_read_no_further(
    monkeypatch: pytest.MonkeyPatch, box: Mailbox, parts: list[messages_pb2.MessagePart], words: str, most: int
) -> None:
    monkeypatch.setattr(servicer, "require_caller", lambda _: Caller())
    left = iter(parts)

    with pytest.raises(InvalidMessage, match=words):
        servicer.MessagesServicer(lambda _: box).Send(left, grpc.ServicerContext)  # type: ignore[arg-type]
    assert len(list(left)) == len(parts) - most
    box.receive(P, "numbers", 0, KIND.packed(0, VALUES))
