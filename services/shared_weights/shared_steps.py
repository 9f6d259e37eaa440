"""Runs a learner's steps on shared weights: answers what it asks for with opaque shares."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

from services.common.learner_calls import LearnerCalls
from services.common.meters import StageTimer
from services.shared_weights.share_exchange import Outgoing, ShareExchange
from services.shared_weights.share_peer import SharePeer
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Ask, Forward, Half, Send


class SharedSteps:
    """One party's steps of a session. Its half is of `begin_half`.

    Attributes:
        exchange: the party's messages.
        half: the party's half of the learner.
    """

    def __init__(
        self,
        exchange: ShareExchange,
        half: Half,
        calls: LearnerCalls,
        session_id: str,
        peers: Mapping[str, SharePeer],
        executor: Executor,
    ) -> None:
        """Take a session's exchange and half; ``executor`` has threads for what is sent to several peers at once."""
        self.exchange, self.half = exchange, half
        self._calls, self._session_id, self._peers, self._executor = calls, session_id, peers, executor

    def show_public_key(self) -> None:
        """Send this party's public key to every peer."""
        key = self.exchange.public_key
        _all_done([self._executor.submit(peer.send_public_key, self._session_id, key) for peer in self._peers.values()])

    def show_features(self) -> None:
        """Send this party's encrypted features, and wait for the others'. Keys are shown before."""
        _all_done(self._sending(self.exchange.features()))
        self.exchange.await_features()

    def run_step(self, step: int, batch: IntArray, rows: IntArray) -> StageTimer:
        """Run the learner's program of a step, answering what it asks for, in its order.

        Args:
            step: from 0.
            batch: block numbers.
            rows: the aligned rows of these blocks, in their order.
        """
        timer, exchange = StageTimer(), self.exchange
        sending: list[Future[None]] = []
        residual: Shares | None = None
        program = self._calls(lambda: self.half.step(rows))
        request = self._calls.next_request(program)
        while request is not None:
            answer: Any = None
            match request:
                case Forward(weights):
                    shares = self._checked(weights)
                    with timer.stage("product"):
                        sending += self._sending(exchange.forward(step, batch, shares))
                    with timer.stage("decrypt"):
                        answer = exchange.products(step, batch, shares)
                case Send(values):
                    residual = self._checked(values)
                    with timer.stage("product"):
                        sending += self._sending(exchange.backward(step, batch, residual))
                case Ask():
                    if residual is None:
                        raise self._calls.refused("asks for sums before it has sent anything")
                    with timer.stage("decrypt"):
                        answer = exchange.sums(step, batch, residual)
            with timer.stage("update"):
                request = self._calls.next_request(program, answer)
        with timer.stage("wait"):
            _all_done(sending)
        exchange.complete_step(step)
        return timer

    def open(self) -> FloatArray:
        """Open all weights to their owners: this party's own, (d, columns). No step is taken after it."""
        weights = self._checked(self.half.weights)
        sending = self._sending(self.exchange.open(weights))
        own = self.exchange.opened(weights)
        _all_done(sending)
        return own

    def _checked(self, values: Any) -> Shares:
        """A learner's weights or values: what it has made of shares."""
        if not isinstance(values, Shares):
            raise self._calls.refused("turns shares into something else")
        return values

    def _sending(self, messages: Iterable[Outgoing]) -> list[Future[None]]:
        return [
            self._executor.submit(
                self._peers[one.receiver].send_values, self._session_id, one.kind, one.step, one.vector
            )
            for one in messages
        ]


def _all_done(sending: Iterable[Future[None]]) -> None:
    for sent in sending:
        sent.result()
