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
    hide(step)                ── send ──>                receive(pads, differences), after the key that pads are under
    cross(step)                  waits, ── send ──>      receive(crossed)
    show(step)                   waits, ── send ──>      receive(word)
    mean_square(step)            waits for it
    at the end
    open                      ── send, once ──>          receive(opened)
    opened                       waits for it
    or, where weights stay shared
    freeze                    ── send, once ──>          receive(frozen), after the serving key
    frozen                       waits for it

A message that comes again changes nothing. A different one in its place is refused. A peer is at most one step ahead.
What arrives is checked as ciphertexts only, never as what they decrypt to.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from services.ciphers.shown_keys import shown_key
from services.common.errors import InvalidMessage, OutOfOrder
from services.exchange.message_table import once
from services.exchange.opening_ledger import OpeningLedger
from services.exchange.vectors import PublicKeyShown
from services.protocols.shared.opening import (
    bits_of,
    kept_epoch_bits,
    kept_words,
    opened,
    opened_to,
    word_of,
)
from services.protocols.shared.share_holder import ShareHolder
from services.protocols.shared.share_mailbox import SERVING, VALIDATION, Outgoing, ShareMailbox
from services.protocols.shared.share_messages import Kind, MessageSizes
from services.protocols.shared.shared_terms import SharedTerms
from services.protocols.shared.validation import Validation
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PrivateKey, PublicKey
from vfl.crypto.sharing.shared_squares import WORD_BITS
from vfl.crypto.sharing.shares import Integers, Shares

_OPENING = " opening"


class ShareExchange(ShareMailbox):
    """One party's messages of a training and an opening.

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
        self._sizes, self._holder = MessageSizes(terms), holder
        self._sizes.check()
        steps = terms.schedule.steps_per_epoch * terms.agreement.plan.epochs
        super().__init__(terms, name, self._sizes, holder.engine, steps=steps, timeout=timeout)
        self._own_key = private_key.public_key
        self.public_key = shown_key(terms.agreement, name, private_key)
        self._validation = Validation(terms, validation_key, holder.engine)
        self._opening_bits = bits_of(terms.agreement)
        self._ledger = ledger

    def _key_taken(self, peer: str, key: PublicKey) -> None:
        self._holder.take_key(peer, key)

    # -- what this party's own training loop does ------------------------------------------------------------------

    def features(self) -> Iterator[Outgoing]:
        """Encrypt this party's features: each part once, which then goes to all who get it."""
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
                    with self._computing, self._order:
                        self._order.refuse_if_ended()
                        take(peer, values)
                        for part in parts:
                            # The holder has them now.
                            self.release(kind, peer, part)

    def forward(self, step: int, batch: IntArray, weights: Shares, kind: Kind = Kind.FORWARD) -> list[Outgoing]:
        """Masked products for the parties whose V this one holds; the same again for the same step.

        Args:
            step: from 0; of a validation, how many are taken.
            batch: numbers of blocks.
            weights: this party's shares.
            kind: FORWARD, or VALIDATION.
        """
        with self._going_on():
            if self._is_over:
                raise OutOfOrder("Training is over: no further step is taken.")
            answers = self._holder.forward(step, batch, weights, kind)
        return [self._outgoing(peer, kind, step, answer) for peer, answer in answers.items()]

    def products(self, step: int, batch: IntArray, weights: Shares, kind: Kind = Kind.FORWARD) -> Shares:
        """Compute this party's share of z, (s, k); raises PeerVanished without the answer of its V's holder."""
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
        """Compute this party's shares of X^T f, stacked as its weights; raises PeerVanished without all parts."""
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
        return None if key is None else shown_key(self._terms.agreement, self._name, key, VALIDATION)

    def hide(self, step: int, residual: Shares) -> list[Outgoing]:
        """Hide a passive party's share of validation rows' residuals behind pads; the same again for the same step."""
        active, hidden = self._terms.agreement.active.name, self._validation.hide(step, residual)
        return [
            self._outgoing(active, Kind.PADS, step, hidden.pads),
            self._outgoing(active, Kind.DIFFERENCES, step, hidden.differences),
        ]

    def cross(self, step: int, residual: Shares) -> list[Outgoing]:
        """Make the label party's answer to pads, once they are here; the same again for the same step."""
        (peer,) = self._peers
        pads, differences = (self._await(kind, peer, step) for kind in (Kind.PADS, Kind.DIFFERENCES))
        key = self.key(VALIDATION, peer)
        with self._going_on():
            crossed = self._validation.cross(step, residual, pads, differences, key)
        return [self._outgoing(peer, Kind.CROSSED, step, (crossed.ciphertext,))]

    def show(self, step: int) -> list[Outgoing]:
        """Show a passive party's word of the mean square, which is counted before it is told.

        Raises:
            PeerVanished: without the label party's answer.
            StateNotKept: where it couldn't be counted. Nothing is told then.
        """
        agreement = self._terms.agreement
        active = agreement.active.name
        (answer,) = self._await(Kind.CROSSED, active, step)
        with self._going_on():
            word = self._validation.show(step, answer)
        self._count(f" {VALIDATION} {step}", {active: WORD_BITS})
        return [self._outgoing(active, Kind.WORD, step, (word,))]

    def mean_square(self, step: int) -> float:
        """Read validation rows' mean square, at the label party, which counts what the epoch it keeps for it tells.

        Raises:
            PeerVanished: without the other's word.
            StateNotKept: where it couldn't be counted.
        """
        (peer,) = self._peers
        (word,) = self._await(Kind.WORD, peer, step)
        self._count(f" {VALIDATION}", {peer: kept_epoch_bits(self._terms.agreement)})
        with self._going_on():
            return self._validation.mean_square(step, word)

    def complete_step(self, step: int) -> None:
        """Go on to the next step and forget what no peer can send again."""
        with self._order:
            self._order.step = step + 1
            self._holder.forget(step)
            self.forget(lambda kind, other: other < step and not Kind(kind).is_once)

    def open(self, weights: Shares) -> list[Outgoing]:
        """Open to owners their weights, once; the same again whatever the weights are then.

        Raises:
            OutOfOrder: when the session has ended.
            StateNotKept: where it couldn't be remembered. Nothing is opened then.
        """
        self._order.refuse_if_ended()
        self._is_over = True
        places = self._terms.places(self._name)
        owners = self._terms.held_by(self._name)
        fresh_words = {owner: word_of(weights[places[owner]], self._opening_bits) for owner in owners}
        agreement = self._terms.agreement
        self._count(_OPENING, opened_to(agreement, self._name))
        opened_words = kept_words(self._ledger.state, agreement.session_id, fresh_words)
        return [
            self._outgoing(owner, Kind.OPENED, self._order.steps, word.ravel().tolist())
            for owner, word in opened_words.items()
        ]

    def opened(self, weights: Shares) -> FloatArray:
        """Read this party's own weights, (d, k); raises PeerVanished without the word of their other holder."""
        own_shares = weights[self._terms.places(self._name)[self._name]]
        word = self._await(Kind.OPENED, self._terms.holder(self._name), self._order.steps)
        return opened(np.array(word, dtype=np.object_).reshape(own_shares.shape), own_shares, self._opening_bits)

    def _forget(self) -> None:
        self._holder.forget_features()
        self._validation.forget()

    # -- inner -----------------------------------------------------------------------------------------------------

    def _count(self, what: str, bits: Mapping[str, int]) -> None:
        """Count what is told, once, before it is; its name is of a key made here: nobody else can give it again."""
        self._ledger.count(f"{self.public_key.key_id}{what}", bits)

    def _check_step(self, peer: str, kind: Kind, step: int) -> None:
        if kind.is_once:
            once(self._sizes.parts(kind, peer))(self._order, step)
        elif kind in (Kind.OPENED, Kind.FROZEN):
            self._check_over(kind, step, self._terms.schedule.steps_per_epoch)
        elif kind.is_of_validation:
            if self._terms.validated_epoch(step) is None:
                raise InvalidMessage(f"No epoch is validated after {step} steps.")
            self._check_validation(step)
        else:
            self._order.check(step)

    def _key_of(self, kind: Kind, sender: str, receiver: str) -> PublicKey | None:
        """Find the key that a message is under: its sender's, if those are its features. Some kinds are under none."""
        if kind in (Kind.HANDED, Kind.OPENED, Kind.DIFFERENCES, Kind.WORD):
            return None
        if kind in (Kind.PADS, Kind.CROSSED):
            own_key = self._validation.key.public_key if self._validation.key else None
            return own_key or self.key(VALIDATION, sender if kind is Kind.PADS else receiver)
        if kind is Kind.FROZEN:
            serving_key = self._serving_key.public_key if self._serving_key else None
            return serving_key if sender == self._name else self.key(SERVING, sender)
        owner = sender if kind.is_once else receiver
        return self._own_key if owner == self._name else self.key("", owner)
