"""A party's messages under a protocol that declares them: what it sends, once, and a table of what it takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.exposure import Exposure
from services.common.plugin_calls import waiting_for_others
from services.common.protocol_calls import ProtocolCalls, ProtocolFailed
from services.exchange.declared_messages import declared
from services.exchange.message_kinds import MessageKind
from services.exchange.message_table import IN_ALL_STEPS, MessageTable
from services.exchange.peer import Peer
from services.exchange.step_order import StepOrder
from services.exchange.vectors import WireVector


class Mailbox(MessageTable):
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
            ProtocolFailed: for kinds with a name in common, for an answer to what none of them asks, and for one that
                tells what the protocol's exposures don't count.
        """
        self._agreement, self._name, self._links = agreement, name, peers
        try:
            self._kinds = declared(kinds)
        except InvalidMessage as error:
            raise self._refused(f"declares what no table may have. {error}") from error
        self._check_counted(agreement.plan.training.exposures(agreement))
        self._tell = tell
        super().__init__(
            [party.name for party in agreement.peers_of(name)],
            [row for kind in self._kinds.values() if name in kind.receivers for row in kind.rows(name)],
            (),
            StepOrder(steps, timeout),
        )
        self._sent: dict[tuple[str, int], WireVector] = {}

    # -- what this party's own loop does ---------------------------------------------------------------------------

    def send(self, kind: str, values: NDArray[Any], step: int = 0) -> None:
        """Send numbers to every receiver of their kind.

        Raises:
            ProtocolFailed: for what isn't declared: a kind, this party as its sender, the numbers. And for others than
                were sent in this step before: both would be under one mask.
            FederationError: what a receiver refuses it with, or as the session has ended.
        """
        sent = self._declared(kind)
        if self._name not in sent.senders:
            raise self._refused(f"has {self._name} send {kind}, which it doesn't")
        try:
            message = sent.packed(step, values)
        except InvalidMessage as error:
            raise self._refused(f"sends what it hasn't declared. {error}") from error
        with self._order:
            self._order.refuse_if_ended()
            is_new = (kind, step) not in self._sent
            if self._sent.setdefault((kind, step), message) != message:
                raise self._refused(f"sends another {kind} of step {step} than before")
        for receiver in sorted(sent.receivers - {self._name}):
            if sent.tells is not None and is_new:
                self._tell(receiver, sent.tells.word, message.count)
            self.note_asked(sent, receiver, IN_ALL_STEPS if sent.once else step)
            with waiting_for_others():
                self._links[receiver].send(self._agreement.session_id, kind, step, message)

    def take(self, kind: str, step: int = 0) -> dict[str, NDArray[Any]]:
        """Wait for a step's messages of a kind; gives their numbers by sender.

        Raises:
            ProtocolFailed: for a kind that isn't declared.
            PeerVanished: without one of them.
            OutOfOrder: when the session has ended.
        """
        senders, protocol = sorted(self._declared(kind).senders - {self._name}), self._agreement.plan.protocol
        with waiting_for_others():
            return {sender: self.await_message(kind, sender, step, f" (protocol {protocol})") for sender in senders}

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step, and forget what none can send again."""
        with self._order:
            self._order.step = step + 1
            once = {name for name, kind in self._kinds.items() if kind.once}
            self._sent = {key: sent for key, sent in self._sent.items() if key[0] in once or key[-1] >= step}
            self.forget(lambda kind, other: other < step and kind not in once)

    # -- inner -----------------------------------------------------------------------------------------------------

    def _declared(self, kind: str) -> MessageKind:
        if kind not in self._kinds:
            raise self._refused(f"declares no message {kind}")
        return self._kinds[kind]

    def _check_counted(self, exposures: Sequence[Exposure]) -> None:
        for kind in self._kinds.values():
            if (tells := kind.tells) is None:
                continue
            for sender, reader in ((one, other) for one in kind.senders for other in kind.receivers - {one}):
                owners = {one.owner for one in exposures if one.party == reader and getattr(one, tells.unit)}
                if not (owners & {sender, ""} if tells.of == "sender" else owners):
                    raise self._refused(f"tells {reader} {tells.unit} by {kind.name}, which its exposures don't count")

    def _refused(self, why: str) -> ProtocolFailed:
        return ProtocolCalls(self._agreement.plan.protocol).refused(why)
