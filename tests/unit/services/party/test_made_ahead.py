"""A training with random powers made ahead: the same weights, used up once, gone with the session."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from services.ciphers.cipher import PaillierCipher
from services.exchange.peer import Peer
from services.exchange.vectors import DecryptedVector, WireVector
from tests.harness.exchanges import SMALL_PLAN, random_problem, run_together, train_encrypted, wired
from vfl.crypto.engine import Engine
from vfl.crypto.pool import Pool, PooledEngine

HANGS = 20.0
PLAN = replace(SMALL_PLAN, key_bits=384, epochs=1)


class Slow:
    """Answers when the asking party has made something ahead."""

    def __init__(self, peer: Peer, may_answer: threading.Event) -> None:
        self.show_key, self.send = peer.show_key, peer.send
        self._peer, self._may_answer = peer, may_answer

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = self._peer.ask(session_id, kind, step, vector)
        assert self._may_answer.wait(HANGS)
        return answer


def test_weights_are_the_same_with_and_without_and_a_session_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(parties=3)
    made_ahead, given = threading.Event(), []
    take, top_up = Pool.take, Pool.top_up

    def taking(self: Pool, count: int) -> list[int]:
        given.extend(taken := take(self, count))
        return taken

    def topping_up(self: Pool) -> bool:
        has_made = top_up(self)
        if has_made:
            made_ahead.set()
        return has_made

    with monkeypatch.context() as watched:
        watched.setattr(Pool, "take", taking)
        watched.setattr(Pool, "top_up", topping_up)
        with wired(problem, PLAN, through=lambda sender, peer: Slow(peer, made_ahead)) as trainings:
            found = run_together(trainings, 1)
            for training in trainings.values():
                training.keep_epoch(0)
                cipher = training.exchange._cipher
                assert isinstance(cipher, PaillierCipher)
                assert isinstance(cipher._engine, PooledEngine)
                assert all(len(pool) == 0 for pool in cipher._engine._pools.values())
                assert not cipher._engine.make_ahead()
    assert made_ahead.is_set()
    assert len(set(given)) == len(given)

    def without(engine: Engine) -> Engine:
        return engine

    monkeypatch.setattr(PooledEngine, "of", without)
    for mine, theirs in zip(train_encrypted(problem, PLAN), found, strict=True):
        np.testing.assert_array_equal(mine, theirs)
