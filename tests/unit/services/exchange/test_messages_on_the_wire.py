"""Messages between two parties' servers: what a mailbox takes, and what is refused before its numbers are read."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from protos.v1 import messages_pb2, messages_pb2_grpc
from services.common.agreement import TrainingPlan
from services.common.certificates import create_federation_certificates
from services.common.errors import InvalidMessage, OutOfOrder, PeerRefused
from services.common.identity import Identity, Role, role_of
from services.exchange import servicer
from services.exchange.mailbox import Mailbox
from services.exchange.message_kinds import MessageKind
from services.exchange.message_link import MessageLink
from services.exchange.vectors import VectorHeader
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
def address(certificates: Path, box: Mailbox) -> Iterator[str]:
    def mailbox_of(session_id: str) -> Mailbox:
        if session_id != AGREEMENT.session_id:
            raise OutOfOrder("No such session here.")
        return box

    server, port = transport_of(certificates, A).serve(
        "127.0.0.1:0",
        [lambda server: servicer.add_to(server, mailbox_of)],
        servicer.PERMISSIONS,
        [servicer.SERVICE_NAME],
    )
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_numbers_arrive_to_the_bit_and_a_refusal_in_words(certificates: Path, address: str, box: Mailbox) -> None:
    link = MessageLink(A, transport_of(certificates, P).dial(address, A), 20.0)
    link.send(AGREEMENT.session_id, "numbers", 0, KIND.packed(0, VALUES))
    np.testing.assert_array_equal(box.take("numbers", 0)[P], VALUES)
    with pytest.raises(PeerRefused, match="Different numbers of step 0 were received already"):
        link.send(AGREEMENT.session_id, "numbers", 0, KIND.packed(0, -VALUES))
    with pytest.raises(PeerRefused, match="No such session here"):
        link.send("another", "numbers", 1, KIND.packed(1, VALUES))


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
