"""What one party takes from its peers where weights are shared, and waits for. Knows no network.

A message that comes again changes nothing. A different one in its place is refused. What arrives is checked as
ciphertexts only, never as what they decrypt to.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from services.ciphers.shown_keys import checked_key, shown_key
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder
from services.exchange.peer import Inbox
from services.exchange.step_order import StepOrder
from services.exchange.vectors import PublicKeyShown, VectorHeader, WireVector
from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.sharing.shares import Shares

_KINDS = {kind.value: kind for kind in Kind}
# What a key is for beside training, and the messages that come under it first.
SERVING, VALIDATION = "serving", "validation"
_FIRST_UNDER = {SERVING: Kind.FROZEN, VALIDATION: Kind.PADS}


class Sizes(Protocol):
    """Which messages a session has, and how large they are."""

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


@dataclass(frozen=True)
class Received:
    """What a message held, and a digest by which it is known when it comes again."""

    digest: bytes
    values: tuple[int, ...]


class ShareMailbox(Inbox):
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
        self._terms, self._name, self._engine, self._expected = terms, name, engine, sizes
        self._order = StepOrder(steps, timeout)
        self._peers = [peer.name for peer in terms.agreement.peers_of(name)]
        # By what they are for: a key that is for messages of one kind is for nothing else, features above all.
        self._shown: dict[str, dict[str, tuple[PublicKeyShown, PublicKey]]] = {"": {}, SERVING: {}, VALIDATION: {}}
        self._serving_key: PrivateKey | None = None
        self._frozen: list[Outgoing] = []
        self._received: dict[tuple[Kind, str, int], Received] = {}
        # Held while what was received is used: it is forgotten at the end, and not before.
        self._computing = threading.Lock()
        self._is_over = False

    # -- what peers send -------------------------------------------------------------------------------------------

    def receive_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take a peer's key of this session; raises as an inbox's, and InvalidMessage for one of another purpose."""
        with self._order:
            self._check_peer(peer)
            self._check_may_show(peer, key)
            shown = self._shown[key.purpose]
            if peer in shown:
                if shown[peer][0] != key:
                    raise OutOfOrder(f"{peer} has shown a key for this session already; a session has one key a party.")
                return
            public_key = checked_key(self._terms.agreement, peer, key)
            shown[peer] = key, public_key
            self._order.notify_all()
            if not key.purpose:
                self._key_taken(peer, public_key)

    def _check_may_show(self, peer: str, key: PublicKeyShown) -> None:
        if not key.purpose:
            if not self._expected.shows_key(peer):
                raise NotAllowed(f"{peer} has no public key to show in this session.")
            return
        if key.purpose not in _FIRST_UNDER:
            raise NotAllowed(f"{peer} has no such key to show to {self._name}.")
        if not self._expected.is_sent(_FIRST_UNDER[key.purpose], peer, self._name):
            raise NotAllowed(f"{peer} has no {key.purpose} key to show to {self._name}.")
        if peer not in self._shown[""]:
            raise OutOfOrder(f"{peer} must show its public key before its {key.purpose} key.")
        if any(
            purpose != key.purpose and peer in shown and shown[peer][0].key_id == key.key_id
            for purpose, shown in self._shown.items()
        ):
            raise InvalidMessage(
                f"{peer}'s {key.purpose} key is one that it has shown for something else: make another."
            )

    def expects(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
        """Refuse a message by its header; raises as an inbox's."""
        self._expected_kind(peer, kind, step, header)

    def _expected_kind(self, peer: str, name: str, step: int, header: VectorHeader) -> Kind:
        with self._order:
            self._check_peer(peer)
            kind = _KINDS.get(name)
            if kind is None or not self._expected.is_sent(kind, peer, self._name):
                raise NotAllowed(f"{peer} has no {kind or 'such message'} to send to {self._name}.")
            if self._expected.shows_key(peer) and peer not in self._shown[""]:
                raise OutOfOrder(f"{peer} must show its public key before it sends anything.")
            for purpose, first_kind in _FIRST_UNDER.items():
                if kind is first_kind and peer not in self._shown[purpose]:
                    raise OutOfOrder(f"{peer} must show its {purpose} key before it sends {kind} values.")
            if (kind, peer, step) not in self._received:
                self._check_step(peer, kind, step)
        header.check(self._header(kind, peer, self._name, step))
        return kind

    def receive(self, peer: str, kind: str, step: int, vector: WireVector) -> None:
        """Take a peer's message; raises as an inbox's."""
        kind = self._expected_kind(peer, kind, step, vector.header)
        received = Received(sha256(vector.data).digest(), self._values(peer, kind, vector))
        with self._order:
            # It may have ended while they were read.
            self._order.refuse_if_ended()
            former_message = self._received.setdefault((kind, peer, step), received)
            if former_message.digest != received.digest:
                raise OutOfOrder(f"Different {kind} of step {step} were received already; they are taken once.")
            self._order.notify_all()

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
        return self._shown[SERVING][holder][1], values

    def end(self, reason: str) -> None:
        """End the exchange: whoever waits, or sends from now on, is told ``reason``. All that was sent is forgotten."""
        self._order.end(reason)
        self._forget_received()

    def suspend(self, reason: str) -> None:
        """End the exchange, and tell whoever waits or sends that another one will go on with the training."""
        self._order.suspend(reason)
        self._forget_received()

    def _forget_received(self) -> None:
        with self._order:
            self._received.clear()
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
        with self._order:
            return self._order.await_value(
                lambda: self._received.get((kind, peer, step)), f"{peer}'s {kind} of step {step}"
            ).values

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

    def _check_peer(self, peer: str) -> None:
        self._order.refuse_if_ended()
        if peer not in self._peers:
            raise NotAllowed(f"{peer} is not a party of this session.")

    def _header(self, kind: Kind, sender: str, receiver: str, step: int) -> VectorHeader:
        key = self._key_of(kind, sender, receiver)
        count, width = self._expected.count(kind, sender, receiver, step), self._expected.width(kind)
        return VectorHeader(key.key_id if key else "", count, width, 0)

    def _outgoing(self, receiver: str, kind: Kind, step: int, values: Sequence[int]) -> Outgoing:
        header = self._header(kind, self._name, receiver, step)
        data = to_bytes(values, header.width)
        return Outgoing(receiver, kind, step, WireVector(header.key_id, header.count, header.width, 0, data))

    def _values(self, peer: str, kind: Kind, vector: WireVector) -> tuple[int, ...]:
        try:
            values = from_bytes(vector.data, vector.count, vector.width)
            if key := self._key_of(kind, peer, self._name):
                check_ciphertexts(key, values, vector.count)
        except InvalidCiphertext as error:
            raise InvalidMessage(str(error)) from error
        return values
