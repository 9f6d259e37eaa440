"""A mailbox against peers that send what wasn't agreed on: it is refused, and changes nothing."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from services.common import limits
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, PeerVanished, Suspended
from services.common.protocol_calls import ProtocolFailed
from services.exchange.declared_messages import ASKS, Tells, answers
from services.exchange.mailbox import Mailbox
from services.exchange.message_kinds import MessageKind
from services.exchange.outgoing import OutgoingVector
from services.exchange.step_order import StepOrder
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector
from tests.harness.agreements import agreed

AGREEMENT = agreed(TrainingPlan(epochs=1, batch_size=8))
A, P = (party.name for party in AGREEMENT.parties)
KINDS = (
    MessageKind("key", frozenset({P}), frozenset({A}), lambda _: (32,), "uint8", once=True),
    MessageKind(
        "shares",
        frozenset({P, A}),
        frozenset({A, P}),
        lambda step: (2 + step, 1),
        tells=Tells("equations", word="shares"),
    ),
)


class Sent:
    """A peer that keeps what it is sent."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, int, WireVector]] = []

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        assert session_id == AGREEMENT.session_id
        self.messages.append((kind, step, vector.whole()))

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        raise AssertionError

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        raise AssertionError


def mailbox(name: str = A, **peers: Any) -> Mailbox:
    return Mailbox(AGREEMENT, name, peers, KINDS, steps=3, timeout=0.05)


def shares(step: int = 0, value: float = 1.0) -> tuple[str, int, WireVector]:
    return "shares", step, KINDS[1].packed(step, np.full((2 + step, 1), value))


KEY = "key", 0, KINDS[0].packed(0, np.arange(32, dtype=np.uint8))


def test_a_message_is_taken_as_it_was_sent() -> None:
    peer, told = Sent(), list[tuple[str, str, int]]()
    sender = Mailbox(AGREEMENT, P, {A: peer}, KINDS, steps=3, timeout=1, tell=lambda *one: told.append(one))
    values = np.array([[0.1], [-2.5e300]])
    for _ in range(2):
        sender.send("shares", values, 0)
        assert told == [(A, "shares", 2)], "counted before it is sent, once, however often it is"
    box = mailbox()
    for message in peer.messages:
        box.receive(P, *message)
    np.testing.assert_array_equal(box.take("shares", 0)[P], values)


@pytest.mark.parametrize(
    ("kind", "step", "header", "error", "words"),
    [
        ("other", 0, VectorHeader("", 2, 8, numbers="float64"), NotAllowed, "to send in this session"),
        ("", 0, VectorHeader("", 2, 8, numbers="float64"), NotAllowed, "to send in this session"),
        (
            "shares",
            0,
            VectorHeader("", 3, 8, numbers="float64"),
            InvalidMessage,
            "Wrong count of shares: expected 2, got 3",
        ),
        (
            "shares",
            0,
            VectorHeader("", 2, 8, numbers="uint8"),
            InvalidMessage,
            "Wrong numbers of shares: expected float64",
        ),
        ("shares", 0, VectorHeader("", 2, 8, numbers="x\n" * 999), InvalidMessage, "Wrong numbers of shares"),
        (
            "shares",
            2,
            VectorHeader("", 4, 8, numbers="float64"),
            OutOfOrder,
            "Step 2 is out of order: this party is at step 0",
        ),
        ("shares", 3, VectorHeader("", 5, 8, numbers="float64"), InvalidMessage, "from 0 to 2, got 3"),
        ("shares", 2**32 - 1, VectorHeader("", 5, 8, numbers="float64"), InvalidMessage, "from 0 to 2"),
        ("key", 1, VectorHeader("", 32, 1, numbers="uint8"), InvalidMessage, "sent once, got 1"),
        ("key", 0, VectorHeader("", 2**32 - 1, 1, numbers="uint8"), InvalidMessage, "Wrong count of key"),
    ],
)
def test_what_was_not_declared_is_refused_by_its_header(
    kind: str, step: int, header: VectorHeader, error: type[FederationError], words: str
) -> None:
    box = mailbox()
    with pytest.raises(error, match=words) as refused:
        box.expects(P, kind, step, header)
    assert str(refused.value).isprintable()
    with pytest.raises(PeerVanished):
        box.take(kind if kind in ("shares", "key") else "key", 0)


@pytest.mark.parametrize("peer", [A, "passive-9", "coordinator", ""])
def test_who_sends_no_such_message_is_refused(peer: str) -> None:
    with pytest.raises(NotAllowed):
        mailbox().receive(peer, *KEY)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "Expected 16 bytes of shares, got 0"),
        (b"\0" * 15, "got 15"),
        (b"\0" * 17, "got 17"),
        (np.array([np.nan, 0]).tobytes(), "finite"),
        (np.array([0, np.inf]).tobytes(), "finite"),
    ],
)
def test_other_numbers_are_refused_and_change_nothing(data: bytes, words: str) -> None:
    box = mailbox()
    with pytest.raises(InvalidMessage, match=words):
        box.receive(P, "shares", 0, replace(shares()[-1], data=data))
    box.receive(P, *shares())
    assert box.take("shares", 0)[P].tolist() == [[1.0], [1.0]]


def test_the_same_again_changes_nothing_and_another_is_refused() -> None:
    box = mailbox()
    box.receive(P, *shares())
    box.receive(P, *shares())
    with pytest.raises(OutOfOrder, match="Different shares of step 0 were received already"):
        box.receive(P, *shares(value=2.0))
    assert box.take("shares", 0)[P].tolist() == [[1.0], [1.0]]


def test_a_peer_is_one_step_ahead_at_most_and_what_is_behind_is_forgotten() -> None:
    box = mailbox()
    box.receive(P, *KEY)
    for step in range(2):
        box.receive(P, *shares(step))
    box.complete_step(0)
    box.receive(P, *shares(0))
    box.receive(P, *shares(2))
    box.complete_step(1)
    with pytest.raises(OutOfOrder, match="Step 0 is out of order: this party is at step 2"):
        box.receive(P, *shares(0))
    box.receive(P, *KEY)
    assert box.take("key")[P].tolist() == list(range(32))


def test_another_message_of_this_party_is_never_sent() -> None:
    peer = Sent()
    box = mailbox(P, **{A: peer})
    box.send("shares", np.ones((2, 1)), 0)
    with pytest.raises(ProtocolFailed, match="sends another shares of step 0 than before"):
        box.send("shares", np.zeros((2, 1)), 0)
    for wrong in (np.ones((2, 1)), np.ones((3, 1), dtype=np.float32), np.full((3, 1), np.nan), [[1.0]] * 3):
        with pytest.raises(ProtocolFailed, match="sends what it hasn't declared"):
            box.send("shares", wrong, 1)  # type: ignore[arg-type]
    with pytest.raises(ProtocolFailed, match="has active send key, which it doesn't"):
        mailbox().send("key", np.arange(32, dtype=np.uint8))
    assert len(peer.messages) == 1


@pytest.mark.parametrize(("ends", "error"), [("end", OutOfOrder), ("suspend", Suspended)])
def test_who_waits_or_sends_is_told_why_it_ended(ends: str, error: type[FederationError]) -> None:
    box = mailbox()
    box.receive(P, *shares())
    getattr(box, ends)("enough")
    for call in (
        lambda: box.take("shares", 0),
        lambda: box.receive(P, *KEY),
        lambda: box.expects(P, *KEY[:2], KEY[2].header),
        lambda: box.send("shares", np.ones((2, 1))),
    ):
        with pytest.raises(error, match="enough"):
            call()


def test_where_a_protocol_shows_no_keys_and_asks_nothing_both_are_refused() -> None:
    box = mailbox()
    for call in (
        lambda: box.receive_key(P, PublicKeyShown("x", b"")),
        lambda: box.expects_question(P, "shares", 0, shares()[-1].header),
        lambda: box.answer(P, *shares()),
    ):
        with pytest.raises(NotAllowed, match=f"{P} has no"):
            call()


@pytest.mark.parametrize("ends", ["end", "suspend"])
def test_nothing_is_let_in_once_it_has_ended_even_while_it_is_read(ends: str) -> None:
    asked = list[int]()

    def shape(step: int) -> tuple[int, ...]:
        # Asked for as the header is checked, and then as the numbers are read.
        asked.append(step)
        if len(asked) == 2:
            getattr(box, ends)("enough")
        return (2,)

    kind = MessageKind("late", frozenset({P}), frozenset({A}), shape)
    message = WireVector("", 2, 8, 0, np.ones(2).tobytes(), "float64")
    box: Mailbox = Mailbox(AGREEMENT, A, {}, [kind], steps=1, timeout=0.05)
    error = OutOfOrder if ends == "end" else Suspended
    with pytest.raises(error, match="enough"):
        box.receive(P, "late", 0, message)
    assert len(asked) > 1
    with pytest.raises(error, match="enough"):
        box.expects(P, "late", 0, message.header)


@pytest.mark.parametrize("ends", ["end", "suspend"])
def test_what_lies_behind_a_step_or_the_end_is_held_by_nobody(ends: str) -> None:
    class Passing:
        def __init__(self) -> None:
            self.sent: list[weakref.ref[WireVector]] = []

        def send(self, *message: Any) -> None:
            self.sent.append(weakref.ref(message[-1]))

    peer = Passing()
    box = mailbox(A, **{P: peer})
    received = []
    for step in range(3):
        box.send("shares", np.ones((2 + step, 1)), step)
        box.receive(P, *shares(step))
        received.append(weakref.ref(box.take("shares", step)[P]))
        if step:
            box.complete_step(step - 1)
    box.complete_step(1)

    def held(ones: list[Any]) -> list[bool]:
        gc.collect()
        return [one() is not None for one in ones]

    # The last step may be sent again, by either.
    assert held(peer.sent) == [False, True, True]
    assert held(received) == [False, True, True]
    for step in (1, 2):
        with pytest.raises(ProtocolFailed, match=f"another shares of step {step}"):
            box.send("shares", np.zeros((2 + step, 1)), step)
    getattr(box, ends)("enough")
    assert held(received) == [False] * 3


def test_what_is_sent_once_is_remembered_for_the_whole_session() -> None:
    peer = Sent()
    box = mailbox(P, **{A: peer})
    key = np.arange(32, dtype=np.uint8)
    box.send("key", key)
    for step in range(3):
        box.complete_step(step)
    with pytest.raises(ProtocolFailed, match="sends another key of step 0 than before"):
        box.send("key", key[::-1])
    box.send("key", key)
    assert peer.messages == [KEY, KEY]


def test_who_is_silent_is_named_with_the_protocol() -> None:
    with pytest.raises(PeerVanished, match=rf"Waited 0.05 s for {P}'s shares of step 0 \(protocol hu\)"):
        mailbox().take("shares", 0)


@pytest.mark.parametrize("comes", ["receive", "end", "suspend"])
def test_who_waits_is_woken(comes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, wait = threading.Event(), StepOrder.wait

    def waiting(order: StepOrder, timeout: float | None = None) -> bool:
        waits.set()
        return wait(order, timeout)

    monkeypatch.setattr(StepOrder, "wait", waiting)
    box = Mailbox(AGREEMENT, A, {}, KINDS, steps=3, timeout=25)
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(box.take, "shares", 0)
        # Its lock is free again once it waits.
        assert waits.wait(20)
        if comes == "receive":
            box.receive(P, *shares())
            assert taken.result(20)[P].tolist() == [[1.0], [1.0]]
        else:
            getattr(box, comes)("enough")
            with pytest.raises(OutOfOrder if comes == "end" else Suspended, match="enough"):
                taken.result(20)


def test_an_answer_is_taken_once_its_question_is_sent() -> None:
    for once, steps in ((False, [0]), (True, [0, 1])):
        kinds = [
            MessageKind("asked", frozenset({A}), frozenset({P}), lambda _: (2,), once=once, right=ASKS),
            MessageKind("answer", frozenset({P}), frozenset({A}), lambda _: (2,), right=answers("asked")),
        ]
        box = Mailbox(AGREEMENT, A, {P: Sent()}, kinds, steps=3, timeout=0.05)
        answer = WireVector("", 2, 8, 0, np.ones(2).tobytes(), "float64")
        with pytest.raises(OutOfOrder, match=f"{P} has no asked of step 0 to answer: this party hasn't asked"):
            box.receive(P, "answer", 0, answer)
        box.send("asked", np.ones(2))
        for step in steps:
            box.receive(P, "answer", step, answer)
            assert box.take("answer", step)[P].tolist() == [1.0, 1.0]
            box.complete_step(step)
        if not once:
            with pytest.raises(OutOfOrder, match="has no asked of step 1 to answer"):
                box.receive(P, "answer", 1, answer)


def test_kinds_are_checked_when_they_are_declared() -> None:
    def late(**said: Any) -> MessageKind:
        return replace(MessageKind("late", frozenset({P}), frozenset({A}), lambda _: (1,)), **said)

    with pytest.raises(
        ProtocolFailed, match=r"declares what no table may have\. Two kinds of messages of one name: key\."
    ):
        Mailbox(AGREEMENT, A, {}, (*KINDS, KINDS[0]), steps=1, timeout=1)
    with pytest.raises(ProtocolFailed, match="late answers key, which no message asks"):
        Mailbox(AGREEMENT, A, {}, (*KINDS, late(right=answers("key"))), steps=1, timeout=1)
    with pytest.raises(ProtocolFailed, match=f"tells {A} bits by late, which its exposures don't count"):
        Mailbox(AGREEMENT, A, {}, [late(tells=Tells("bits", of="others"))], steps=1, timeout=1)
    # Of a network a passive party is told by the label party alone.
    network = agreed(TrainingPlan(learner="network"), features=(3, 2, 2))
    between = late(tells=Tells("equations"), senders=frozenset({"passive-2"}), receivers=frozenset({"passive-1"}))
    with pytest.raises(ProtocolFailed, match="tells passive-1 equations by late, which its exposures don't count"):
        Mailbox(network, A, {}, [between], steps=1, timeout=1)
    Mailbox(network, A, {}, [replace(between, tells=Tells("equations", of="others"))], steps=1, timeout=1)
    with pytest.raises(InvalidMessage):
        MessageKind("\x1b[2J", frozenset({P}), frozenset({A}), lambda _: (1,))
    with pytest.raises(InvalidMessage, match="one of float64, uint64, uint8"):
        MessageKind("odd", frozenset(), frozenset(), lambda _: (1,), "object")  # type: ignore[arg-type]
    largest = MessageKind("largest", frozenset({P}), frozenset({A}), lambda _: (limits.VECTOR_BYTES,), "uint8")
    assert largest.header(0).size == limits.VECTOR_BYTES
    large = MessageKind("large", frozenset({P}), frozenset({A}), lambda _: (limits.VECTOR_BYTES + 1,), "uint8")
    with pytest.raises(InvalidMessage, match="large has 256 MiB in a step, at most 256 are taken"):
        large.header(0)
