"""Runs a learner's steps on shared weights: answers what it asks for with opaque shares."""

from concurrent.futures import Future
from typing import Any

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import refusals_of
from services.party.training_means import TrainingMeans
from services.party.turned_columns import Turn
from services.protocols.shared.opening import stays_shared, validates_on_shares
from services.protocols.shared.share_exchange import ShareExchange
from services.protocols.shared.share_holder import ShareHolder
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_half import begin_half
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_terms import SharedTerms
from services.protocols.shared.side_on_shares import SideOnShares, StepOnShares, all_done, made_key
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PackingImpossible
from vfl.crypto.pool import PooledEngine
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Ask, BlockSchedule, Forward, OwnData, Send
from vfl.learning.learner import Request


class SharedSteps(SideOnShares):
    """One party's steps of a session, under a key pair that is made for it."""

    exchange: ShareExchange
    schedule: BlockSchedule
    counts_redone = False

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        features: FloatArray,
        own_data: OwnData,
        means: TrainingMeans,
        turn: Turn = Turn(),  # noqa: B008 - immutable
        first_step: int = 0,
    ) -> None:
        """Make a session's key, shares and exchange.

        Args:
            agreement: the session's public terms.
            name: the party's.
            features: (aligned rows, d) as they are shared, in the session's fixed point.
            own_data: what the learner's half is begun with.
            means: what the party trains with.
            turn: how its columns are turned before they are shared.
            first_step: the first that is taken. Those before were taken under other keys, and weights are to be set.

        Raises:
            InvalidMessage: for terms under which numbers don't fit a key, or others' features don't fit the memory.
            LearnerFailed: when the learner can't work with this data.
        """
        terms = SharedTerms(agreement)
        terms.check()
        super().__init__(terms, name, features, means, turn)
        self.schedule = terms.schedule
        hides = validates_on_shares(agreement) and not self._is_label_party
        with refusals_of(PackingImpossible):
            key = made_key(agreement.plan.key_bits)
            engine = PooledEngine.of(means.engine)
            if (other_columns := self._others) is None:
                holder = ShareHolder(terms, name, features, key, engine)
            else:
                holder = ShareHolder(terms, name, other_columns.forward, key, engine, backward=other_columns.backward)
            self.exchange = ShareExchange(
                terms,
                name,
                key,
                holder,
                timeout=means.timeout,
                ledger=means.ledger,
                validation_key=made_key(agreement.plan.key_bits) if hides else None,
            )
            self.exchange.begin_at(first_step)
        self.half = begin_half(terms, name, own_data, turn)
        self._has_shown = False

    def show_public_key(self) -> None:
        """Send this party's public key to every peer."""
        self.show_key(self.exchange.public_key, self._means.peers)
        if pads := self.exchange.validation_key:
            self._means.peers[self._agreement.active.name].show_key(self._agreement.session_id, pads)

    def begin_epoch(self) -> None:
        """Send this party's encrypted features, once, and wait for the others'. Keys are shown before."""
        if self._has_shown:
            return
        sending: dict[str, Future[None]] = {}
        for part in self.exchange.features():
            # A part is encrypted while the one before is on its way, and a peer is sent one at a time.
            if part.receiver in sending:
                sending[part.receiver].result()
            (sending[part.receiver],) = self.sending([part])
        all_done(sending.values())
        self.exchange.await_features()
        self._has_shown = True

    def begin_step(self, step: int, batch: IntArray) -> "SharedStep":
        """Begin a step, from 0, on a batch of block numbers."""
        return SharedStep(self, step, batch)

    def validate(self, step: int) -> float | None:
        """After so many steps, the quadratic loss of validation rows, in nats, at the label party; None at others.

        A learner's step is begun for these rows and isn't taken: what it would send are the residuals.
        """
        exchange, terms = self.exchange, self._terms
        rows = np.concatenate([terms.blocks[number] for number in terms.validation])
        program = self._calls(lambda: self.half.step(rows))
        match self._calls.next_request(program):
            case Forward(weights):
                shares = self.checked(weights)
            case _:
                raise self._calls.refused("begins a step with something else than Forward")
        sending = self.sending(exchange.forward(step, terms.validation, shares, Kind.VALIDATION))
        products: Any = exchange.products(step, terms.validation, shares, Kind.VALIDATION)
        match self._calls.next_request(program, products):
            case Send(values):
                residual = self.checked(values)
            case _:
                raise self._calls.refused("sends nothing after Forward")
        self._calls(program.close)
        loss = None
        if self._is_label_party:
            sending += self.sending(exchange.cross(step, residual))
            loss = self._calls.quadratic_loss(exchange.mean_square(step), terms.agreement.classes)
        else:
            sending += self.sending(exchange.hide(step, residual))
            sending += self.sending(exchange.show(step))
        all_done(sending)
        return loss

    def finish(self) -> SharedPart | None:
        """End training: weights are served as they are shared, or opened to their owners."""
        if stays_shared(self._agreement):
            return self.freeze()
        self._calls.set_weights(self.half, self.open())
        return None

    def open(self) -> FloatArray:
        """Open all weights to their owners: this party's own, (d, columns). No step is taken after it."""
        weights = self.weights
        sending = self.sending(self.exchange.open(weights))
        own_weights = self.exchange.opened(weights)
        all_done(sending)
        return self.turn.weights(own_weights if self._others is None else self._others.read(own_weights))

    def freeze(self) -> SharedPart:
        """Have weights served as they are shared: this party's part of the model. No step is taken after it.

        What this party holds of others' weights goes to them under a key that is made for it, and isn't kept.
        """
        weights, owners = self.weights, self._terms.held_by(self._name)
        key, sending = self.serve(weights, owners) if owners else (None, [])
        share = self._terms.scores.weights(self.own(weights))
        part = SharedPart.made(share, *self.exchange.frozen(), key, self.turn.matrix)
        all_done(sending)
        self._calls.set_weights(self.half, np.zeros(weights.shape))
        return part


class SharedStep(StepOnShares):
    """The answers of one step; its rows are those of the batch's blocks."""

    def __init__(self, side: SharedSteps, number: int, batch: IntArray) -> None:
        """Begin a step on a batch of block numbers."""
        super().__init__(side.schedule.rows_of(batch))
        self._side, self._number, self._batch = side, number, batch
        self._residual: Shares | None = None

    def answer(self, request: Request) -> Any:
        """Answer a request of the learner's."""
        side, step, exchange = self._side, self._number, self._side.exchange
        match request:
            case Forward(weights):
                shares = side.checked(weights)
                with self.timer.stage("product"):
                    self.sending += side.sending(exchange.forward(step, self._batch, shares))
                with self.timer.stage("decrypt"):
                    return exchange.products(step, self._batch, shares)
            case Send(values):
                self._residual = side.checked(values)
                with self.timer.stage("product"):
                    self.sending += side.sending(exchange.backward(step, self._batch, self._residual))
                return None
            case Ask():
                with self.timer.stage("decrypt"):
                    sums = exchange.sums(step, self._batch, side.sent(self._residual))
                side.tell_tape(step, side.own(sums))
                return sums
