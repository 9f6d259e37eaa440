"""A party's side of Protocol 1: it knows its own weights, and its sums come from who holds the key (Hu eq. 34-35).

A learner that forwards its first layer has its products travel under masks that cancel; where nothing is encrypted
residuals are read as they come, as in plain split learning.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from defences import DefenceError
from services.ciphers.formats import check_vector_sizes
from services.common.errors import Diverged
from services.common.meters import StageTimer
from services.exchange.peer import Peer
from services.exchange.vectors import DecryptedVector
from services.network.deadlines import carrying_the_deadline
from services.party.known_side import KnownSide
from services.party.party_defences import Message
from services.party.resumption import Resumption
from services.party.side import SideSetting
from services.protocols.hu.forwarding import Forwarding, step_roles
from services.protocols.hu.gradient_exchange import (
    DECRYPTION,
    RESIDUALS,
    SUMS,
    Beginning,
    GradientExchange,
    OpenQuestion,
)
from vfl.arrays import FloatArray, IntArray
from vfl.learning import Ask, Forward, Half, Send
from vfl.learning.learner import Request


class GradientSide(KnownSide):
    """One party's side of a session.

    Attributes:
        forwarding: what answers ``Forward``, where the learner forwards.
        skipped: steps that nobody does.
    """

    def __init__(
        self,
        setting: SideSetting,
        half: Half | None = None,
        resumption: Resumption | None = None,
        questions: dict[str, OpenQuestion] | None = None,
    ) -> None:
        """Make keys and the exchange; raises InvalidMessage for terms, or defences, that it can't work with.

        Args:
            setting: the session.
            half: that goes on; None to begin one.
            resumption: where it goes on; None for the beginning.
            questions: this party's questions of its next step, which have been answered.
        """
        agreement, means = setting.agreement, setting.means
        if half is None:
            check_vector_sizes(agreement)
        super().__init__(setting, half)
        self.peers, self._log, self._calls = means.peers, means.log, setting.calls
        forwards = agreement.plan.family.spec.forwards
        # Its masks are of one try of a step: another has other keys.
        self.forwarding = Forwarding(agreement, setting.name, means.peers, means.executor) if forwards else None
        self.is_label_party = setting.name == agreement.active.name
        # Forwarded products aren't encrypted.
        self.sent_step = agreement.plan.encryption.residual_step if setting.name in agreement.senders else None
        self.skipped = resumption.skipped if resumption else frozenset[int]()
        if half is None and agreement.plan.family.spec.trains and not self._log.has_begun:
            self.project()
        self.exchange = GradientExchange(
            means.cipher(agreement, setting.name),
            means.peers,
            steps=self.steps,
            rows_of_step=self.schedule.rows_of_step,
            timeout=means.timeout,
            roles=step_roles(agreement, setting.name),
            beginning=Beginning(
                resumption.step if resumption else 0,
                self._log,
                questions or {},
                self._log.completed if resumption else 0,
                answering=lambda peer, count: self.tell(peer, DECRYPTION.word, count),
                anchoring=setting.anchor,
            ),
        )

    def show_public_key(self) -> None:
        """Send this party's public key to every peer."""
        key, session_id = self.exchange.public_key, self.setting.agreement.session_id
        if self.forwarding is not None:
            key = replace(key, mask_key=self.forwarding.mask_key)

        def show(peer: Peer) -> None:
            peer.show_key(session_id, key)

        executor = self.setting.means.executor
        for sent in [executor.submit(carrying_the_deadline(show, peer)) for peer in self.peers.values()]:
            sent.result()

    def begin_epoch(self) -> None:
        """Wait for the others' keys."""
        self.exchange.await_keys()

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator["GradientStep"]:
        """Begin a step. What is on its way when it fails is settled where the parties agree on a place."""
        yield GradientStep(self, step, batch)

    def asked(self) -> frozenset[str]:
        """Name the peers of whom this party still has its own question, when nothing that it forwards is on its way."""
        if self.forwarding is not None:
            self.forwarding.settle()
        return frozenset(self.exchange.open_questions(self._log.completed))

    def resumed(self, setting: SideSetting, resumption: Resumption) -> "GradientSide":
        """Go on there with the same half, whose weights are set."""
        questions = self.exchange.open_questions(self._log.completed)
        settled_questions = {peer: question for peer, question in questions.items() if peer in resumption.answered_by}
        return GradientSide(setting, self.half, resumption, settled_questions)

    def project(self) -> None:
        """Keep the weights where the party's defences want them."""
        weights = self._calls.weights(self.half, self.features.shape[1])
        projected = self.setting.means.defences.project_parameters(weights, self.setting.terms)
        self._calls.set_weights(self.half, projected)
        self._log.largest_norm = max(self._log.largest_norm, float(np.linalg.norm(projected)))


class GradientStep:
    """The answers of one step.

    Attributes:
        number: of the step.
        rows: its rows of the common order.
        timer: where its time goes.
    """

    def __init__(self, side: GradientSide, number: int, rows: IntArray) -> None:
        """Begin a step."""
        self.number, self.rows, self.timer = number, rows, StageTimer()
        self.is_skipped = number in side.skipped
        self._side, self._agreement, self._name = side, side.setting.agreement, side.setting.name
        self._exchange, self._calls, self._log = side.exchange, side.setting.calls, side.setting.means.log
        self._defences, self._tape = side.setting.means.defences, side.setting.means.tape
        self._executor = side.setting.means.executor
        self._features = side.features[rows]
        self._own: FloatArray | None = None
        self._sending: list[Future[None]] = []
        self._has_forwarded = False

    @property
    def is_passed_over(self) -> bool:
        """Whether nobody asks, or only the others, as this party is ahead."""
        return self.is_skipped or self.number < self._log.completed

    def answer(self, request: Request) -> Any:
        """Answer a request of the learner's."""
        match request:
            case Forward(weights):
                return self._products(weights)
            case Send(values):
                self._send(values)
                return None
            case Ask():
                return self.sums()
            case _:
                raise self._calls.refused("asks for what protocol=hu has no answer to")

    def pass_over(self) -> None:
        """Wait for all messages, so that no party runs away, and take the weights that the log has."""
        for _ in self.timer.waiting("wait", self._exchange.arrivals(self.number)):
            continue
        with self.timer.stage("wait"):
            for sent in self._sending:
                sent.result()
        steps = self.number if self.is_skipped else self.number + 1
        self._calls.set_weights(self._side.half, self._log.weights(steps), self._log.carried(steps))

    def finish(self) -> None:
        """Wait until every peer has asked, and keep the weights in bounds."""
        with self.timer.stage("wait"):
            self._exchange.await_questions(self.number)
        with self.timer.stage("update"):
            self._side.project()

    def _products(self, weights: Any) -> FloatArray:
        """Give this party's products, (s, h); where the learner forwards, with the others' at the label party."""
        products = self._features @ self._calls.checked(weights, (self._features.shape[1], None), "weights")
        if (forwarding := self._side.forwarding) is None:
            return products
        if self._has_forwarded:
            # Two vectors under the mask of one step would show their difference.
            raise self._calls.refused("forwards more than once in a step")
        self._has_forwarded = True
        products = self._calls.checked(products, (len(products), forwarding.units), "products to forward")
        is_label_party = self._side.is_label_party
        if self.is_skipped and not is_label_party:
            # Nobody uses them, and those of other weights may have been forwarded before.
            products = np.zeros_like(products)
        products = self._defences.protect_hidden(products, self._message("hidden"))
        if not is_label_party:
            # A copy that was put back would forward products of this step once more, of other weights.
            self._side.setting.anchor()
            self._side.tell(self._agreement.active.name, "hidden layer", len(products))
        answer, sending = forwarding.products(self.number, products, self._exchange, self.timer, self._tape)
        self._sending += sending
        return answer

    def _send(self, values: FloatArray) -> None:
        """Encrypt values, as this party's defences leave them, while they are sent to every peer."""
        if self._own is not None or self._name not in self._agreement.senders:
            raise self._calls.refused(f"has {self._name} send more often than its spec says")
        values = self._calls.checked(values, (len(self.rows), self._agreement.residual_columns), "values to send")
        peers, step = self._side.peers, self.number
        with self.timer.stage("encrypt"):
            owed = {peer for peer in peers if self._log.owes(peer, step)}
            vectors: list[tuple[set[str], FloatArray]] = []
            if owed:
                vectors.append((owed, self._protected(values)))
                if not self._agreement.plan.is_encrypted:
                    for peer in owed:
                        self._side.tell(peer, "residuals in the clear", len(values))
            if receivers_of_zeros := peers.keys() - owed:
                # Their right to an answer is spent, or nobody has one: what they have of it, they have.
                vectors.append((receivers_of_zeros, np.zeros_like(values)))
            outgoing = [(receivers, self._exchange.outgoing_residuals(step, vector)) for receivers, vector in vectors]
            self._sending += [
                self._executor.submit(peers[peer].send, self._agreement.session_id, RESIDUALS, step, vector)
                for receivers, vector in outgoing
                for peer in sorted(receivers)
            ]
            for _, vector in outgoing:
                vector.make()
        self._own = self._features.T @ values

    def sums(self) -> FloatArray:
        """X^T of what all have sent, (d, columns): this party's own, and then every peer's in turn."""
        if self._own is None and self._name in self._agreement.senders:
            raise self._calls.refused(f"asks for sums before {self._name} has sent anything")
        own_sums = self._own
        total = np.zeros((self._features.shape[1], self._agreement.residual_columns)) if own_sums is None else own_sums
        if self._side.forwarding is not None and self._exchange.roles.reads_directly:
            total = total + self._direct_sums()
        else:
            total = self._with_answers(total)
        with self.timer.stage("wait"), self._exchange.waiting():
            for sent in self._sending:
                sent.result()
        return total

    def _with_answers(self, total: FloatArray) -> FloatArray:
        """Add what the peers' keys decrypt of this party's masked sums."""
        gridded = self._side.setting.gridded
        # Peers are asked about integers: the scales of the columns, and their order, stay here.
        integers = gridded.integers_of(self._features)
        calls: dict[str, Future[DecryptedVector]] = {}
        for name in self.timer.waiting("wait", self._exchange.arrivals(self.number)):
            masked = self._exchange.masked_sums(self.number, name, integers, self.timer)
            ask = self._side.peers[name].ask
            calls[name] = self._executor.submit(ask, self._agreement.session_id, SUMS, self.number, masked)
        # In their own order, so that the sum is the same to the last bit whoever answers first.
        for name in filter(calls.__contains__, self._side.peers):
            with self.timer.stage("decrypt"), self._exchange.waiting():
                answer = calls[name].result()
            total = total + gridded.restore(self._exchange.gradient_share(name, answer, self._tape))
        return total

    def _direct_sums(self) -> FloatArray:
        """X^T of what the others have sent in the clear, (d, columns)."""
        total = np.zeros((self._features.shape[1], self._agreement.residual_columns))
        for name in self.timer.waiting("wait", self._exchange.arrivals(self.number)):
            values = self._exchange.residuals_in_the_clear(self.number, name)
            if self._tape is not None:
                self._tape.read(self.number, name, values)
            total += self._features.T @ values
        return total

    def _protected(self, residual: FloatArray) -> FloatArray:
        labels = self._side.setting.own.labels
        try:
            return self._defences.protect_residuals(
                residual,
                self._side.setting.terms,
                self._message("residuals"),
                None if labels is None else labels[self.rows],
            )
        except DefenceError as error:
            raise Diverged(f"{self._name}: {error}") from error

    def _message(self, kind: Any) -> Message:
        return Message(kind, self._agreement.session_id, self.number, self.rows)
