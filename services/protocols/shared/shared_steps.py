"""Runs a learner's steps on shared weights: answers what it asks for with opaque shares."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.learner_calls import LearnerCalls
from services.common.meters import StageTimer
from services.exchange.opening_ledger import OpeningLedger
from services.exchange.peer import Peer
from services.exchange.tape import Tape
from services.party.training_means import AddedShares, OtherColumns
from services.party.turned_columns import Turn
from services.protocols.shared.ending_on_shares import EndingOnShares
from services.protocols.shared.opening import stays_shared, validates_on_shares
from services.protocols.shared.share_exchange import ShareExchange
from services.protocols.shared.share_holder import ShareHolder
from services.protocols.shared.share_mailbox import Outgoing
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_half import begin_half
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import Engine, PackingImpossible, PrivateKey, keygen
from vfl.crypto.keys import MINIMUM_SECURE_BITS
from vfl.crypto.pool import PooledEngine
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Ask, BlockSchedule, Forward, Half, OwnData, Send
from vfl.learning.learner import Request


@dataclass(frozen=True)
class SharedMeans:
    """What a party trains on shared weights with, besides its data.

    Attributes:
        peers: the other parties, by name.
        engine: what computes.
        timeout: seconds to wait for a peer's message.
        executor: threads for what is sent to several peers at once.
        ledger: counts what others are opened about this party's records, over all sessions, and keeps it.
        others: what the party encrypts in place of its features; None for an honest one.
        tape: is told what peers' messages say; None where nobody listens.
        chosen: what it adds to its shares of others' weights where a first layer is shared, as others.
        turn: how the party's columns are turned before they are shared.
    """

    peers: Mapping[str, Peer]
    engine: Engine
    timeout: float
    executor: Executor
    ledger: OpeningLedger = field(default_factory=OpeningLedger.in_memory)
    others: OtherColumns | None = None
    tape: Tape | None = None
    chosen: AddedShares | None = None
    turn: Turn = Turn()  # noqa: RUF009 - immutable


class SharedSteps(EndingOnShares):
    """One party's steps of a session, under a key pair that is made for it.

    Attributes:
        exchange: the party's messages.
        half: the party's half of the learner; its weights are shares of its own and of others'.
        turn: how the party's columns are turned.
    """

    counts_redone = left_range = False

    def __init__(self, terms: SharedTerms, name: str, exchange: ShareExchange, half: Half, means: SharedMeans) -> None:
        """Take a party's exchange and half of a session."""
        super().__init__(terms.agreement, LearnerCalls(terms.agreement.plan.family, means.timeout))
        self.exchange, self.half = exchange, half
        self._terms, self._name = terms, name
        self._others, self._tape, self.turn = means.others, means.tape, means.turn
        self._session_id, self._peers, self._executor = terms.agreement.session_id, means.peers, means.executor
        self._has_shown = False

    @property
    def schedule(self) -> BlockSchedule:
        """The public batches of blocks."""
        return self._terms.schedule

    @classmethod
    def begin(
        cls,
        agreement: Agreement,
        name: str,
        features: FloatArray,
        own_data: OwnData,
        means: SharedMeans,
        first_step: int = 0,
    ) -> "SharedSteps":
        """Make a session's key, shares and exchange.

        Args:
            agreement: the session's public terms.
            name: the party's.
            features: (aligned rows, d) as they are shared, in the session's fixed point.
            own_data: what the learner's half is begun with.
            means: what the party trains with.
            first_step: the first that is taken. Those before were taken under other keys, and weights are to be set.

        Raises:
            InvalidMessage: for terms under which numbers don't fit a key, or others' features don't fit the memory.
            LearnerFailed: when the learner can't work with this data.
        """
        terms = SharedTerms(agreement)
        terms.check()
        hides = validates_on_shares(agreement) and name != agreement.active.name
        try:
            key = made_key(agreement.plan.key_bits)
            engine = PooledEngine.of(means.engine)
            if (other_columns := means.others) is None:
                holder = ShareHolder(terms, name, features, key, engine)
            else:
                holder = ShareHolder(terms, name, other_columns.forward, key, engine, backward=other_columns.backward)
            exchange = ShareExchange(
                terms,
                name,
                key,
                holder,
                timeout=means.timeout,
                ledger=means.ledger,
                validation_key=made_key(agreement.plan.key_bits) if hides else None,
            )
            exchange.begin_at(first_step)
        except PackingImpossible as error:
            raise InvalidMessage(str(error)) from error
        return cls(terms, name, exchange, begin_half(agreement.plan.family, terms, name, own_data, means.turn), means)

    def show_public_key(self) -> None:
        """Send this party's public key to every peer."""
        key = self.exchange.public_key
        _all_done([self._executor.submit(peer.show_key, self._session_id, key) for peer in self._peers.values()])
        if pads := self.exchange.validation_key:
            self._peers[self._terms.agreement.active.name].show_key(self._session_id, pads)

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
        _all_done(sending.values())
        self.exchange.await_features()
        self._has_shown = True

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator["SharedStep"]:
        """Begin a step, from 0, on a batch of block numbers."""
        answers = SharedStep(self, step, batch)
        with none_left(answers.sending):
            yield answers

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step."""
        self.exchange.complete_step(step)

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
        if self._name == terms.agreement.active.name:
            sending += self.sending(exchange.cross(step, residual))
            loss = self._calls.quadratic_loss(exchange.mean_square(step), terms.agreement.classes)
        else:
            sending += self.sending(exchange.hide(step, residual))
            sending += self.sending(exchange.show(step))
        _all_done(sending)
        return loss

    @property
    def weights(self) -> Shares:
        """This party's shares as they stand: what to go on from."""
        return self.checked(self.half.weights)

    @property
    def state(self) -> Shares:
        """What to go back to after an epoch that was validated: the shares."""
        return self.weights

    def restore(self, state: Any) -> None:
        """Go back to what ``state`` was."""
        self._calls.set_weights(self.half, state)

    def finish(self) -> SharedPart | None:
        """End training: weights are served as they are shared, or opened to their owners."""
        if stays_shared(self._terms.agreement):
            return self.freeze()
        self._calls.set_weights(self.half, self.open())
        return None

    def asked(self) -> frozenset[str]:
        """Name nobody: nothing is asked that is answered once."""
        return frozenset()

    def open(self) -> FloatArray:
        """Open all weights to their owners: this party's own, (d, columns). No step is taken after it."""
        weights = self.checked(self.half.weights)
        sending = self.sending(self.exchange.open(weights))
        own_weights = self.exchange.opened(weights)
        _all_done(sending)
        return self.turn.weights(own_weights if self._others is None else self._others.read(own_weights))

    def freeze(self) -> SharedPart:
        """Have weights served as they are shared: this party's part of the model. No step is taken after it.

        What this party holds of others' weights goes to them under a key that is made for it, and isn't kept.
        """
        weights, owners = self.checked(self.half.weights), self._terms.held_by(self._name)
        key = made_key(self._terms.agreement.plan.key_bits) if owners else None
        sending: list[Future[None]] = []
        if key is not None:
            shown_key = self.exchange.serving_key(key)
            _all_done([self._executor.submit(self._peers[one].show_key, self._session_id, shown_key) for one in owners])
            sending = self.sending(self.exchange.freeze(weights, key))
        share = self._terms.scores.weights(weights[self._terms.places(self._name)[self._name]])
        part = SharedPart.made(share, *self.exchange.frozen(), key, self.turn.matrix)
        _all_done(sending)
        self._calls.set_weights(self.half, np.zeros(weights.shape))
        return part

    def sent(self, residual: Shares | None) -> Shares:
        """Give what the learner has sent before it asks for sums; raises LearnerFailed for nothing."""
        if residual is None:
            raise self._calls.refused("asks for sums before it has sent anything")
        return residual

    def tell_tape(self, step: int, sums: Shares) -> None:
        """Tell who listens what a step leaves this party with."""
        if self._tape is not None:
            own_sums = sums[self._terms.places(self._name)[self._name]]
            self._tape.kept(step, self._terms.of_half_a_ring(own_sums))

    def checked(self, values: Any) -> Shares:
        """Check a learner's weights or values: what it has made of shares."""
        if not isinstance(values, Shares):
            raise self._calls.refused("turns shares into something else")
        return values

    def sending(self, messages: Iterable[Outgoing]) -> list[Future[None]]:
        """Send messages, each to its receiver."""
        return [
            self._executor.submit(self._peers[one.receiver].send, self._session_id, one.kind, one.step, one.vector)
            for one in messages
        ]


class SharedStep:
    """The answers of one step.

    Attributes:
        rows: of the common order, those of the batch's blocks.
        timer: where the step's time goes.
        sending: what is on its way.
    """

    is_passed_over = False

    def __init__(self, side: SharedSteps, number: int, batch: IntArray) -> None:
        """Begin a step on a batch of block numbers."""
        self.timer, self.sending = StageTimer(), list[Future[None]]()
        self.rows = side.schedule.rows_of(batch)
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
                side.tell_tape(step, sums)
                return sums

    def pass_over(self) -> None:
        """Pass over no step: all that goes back to it does it again."""

    def finish(self) -> None:
        """Wait for what is on its way."""
        with self.timer.stage("wait"):
            _all_done(self.sending)


def made_key(bits: int) -> PrivateKey:
    """Make a new key pair. That a plan has so short keys was consented to."""
    return keygen(bits, insecure=bits < MINIMUM_SECURE_BITS)[1]


@contextmanager
def none_left(sending: list[Future[None]]) -> Iterator[None]:
    """Let nothing of a step that has failed be on its way: a peer could take it for the step's next try."""
    try:
        yield
    except BaseException:
        for call in sending:
            call.cancel()
        wait(sending)
        raise


def _all_done(sending: Iterable[Future[None]]) -> None:
    for sent in sending:
        sent.result()
