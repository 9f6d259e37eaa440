"""What one party takes from its peers in a session, as its protocol's table says. Knows no protocol, no network.

    a peer's message (any thread)                   own loop
    receive_key ── once a purpose, proved ──>       key(purpose, peer)
    expects     ── by its header alone              await_message(kind, peer, step): waits for it, by name
    receive     ── its values, once ──>
                                                    step done: forget what none can send again
    end, suspend: whoever waits, sends or asks from now on is told why; what was received is forgotten

A row of the table is a kind of message from one peer: in which steps it comes (``at``), under which keys (``after``),
with which header, and how its values are read. An answer is taken from a peer that was asked, and from no other. A
question's row is answered at once. Whatever no row says is refused by name, and changes nothing. A message that comes
again changes nothing. A different one in its place is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder, one_line
from services.exchange.declared_messages import DeclaredMessage
from services.exchange.peer import Inbox
from services.exchange.step_order import StepOrder
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector

# The step of a question that is asked once, and answered in every step.
IN_ALL_STEPS = -1


def each_step(order: StepOrder, step: int) -> None:
    """Let a message come in the party's own step, and one ahead."""
    order.check(step)


def once(parts: int = 1) -> Callable[[StepOrder, int], None]:
    """Let a message come once in a session, at any time, in so many parts."""

    def at(_: StepOrder, step: int) -> None:
        if not 0 <= step < parts:
            expected = f"a part from 0 to {parts - 1}" if parts > 1 else "step 0 of what is sent once"
            raise InvalidMessage(f"Expected {expected}, got {step}.")

    return at


@dataclass(frozen=True)
class MessageRow:
    """A kind of message from one peer.

    Attributes:
        declared: what its protocol says of the kind.
        sender: the peer.
        at: raises InvalidMessage for a step that no session has, OutOfOrder for one that isn't due.
        header: what travels before a step's values.
        read: reads a step's values; raises InvalidMessage for anything but the agreed ones.
        after: purposes of keys that the sender shows before.
    """

    declared: DeclaredMessage
    sender: str
    at: Callable[[StepOrder, int], None]
    header: Callable[[int], VectorHeader]
    read: Callable[[int, WireVector], Any]
    after: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Of it, by name."""
        return self.declared.name


@dataclass(frozen=True)
class QuestionRow:
    """A kind of question from one peer, which gets its answer at once: for one in each step it has a right.

    Attributes:
        declared: what its protocol says of the kind.
        sender: the peer.
        header: what travels before a step's values; raises OutOfOrder where the peer may ask none.
        answer: answers a step's, once.
    """

    declared: DeclaredMessage
    sender: str
    header: Callable[[int], VectorHeader]
    answer: Callable[[int, WireVector], DecryptedVector]


@dataclass(frozen=True)
class KeyRow:
    """A key that one peer shows, once.

    Attributes:
        purpose: what it is for; empty for the training.
        sender: the peer.
        read: reads and checks it; raises InvalidMessage for one that isn't well-formed.
        after: purposes of keys that the sender shows before. It is none that was shown for another purpose.
    """

    purpose: str
    sender: str
    read: Callable[[PublicKeyShown], Any]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReceivedMessage:
    """What a message held, and a digest by which it is known when it comes again."""

    digest: bytes
    values: Any


class MessageTable(Inbox):
    """One party's messages in order, for its own loop and for its peers' threads at once.

    Arguments:
        peers: names of the other parties.
        rows: the kinds of messages that they send to this party.
        keys: what they show.
        order: in which step this party is; its lock is that of all that stands here.
        questions: what they ask, and are answered at once.
    """

    def __init__(
        self,
        peers: Iterable[str],
        rows: Iterable[MessageRow],
        keys: Iterable[KeyRow],
        order: StepOrder,
        questions: Iterable[QuestionRow] = (),
    ) -> None:
        """Begin a session with these peers; raises ValueError for a table that names a kind, or a key, twice."""
        all_rows, all_keys = list(rows), list(keys)
        self._order = order
        self._peers = list(peers)
        self._rows = {(row.kind, row.sender): row for row in all_rows}
        self._keys = {(row.purpose, row.sender): row for row in all_keys}
        self._question_rows = {(row.declared.name, row.sender): row for row in questions if row.declared.right.is_asked}
        if len(self._rows) < len(all_rows) or len(self._keys) < len(all_keys):
            raise ValueError("a table names each kind of message, and each purpose of a key, once for a sender")
        self._shown: dict[tuple[str, str], tuple[PublicKeyShown, Any]] = {}
        self._received: dict[tuple[str, str, int], ReceivedMessage] = {}
        self._asked: set[tuple[str, str, int]] = set()

    # -- what peers send -------------------------------------------------------------------------------------------

    def receive_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take a peer's key; raises as an inbox's."""
        with self._order:
            self._check_peer(peer)
            row = self._keys.get((key.purpose, peer))
            if row is None:
                raise NotAllowed(f"{peer} has no {one_line(key.purpose) or 'public'} key to show in this session.")
            if shown := self._shown.get((key.purpose, peer)):
                if shown[0] != key:
                    raise OutOfOrder(f"{peer} has shown a key for this session already; a session has one key a party.")
                return
            self._check_shown(peer, row.after, f"its {key.purpose} key")
            if any(shown[0].key_id == key.key_id for (_, other), shown in self._shown.items() if other == peer):
                raise InvalidMessage(
                    f"{peer}'s {key.purpose} key is one that it has shown for something else: make another."
                )
            self._shown[key.purpose, peer] = key, row.read(key)
            self._order.notify_all()

    def expects(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        """Refuse a message by its header; raises as an inbox's."""
        self._expected(peer, kind, step, header)

    def receive(self, peer: str, kind: str, step: int, vector: WireVector) -> None:
        """Take a peer's message; raises as an inbox's."""
        row = self._expected(peer, kind, step, vector.header)
        key, digest = (row.kind, peer, step), sha256(vector.data).digest()
        with self._order:
            if self._is_known(key, digest):
                return
        # Perhaps hundreds of ciphertexts: not under the lock, so that steps may go on meanwhile.
        values = row.read(step, vector)
        with self._order:
            # It may have ended while they were read, or gone on.
            self._order.refuse_if_ended()
            if not self._is_known(key, digest):
                row.at(self._order, step)
                self._received[key] = ReceivedMessage(digest, values)
                self._order.notify_all()

    def expects_question(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        """Refuse a question by its header; raises as an inbox's."""
        header.check(self._question(peer, kind).header(step), kind)

    def answer(self, peer: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        """Answer a peer's question, once; raises as an inbox's."""
        return self._question(peer, kind).answer(step, vector)

    # -- what this party's own loop does ---------------------------------------------------------------------------

    def note_asked(self, message: DeclaredMessage, peer: str, step: int) -> None:
        """Let a peer answer a message that it is about to be sent, if that asks."""
        if message.right.is_asked:
            with self._order:
                self._asked.add((message.name, peer, step))

    def key(self, purpose: str, peer: str) -> Any:
        """Give a peer's key as it was read; raises KeyError before it was shown."""
        return self._shown[purpose, peer][1]

    def has_come(self, kind: str, peer: str, step: int) -> bool:
        """Tell whether a message is here."""
        return (kind, peer, step) in self._received

    def await_message(self, kind: str, peer: str, step: int, protocol: str = "") -> Any:
        """Wait for a message, and give its values; who is silent is named with the kind, and what is said of it.

        Raises:
            PeerVanished: without it.
            OutOfOrder: when the session has ended.
        """
        with self._order:
            return self._order.await_value(
                lambda: self._received.get((kind, peer, step)), f"{peer}'s {kind} of step {step}{protocol}"
            ).values

    def release(self, kind: str, peer: str, step: int) -> None:
        """Forget a message's values, which somebody has now; the digest knows it when it comes again."""
        self._received[kind, peer, step] = ReceivedMessage(self._received[kind, peer, step].digest, ())

    def forget(self, is_behind: Callable[[str, int], bool]) -> None:
        """Forget what none can send again: messages of such kinds and steps. Called with the order's lock held."""
        self._received = {key: message for key, message in self._received.items() if not is_behind(key[0], key[2])}
        self._asked = {key for key in self._asked if not is_behind(key[0], key[2])}

    def end(self, reason: str) -> None:
        """End the session: whoever waits, or sends from now on, is told ``reason``."""
        self._order.end(reason)
        self._forget_all()

    def suspend(self, reason: str) -> None:
        """End it, and tell whoever waits or sends that another inbox will go on with the training."""
        self._order.suspend(reason)
        self._forget_all()

    # -- inner -----------------------------------------------------------------------------------------------------

    def _forget_all(self) -> None:
        with self._order:
            self._received.clear()

    def _expected(self, peer: str, kind: str, step: int, header: VectorHeader) -> MessageRow:
        with self._order:
            self._check_peer(peer)
            row = self._rows.get((kind, peer))
            if row is None:
                raise NotAllowed(f"{peer} has no {one_line(kind)} to send in this session.")
            self._check_shown(peer, row.after, row.kind)
            if (row.kind, peer, step) not in self._received:
                row.at(self._order, step)
                self._check_asked(peer, row.declared, step)
        header.check(row.header(step), row.kind)
        return row

    def _question(self, peer: str, kind: str) -> QuestionRow:
        with self._order:
            self._check_peer(peer)
        row = self._question_rows.get((kind, peer))
        if row is None:
            raise NotAllowed(f"{peer} has no {one_line(kind)} to ask in this session.")
        return row

    def _check_asked(self, peer: str, answer: DeclaredMessage, step: int) -> None:
        question = answer.right.question
        if question and not self._asked & {(question, peer, step), (question, peer, IN_ALL_STEPS)}:
            raise OutOfOrder(f"{peer} has no {question} of step {step} to answer: this party hasn't asked.")

    def _is_known(self, key: tuple[str, str, int], digest: bytes) -> bool:
        """Tell whether a message came before; raises OutOfOrder for another one in its place."""
        known = self._received.get(key)
        if known is not None and known.digest != digest:
            raise OutOfOrder(f"Different {key[0]} of step {key[2]} were received already; they are taken once.")
        return known is not None

    def _check_shown(self, peer: str, purposes: Iterable[str], what: str) -> None:
        for purpose in purposes:
            if (purpose, peer) not in self._shown:
                raise OutOfOrder(f"{peer} must show its {purpose or 'public'} key before {what}.")

    def _check_peer(self, peer: str) -> None:
        self._order.refuse_if_ended()
        if peer not in self._peers:
            raise NotAllowed(f"{peer} is not a party of this session.")
