"""What one party takes from its peers in a session, in order, and waits for. Knows no protocol and no network.

A message that comes again changes nothing. A different one in its place is refused, and so is a second one of this
party's own. A peer is at most one step ahead or behind.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from numpy.typing import NDArray

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder
from services.common.plugin_calls import waiting_for_others
from services.common.protocol_calls import ProtocolCalls, ProtocolFailed
from services.exchange.message_kinds import MessageKind
from services.exchange.peer import Inbox, Peer
from services.exchange.step_order import StepOrder
from services.exchange.vectors import VectorHeader, WireVector


class Mailbox(Inbox):
    """One party's messages of a session, for its own loop and for its peers' threads at once."""

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        peers: Mapping[str, Peer],
        kinds: Iterable[MessageKind],
        *,
        steps: int,
        timeout: float,
        tell: Callable[[str, str, int], object] = lambda *_: None,
    ) -> None:
        """Begin a session of the party ``name``, of so many steps.

        Args:
            agreement: the session's public terms.
            name: the party's.
            peers: the other ends, by name.
            kinds: the protocol's messages.
            steps: how many the session has.
            timeout: seconds to wait for a message.
            tell: counts what a peer is told, before it is sent: the peer, in a word what it is, how many numbers.

        Raises:
            ProtocolFailed: for kinds with a name in common.
        """
        listed = list(kinds)
        self._agreement, self._name, self._peers = agreement, name, peers
        self._kinds = {kind.name: kind for kind in listed}
        if len(self._kinds) < len(listed):
            raise self._refused("declares two kinds of messages of one name")
        self._tell, self._order = tell, StepOrder(steps, timeout)
        self._sent: dict[tuple[str, int], WireVector] = {}
        self._received: dict[tuple[str, str, int], tuple[bytes, NDArray[Any]]] = {}

    # -- what peers send -------------------------------------------------------------------------------------------

    def expects(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        """Refuse a peer's message by its header; raises as an inbox's."""
        self._expected(peer, kind, step, header)

    def _expected(self, peer: str, name: str, step: int, header: VectorHeader) -> MessageKind:
        with self._order:
            self._order.refuse_if_ended()
            kind = self._kinds.get(name)
            if kind is None or peer not in kind.senders - {self._name} or self._name not in kind.receivers:
                raise NotAllowed(f"{peer} has no such message to send to {self._name}.")
            if (name, peer, step) not in self._received:
                self._check_step(kind, step)
        header.check(kind.header(step), name)
        return kind

    def receive(self, peer: str, kind: str, step: int, vector: WireVector) -> None:
        """Take a peer's message; raises as an inbox's."""
        values = self._expected(peer, kind, step, vector.header).unpacked(step, vector)
        digest = sha256(vector.data).digest()
        with self._order:
            # It may have ended while they were read.
            self._order.refuse_if_ended()
            known, _ = self._received.setdefault((kind, peer, step), (digest, values))
            if known != digest:
                raise OutOfOrder(f"Another {kind} of step {step} was received already: it is taken once.")
            self._order.notify_all()

    # -- what this party's own loop does ---------------------------------------------------------------------------

    def send(self, kind: str, values: NDArray[Any], step: int = 0) -> None:
        """Send numbers to every receiver of their kind.

        Raises:
            ProtocolFailed: for what isn't declared: a kind, this party as its sender, the numbers. And for others than
                were sent in this step before: both would be under one mask.
            FederationError: what a receiver refuses it with, or as the session has ended.
        """
        declared = self._declared(kind)
        if self._name not in declared.senders:
            raise self._refused(f"has {self._name} send {kind}, which it doesn't")
        try:
            message = declared.packed(step, values)
        except InvalidMessage as error:
            raise self._refused(f"sends what it hasn't declared. {error}") from error
        with self._order:
            self._order.refuse_if_ended()
            is_new = (kind, step) not in self._sent
            if self._sent.setdefault((kind, step), message) != message:
                raise self._refused(f"sends another {kind} of step {step} than before")
        for receiver in sorted(declared.receivers - {self._name}):
            if declared.tells and is_new:
                self._tell(receiver, declared.tells, message.count)
            with waiting_for_others():
                self._peers[receiver].send(self._agreement.session_id, kind, step, message)

    def take(self, kind: str, step: int = 0) -> dict[str, NDArray[Any]]:
        """Wait for a step's messages of a kind; gives their numbers by sender.

        Raises:
            ProtocolFailed: for a kind that isn't declared.
            PeerVanished: without one of them.
            OutOfOrder: when the session has ended.
        """
        senders, protocol = sorted(self._declared(kind).senders - {self._name}), self._agreement.plan.protocol
        with self._order:
            for sender in senders:
                received = partial(self._received.get, (kind, sender, step))
                self._order.await_value(received, f"{sender}'s {kind} of step {step} (protocol {protocol})")
            return {sender: self._received[kind, sender, step][1] for sender in senders}

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step, and forget what none can send again."""
        with self._order:
            self._order.step = step + 1
            once = {name for name, kind in self._kinds.items() if kind.once}
            self._sent = {key: one for key, one in self._sent.items() if key[0] in once or key[-1] >= step}
            self._received = {key: one for key, one in self._received.items() if key[0] in once or key[-1] >= step}

    def end(self, reason: str) -> None:
        """End it: whoever waits or sends is told why."""
        with self._order:
            self._order.end(reason)
            self._received.clear()

    def suspend(self, reason: str) -> None:
        """End it, and tell whoever waits or sends that another one will go on with the training."""
        with self._order:
            self._order.suspend(reason)
            self._received.clear()

    # -- inner -----------------------------------------------------------------------------------------------------

    def _declared(self, kind: str) -> MessageKind:
        if kind not in self._kinds:
            raise self._refused(f"declares no message {kind}")
        return self._kinds[kind]

    def _refused(self, why: str) -> ProtocolFailed:
        return ProtocolCalls(self._agreement.plan.protocol).refused(why)

    def _check_step(self, kind: MessageKind, step: int) -> None:
        if kind.once:
            if step != 0:
                raise InvalidMessage(f"Expected step 0 of {kind.name}, which is sent once, got {step}.")
        else:
            self._order.check(step)
