"""Runs a network's steps with its first layer on shared weights: answers what a half asks for."""

from typing import Any

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import refusals_of
from services.party.training_means import TrainingMeans
from services.party.turned_columns import Turn
from services.protocols.first_layer.layer_exchange import LayerExchange
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.shared.opening import kept_epoch_bits
from services.protocols.shared.share_mailbox import VALIDATION
from services.protocols.shared.shared_half import begin_half
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.side_on_shares import SideOnShares, StepOnShares, all_done, made_key
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PackingImpossible
from vfl.crypto.pool import PooledEngine
from vfl.crypto.sharing.shares import Integers, Shares, encoded
from vfl.learning import Ask, BatchSchedule, Forward, OwnData, Part, Send, log_loss
from vfl.learning.learner import Request


class LayerSteps(SideOnShares):
    """One party's steps of a session; the label party's are under a key pair that is made for it.

    Its half's weights are shares, at the label party of all parties' first layers, stacked, its own last.

    Attributes:
        left_range: whether numbers of the label party's came near what the fixed point holds, beyond which they are
            others. It alone knows, and nothing ends by it.
    """

    exchange: LayerExchange
    schedule: BatchSchedule
    _terms: LayerTerms
    counts_redone = True

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        features: FloatArray,
        own_data: OwnData,
        means: TrainingMeans,
        first_step: int = 0,
    ) -> None:
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
        super().__init__(terms, name, features, means, Turn())
        self.schedule = terms.batches
        key = made_key(agreement.plan.key_bits) if self._is_label_party else None
        with refusals_of(PackingImpossible):
            self.exchange = LayerExchange(terms, name, key, PooledEngine.of(means.engine), timeout=means.timeout)
            self.exchange.begin_at(first_step)
        self.half = begin_half(terms, name, own_data, self.turn, stacks=False)
        self._features = encoded(features, terms.formats.feature_fraction_bits)
        self._labels = own_data.labels
        # Of the last epoch that was validated, at the label party: what of its model isn't shared.
        self._own_layers: Part | None = None

    def show_public_key(self) -> None:
        """Show the label party's key to all, or what masks are agreed on with to the other passive parties."""
        if (key := self.exchange.public_key) is not None:
            self.show_key(key, self.exchange.key_receivers)

    def begin_epoch(self) -> None:
        """Do nothing: features stay where they are."""

    def begin_step(self, step: int, batch: IntArray) -> "LayerStep":
        """Begin a step, from 0, on these rows."""
        return LayerStep(self, step, batch)

    def validate(self, step: int) -> float | None:
        """After so many steps, the log loss of validation rows, in nats, at the label party; None at others.

        By the labels that are trained on. Products travel as in a step, and nobody is told the loss; what the epoch
        tells that is kept for it, the label party counts.
        """
        terms, weights, rows = self._terms, self.weights, self._terms.validated_rows
        answers = LayerStep(self, terms.validation_after(step), rows, validates=True)
        outputs = answers.products(weights)
        all_done(answers.sending)
        if self._labels is None:
            return None
        agreement, key = terms.agreement, self.exchange.public_key
        assert key is not None  # noqa: S101 - the label party's
        bits = dict.fromkeys(terms.passive, kept_epoch_bits(agreement))
        self._means.ledger.count(f"{key.key_id} {VALIDATION}", bits)
        self._own_layers = self._own_part(weights)
        return log_loss(self._calls.scores(self._own_layers, outputs, agreement.classes), self._labels[rows])

    @property
    def state(self) -> tuple[Shares, Part | None]:
        """What to go back to after an epoch that was validated: shares, and the label party's own layers."""
        return self.weights, self._own_layers

    def restore(self, state: tuple[Shares, Part | None]) -> None:
        """Go back to what ``state`` was."""
        weights, self._own_layers = state
        super().restore(weights)

    def finish(self) -> SharedPart:
        """Have weights served as they are shared: this party's part of the model. No step is taken after it.

        Those of a first layer would tell of the labels.
        """
        weights, terms = self.weights, self._terms
        share = terms.scores.weights(self.own(weights))
        if not self._is_label_party:
            self._calls.set_weights(self.half, np.zeros(weights.shape))
            return SharedPart.made(share, *self.exchange.frozen(), None)
        key, sending = self.serve(weights, terms.passive)
        part = SharedPart.of_owner(share, key, self._own_layers or self._own_part(weights))
        self._set_own(weights)
        all_done(sending)
        return part

    def _own_part(self, weights: Shares) -> Part:
        """Make the label party's part of the model as it stands: its own columns' weights, and what is above."""
        self._set_own(weights)
        part = self._calls.part(self.half.part)
        self.restore((weights, self._own_layers))
        return part

    def _set_own(self, weights: Shares) -> None:
        own_weights = self.own(weights)
        self._calls.set_weights(self.half, _values(own_weights.integers, own_weights.fraction_bits))


class LayerStep(StepOnShares):
    """The answers of one step, or of a validation."""

    def __init__(self, side: LayerSteps, number: int, rows: IntArray, *, validates: bool = False) -> None:
        """Begin a step on these rows."""
        super().__init__(rows)
        self._side, self._number, self._features = side, number, side._features[rows]
        self._terms, self._calls = side._terms, side._calls
        # Of a validation nobody listens, and nothing is added.
        self._added, self._tape = (None, None) if validates else (side._means.chosen, side._means.tape)
        self._signal: Integers | None = None

    def answer(self, request: Request) -> Any:
        """Answer a request of the learner's."""
        match request:
            case Forward(weights):
                return self.products(self._side.checked(weights))
            case Send(values):
                with self.timer.stage("encrypt"):
                    self._signal = self._in_fixed_point(values)
                    self.sending += self._side.sending(self._side.exchange.hide_signal(self._number, self._signal))
                return None
            case Ask():
                return self._sums()
            case _:
                raise self._calls.refused("asks for what protocol=shared has no answer to")

    def products(self, weights: Shares) -> Any:
        """Give what ``Forward`` is answered with: z, (s, h), at the label party, elsewhere the own share of it."""
        side, step, formats = self._side, self._number, self._terms.formats
        bits = formats.product_fraction_bits
        own_products = self._features @ side.own(weights).rescaled(formats.fraction_bits).integers
        if not side._is_label_party:
            with self.timer.stage("product"):
                self.sending += side.sending(side.exchange.forward(step, self._features, own_products))
            return Shares(own_products, bits)
        with self.timer.stage("encrypt"):
            self.sending += side.sending(side.exchange.hide_weights(step, self._with_added(weights)))
        with self.timer.stage("decrypt"):
            peer_products = _values(side.exchange.products(step), bits)
        # Beyond the range they come back within it: what grows is seen on its way there.
        side.left_range |= bool(np.abs(peer_products).max(initial=0) > 2.0 ** (formats.integer_bits - 1))
        if self._added is not None:
            peer_products = self._added.read(step, peer_products)
        if self._tape is not None:
            self._tape.forwarded(step, peer_products)
        return peer_products + _values(own_products, bits)

    def _with_added(self, weights: Shares) -> Shares:
        """Weights as a label party hides them that adds to its shares of others'."""
        if self._added is None:
            return weights
        added, places = np.zeros(weights.shape), self._terms.places(self._side._name)
        for peer in self._terms.passive:
            if (addition := self._added.added(self._number, peer)) is not None:
                added[places[peer]] = addition
        return weights + added

    def _in_fixed_point(self, values: Any) -> Integers:
        """Put the backward signal in the session's fixed point, whatever it is: leaving its range ends nothing."""
        side, formats = self._side, self._terms.formats
        if not side._is_label_party:
            raise self._calls.refused(f"has {side._name} send more often than its spec says")
        checked = self._calls.checked(values, (len(self._features), formats.outputs), "values to send")
        limit = 2.0**formats.integer_bits
        side.left_range |= not (np.abs(checked) <= limit).all()
        return encoded(np.clip(np.nan_to_num(checked), -limit, limit), formats.fraction_bits)

    def _sums(self) -> Shares:
        """Stack this party's shares of X^T delta as its weights are."""
        side, step, bits = self._side, self._number, self._terms.formats.product_fraction_bits
        if side._is_label_party:
            signal: Integers = side.sent(self._signal)
            with self.timer.stage("decrypt"):
                held_sums = side.exchange.held_sums(step)
            by_owner = {**held_sums, side._name: self._features.T @ signal}
            return Shares(np.concatenate([by_owner[owner] for owner in self._terms.places(side._name)]), bits)
        with self.timer.stage("product"):
            self.sending += side.sending(side.exchange.backward(step, self._features))
        own_sums = Shares(side.exchange.own_sums(step), bits)
        side.tell_tape(step, own_sums)
        return own_sums


def _values(integers: Integers, fraction_bits: int) -> FloatArray:
    values: FloatArray = (integers / (1 << fraction_bits)).astype(np.float64)
    return values
