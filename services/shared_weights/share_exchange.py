"""One party's messages of training on shared weights, to each of its peers and from them. Knows no network.

    own loop                                             peers' messages (any thread)
    features                  ── send, once ──>          receive(rows, blocks)
    forward(step)             ── send ──>                receive(forward)
    products(step)               waits for them
    backward(step)            ── send ──>                receive(backward, handed)
    sums(step)                   waits for them
    complete_step(step)
    after some epochs, where they are validated; a step is then how many are taken
    forward(step), products(step) of validation rows, and then
    hide(step)                ── send ──>                receive(pads, differences), after receive_validation_key
    cross(step)                  waits, ── send ──>      receive(crossed)
    show(step)                   waits, ── send ──>      receive(word)
    mean_square(step)            waits for it
    at the end
    open                      ── send, once ──>          receive(opened)
    opened                       waits for it
    or, where weights stay shared
    freeze                    ── send, once ──>          receive(frozen), after receive_serving_key
    frozen                       waits for it

A message that comes again changes nothing. A different one in its place is refused. A peer is at most one step ahead.
What arrives is checked as ciphertexts only, never as what they decrypt to.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np

from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.protocol1.shown_keys import checked_key, shown_key
from services.protocol1.vectors import PublicKeyShown, VectorHeader, WireVector
from services.shared_weights.opening import kept_epoch_bits, kept_words, opened, opened_to, word_of
from services.shared_weights.opening_ledger import OpeningLedger
from services.shared_weights.share_holder import Ciphertexts, ShareHolder
from services.shared_weights.share_messages import Kind, MessageSizes
from services.shared_weights.shared_terms import SharedTerms
from services.shared_weights.validation import Validation
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import InvalidCiphertext, PrivateKey, PublicKey, check_ciphertexts, from_bytes, to_bytes
from vfl.crypto.sharing.shared_squares import WORD_BITS
from vfl.crypto.sharing.shares import Integers, Shares

T = TypeVar("T")
_OPENING, _SERVING, _VALIDATION = " opening", " serving", " validation"


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
class _Received:
    """What a message held, and a digest by which it is known when it comes again."""

    digest: bytes
    values: tuple[int, ...]


class ShareExchange:
    """Keeps one party's messages in order, for its own loop and for its peers' threads at once.

    Attributes:
        public_key: this party's key of the session, to show to the peers.
    """

    def __init__(
        self,
        terms: SharedTerms,
        name: str,
        private_key: PrivateKey,
        holder: ShareHolder,
        *,
        timeout: float,
        ledger: OpeningLedger,
        validation_key: PrivateKey | None = None,
    ) -> None:
        """Make a session's exchange of the party ``name``.

        Args:
            terms: public.
            name: the party's.
            private_key: the session's.
            holder: of the party's shares.
            timeout: seconds to wait for a peer's message.
            ledger: counts what others are opened about this party's records, and has the state where that is kept.
            validation_key: for pads and nothing else; None where this party hides nothing.
        """
        self._terms, self._name, self._holder, self._timeout = terms, name, holder, timeout
        self._sizes = MessageSizes(terms)
        self._sizes.check()
        self._peers = [peer.name for peer in terms.agreement.peers_of(name)]
        self._own_key = private_key.public_key
        self.public_key = shown_key(terms.agreement, name, private_key)
        self._shown: dict[str, tuple[PublicKeyShown, PublicKey]] = {}
        # Of who holds V of this party's weights, by its name; a key that nothing of the training is under.
        self._shown_to_serve: dict[str, tuple[PublicKeyShown, PublicKey]] = {}
        self._serving_key: PrivateKey | None = None
        self._frozen: list[Outgoing] = []
        self._shown_to_validate: dict[str, tuple[PublicKeyShown, PublicKey]] = {}
        self._validation = Validation(terms, validation_key, holder.engine)
        self._received: dict[tuple[Kind, str, int], _Received] = {}
        self._condition = threading.Condition()
        # Held while others' features are used: they are forgotten at the end, and not before.
        self._computing = threading.Lock()
        self._steps = terms.schedule.steps_per_epoch * terms.agreement.plan.epochs
        self._opening_bits = terms.agreement.plan.opening_bits
        self._ledger = ledger
        self._step = 0
        self._is_open = False
        self._ended: str | None = None

    # -- what peers send -------------------------------------------------------------------------------------------

    def receive_public_key(self, peer: str, key: PublicKeyShown) -> None:
        """Take a peer's key of this session.

        Raises:
            InvalidMessage: for a key that doesn't fit the terms, or isn't well-formed.
            OutOfOrder: for a second, different one.
        """
        with self._condition:
            if public_key := self._taken(self._shown, peer, key):
                self._holder.take_key(peer, public_key)

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
        self._take_another(self._shown_to_validate, peer, key, Kind.PADS, _VALIDATION)

    def _take_another(
        self, shown: dict[str, tuple[PublicKeyShown, PublicKey]], peer: str, key: PublicKeyShown, kind: Kind, what: str
    ) -> None:
        """Take a key that is for messages of one kind and nothing else, features above all."""
        with self._condition:
            self._check_peer(peer)
            if not self._sizes.is_sent(kind, peer, self._name):
                raise NotAllowed(f"{peer} has no{what} key to show to {self._name}.")
            if peer not in self._shown:
                raise OutOfOrder(f"{peer} must show its public key before its{what} key.")
            for other in (self._shown, self._shown_to_serve, self._shown_to_validate):
                if other is not shown and peer in other and other[peer][0].key_id == key.key_id:
                    raise InvalidMessage(
                        f"{peer}'s{what} key is one that it has shown for something else: make another."
                    )
            self._taken(shown, peer, key, what)

    def _taken(
        self, shown: dict[str, tuple[PublicKeyShown, PublicKey]], peer: str, key: PublicKeyShown, purpose: str = ""
    ) -> PublicKey | None:
        """A key that is taken now; None where it was taken before."""
        self._check_peer(peer)
        if peer in shown:
            if shown[peer][0] != key:
                raise OutOfOrder(f"{peer} has shown a key for this session already; a session has one key a party.")
            return None
        public_key = checked_key(self._terms.agreement, peer, key, purpose)
        shown[peer] = key, public_key
        self._condition.notify_all()
        return public_key

    def expects(self, peer: str, kind: Kind, step: int, header: VectorHeader) -> None:
        """Refuse a message by its header, before any value of it is read.

        Raises:
            InvalidMessage: for another header than the agreed one.
            NotAllowed: from a peer that sends no such message.
            OutOfOrder: for another step, or before the peer's key.
        """
        with self._condition:
            self._check_peer(peer)
            if not self._sizes.is_sent(kind, peer, self._name):
                raise NotAllowed(f"{peer} has no {kind} to send to {self._name}.")
            if peer not in self._shown:
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
        received = _Received(sha256(vector.data).digest(), self._values(peer, kind, vector))
        with self._condition:
            # It may have ended while they were read.
            self._refuse_if_ended()
            known = self._received.setdefault((kind, peer, step), received)
            if known.digest != received.digest:
                raise OutOfOrder(f"Different {kind} of step {step} were received already; they are taken once.")
            self._condition.notify_all()

    # -- what this party's own training loop does ------------------------------------------------------------------

    def features(self) -> Iterator[Outgoing]:
        """This party's encrypted features: each part is encrypted once, and then goes to all who get it."""
        holder = self._holder
        for kind, plaintexts in ((Kind.ROWS, holder.plaintexts_of_rows), (Kind.BLOCKS, holder.plaintexts_of_blocks)):
            receivers = [peer for peer in self._peers if self._sizes.is_sent(kind, self._name, peer)]
            plain = plaintexts()
            for part in range(self._sizes.parts(kind, self._name)):
                encrypted = holder.encrypted(plain[self._sizes.part(part)])
                yield from (self._outgoing(peer, kind, part, encrypted) for peer in receivers)

    def await_features(self) -> None:
        """Wait until the peers' keys and encrypted features are here.

        Raises:
            PeerVanished: after the timeout without a further message.
        """
        for kind, take in ((Kind.ROWS, self._holder.take_rows), (Kind.BLOCKS, self._holder.take_blocks)):
            for peer in self._peers:
                if self._sizes.is_sent(kind, peer, self._name):
                    parts = range(self._sizes.parts(kind, peer))
                    values = [value for part in parts for value in self._await(kind, peer, part)]
                    with self._computing, self._condition:
                        self._refuse_if_ended()
                        take(peer, values)
                        for part in parts:
                            # The holder has them now; the digest knows them when they come again.
                            digest = self._received[kind, peer, part].digest
                            self._received[kind, peer, part] = _Received(digest, ())

    def forward(self, step: int, batch: IntArray, weights: Shares, kind: Kind = Kind.FORWARD) -> list[Outgoing]:
        """Masked products for the parties whose V this one holds; the same again for the same step.

        Args:
            step: from 0; of a validation, how many are taken.
            batch: numbers of blocks.
            weights: this party's shares.
            kind: FORWARD, or VALIDATION.
        """
        with self._going_on():
            if self._is_open:
                raise OutOfOrder("Training is over: no further step is taken.")
            answers = self._holder.forward(step, batch, weights, kind)
        return [self._outgoing(peer, kind, step, answer) for peer, answer in answers.items()]

    def products(self, step: int, batch: IntArray, weights: Shares, kind: Kind = Kind.FORWARD) -> Shares:
        """This party's share of z, (s, k); raises PeerVanished without the answer of its V's holder."""
        answer = self._await(kind, self._terms.holder(self._name), step)
        with self._going_on():
            return self._holder.products(step, batch, weights, answer, kind)

    def backward(self, step: int, batch: IntArray, residual: Shares) -> list[Outgoing]:
        """Masked products for every peer, and what is handed on; the same again for the same step."""
        with self._going_on():
            answers, handed = self._holder.backward(step, batch, residual)
        return [
            *(self._outgoing(peer, Kind.BACKWARD, step, answer) for peer, answer in answers.items()),
            *(self._outgoing(peer, Kind.HANDED, step, values.ravel().tolist()) for peer, values in handed.items()),
        ]

    def sums(self, step: int, batch: IntArray, residual: Shares) -> Shares:
        """This party's shares of X^T f, stacked as its weights are; raises PeerVanished without every peer's part."""
        answers = {peer: self._await(Kind.BACKWARD, peer, step) for peer in self._peers}
        handed: dict[str, Integers] = {
            peer: np.array(self._await(Kind.HANDED, peer, step), dtype=object).reshape(-1, self._terms.formats.outputs)
            for peer in self._peers
            if self._sizes.is_sent(Kind.HANDED, peer, self._name)
        }
        with self._going_on():
            return self._holder.sums(step, batch, residual, answers, handed)

    @property
    def validation_key(self) -> PublicKeyShown | None:
        """How the key of this party's pads is shown; None where it has none."""
        key = self._validation.key
        return None if key is None else shown_key(self._terms.agreement, self._name, key, _VALIDATION)

    def hide(self, step: int, residual: Shares) -> list[Outgoing]:
        """A passive party's share of validation rows' residuals behind pads; the same again for the same step."""
        active, hidden = self._terms.agreement.active.name, self._validation.hide(step, residual)
        return [
            self._outgoing(active, Kind.PADS, step, hidden.pads),
            self._outgoing(active, Kind.DIFFERENCES, step, hidden.differences),
        ]

    def cross(self, step: int, residual: Shares) -> list[Outgoing]:
        """The label party's answer to pads, once they are here; the same again for the same step."""
        (peer,) = self._peers
        pads, differences = (self._await(kind, peer, step) for kind in (Kind.PADS, Kind.DIFFERENCES))
        key = self._shown_to_validate[peer][1]
        with self._going_on():
            crossed = self._validation.cross(step, residual, pads, differences, key)
        return [self._outgoing(peer, Kind.CROSSED, step, (crossed.ciphertext,))]

    def show(self, step: int) -> list[Outgoing]:
        """A passive party's word of the mean square, which is counted before it is told.

        Raises:
            PeerVanished: without the label party's answer.
            StateNotKept: where it couldn't be counted. Nothing is told then.
        """
        agreement = self._terms.agreement
        active = agreement.active.name
        (answer,) = self._await(Kind.CROSSED, active, step)
        with self._going_on():
            word = self._validation.show(step, answer)
        self._count(f"{_VALIDATION} {step}", {active: WORD_BITS})
        return [self._outgoing(active, Kind.WORD, step, (word,))]

    def mean_square(self, step: int) -> float:
        """Of validation rows' residuals, at the label party, which counts what the epoch tells that it keeps for it.

        Raises:
            PeerVanished: without the other's word.
            StateNotKept: where it couldn't be counted.
        """
        (peer,) = self._peers
        (word,) = self._await(Kind.WORD, peer, step)
        self._count(_VALIDATION, {peer: kept_epoch_bits(self._terms.agreement)})
        with self._going_on():
            return self._validation.mean_square(step, word)

    def complete_step(self, step: int) -> None:
        """Go on to the next step and forget what no peer can send again."""
        with self._condition:
            self._step = step + 1
            self._holder.forget(step)
            for key in [key for key in self._received if not key[0].is_once and key[2] < step]:
                del self._received[key]

    def open(self, weights: Shares) -> list[Outgoing]:
        """What owners are sent of their weights, once; the same again whatever the weights are then.

        Raises:
            OutOfOrder: when the session has ended.
            StateNotKept: where it couldn't be remembered. Nothing is opened then.
        """
        self._refuse_if_ended()
        self._is_open = True
        places = self._terms.places(self._name)
        held = self._terms.held_by(self._name)
        words = {owner: word_of(weights[places[owner]], self._opening_bits) for owner in held}
        agreement = self._terms.agreement
        self._count(_OPENING, opened_to(agreement, self._name))
        kept = kept_words(self._ledger.state, agreement.session_id, words)
        return [self._outgoing(owner, Kind.OPENED, self._steps, word.ravel().tolist()) for owner, word in kept.items()]

    def opened(self, weights: Shares) -> FloatArray:
        """This party's own weights, (d, k); raises PeerVanished without the word of their other holder."""
        own = weights[self._terms.places(self._name)[self._name]]
        word = self._await(Kind.OPENED, self._terms.holder(self._name), self._steps)
        return opened(np.array(word, dtype=np.object_).reshape(own.shape), own, self._opening_bits)

    def serving_key(self, key: PrivateKey) -> PublicKeyShown:
        """How a serving key of this party's own is shown."""
        return shown_key(self._terms.agreement, self._name, key, _SERVING)

    def freeze(self, weights: Shares, key: PrivateKey) -> list[Outgoing]:
        """This party's shares of others' weights under its serving key, once; the same again whatever they are then.

        Raises OutOfOrder when the session has ended.
        """
        self._refuse_if_ended()
        self._is_open = True
        places, served = self._terms.places(self._name), self._terms.scores
        if not self._frozen:
            self._serving_key = key
            for owner in self._terms.held_by(self._name):
                # Output by output.
                values = served.weights(weights[places[owner]]).T.ravel().tolist()
                self._frozen.append(self._outgoing(owner, Kind.FROZEN, self._steps, self._holder.frozen(values, key)))
        return self._frozen

    def frozen(self) -> tuple[PublicKey, tuple[int, ...]]:
        """V of this party's weights, and the key that it is under; raises PeerVanished without it."""
        holder = self._terms.holder(self._name)
        values = tuple(self._await(Kind.FROZEN, holder, self._steps))
        return self._shown_to_serve[holder][1], values

    def end(self, reason: str) -> None:
        """End the exchange: whoever waits, or sends from now on, is told ``reason``. Others' features are forgotten."""
        with self._condition:
            self._ended = self._ended or reason
            self._received.clear()
            self._condition.notify_all()
        with self._computing:
            self._holder.forget_features()
            self._validation.forget()

    # -- inner -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """While something is computed for the session. Raises OutOfOrder when it has ended; it doesn't end inside."""
        with self._computing:
            self._refuse_if_ended()
            yield

    def _count(self, what: str, bits: Mapping[str, int]) -> None:
        """Count what is told, once, before it is; its name is of a key made here: nobody else can give it again."""
        self._ledger.count(f"{self.public_key.key_id}{what}", bits)

    def _await(self, kind: Kind, peer: str, step: int) -> Ciphertexts:
        with self._condition:
            self._wait(lambda: (kind, peer, step) in self._received, f"{peer}'s {kind} of step {step}")
            return self._received[kind, peer, step].values

    def _wait(self, is_there: Callable[[], bool], what: str) -> None:
        self._condition.wait_for(lambda: self._ended is not None or is_there(), self._timeout)
        self._refuse_if_ended()
        if not is_there():
            raise PeerVanished(f"Waited {self._timeout:g} s for {what}; the session ends here.")

    def _check_peer(self, peer: str) -> None:
        self._refuse_if_ended()
        if peer not in self._peers:
            raise NotAllowed(f"{peer} is not a party of this session.")

    def _check_step(self, peer: str, kind: Kind, step: int) -> None:
        if kind.is_once:
            if not 0 <= step < (parts := self._sizes.parts(kind, peer)):
                raise InvalidMessage(f"Expected a part from 0 to {parts - 1}, got {step}.")
        elif kind in (Kind.OPENED, Kind.FROZEN):
            # Where epochs are validated, the label party may stop after any, once it is over.
            stops = self._terms.agreement.validates_on_shares
            over = self._terms.schedule.steps_per_epoch if stops else self._steps - 1
            if step != self._steps or self._step < over:
                raise OutOfOrder(f"Weights are {kind} when all steps are taken.")
        elif kind.is_of_validation:
            if self._terms.validated_epoch(step) is None:
                raise InvalidMessage(f"No epoch is validated after {step} steps.")
            if not self._step <= step <= self._step + 1:
                raise OutOfOrder(f"A validation after {step} steps is out of order: {self._step} are taken here.")
        elif not 0 <= step < self._steps:
            raise InvalidMessage(f"Expected a step from 0 to {self._steps - 1}, got {step}.")
        elif not self._step <= step <= self._step + 1:
            raise OutOfOrder(f"Step {step} is out of order: this party is at step {self._step}.")

    def _refuse_if_ended(self) -> None:
        if self._ended is not None:
            raise OutOfOrder(f"The session has ended: {self._ended}")

    def _key_of(self, kind: Kind, sender: str, receiver: str) -> PublicKey | None:
        """The key that a message is under: its sender's, if those are its features. Some kinds are under none."""
        if kind in (Kind.HANDED, Kind.OPENED, Kind.DIFFERENCES, Kind.WORD):
            return None
        if kind in (Kind.PADS, Kind.CROSSED):
            own_key = self._validation.key.public_key if self._validation.key else None
            return own_key or self._shown_to_validate[sender if kind is Kind.PADS else receiver][1]
        if kind is Kind.FROZEN:
            own = self._serving_key.public_key if self._serving_key else None
            return own if sender == self._name else self._shown_to_serve[sender][1]
        owner = sender if kind.is_once else receiver
        return self._own_key if owner == self._name else self._shown[owner][1]

    def _header(self, kind: Kind, sender: str, receiver: str, step: int) -> VectorHeader:
        key = self._key_of(kind, sender, receiver)
        count, width = self._sizes.count(kind, sender, receiver, step), self._sizes.width(kind)
        return VectorHeader(key.key_id if key else "", count, width, 0)

    def _outgoing(self, receiver: str, kind: Kind, step: int, values: Ciphertexts) -> Outgoing:
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
