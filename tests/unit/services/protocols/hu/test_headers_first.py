"""A vector is refused by its header: who sends it, for which step, of which key, count, width and exponent."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest

from protos.v1 import messages_pb2
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.exchange import servicer
from services.exchange.message_link import parts_of_message
from services.exchange.servicer import MessagesServicer
from services.exchange.vectors import VectorHeader, WireVector
from services.protocols.hu.gradient_exchange import RESIDUALS, SUMS, GradientExchange
from tests.harness.exchanges import SESSION, SMALL_PLAN, ExchangePair, encrypted, exchange_pair

PLANS = [SMALL_PLAN, replace(SMALL_PLAN, packing=False), replace(SMALL_PLAN, cipher="plain")]


@pytest.fixture(params=PLANS, ids=["packed", "unpacked", "plain"])
def pair(request: pytest.FixtureRequest) -> ExchangePair:
    made = exchange_pair(request.param)
    made.exchange.outgoing_residuals(0, np.zeros((made.rows, 1))).make()
    return made


def expected(pair: ExchangePair, kind: str) -> tuple[Callable[[str, int, VectorHeader], None], WireVector]:
    if kind == RESIDUALS:
        return _expects(pair, kind), pair.peer_residuals(0)
    own = encrypted(pair.exchange, 0, np.zeros((pair.rows, 1)))
    return _expects(pair, kind), pair.peer_sums(own)


def _expects(pair: ExchangePair, kind: str) -> Callable[[str, int, VectorHeader], None]:
    expects = pair.exchange.expects if kind == RESIDUALS else pair.exchange.expects_question
    return lambda peer, step, header: expects(peer, kind, step, header)


@pytest.mark.parametrize("kind", [RESIDUALS, SUMS])
def test_the_agreed_header_and_no_other_is_let_in(pair: ExchangePair, kind: str) -> None:
    expects, vector = expected(pair, kind)
    expects("passive", 0, vector.header)
    for change in (
        {"count": vector.count + 1},
        {"count": 0},
        {"count": 2**32 - 1},
        {"width": vector.width + 1},
        {"width": 2**32 - 1},
        {"exponent": vector.exponent + 1},
        {"key_id": "x" * 3_000_000},
    ):
        with pytest.raises(InvalidMessage, match="Wrong") as error:
            expects("passive", 0, replace(vector.header, **change))
        assert len(str(error.value)) < 800


@pytest.mark.parametrize("kind", [RESIDUALS, SUMS])
@pytest.mark.parametrize(
    ("peer", "step", "refusal"),
    [("stranger", 0, NotAllowed), ("passive", 3, OutOfOrder), ("passive", 2**32 - 1, InvalidMessage)],
)
def test_peer_and_step_are_checked_with_it(
    pair: ExchangePair, kind: str, peer: str, step: int, refusal: type[FederationError]
) -> None:
    expects, vector = expected(pair, kind)
    with pytest.raises(refusal):
        expects(peer, step, vector.header)


def test_nothing_is_read_of_residuals_before_the_peers_key_or_after_the_end() -> None:
    early = exchange_pair(SMALL_PLAN, keys=False)
    with pytest.raises(OutOfOrder, match="must show its public key"):
        early.exchange.expects("passive", "residuals", 0, early.peer_residuals(0).header)
    ended = exchange_pair(SMALL_PLAN)
    ended.exchange.end("enough.")
    for kind in (RESIDUALS, SUMS):
        with pytest.raises(OutOfOrder, match="has ended: enough"):
            _expects(ended, kind)("passive", 0, ended.peer_residuals(0).header)


class Counting(Iterator[messages_pb2.MessagePart]):
    """Parts of a vector, and how many were read."""

    def __init__(self, parts: list[messages_pb2.MessagePart]) -> None:
        self._parts = iter(parts)
        self.read = 0

    def __next__(self) -> messages_pb2.MessagePart:
        part = next(self._parts)
        self.read += 1
        return part


@pytest.mark.parametrize("method", ["Send", "Ask"])
@pytest.mark.parametrize("session", ["unknown", "known"])
def test_a_refused_vector_is_not_read_beyond_its_header(
    monkeypatch: pytest.MonkeyPatch, method: str, session: str
) -> None:
    # Once: up to 256 MiB of each were read and kept before anything was asked.
    pair = exchange_pair(SMALL_PLAN)

    def exchange_of(session_id: str) -> GradientExchange:
        if session_id != SESSION:
            raise OutOfOrder("No such session here.")
        return pair.exchange

    monkeypatch.setattr(servicer, "require_caller", lambda _: Caller())
    session_id, kind = "none" if session == "unknown" else SESSION, SUMS if method == "Ask" else RESIDUALS
    parts = Counting(list(parts_of_message(session_id, kind, 5, pair.peer_residuals(0))))
    answer: Any = getattr(MessagesServicer(exchange_of), method)
    with pytest.raises(OutOfOrder):
        list(answer(parts, grpc.ServicerContext))
    assert parts.read == 1


class Caller:
    """Who calls, as the transport would say."""

    name = "passive"
