"""Protocol 1's state machine: order, repetition, replacement. Plain values where only the order matters."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.common.meters import StageTimer
from services.exchange.outgoing import OutgoingVector
from services.exchange.peer import Peer
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector
from services.protocols.hu.gradient_exchange import RESIDUALS, SUMS
from tests.harness.ciphers import CIPHERS, PLAIN, TINY, in_thread
from tests.harness.exchanges import (
    ExchangePair,
    encrypted,
    exchange_pair,
    modulus_of,
    random_problem,
    run_together,
    train_encrypted,
    wired,
)

# -- keys -------------------------------------------------------------------------------------------------------------


@CIPHERS
def test_the_same_key_shown_twice_changes_nothing(plan: TrainingPlan) -> None:
    pair = exchange_pair(plan)
    pair.exchange.receive_key("passive", pair.peer.public_key)
    pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))


def test_a_second_key_in_a_session_is_refused_and_the_first_stays() -> None:
    pair, other = exchange_pair(TINY), exchange_pair(TINY)
    with pytest.raises(OutOfOrder, match="one key a party"):
        pair.exchange.receive_key("passive", other.peer.public_key)
    pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))


def test_residuals_before_the_key_are_refused_and_the_key_may_still_come() -> None:
    pair = exchange_pair(TINY, keys=False)
    with pytest.raises(OutOfOrder, match="must show its public key"):
        pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))
    pair.exchange.receive_key("passive", pair.peer.public_key)
    pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))


def test_keys_that_do_not_fit_the_terms_are_refused() -> None:
    pair = exchange_pair(TINY, keys=False)
    good = pair.peer.public_key
    n, proof = modulus_of(good), good.content[32:]
    shorter = exchange_pair(replace(TINY, key_bits=264)).peer.public_key
    for bad, words in (
        (replace(good, key_id="0" * 16), "Wrong key id"),
        (replace(good, content=(n + 1).to_bytes(32, "big") + proof), "passive's key is refused"),
        (shorter, "passive's key is refused"),
        (replace(good, content=b""), "passive's key is refused"),
        (replace(good, content=good.content[:32]), "passive's key is refused"),
        (replace(good, content=good.content[:32] + bytes(len(proof))), "passive's key is refused"),
        (pair.exchange.public_key, "passive's key is refused"),
    ):
        with pytest.raises(InvalidMessage, match=words):
            pair.exchange.receive_key("passive", bad)
    pair.exchange.receive_key("passive", good)


def test_a_plain_session_takes_no_paillier_key_and_no_other_partys_name() -> None:
    pair = exchange_pair(PLAIN, keys=False)
    for key_id, content in (("INSECURE-plain-passive", b"\x05"), ("INSECURE-plain-active", b"")):
        with pytest.raises(InvalidMessage, match="takes no Paillier key"):
            pair.exchange.receive_key("passive", PublicKeyShown(key_id, content))


@CIPHERS
def test_a_stranger_is_refused_everywhere(plan: TrainingPlan) -> None:
    pair = exchange_pair(plan)
    own = pair.exchange.outgoing_residuals(0, np.zeros((4, 1))).make()
    for call in (
        lambda: pair.exchange.receive_key("stranger", pair.peer.public_key),
        lambda: pair.exchange.receive("stranger", "residuals", 0, pair.peer_residuals(0)),
        lambda: pair.exchange.answer("stranger", "sums", 0, pair.peer_sums(own)),
    ):
        with pytest.raises(NotAllowed, match="stranger is not a party of this session"):
            call()


# -- repetition and replacement ---------------------------------------------------------------------------------------


def test_repeated_residuals_change_nothing_and_different_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = exchange_pair(TINY)
    first, second = pair.peer_residuals(0), pair.peer_residuals(0)
    assert first != second, "two encryptions of the same values differ"
    check, checked = pair.exchange._cipher.check_residuals, list[WireVector]()

    def counting(step: int, peer: str, rows: int, vector: WireVector) -> None:
        checked.append(vector)
        check(step, peer, rows, vector)

    monkeypatch.setattr(pair.exchange._cipher, "check_residuals", counting)
    pair.exchange.receive("passive", "residuals", 0, first)
    pair.exchange.receive("passive", "residuals", 0, first)
    assert checked == [first]
    with pytest.raises(OutOfOrder, match="Different residuals of step 0"):
        pair.exchange.receive("passive", "residuals", 0, second)
    sums = pair.exchange.masked_sums(0, "passive", np.ones((4, 3)), StageTimer())
    pair.peer.outgoing_residuals(0, np.zeros((4, 1))).make()
    share = pair.exchange.gradient_share("passive", pair.peer.answer("active", "sums", 0, sums))
    np.testing.assert_allclose(share, 4 * 0.5, atol=1e-8)


def test_a_step_is_decrypted_once_and_its_repetition_gets_the_very_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = exchange_pair(TINY)
    decrypted: list[WireVector] = []
    decrypt = pair.exchange._cipher.decrypt

    def counting(step: int, peer: str, vector: WireVector) -> DecryptedVector:
        decrypted.append(vector)
        return decrypt(step, peer, vector)

    told = list[tuple[str, int]]()
    monkeypatch.setattr(pair.exchange._cipher, "decrypt", counting)
    monkeypatch.setattr(pair.exchange._questions, "_answering", lambda *one: told.append(one))
    own = pair.exchange.outgoing_residuals(0, np.full((4, 1), 0.25)).make()
    question, other = pair.peer_sums(own), pair.peer_sums(own)
    answer = pair.exchange.answer("passive", "sums", 0, question)
    assert pair.exchange.answer("passive", "sums", 0, question) is answer
    with pytest.raises(OutOfOrder, match="a step is answered once"):
        pair.exchange.answer("passive", "sums", 0, other)
    assert pair.exchange.answer("passive", "sums", 0, question) is answer
    assert decrypted == [question]
    assert told == [("passive", answer.count)], "as often as a right to it is spent"


def test_of_two_different_questions_at_once_only_one_is_answered() -> None:
    for _ in range(5):
        pair = exchange_pair(TINY)
        own = pair.exchange.outgoing_residuals(0, np.full((4, 1), 0.25)).make()
        questions = [pair.peer_sums(own) for _ in range(4)]
        barrier = threading.Barrier(len(questions))

        def ask(question: WireVector, pair: ExchangePair = pair, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                pair.exchange.answer("passive", "sums", 0, question)
            except OutOfOrder:
                return False
            return True

        with in_thread() as threads:
            assert sum(threads.map(ask, questions)) == 1


def test_of_two_different_residuals_at_once_only_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pass the first look before either is kept: the checks of the ciphertexts meet at a barrier."""
    pair = exchange_pair(TINY)
    vectors = [pair.peer_residuals(0) for _ in range(2)]
    barrier = threading.Barrier(len(vectors))
    monkeypatch.setattr(pair.exchange._cipher, "check_residuals", lambda *_: barrier.wait(5))

    def send(vector: WireVector) -> bool:
        try:
            pair.exchange.receive("passive", "residuals", 0, vector)
        except OutOfOrder:
            return False
        return True

    with in_thread() as threads:
        assert sum(threads.map(send, vectors)) == 1


def test_the_answer_of_a_completed_step_is_repeated_and_forgotten_one_step_later() -> None:
    pair = exchange_pair(PLAIN)
    question = pair.peer_sums(pair.exchange.outgoing_residuals(0, np.zeros((4, 1))).make())
    answer = pair.exchange.answer("passive", "sums", 0, question)
    pair.exchange.complete_step(0)
    assert pair.exchange.answer("passive", "sums", 0, question) is answer
    pair.exchange.outgoing_residuals(1, np.zeros((4, 1))).make()
    pair.exchange.complete_step(1)
    with pytest.raises(OutOfOrder, match="Step 0 is out of order"):
        pair.exchange.answer("passive", "sums", 0, question)


class Held:
    """A cipher's method that waits to be let go of, but for the first vector that it is called with."""

    def __init__(self, method: Callable[..., Any], passing: WireVector) -> None:
        self._method = method
        self._passing = passing
        self.reached, self.let_go = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        if arguments[-1] != self._passing:
            self.reached.set()
            assert self.let_go.wait(5)
        return self._method(*arguments)


def test_a_question_that_was_late_is_not_answered_when_its_step_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: its decryption began while the first answer was on its way and ended when that was forgotten."""
    pair = exchange_pair(PLAIN)
    first = pair.peer_sums(pair.exchange.outgoing_residuals(0, np.zeros((4, 1))).make())
    late = pair.peer_sums(pair.exchange.outgoing_residuals(0, np.ones((4, 1))).make())
    held = Held(pair.exchange._cipher.decrypt, first)
    monkeypatch.setattr(pair.exchange._cipher, "decrypt", held)
    with in_thread() as threads:
        # Both are on their way at once: one of them is decrypted, however long it takes.
        one = threads.submit(pair.exchange.answer, "passive", SUMS, 0, late)
        assert held.reached.wait(5)
        with pytest.raises(OutOfOrder, match="a step is answered once"):
            pair.exchange.answer("passive", "sums", 0, first)
        for step in (0, 1):
            pair.exchange.outgoing_residuals(step, np.zeros((4, 1))).make()
            pair.exchange.complete_step(step)
        held.let_go.set()
        one.result(timeout=5)
    for question in (first, late):
        with pytest.raises(OutOfOrder, match="Step 0 is out of order"):
            pair.exchange.answer("passive", "sums", 0, question)


def test_a_question_repeated_while_it_is_decrypted_gets_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = exchange_pair(TINY)
    question = pair.peer_sums(pair.exchange.outgoing_residuals(0, np.full((4, 1), 0.25)).make())
    barrier = threading.Barrier(3)
    decrypt = pair.exchange._cipher.decrypt

    def meeting(*arguments: Any) -> DecryptedVector:
        barrier.wait(5)
        return decrypt(*arguments)

    monkeypatch.setattr(pair.exchange._cipher, "decrypt", meeting)
    with in_thread() as threads:
        answers = list(threads.map(lambda _: pair.exchange.answer("passive", "sums", 0, question), range(3)))
    assert answers[0] is answers[1] is answers[2]


def test_residuals_whose_check_outlasts_their_step_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = exchange_pair(PLAIN)
    first, late = pair.peer_residuals(0), pair.peer_residuals(4)
    held = Held(pair.exchange._cipher.check_residuals, first)
    monkeypatch.setattr(pair.exchange._cipher, "check_residuals", held)
    with in_thread() as threads:
        sending = threads.submit(pair.exchange.receive, "passive", RESIDUALS, 0, late)
        assert held.reached.wait(5)
        pair.exchange.receive("passive", "residuals", 0, first)
        pair.exchange.receive("passive", "residuals", 0, first)
        for step in (0, 1):
            pair.exchange.complete_step(step)
        held.let_go.set()
        with pytest.raises(OutOfOrder, match="Step 0 is out of order"):
            sending.result(timeout=5)


def test_an_answer_without_an_open_question_is_refused() -> None:
    pair = exchange_pair(PLAIN)
    pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))
    pair.exchange.masked_sums(0, "passive", np.ones((4, 3)), StageTimer())
    answer = DecryptedVector(3, 8, np.zeros(3).astype(">f8").tobytes())
    pair.exchange.gradient_share("passive", answer)
    with pytest.raises(OutOfOrder, match="No masked sums are open"):
        pair.exchange.gradient_share("passive", answer)


# -- order ------------------------------------------------------------------------------------------------------------


def test_sums_are_not_decrypted_before_this_partys_own_residuals_of_the_step_exist() -> None:
    pair, elsewhere = exchange_pair(PLAIN), exchange_pair(PLAIN)
    question = pair.peer_sums(elsewhere.exchange.outgoing_residuals(0, np.zeros((4, 1))).make())
    with pytest.raises(OutOfOrder, match="Step 0 is out of order"):
        pair.exchange.answer("passive", "sums", 0, question)


@pytest.mark.parametrize("step", [-1, 6, 2**32 - 1])
def test_a_step_that_the_session_does_not_have_is_refused(step: int) -> None:
    pair = exchange_pair(PLAIN)
    with pytest.raises(InvalidMessage, match="Expected a step from 0 to 5"):
        pair.exchange.receive("passive", "residuals", step, pair.peer_residuals(0))
    with pytest.raises(InvalidMessage, match="Expected a step from 0 to 5"):
        pair.exchange.answer("passive", "sums", step, pair.peer_residuals(0))


def test_residuals_may_be_one_step_early_and_not_two() -> None:
    pair = exchange_pair(PLAIN)
    pair.exchange.receive("passive", "residuals", 1, pair.peer_residuals(1))
    with pytest.raises(OutOfOrder, match="Step 2 is out of order: this party is at step 0"):
        pair.exchange.receive("passive", "residuals", 2, pair.peer_residuals(2))


def test_a_party_cannot_encrypt_a_step_that_is_not_its_own() -> None:
    pair = exchange_pair(PLAIN)
    with pytest.raises(OutOfOrder, match="Step 1 is out of order"):
        pair.exchange.outgoing_residuals(1, np.zeros((4, 1))).make()


# -- any order of duplicates ------------------------------------------------------------------------------------------


class _Repeating:
    """Delivers each message and then, as drawn, old ones again; their fate must not matter."""

    def __init__(self, peer: Peer, choices: list[int]) -> None:
        self._peer = peer
        self._choices = iter(choices)
        self._sent: list[tuple[str, tuple[object, ...]]] = []
        self._lock = threading.Lock()

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        self._peer.show_key(session_id, key)
        self._again("show_key", session_id, key)

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        self._peer.send(session_id, kind, step, vector)
        self._again("send", session_id, kind, step, vector)

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = self._peer.ask(session_id, kind, step, vector)
        self._again("ask", session_id, kind, step, vector)
        return self._peer.ask(session_id, kind, step, vector) if next(self._choices, 0) % 2 else answer

    def _again(self, name: str, *arguments: object) -> None:
        with self._lock:
            self._sent.append((name, arguments))
            repeated = [self._sent[-1 - choice % len(self._sent)] for choice in (next(self._choices, 0),) if choice]
        for method, values in repeated:
            with suppress(OutOfOrder):  # a message from more than a step ago
                getattr(self._peer, method)(*values)


REFERENCE: dict[str, list[bytes]] = {}


@given(choices=st.lists(st.lists(st.integers(0, 9), max_size=40), min_size=2, max_size=2))
@pytest.mark.parametrize("cipher", ["plain", "paillier"])
def test_duplicates_in_any_order_leave_the_weights_as_they_are(cipher: str, choices: list[list[int]]) -> None:
    problem = random_problem(rows=16)
    plan = replace(TINY, cipher=cipher, epochs=1, batch_size=4)
    if cipher not in REFERENCE:
        REFERENCE[cipher] = [weights.tobytes() for weights in train_encrypted(problem, plan)]
    drawn = dict(zip(("active", "passive"), choices, strict=True))
    with wired(problem, plan, through=lambda sender, peer: _Repeating(peer, drawn[sender])) as trainings:
        weights = run_together(trainings, plan.epochs)
    assert [block.tobytes() for block in weights] == REFERENCE[cipher]


# -- the state machine against a model of it --------------------------------------------------------------------------


class ExchangeModel(RuleBasedStateMachine):
    """Any sequence of messages: accepted, repeated or refused as a model of a few lines says."""

    STEPS, ROWS = 4, 2

    @initialize()
    def begin(self) -> None:
        self.pair = exchange_pair(PLAIN, steps=self.STEPS, rows=self.ROWS, keys=False)
        self.key_shown = False
        self.step, self.encrypted = 0, -1
        self.residuals: dict[int, int] = {}
        self.questions: dict[int, int] = {}

    def expect(self, refusal: type[FederationError] | None, call: Callable[[], object]) -> None:
        if refusal is None:
            call()
        else:
            with pytest.raises(refusal):
                call()

    @rule()
    def show_key(self) -> None:
        self.pair.exchange.receive_key("passive", self.pair.peer.public_key)
        self.key_shown = True

    @rule(offset=st.integers(-2, 2), variant=st.integers(0, 1))
    def residuals_come(self, offset: int, variant: int) -> None:
        step = self.step + offset
        vector = encrypted(self.pair.peer, step, np.full((self.ROWS, 1), float(variant)))
        refusal: type[FederationError] | None = None
        if not self.key_shown:
            refusal = OutOfOrder
        elif step in self.residuals:
            refusal = None if self.residuals[step] == variant else OutOfOrder
        elif not 0 <= step < self.STEPS:
            refusal = InvalidMessage
        elif step not in (self.step, self.step + 1):
            refusal = OutOfOrder
        self.expect(refusal, lambda: self.pair.exchange.receive("passive", "residuals", step, vector))
        if refusal is None:
            self.residuals.setdefault(step, variant)

    @rule(offset=st.integers(-2, 2), variant=st.integers(0, 1))
    def sums_come(self, offset: int, variant: int) -> None:
        step = self.step + offset
        values = np.full(2, float(variant)).astype(">f8").tobytes()
        vector = WireVector(self.pair.exchange.public_key.key_id, 2, 8, 0, values)
        refusal: type[FederationError] | None = None
        if not 0 <= step < self.STEPS:
            refusal = InvalidMessage
        elif not self.step - 1 <= step <= self.encrypted or self.questions.get(step, variant) != variant:
            refusal = OutOfOrder
        self.expect(refusal, lambda: self.pair.exchange.answer("passive", "sums", step, vector))
        if refusal is None:
            self.questions.setdefault(step, variant)

    @precondition(lambda self: self.step < self.STEPS)
    @rule()
    def encrypt(self) -> None:
        self.pair.exchange.outgoing_residuals(self.step, np.zeros((self.ROWS, 1))).make()
        self.encrypted = self.step

    @precondition(lambda self: self.encrypted == self.step and self.step in self.residuals)
    @rule()
    def take_the_step(self) -> None:
        sums = self.pair.exchange.masked_sums(self.step, "passive", np.ones((self.ROWS, 3)), StageTimer())
        assert np.frombuffer(sums.data, ">f8").tolist() == [self.ROWS * float(self.residuals[self.step])] * 3
        self.pair.exchange.complete_step(self.step)
        self.residuals = {step: variant for step, variant in self.residuals.items() if step >= self.step}
        self.questions = {step: variant for step, variant in self.questions.items() if step >= self.step}
        self.step += 1

    @precondition(lambda self: self.step < self.STEPS)
    @rule(variant=st.integers(0, 1))
    def take_a_whole_step(self, variant: int) -> None:
        """What it would take luck to draw rule by rule."""
        self.show_key()
        if self.step not in self.residuals:
            self.residuals_come(0, variant)
        self.encrypt()
        self.take_the_step()

    @invariant()
    def at_most_two_steps_are_kept(self) -> None:
        if hasattr(self, "pair"):
            exchange = self.pair.exchange
            residuals, questions = [step for _, _, step in exchange._received], exchange._questions._asked
            assert set(residuals) == set(self.residuals)
            assert set(questions) == {("passive", step) for step in self.questions}
            assert max(len(residuals), len(questions)) <= 3


ExchangeModel.TestCase.settings = settings(stateful_step_count=30)

TestExchangeModel = ExchangeModel.TestCase
