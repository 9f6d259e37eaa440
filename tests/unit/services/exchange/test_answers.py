"""A step is answered once, also where a training goes on with another key after an interruption."""

import numpy as np
import pytest

from services.ciphers.cipher import make_cipher
from services.common.errors import InvalidMessage, OutOfOrder, Suspended
from services.common.state_folder import StateInMemory, StateNotKept
from services.exchange.answers import Answered
from services.exchange.vectors import WireVector
from services.party.training_log import TrainingLog
from services.protocols.hu.gradient_exchange import Beginning, GradientExchange
from tests.harness.ciphers import TINY
from tests.harness.exchanges import ExchangePair, exchange_pair


class Refusing(TrainingLog):
    """A log on a disk without room."""

    def spend(self, peer: str, step: int, answered: Answered) -> None:
        raise StateNotKept("no room")


def sent(exchange: GradientExchange) -> WireVector:
    return exchange.outgoing_residuals(0, np.full((4, 1), 0.5)).make()


def logged(log: TrainingLog) -> tuple[ExchangePair, WireVector]:
    """A pair whose key holder keeps its answers, and its residuals of step 0."""
    pair = exchange_pair(TINY)
    pair.exchange._questions.rights = log
    return pair, sent(pair.exchange)


def going_on(pair: ExchangePair, log: TrainingLog) -> GradientExchange:
    """The key holder's next exchange, under a new key."""
    cipher = make_cipher(pair.agreement, "active")
    return GradientExchange(
        cipher, ["passive"], steps=6, rows_of_step=lambda _: 4, timeout=5, beginning=Beginning(0, log)
    )


def test_the_same_question_gets_the_same_answer_after_an_interruption_and_another_is_refused() -> None:
    log = TrainingLog(StateInMemory())
    pair, residuals = logged(log)
    question, other = pair.peer_sums(residuals), pair.peer_sums(residuals)
    assert question != other, "two masks differ"
    answer = pair.exchange.answer("passive", "sums", 0, question)
    again = going_on(pair, log)
    # Its key is another one, and so no new question under the old key is read.
    again.expects_question("passive", "sums", 0, question.header)
    assert again.answer("passive", "sums", 0, question) == answer
    with pytest.raises(OutOfOrder, match="Different sums of step 0 were answered already"):
        again.answer("passive", "sums", 0, other)


def test_a_question_that_was_not_answered_is_not_read_under_a_new_key() -> None:
    log = TrainingLog(StateInMemory())
    pair, residuals = logged(log)
    again = going_on(pair, log)
    sent(again)
    with pytest.raises(InvalidMessage, match="Wrong key id"):
        again.expects_question("passive", "sums", 0, pair.peer_sums(residuals).header)


def test_what_cant_be_kept_is_not_answered() -> None:
    pair, residuals = logged(Refusing())
    question = pair.peer_sums(residuals)
    for _ in range(2):
        with pytest.raises(StateNotKept):
            pair.exchange.answer("passive", "sums", 0, question)


def test_nothing_is_answered_any_more_once_the_training_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = TrainingLog(StateInMemory())
    pair, residuals = logged(log)
    question, decrypt = pair.peer_sums(residuals), pair.exchange._cipher.decrypt

    def interrupted(*arguments: object) -> object:
        answer = decrypt(*arguments)  # type: ignore[arg-type]
        pair.exchange.suspend("passive does not answer.")
        return answer

    monkeypatch.setattr(pair.exchange._cipher, "decrypt", interrupted)
    with pytest.raises(Suspended, match="passive does not answer"):
        pair.exchange.answer("passive", "sums", 0, question)
    assert log.answered("passive", 0) is None
