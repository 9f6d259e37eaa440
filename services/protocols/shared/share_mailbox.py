"""What one party takes from its peers where weights are shared, and waits for. Knows no network.

A message that comes again changes nothing. A different one in its place is refused. What arrives is checked as
ciphertexts only, never as what they decrypt to.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

from services.ciphers.shown_keys import checked_key, shown_key
from services.common.errors import OutOfOrder, refusals_of
from services.exchange.declared_messages import DeclaredMessage
from services.exchange.message_table import IN_ALL_STEPS, KeyRow, MessageRow, MessageTable
from services.exchange.step_order import StepOrder
from services.exchange.vectors import PublicKeyShown, VectorHeader, WireVector
from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.sharing.shares import Shares

# What a key is for beside training, and the messages that come under it first.
SERVING, VALIDATION = "serving", "validation"
_FIRST_UNDER = {SERVING: Kind.FROZEN, VALIDATION: Kind.PADS}


class Sizes(Protocol):
    """Which messages a session has, and how large they are.

    Attributes:
        messages: of the protocol, as they are declared.
    """

    messages: ClassVar[Mapping[str, DeclaredMessage]]

    def shows_key(self, sender: str) -> bool:
        """Tell whether a party shows a key of its own before it sends anything."""

    def is_sent(self, kind: Kind, sender: str, receiver: str) -> bool:
        """Tell whether one party sends another such messages."""

    def count(self, kind: Kind, sender: str, receiver: str, step: int) -> int:
        """Count the values of a message of a step, or of a part."""

    def width(self, kind: Kind) -> int:
        """Count the bytes of each value."""


@dataclass(frozen=True)
class Outgoing:
    """A message for a peer.

    Attributes:
        receiver: of it.
        kind: of it.
        step: or the number of the part.
        vector: its values.
    """

    receiver: str
    kind: Kind
    step: int
    vector: WireVector


class ShareMailbox(MessageTable):
    """One party's messages in order, for its own loop and for its peers' threads at once."""

    def __init__(
        self,
        terms: SharedTerms,
        name: str,
        sizes: Sizes,
        engine: Engine,
        *,
        steps: int,
        timeout: float,
    ) -> None:
        """Begin a session of the party ``name``, of so many steps; waits ``timeout`` seconds for a message."""
        self._terms, self._name, self._engine, self._message_sizes = terms, name, engine, sizes
        peers = [peer.name for peer in terms.agreement.peers_of(name)]
        super().__init__(
            peers,
            [
                self._row(Kind(kind), peer)
                for kind in sizes.messages
                for peer in peers
                if sizes.is_sent(Kind(kind), peer, name)
            ],
            [row for peer in peers for row in self._keys_of(peer)],
            StepOrder(steps, timeout),
        )
        self._serving_key: PrivateKey | None = None
        self._frozen: list[Outgoing] = []
        # Held while what was received is used: it is forgotten at the end, and not before.
        self._computing = threading.Lock()
        self._is_over = False

    # -- the table -------------------------------------------------------------------------------------------------

    def _row(self, kind: Kind, peer: str) -> MessageRow:
        purposes = ("",) if self._message_sizes.shows_key(peer) else ()
        return MessageRow(
            self._message_sizes.messages[kind],
            peer,
            at=lambda _, step: self._check_step(peer, kind, step),
            header=lambda step: self._header(kind, peer, self._name, step),
            read=lambda _, vector: self._values(peer, kind, vector),
            after=(*purposes, *(purpose for purpose, first in _FIRST_UNDER.items() if kind is first)),
        )

    def _keys_of(self, peer: str) -> Iterator[KeyRow]:
        """List a peer's keys: that of the training, and those that are for messages of one kind and nothing else."""
        if self._message_sizes.shows_key(peer):
            yield KeyRow("", peer, partial(self._training_key, peer))
        for purpose, kind in _FIRST_UNDER.items():
            if self._message_sizes.is_sent(kind, peer, self._name):
                yield KeyRow(purpose, peer, partial(checked_key, self._terms.agreement, peer), after=("",))

    def _training_key(self, peer: str, key: PublicKeyShown) -> PublicKey:
        public_key = checked_key(self._terms.agreement, peer, key)
        self._key_taken(peer, public_key)
        return public_key

    # -- what this party's own loop does ---------------------------------------------------------------------------

    def begin_at(self, step: int) -> None:
        """Take this step first: those before were taken under other keys. Nothing has been shown or sent yet."""
        self._order.step = step

    def serving_key(self, key: PrivateKey) -> PublicKeyShown:
        """Show a serving key of this party's own."""
        return shown_key(self._terms.agreement, self._name, key, SERVING)

    def freeze(self, weights: Shares, key: PrivateKey) -> list[Outgoing]:
        """Put this party's shares of others' weights under its serving key, once; the same again whatever they are.

        Raises OutOfOrder when the session has ended.
        """
        self._order.refuse_if_ended()
        self._is_over = True
        places, served = self._terms.places(self._name), self._terms.scores
        if not self._frozen:
            self._serving_key = key
            for owner in self._terms.held_by(self._name):
                # Output by output.
                values = served.weights(weights[places[owner]]).T.ravel().tolist()
                self._frozen.append(
                    self._outgoing(owner, Kind.FROZEN, self._order.steps, self._engine.encrypt(key, values))
                )
        return self._frozen

    def frozen(self) -> tuple[PublicKey, tuple[int, ...]]:
        """V of this party's weights, and the key that it is under; raises PeerVanished without it."""
        holder = self._terms.holder(self._name)
        values = tuple(self._await(Kind.FROZEN, holder, self._order.steps))
        return self.key(SERVING, holder), values

    def end(self, reason: str) -> None:
        """End the exchange: whoever waits, or sends from now on, is told ``reason``. All that was sent is forgotten."""
        super().end(reason)
        with self._computing:
            self._forget()

    def suspend(self, reason: str) -> None:
        """End the exchange, and tell whoever waits or sends that another one will go on with the training."""
        super().suspend(reason)
        with self._computing:
            self._forget()

    # -- what differs ----------------------------------------------------------------------------------------------

    def _key_taken(self, peer: str, key: PublicKey) -> None:
        """Note that a peer's key has come, whose proof was checked."""
        raise NotImplementedError

    def _check_step(self, peer: str, kind: Kind, step: int) -> None:
        """Raise InvalidMessage for a step that no session has, OutOfOrder for one that isn't due."""
        raise NotImplementedError

    def _key_of(self, kind: Kind, sender: str, receiver: str) -> PublicKey | None:
        """Find the key that a message is under; some kinds are under none."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Forget what others have sent: the session is over."""
        raise NotImplementedError

    # -- inner checks ----------------------------------------------------------------------------------------------

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Compute for the session, which doesn't end inside. Raises OutOfOrder when it has ended."""
        with self._computing:
            self._order.refuse_if_ended()
            yield

    def _await(self, kind: Kind, peer: str, step: int) -> Sequence[int]:
        values: Sequence[int] = self.await_message(kind, peer, step)
        return values

    def _check_over(self, kind: Kind, step: int, steps_per_epoch: int) -> None:
        """Raise OutOfOrder for weights that are told before training is over."""
        # Where epochs are validated, the label party may stop after any, once it is over.
        over = steps_per_epoch if validates_on_shares(self._terms.agreement) else self._order.steps - 1
        if step != self._order.steps or self._order.step < over:
            raise OutOfOrder(f"Weights are {kind} when all steps are taken.")

    def _check_validation(self, steps: int) -> None:
        """Raise OutOfOrder for a validation after other steps than are taken, or are about to be."""
        if not self._order.step <= steps <= self._order.step + 1:
            raise OutOfOrder(f"A validation after {steps} steps is out of order: {self._order.step} are taken here.")

    def _header(self, kind: Kind, sender: str, receiver: str, step: int) -> VectorHeader:
        key = self._key_of(kind, sender, receiver)
        count, width = self._message_sizes.count(kind, sender, receiver, step), self._message_sizes.width(kind)
        return VectorHeader(key.key_id if key else "", count, width, 0)

    def _outgoing(self, receiver: str, kind: Kind, step: int, values: Sequence[int]) -> Outgoing:
        header = self._header(kind, self._name, receiver, step)
        self.note_asked(self._message_sizes.messages[kind], receiver, IN_ALL_STEPS if kind.is_once else step)
        data = to_bytes(values, header.width)
        return Outgoing(receiver, kind, step, WireVector(header.key_id, header.count, header.width, 0, data))

    def _values(self, peer: str, kind: Kind, vector: WireVector) -> tuple[int, ...]:
        with refusals_of(InvalidCiphertext):
            values = from_bytes(vector.data, vector.count, vector.width)
            if key := self._key_of(kind, peer, self._name):
                check_ciphertexts(key, values, vector.count)
        return values
