"""Runs a network's steps with its first layer on shared weights: answers what a half asks for."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.learner_calls import LearnerCalls
from services.common.meters import StageTimer
from services.protocols.first_layer.layer_exchange import LayerExchange
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.shared.ending_on_shares import EndingOnShares
from services.protocols.shared.opening import kept_epoch_bits
from services.protocols.shared.share_mailbox import VALIDATION, Outgoing
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_steps import SharedMeans, made_key, none_left
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PackingImpossible
from vfl.crypto.pool import PooledEngine
from vfl.crypto.sharing.shares import Integers, Shares, encoded
from vfl.learning import Ask, BatchSchedule, Forward, Half, OwnData, Part, Send, log_loss
from vfl.learning.learner import Request


class LayerSteps(EndingOnShares):
    """One party's steps of a session; the label party's are under a key pair that is made for it.

    Attributes:
        exchange: the party's messages.
        half: the party's half of the learner; its weights are shares, at the label party of all parties' first layers,
            stacked, its own last.
        left_range: whether numbers of the label party's came near what the fixed point holds, beyond which they are
            others. It alone knows, and nothing ends by it.
    """

    counts_redone = True

    def __init__(
        self,
        terms: LayerTerms,
        name: str,
        features: FloatArray,
        exchange: LayerExchange,
        own_data: OwnData,
        means: SharedMeans,
    ) -> None:
        """Begin a party's half of a session; features are (aligned rows, d), in its fixed point."""
        super().__init__(terms.agreement, LearnerCalls(terms.agreement.plan.family, means.timeout))
        self.exchange, self.half = exchange, _begun(terms, name, own_data)
        self._terms, self._name, self._means = terms, name, means
        self._chosen, self.turn = means.chosen, means.turn
        self._features = encoded(features, terms.formats.feature_fraction_bits)
        self._is_label_party = name == terms.agreement.active.name
        self.left_range = False
        self._session_id = terms.agreement.session_id
        self._labels = own_data.labels
        # Of the last epoch that was validated, at the label party: what of its model isn't shared.
        self._own_layers: Part | None = None

    @property
    def schedule(self) -> BatchSchedule:
        """The public batches."""
        return self._terms.batches

    @classmethod
    def begin(
        cls,
        agreement: Agreement,
        name: str,
        features: FloatArray,
        own_data: OwnData,
        means: SharedMeans,
        first_step: int = 0,
    ) -> "LayerSteps":
        """Make a session's key, shares and exchange.

        Args:
            agreement: the session's public terms.
            name: the party's.
            features: (aligned rows, d) in the session's fixed point.
            own_data: what the learner's half is begun with.
            means: what the party trains with.
            first_step: the first that is taken. Those before were taken under other keys, and weights are to be set.

        Raises:
            InvalidMessage: for terms under which numbers don't fit a key, or a step's messages are too large.
            LearnerFailed: when the learner can't work with this data.
        """
        terms = LayerTerms(agreement)
        key = made_key(agreement.plan.key_bits) if name == agreement.active.name else None
        try:
            exchange = LayerExchange(terms, name, key, PooledEngine.of(means.engine), timeout=means.timeout)
            exchange.begin_at(first_step)
        except PackingImpossible as error:
            raise InvalidMessage(str(error)) from error
        return cls(terms, name, features, exchange, own_data, means)

    def show_public_key(self) -> None:
        """Show the label party's key to all, or what masks are agreed on with to the other passive parties."""
        key, peers = self.exchange.public_key, self._means.peers
        if key is not None:
            sending = [
                self._means.executor.submit(peers[one].show_key, self._session_id, key)
                for one in self.exchange.key_receivers
            ]
            _all_done(sending)

    def begin_epoch(self) -> None:
        """Do nothing: features stay where they are."""

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator["LayerStep"]:
        """Begin a step, from 0, on these rows."""
        answers = LayerStep(self, step, batch)
        with none_left(answers.sending):
            yield answers

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step."""
        self.exchange.complete_step(step)

    def validate(self, step: int) -> float | None:
        """After so many steps, the log loss of validation rows, in nats, at the label party; None at others.

        By the labels that are trained on. Products travel as in a step, and nobody is told the loss; what the epoch
        tells that is kept for it, the label party counts.
        """
        terms, sending, rows = self._terms, list[Future[None]](), self._terms.validated_rows
        number, weights = terms.validation_after(step), self.checked(self.half.weights)
        outputs = self.products(number, self._features[rows], weights, sending, StageTimer(), validates=True)
        _all_done(sending)
        if self._labels is None:
            return None
        agreement, key = terms.agreement, self.exchange.public_key
        assert key is not None  # noqa: S101 - the label party's
        bits = dict.fromkeys(terms.passive, kept_epoch_bits(agreement))
        self._means.ledger.count(f"{key.key_id} {VALIDATION}", bits)
        self._own_layers = self._own_part(weights)
        return log_loss(self._calls.scores(self._own_layers, outputs, agreement.classes), self._labels[rows])

    @property
    def weights(self) -> Shares:
        """This party's shares as they stand: what to go on from."""
        return self.checked(self.half.weights)

    @property
    def state(self) -> tuple[Shares, Part | None]:
        """What to go back to after an epoch that was validated: shares, and the label party's own layers."""
        return self.checked(self.half.weights), self._own_layers

    def restore(self, state: tuple[Shares, Part | None]) -> None:
        """Go back to what ``state`` was."""
        weights: Any
        weights, self._own_layers = state
        self._calls.set_weights(self.half, weights)

    def finish(self) -> SharedPart:
        """End training: weights are served as they are shared. Those of a first layer would tell of the labels."""
        return self.freeze()

    def asked(self) -> frozenset[str]:
        """Name nobody: nothing is asked that is answered once."""
        return frozenset()

    def freeze(self) -> SharedPart:
        """Have weights served as they are shared: this party's part of the model. No step is taken after it."""
        weights, terms = self.checked(self.half.weights), self._terms
        own_weights = weights[terms.places(self._name)[self._name]]
        share = terms.scores.weights(own_weights)
        if not self._is_label_party:
            self._calls.set_weights(self.half, np.zeros(weights.shape))
            return SharedPart.made(share, *self.exchange.frozen(), None)
        key, peers = made_key(terms.agreement.plan.key_bits), self._means.peers
        shown_key = self.exchange.serving_key(key)
        _all_done(
            self._means.executor.submit(peers[one].show_key, self._session_id, shown_key) for one in terms.passive
        )
        sending = self.sending(self.exchange.freeze(weights, key))
        part = SharedPart.of_owner(share, key, self._own_layers or self._own_part(weights))
        self._calls.set_weights(self.half, _values(own_weights.integers, own_weights.fraction_bits))
        _all_done(sending)
        return part

    def _own_part(self, weights: Any) -> Part:
        """Make the label party's part of the model as it stands: its own columns' weights, and what is above."""
        own_weights: Shares = weights[self._terms.places(self._name)[self._name]]
        self._calls.set_weights(self.half, _values(own_weights.integers, own_weights.fraction_bits))
        part = self._calls.part(self.half.part)
        self._calls.set_weights(self.half, weights)
        return part

    def products(
        self,
        step: int,
        features: Integers,
        weights: Shares,
        sending: list[Future[None]],
        timer: StageTimer,
        *,
        validates: bool = False,
    ) -> Any:
        """Give what ``Forward`` is answered with: z, (s, h), at the label party, elsewhere the own share of it."""
        terms, exchange = self._terms, self.exchange
        added_shares, tape = (None, None) if validates else (self._chosen, self._means.tape)
        bits = terms.formats.product_fraction_bits
        share = weights[terms.places(self._name)[self._name]].rescaled(terms.formats.fraction_bits)
        own_products = features @ share.integers
        if not self._is_label_party:
            with timer.stage("product"):
                sending += self.sending(exchange.forward(step, features, own_products))
            return Shares(own_products, bits)
        with timer.stage("encrypt"):
            hidden = weights if added_shares is None else self._with_added(step, weights)
            sending += self.sending(exchange.hide_weights(step, hidden))
        with timer.stage("decrypt"):
            peer_products = _values(exchange.products(step), bits)
        # Beyond the range they come back within it: what grows is seen on its way there.
        self.left_range |= bool(np.abs(peer_products).max(initial=0) > 2.0 ** (terms.formats.integer_bits - 1))
        if added_shares is not None:
            peer_products = added_shares.read(step, peer_products)
        if tape is not None:
            tape.forwarded(step, peer_products)
        return peer_products + _values(own_products, bits)

    def _with_added(self, step: int, weights: Shares) -> Shares:
        """Weights as a label party hides them that adds to its shares of others'."""
        assert self._chosen is not None  # noqa: S101 - who calls has asked
        added = np.zeros(weights.shape)
        places = self._terms.places(self._name)
        for peer in self._terms.passive:
            if (addition := self._chosen.added(step, peer)) is not None:
                added[places[peer]] = addition
        return weights + added

    def signal(self, values: Any, features: Integers) -> Integers:
        """Put the backward signal in the session's fixed point, whatever it is: leaving its range ends nothing."""
        if not self._is_label_party:
            raise self._calls.refused(f"has {self._name} send more often than its spec says")
        formats = self._terms.formats
        checked = self._calls.checked(values, (len(features), formats.outputs), "values to send")
        limit = 2.0**formats.integer_bits
        self.left_range |= not (np.abs(checked) <= limit).all()
        return encoded(np.clip(np.nan_to_num(checked), -limit, limit), formats.fraction_bits)

    def sums(
        self,
        step: int,
        features: Integers,
        signal: Integers | None,
        sending: list[Future[None]],
        timer: StageTimer,
    ) -> Shares:
        """Stack this party's shares of X^T delta as its weights are."""
        terms, exchange = self._terms, self.exchange
        bits = terms.formats.product_fraction_bits
        if self._is_label_party:
            if signal is None:
                raise self._calls.refused("asks for sums before it has sent anything")
            with timer.stage("decrypt"):
                held_sums = exchange.held_sums(step)
            by_owner = {**held_sums, self._name: features.T @ signal}
            return Shares(np.concatenate([by_owner[owner] for owner in terms.places(self._name)]), bits)
        with timer.stage("product"):
            sending += self.sending(exchange.backward(step, features))
        own_sums = Shares(exchange.own_sums(step), bits)
        if self._means.tape is not None:
            self._means.tape.kept(step, terms.of_half_a_ring(own_sums))
        return own_sums

    def checked(self, values: Any) -> Shares:
        """Check a learner's weights: what it has made of shares."""
        if not isinstance(values, Shares):
            raise self._calls.refused("turns shares into something else")
        return values

    def send(self, step: int, values: Any, features: Integers) -> tuple[Integers, list[Future[None]]]:
        """Hide the backward signal of a step: in the session's fixed point, and what is on its way of it."""
        signal = self.signal(values, features)
        return signal, self.sending(self.exchange.hide_signal(step, signal))

    def features_of(self, rows: IntArray) -> Integers:
        """Find records' features, in the session's fixed point."""
        return self._features[rows]

    def sending(self, messages: Iterable[Outgoing]) -> list[Future[None]]:
        """Send messages, each to its receiver."""
        peers, executor = self._means.peers, self._means.executor
        return [
            executor.submit(peers[one.receiver].send, self._session_id, one.kind, one.step, one.vector)
            for one in messages
        ]


class LayerStep:
    """The answers of one step.

    Attributes:
        rows: of the common order.
        timer: where the step's time goes.
        sending: what is on its way.
    """

    is_passed_over = False

    def __init__(self, side: LayerSteps, number: int, rows: IntArray) -> None:
        """Begin a step on these rows."""
        self.rows, self.timer, self.sending = rows, StageTimer(), list[Future[None]]()
        self._side, self._number, self._features = side, number, side.features_of(rows)
        self._signal: Integers | None = None

    def answer(self, request: Request) -> Any:
        """Answer a request of the learner's."""
        side, step = self._side, self._number
        match request:
            case Forward(weights):
                return side.products(step, self._features, side.checked(weights), self.sending, self.timer)
            case Send(values):
                with self.timer.stage("encrypt"):
                    self._signal, sending = side.send(step, values, self._features)
                self.sending += sending
                return None
            case Ask():
                return side.sums(step, self._features, self._signal, self.sending, self.timer)
            case _:
                raise side._calls.refused("asks for what protocol=shared has no answer to")

    def pass_over(self) -> None:
        """Pass over no step: all that goes back to it does it again."""

    def finish(self) -> None:
        """Wait for what is on its way."""
        with self.timer.stage("wait"):
            _all_done(self.sending)


def _begun(terms: LayerTerms, name: str, own_data: OwnData) -> Half:
    """Begin a party's half; first weights are the learner's, drawn by the features' owner, and V begins with 0."""
    calls, places = LearnerCalls(terms.agreement.plan.family), terms.places(name)
    half = calls.begin(own_data)
    drawn_weights = calls.weights(half, own_data.features)
    first = np.zeros((sum(map(terms.columns, places)), drawn_weights.shape[1]))
    first[places[name]] = drawn_weights
    shares: Any = Shares.of(first, terms.formats.product_fraction_bits)
    calls.set_weights(half, shares)
    return half


def _values(integers: Integers, fraction_bits: int) -> FloatArray:
    values: FloatArray = (integers / (1 << fraction_bits)).astype(np.float64)
    return values


def _all_done(sending: Iterable[Future[None]]) -> None:
    for sent in sending:
        sent.result()
