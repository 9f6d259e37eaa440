"""A table's messages: what no row says is refused by name and changes nothing; keys come once, and one for each use."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.exchange.declared_messages import ASKS, DeclaredMessage, answers
from services.exchange.message_table import IN_ALL_STEPS, KeyRow, MessageRow, MessageTable, QuestionRow, each_step, once
from services.exchange.step_order import StepOrder
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector

STEPS, KEY = 4, PublicKeyShown("training", b"k")


def header(_: int) -> VectorHeader:
    return VectorHeader("", 1, 1)


def read(_: int, vector: WireVector) -> int:
    if vector.data == b"!":
        raise InvalidMessage("No number.")
    return vector.data[0]


def row(kind: str, sender: str = "p", **changes: Any) -> MessageRow:
    return replace(MessageRow(DeclaredMessage(kind), sender, each_step, header, read), **changes)


def table(*rows: MessageRow, keys: tuple[KeyRow, ...] = ()) -> MessageTable:
    return MessageTable(["p", "q"], rows, keys, StepOrder(STEPS, 0.01))


def vector(value: bytes = b"1", **changes: Any) -> WireVector:
    return replace(WireVector("", 1, 1, 0, value), **changes)


def test_a_table_names_a_kind_and_a_key_once_for_a_sender() -> None:
    for rows, keys in (((row("a"), row("a")), ()), ((), (KeyRow("", "p", _content), KeyRow("", "p", _content)))):
        with pytest.raises(ValueError, match="once for a sender"):
            table(*rows, keys=keys)
    table(
        row("a"),
        row("a", "q"),
        row("b"),
        keys=(KeyRow("", "p", _content), KeyRow("", "q", _content), KeyRow("x", "p", _content)),
    )


@given(st.lists(st.tuples(st.sampled_from("abz"), st.sampled_from("pqr"), st.integers(-1, 5), st.sampled_from("12!"))))
def test_it_takes_what_its_rows_say_and_nothing_else(messages: list[tuple[str, str, int, str]]) -> None:
    """a comes from p in each step, b from q once."""
    box, taken = table(row("a"), row("b", "q", at=once())), dict[tuple[str, str, int], int]()
    for kind, peer, step, value in messages:
        expected: type[FederationError] | None = None
        if (kind, peer) not in {("a", "p"), ("b", "q")}:
            expected = NotAllowed
        elif (kind, peer, step) in taken:
            expected = None if taken[kind, peer, step] == ord(value) else OutOfOrder
        elif step not in ((0,) if kind == "b" else range(STEPS)) or value == "!":
            expected = InvalidMessage if kind == "b" or step not in (2, 3) else OutOfOrder
        elif kind == "a" and step > 1:
            expected = OutOfOrder
        if expected is None:
            box.receive(peer, kind, step, vector(value.encode()))
            taken[kind, peer, step] = ord(value)
        else:
            with pytest.raises(expected):
                box.receive(peer, kind, step, vector(value.encode()))
    assert {key: message.values for key, message in box._received.items()} == taken


def test_what_is_sent_once_says_in_how_many_parts() -> None:
    order = StepOrder(STEPS, 0.01)
    for parts, words in ((1, "step 0 of what is sent once, got 1"), (2, "a part from 0 to 1, got 2")):
        for part in range(parts):
            once(parts)(order, part)
        for part in (-1, parts):
            with pytest.raises(InvalidMessage, match=words if part > 0 else words[:-1].replace("got ", "got -1")):
                once(parts)(order, part)


@pytest.mark.parametrize(
    "changes", [{"count": 2}, {"width": 2}, {"exponent": 1}, {"key_id": "x"}, {"numbers": "uint8"}]
)
def test_another_header_is_refused_with_its_kind(changes: dict[str, Any]) -> None:
    box = table(row("a"))
    with pytest.raises(InvalidMessage, match="of a: expected"):
        box.expects("p", "a", 0, vector(**changes).header)
    assert not box._received


def test_what_is_read_for_longer_than_its_step_lasts_is_not_kept() -> None:
    def slow(_: int, message: WireVector) -> bytes:
        box._order.step = 2
        return message.data

    box = table(row("a", read=slow))
    with pytest.raises(OutOfOrder, match="Step 0 is out of order"):
        box.receive("p", "a", 0, vector())
    assert not box._received


def test_values_that_somebody_has_are_released_and_known_when_they_come_again() -> None:
    box = table(row("a"))
    box.receive("p", "a", 0, vector())
    assert [box.has_come("a", peer, step) for peer, step in (("p", 0), ("q", 0), ("p", 1))] == [True, False, False]
    box.release("a", "p", 0)
    box.receive("p", "a", 0, vector())
    assert box.await_message("a", "p", 0) == ()
    with pytest.raises(OutOfOrder, match="taken once"):
        box.receive("p", "a", 0, vector(b"2"))


def test_keys_come_once_in_order_and_none_serves_two_purposes() -> None:
    keys = (KeyRow("", "p", _content), *(KeyRow(purpose, "p", _content, after=("",)) for purpose in ("x", "y")))
    box = table(row("a", after=("", "x")), keys=keys)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: box.receive("p", "a", 0, vector()), "must show its public key before a"),
        (lambda: box.receive_key("p", replace(KEY, purpose="x")), "must show its public key before its x key"),
        (lambda: box.receive_key("q", KEY), "q has no public key to show"),
        (lambda: box.receive_key("p", replace(KEY, purpose="z\n" * 999)), "p has no z"),
        (lambda: box.receive_key("r", KEY), "not a party"),
        (lambda: box.receive_key("p", replace(KEY, content=b"")), "Not well-formed"),
    ]
    for call, words in calls:
        with pytest.raises(FederationError, match=words) as refused:
            call()
        assert str(refused.value).isprintable()
    assert not box._shown
    box.receive_key("p", KEY)
    box.receive_key("p", KEY)
    with pytest.raises(OutOfOrder, match="one key a party"):
        box.receive_key("p", replace(KEY, content=b"other"))
    with pytest.raises(InvalidMessage, match="make another"):
        box.receive_key("p", replace(KEY, purpose="x"))
    with pytest.raises(OutOfOrder, match="must show its x key before a"):
        box.receive("p", "a", 0, vector())
    box.receive_key("p", PublicKeyShown("serving", b"s", purpose="x"))
    with pytest.raises(InvalidMessage, match="p's y key is one that it has shown for something else"):
        box.receive_key("p", PublicKeyShown("serving", b"s", purpose="y"))
    box.receive("p", "a", 0, vector())
    assert (box.key("", "p"), box.key("x", "p")) == (b"k", b"s")


def test_who_waits_for_a_key_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, wait = threading.Event(), StepOrder.wait

    def waiting(order: StepOrder, timeout: float | None = None) -> bool:
        waits.set()
        return wait(order, timeout)

    monkeypatch.setattr(StepOrder, "wait", waiting)
    box = MessageTable(["p"], (), [KeyRow("", "p", _content)], StepOrder(STEPS, 25))

    def await_key() -> object:
        with box._order:
            return box._order.await_value(lambda: box._shown.get(("", "p")), "a key")

    with ThreadPoolExecutor(1) as threads:
        shown = threads.submit(await_key)
        assert waits.wait(20)
        box.receive_key("p", KEY)
        assert shown.result(20) == (KEY, b"k")


def test_an_answer_is_taken_from_who_was_asked_and_in_the_step_that_was_asked_of() -> None:
    question, once_question = DeclaredMessage("q", right=ASKS), DeclaredMessage("o", right=ASKS)
    rows = [
        replace(row(kind, peer), declared=DeclaredMessage(kind, right=answers(asked)))
        for kind, asked in (("a", "q"), ("b", "o"))
        for peer in "pq"
    ]
    box = table(*rows)

    def refused(kind: str, peer: str, step: int, asked: str) -> None:
        before = (dict(box._received), set(box._asked))
        with pytest.raises(OutOfOrder, match=rf"{peer} has no {asked} of step {step} to answer"):
            box.expects(peer, kind, step, vector().header)
        with pytest.raises(OutOfOrder, match=rf"{peer} has no {asked} of step {step} to answer"):
            box.receive(peer, kind, step, vector())
        assert (box._received, box._asked) == before

    refused("a", "p", 0, "q")
    box.note_asked(DeclaredMessage("q"), "p", 0)
    refused("a", "p", 0, "q")
    box.note_asked(question, "p", 0)
    box.note_asked(once_question, "q", IN_ALL_STEPS)
    for kind, peer, step, asked in (("a", "q", 0, "q"), ("a", "p", 1, "q"), ("b", "p", 0, "o")):
        refused(kind, peer, step, asked)
    for kind, peer, step in (("a", "p", 0), ("b", "q", 0), ("b", "q", 1)):
        box.receive(peer, kind, step, vector())
    with box._order:
        box._order.step = 1
        box.forget(lambda kind, step: kind != "o" and step < 1)
    assert box._asked == {("o", "q", IN_ALL_STEPS)}
    assert list(box._received) == [("b", "q", 1)]


def test_a_question_is_answered_where_its_kind_has_the_right_and_to_who_has_its_row() -> None:
    def questions(kind: DeclaredMessage) -> MessageTable:
        def answer(step: int, message: WireVector) -> DecryptedVector:
            return DecryptedVector(1, 1, bytes([step]) + message.data)

        rows = [QuestionRow(kind, "p", header, answer)]
        return MessageTable(["p", "q"], (), (), StepOrder(STEPS, 0.01), rows)

    box = questions(DeclaredMessage("a", right=ASKS))
    box.expects_question("p", "a", 0, vector().header)
    assert box.answer("p", "a", 3, vector()).data == b"\x031"
    with pytest.raises(InvalidMessage, match="Wrong count of a: expected 1, got 2"):
        box.expects_question("p", "a", 0, vector(count=2).header)
    for table_of, peer, kind in (
        (box, "q", "a"),
        (box, "p", "b"),
        (box, "r", "a"),
        (questions(DeclaredMessage("a")), "p", "a"),
    ):
        words = "not a party" if peer == "r" else f"{peer} has no {kind} to ask in this session"
        with pytest.raises(NotAllowed, match=words):
            table_of.expects_question(peer, kind, 0, vector().header)
        with pytest.raises(NotAllowed, match=words):
            table_of.answer(peer, kind, 0, vector())
    box.end("enough")
    with pytest.raises(OutOfOrder, match="enough"):
        box.answer("p", "a", 0, vector())


def _content(key: PublicKeyShown) -> bytes:
    if not key.content:
        raise InvalidMessage("Not well-formed.")
    return key.content
