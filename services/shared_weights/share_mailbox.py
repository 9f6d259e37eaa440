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
from services.exchange.step_order import StepOrder
from services.exchange.vectors import PublicKeyShown, VectorHeader, WireVector
from services.shared_weights.opening import validates_on_shares
from services.shared_weights.share_messages import Kind
from services.shared_weights.shared_terms import SharedTerms
from vfl.crypto import Engine, InvalidCiphertext, PrivateKey, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.sharing.shares import Shares

_SERVING, VALIDATION = " serving", " validation"


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


class ShareMailbox:
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
        self._shown: dict[str, tuple[PublicKeyShown, PublicKey]] = {}
        # Of who holds V of this party's weights, by its name; a key that nothing of the training is under.
        self._shown_to_serve: dict[str, tuple[PublicKeyShown, PublicKey]] = {}
        self._serving_key: PrivateKey | None = None
        self._frozen: list[Outgoing] = []
        self._shown_to_validate: dict[str, tuple[PublicKeyShown, PublicKey]] = {}
        self._received: dict[tuple[Kind, str, int], Received] = {}
        # Held while what was received is used: it is forgotten at the end, and not before.
        self._computing = threading.Lock()
        self._is_over = False

    # -- what peers send -------------------------------------------------------------------------------------------

    def receive_public_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take a peer's key of this session.

        Raises:
            InvalidMessage: for a key that doesn't fit the terms, or isn't well-formed.
            OutOfOrder: for a second, different one.
            NotAllowed: from a peer that has none to show.
        """
        with self._order:
            self._check_peer(peer)
            if not self._expected.shows_key(peer):
                raise NotAllowed(f"{peer} has no public key to show in this session.")
            if public_key := self._taken(self._shown, peer, key):
                self._key_taken(peer, public_key)

    def receive_serving_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take the key under which a peer freezes its share of this party's weights.

        Raises:
            InvalidMessage: for a key that doesn't fit the terms, isn't well-formed, or serves for something else.
            OutOfOrder: for a second, different one, or before the key of the training.
            NotAllowed: from a peer that freezes nothing for this party.
        """
        self._take_another(self._shown_to_serve, peer, key, Kind.FROZEN, _SERVING)

    def receive_validation_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take the key that a peer's pads are under; raises as ``receive_serving_key`` does."""
        self._take_another(self._shown_to_validate, peer, key, Kind.PADS, VALIDATION)

    def _take_another(
        self, keys: dict[str, tuple[PublicKeyShown, PublicKey]], peer: str, key: PublicKeyShown, kind: Kind, what: str
    ) -> None:
        """Take a key that is for messages of one kind and nothing else, features above all."""
        with self._order:
            self._check_peer(peer)
            if not self._expected.is_sent(kind, peer, self._name):
                raise NotAllowed(f"{peer} has no{what} key to show to {self._name}.")
            if peer not in self._shown:
                raise OutOfOrder(f"{peer} must show its public key before its{what} key.")
            for other in (self._shown, self._shown_to_serve, self._shown_to_validate):
                if other is not keys and peer in other and other[peer][0].key_id == key.key_id:
                    raise InvalidMessage(
                        f"{peer}'s{what} key is one that it has shown for something else: make another."
                    )
            self._taken(keys, peer, key, what)

    def _taken(
        self, keys: dict[str, tuple[PublicKeyShown, PublicKey]], peer: str, key: PublicKeyShown, purpose: str = ""
    ) -> PublicKey | None:
        """Take a key; None where it was taken before."""
        self._check_peer(peer)
        if peer in keys:
            if keys[peer][0] != key:
                raise OutOfOrder(f"{peer} has shown a key for this session already; a session has one key a party.")
            return None
        public_key = checked_key(self._terms.agreement, peer, key, purpose)
        keys[peer] = key, public_key
        self._order.notify_all()
        return public_key

    def expects(self, peer: str, kind: Kind, step: int, header: VectorHeader) -> None:
        """Refuse a message by its header, before any value of it is read.

        Raises:
            InvalidMessage: for another header than the agreed one.
            NotAllowed: from a peer that sends no such message.
            OutOfOrder: for another step, or before the peer's key.
        """
        with self._order:
            self._check_peer(peer)
            if not self._expected.is_sent(kind, peer, self._name):
                raise NotAllowed(f"{peer} has no {kind} to send to {self._name}.")
            if self._expected.shows_key(peer) and peer not in self._shown:
                raise OutOfOrder(f"{peer} must show its public key before it sends anything.")
            if kind is Kind.FROZEN and peer not in self._shown_to_serve:
                raise OutOfOrder(f"{peer} must show its serving key before it freezes anything.")
            if kind is Kind.PADS and peer not in self._shown_to_validate:
                raise OutOfOrder(f"{peer} must show its validation key before it hides anything.")
            if (kind, peer, step) not in self._received:
                self._check_step(peer, kind, step)
        header.check(self._header(kind, peer, self._name, step))

    def receive(self, peer: str, kind: Kind, step: int, vector: WireVector) -> None:
        """Take a peer's message, whose header was expected. What is refused changes nothing.

        Raises:
            InvalidMessage: for anything but the agreed number of ciphertexts.
            OutOfOrder: for others than before.
        """
        self.expects(peer, kind, step, vector.header)
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
        return shown_key(self._terms.agreement, self._name, key, _SERVING)

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
        return self._shown_to_serve[holder][1], values

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
