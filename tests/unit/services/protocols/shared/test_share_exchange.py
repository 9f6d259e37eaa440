"""The exchange with a thread for each party, over real mTLS as well, and what it refuses."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.certificates import create_federation_certificates
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.common.identity import Identity, role_of
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import PublicKeyShown, WireVector
from services.in_process.direct_peers import DirectPeer
from services.protocols.shared.opening import opened, word_of
from services.protocols.shared.share_exchange import ShareExchange
from services.protocols.shared.share_mailbox import Outgoing
from services.protocols.shared.share_messages import Kind, MessageSizes
from services.protocols.shared.shared_steps import SharedSteps
from services.protocols.shared.shared_terms import SharedTerms
from tests.harness.shared_sessions import (
    SHARED_PLAN,
    SharedProblem,
    SharedSession,
    largest_error,
    trained_in_float64,
)
from tests.harness.shared_wiring import as_session, over_mutual_tls, run_all, wired_shares
from vfl.arrays import IntArray
from vfl.crypto.sharing.shares import Shares


@pytest.mark.parametrize("columns", [(3, 2), (3, 2, 1)])
def test_threads_train_as_float64_does(columns: tuple[int, ...]) -> None:
    problem = SharedProblem.random(columns=columns, classes=3)
    with wired_shares(problem) as parties:
        session = as_session(problem, SHARED_PLAN, parties)
        first = session.joined()
        run_all(parties, session.terms)
        assert largest_error(session, trained_in_float64(session, first)) < 1e-9


def test_messages_that_come_twice_change_nothing() -> None:
    """Every message is sent again by a link that doesn't trust the network, and comes in any order."""

    class Insistent(DirectPeer):
        def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
            for _ in range(3):
                super().send(session_id, kind, step, vector)

        def show_key(self, session_id: str, key: PublicKeyShown) -> None:
            for _ in range(2):
                super().show_key(session_id, key)

    problem = SharedProblem.random(columns=(3, 2, 1))
    with wired_shares(problem, peer=lambda sender, name, all_: Insistent(sender, lambda _: all_[name])) as parties:
        session = as_session(problem, SHARED_PLAN, parties)
        first = session.joined()
        run_all(parties, session.terms)
        assert largest_error(session, trained_in_float64(session, first)) < 1e-9


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    names = ["coordinator", "active", "passive-1", "passive-2", "operator"]
    create_federation_certificates(folder, [Identity(role_of(name), name) for name in names])
    return folder


def test_three_parties_train_over_mutual_tls(certificates: Path) -> None:
    problem = SharedProblem.random(columns=(3, 2, 1))
    with over_mutual_tls(certificates) as linked, wired_shares(problem, peer=linked) as parties:
        session = as_session(problem, SHARED_PLAN, parties)
        first = session.joined()
        run_all(parties, session.terms)
        assert largest_error(session, trained_in_float64(session, first)) < 1e-9


# --- one party, whose peer is the test ---


class Half:
    """The label party's exchange, and the messages that its peer has for it."""

    def __init__(self, parties: Mapping[str, SharedSteps], session: SharedSession) -> None:
        self.mine, self.theirs = parties["active"].exchange, parties["passive-1"].exchange
        self.mine.receive_key("passive-1", self.theirs.public_key)
        self.theirs.receive_key("active", self.mine.public_key)
        self.features = list(self.theirs.features())
        for one in self.mine.features():
            self.theirs.receive("active", one.kind, one.step, one.vector)
        self.theirs.await_features()
        weights: Any = session.halves["passive-1"].weights
        self.weights: Shares = weights
        self.batch: IntArray = next(session.batches())[1]

    def forward(self, step: int = 0) -> Outgoing:
        (message,) = self.theirs.forward(step, self.batch, self.weights)
        return message

    def products(self) -> Shares:
        return self.theirs.products(0, self.batch, self.weights)

    def deliver(self, message: Outgoing, **changes: object) -> None:
        vector = replace(message.vector, **changes)  # type: ignore[arg-type]
        self.mine.receive("passive-1", message.kind, message.step, vector)


@pytest.fixture
def half() -> Iterator[Half]:
    problem = SharedProblem.random()
    with wired_shares(problem, timeout=0.2) as parties:
        yield Half(parties, as_session(problem, SHARED_PLAN, parties))


def test_another_message_in_its_place_is_refused(half: Half) -> None:
    message = half.forward()
    half.deliver(message)
    half.deliver(message)
    width = message.vector.width
    data = message.vector.data[width:] + message.vector.data[:width]
    with pytest.raises(OutOfOrder, match="taken once"):
        half.deliver(message, data=data)
    half.deliver(half.features[0])
    rows = half.features[0].vector
    with pytest.raises(OutOfOrder, match="taken once"):
        half.deliver(half.features[0], data=rows.data[rows.width :] + rows.data[: rows.width])


def test_a_step_that_is_over_does_not_come_back(half: Half) -> None:
    message = half.forward()
    half.deliver(message)
    half.mine.complete_step(0)
    half.deliver(message)
    half.mine.complete_step(1)
    with pytest.raises(OutOfOrder, match="at step 2"):
        half.deliver(message)
    with pytest.raises(OutOfOrder, match="out of order"):
        half.deliver(replace(message, step=4))
    with pytest.raises(InvalidMessage, match="from 0 to"):
        half.deliver(replace(message, step=10**6))


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 1},
        {"width": 8},
        {"exponent": -4},
        {"key_id": "0" * 16},
        {"data": b""},
        {"data": b"\0" * 640},
        {"data": b"\xff" * 640},
    ],
)
def test_anything_but_the_agreed_ciphertexts_is_refused_and_changes_nothing(
    half: Half, changes: dict[str, object]
) -> None:
    message = half.forward()
    with pytest.raises(InvalidMessage):
        half.deliver(message, **changes)
    half.deliver(message)


def test_who_has_nothing_to_send_is_refused(half: Half) -> None:
    message = half.forward()
    with pytest.raises(NotAllowed, match="no handed"):
        half.mine.receive("passive-1", Kind.HANDED, 0, message.vector)
    with pytest.raises(NotAllowed, match="not a party"):
        half.mine.receive("passive-7", message.kind, 0, message.vector)


def test_a_session_has_one_key_of_its_own(half: Half) -> None:
    half.mine.receive_key("passive-1", half.theirs.public_key)
    with pytest.raises(OutOfOrder, match="one key"):
        half.mine.receive_key("passive-1", half.mine.public_key)
    with wired_shares(SharedProblem.random()) as others:
        other = others["active"].exchange
        # Its proof names a party and a session.
        with pytest.raises(InvalidMessage, match="refused"):
            other.receive_key("passive-1", half.mine.public_key)


def test_nothing_comes_before_the_key() -> None:
    problem = SharedProblem.random()
    with wired_shares(problem) as parties, pytest.raises(OutOfOrder, match="show its public key"):
        parties["active"].exchange.receive("passive-1", Kind.ROWS, 0, WireVector("", 1, 1, 0, b"1"))


def test_a_peer_that_sends_nothing_is_named(half: Half) -> None:
    with pytest.raises(PeerVanished, match="passive-1's rows"):
        half.mine.await_features()


def test_the_end_wakes_who_waits_and_forgets_the_others_features(half: Half) -> None:
    for one in half.features:
        half.deliver(one)
    half.mine.await_features()
    found: list[FederationError] = []
    half.mine._order._timeout = 20.0

    def wait() -> None:
        try:
            half.mine.products(0, half.batch, half.weights)
        except FederationError as error:
            found.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    half.mine.end("the operator has cancelled.")
    waiting.join(10)
    assert str(found[0]) == "The session has ended: the operator has cancelled."
    assert not half.mine._holder._rows
    assert not half.mine._holder._blocks
    assert not half.mine._received
    with pytest.raises(OutOfOrder, match="has ended"):
        half.mine.forward(0, half.batch, half.weights)
    with pytest.raises(OutOfOrder, match="has ended"):
        half.deliver(half.forward())


def test_a_message_that_is_being_read_at_the_end_is_not_kept(half: Half, monkeypatch: pytest.MonkeyPatch) -> None:
    read = half.mine._values

    def ending(*arguments: Any) -> tuple[int, ...]:
        half.mine.end("the operator has cancelled.")
        return read(*arguments)

    monkeypatch.setattr(half.mine, "_values", ending)
    with pytest.raises(OutOfOrder, match="has ended"):
        half.deliver(half.features[0])
    assert not half.mine._received


def test_features_that_are_here_at_the_end_are_not_taken(half: Half, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has left its wait when the session ends: it takes nothing, and is told why."""
    for one in half.features:
        half.deliver(one)
    for call, exchange in ((half.mine.await_features, half.mine), (half.products, half.theirs)):

        def ending(*_: Any, of: ShareExchange = exchange) -> tuple[int, ...]:
            of.end("the operator has cancelled.")
            return ()

        monkeypatch.setattr(exchange, "_await", ending)
        with pytest.raises(OutOfOrder, match="has ended"):
            call()
    assert not half.mine._holder._rows


def test_what_was_made_of_keys_ends_with_the_session(half: Half) -> None:
    """Workers that a late computation starts again are ended when it is done."""
    engine: Any = half.theirs._holder.engine
    half.forward()
    assert engine._pools
    assert not engine._closed.is_set()
    half.theirs.end("training is complete.")
    assert engine._closed.is_set()
    assert not engine._rerandomisers


def test_sizes_are_public_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = SharedProblem.random()
    sizes = MessageSizes(SharedTerms(problem.agreement()))
    sizes.check()
    monkeypatch.setattr("services.common.limits.FEATURE_CIPHERTEXT_BYTES", 1000)
    with pytest.raises(InvalidMessage, match="encrypted features"):
        sizes.check()


def test_features_travel_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.protocols.shared.share_messages._VALUES_PER_PART", 5)
    problem = SharedProblem.random(rows=11, columns=(3, 2, 1))
    with wired_shares(problem) as parties:
        session = as_session(problem, SHARED_PLAN, parties)
        first = session.joined()
        run_all(parties, session.terms)
        assert largest_error(session, trained_in_float64(session, first)) < 1e-9


# --- the opening ---


@pytest.mark.parametrize("bits", [18, 24])
def test_owners_get_their_weights_once_and_no_step_follows(bits: int) -> None:
    problem = SharedProblem.random(columns=(3, 2, 1), classes=3)
    plan = SHARED_PLAN.changed(epochs=1, opening_bits=bits)
    with wired_shares(problem, plan) as parties:
        session = as_session(problem, plan, parties)
        run_all(parties, session.terms)
        expected = session.joined()
        with ThreadPoolExecutor(3) as threads:
            words = {name: threads.submit(one.open) for name, one in parties.items()}
        for name, weights in words.items():
            assert np.abs(weights.result() - expected[name]).max() <= 2.0 ** (8 - bits)
        active = parties["active"]
        message = active.exchange.open(active.half.weights)  # type: ignore[arg-type]
        # Whatever has become of the weights, the word is the one that was kept.
        other = Shares.of(np.ones(active.half.weights.shape), session.terms.formats.product_fraction_bits)
        assert active.exchange.open(other) == message
        assert {one.vector.width for one in message} == {3}
        with pytest.raises(OutOfOrder, match="no further step"):
            active.exchange.forward(0, session.terms.schedule.epoch(0).__next__(), other)


def test_nothing_is_opened_before_training_is_over(half: Half) -> None:
    (message,) = half.theirs.open(half.weights)
    with pytest.raises(OutOfOrder, match="all steps"):
        half.deliver(message)


@pytest.mark.parametrize("bits", [18, 21, 24])
def test_a_word_has_its_bits_and_no_more(bits: int) -> None:
    """Above and below them nothing of a share leaves: shares that differ there give the same word."""
    share = Shares(np.array([[123 << 56 - bits]], dtype=object), 48)
    other = Shares(share.integers + (1 << 48 + 8) + (1 << 20), 48)
    assert word_of(share, bits).tolist() == word_of(other, bits).tolist() == [[123]]
    assert opened(word_of(Shares.of([[-3.5]], 48), bits), Shares.of([[1.25]], 48), bits).tolist() == [[-2.25]]
