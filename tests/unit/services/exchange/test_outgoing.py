"""What overlaps in a step: parts that travel while others are encrypted, and peers whose answers come in any order."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from protos.v1 import messages_pb2_grpc
from services.ciphers import cipher
from services.ciphers.cipher import make_cipher
from services.common.agreement import TrainingPlan
from services.common.errors import Diverged, PeerRefused, PeerVanished
from services.common.meters import StageTimer
from services.common.wire import joined
from services.exchange import servicer
from services.exchange.message_link import MessageLink
from services.exchange.outgoing import OutgoingVector
from services.exchange.peer import Peer
from services.exchange.vectors import DecryptedVector, VectorHeader, WireVector
from services.protocols.hu.gradient_exchange import RESIDUALS, GradientExchange
from tests.harness.ciphers import CIPHERS, PLAIN, TINY, in_thread
from tests.harness.connections import make_certificates, transport_of
from tests.harness.exchanges import (
    SESSION,
    SMALL_PLAN,
    encrypted,
    exchange_pair,
    random_problem,
    run_together,
    train_encrypted,
    wired,
)

HANGS = 20.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


def slowly(vector: WireVector, may_go_on: threading.Event, fails: bool = False) -> Iterator[bytes]:
    """The first half of a vector, and the second as soon as it may be made."""
    half = len(vector.data) // 2
    yield vector.data[:half]
    assert may_go_on.wait(HANGS)
    if fails:
        raise OverflowError("the second half can't be made")
    yield vector.data[half:]


def outgoing_of(header: VectorHeader, parts: Iterable[bytes]) -> OutgoingVector:
    return OutgoingVector(header, parts, lambda: None)


# -- the vector ----------------------------------------------------------------------------------------------------


def test_a_part_is_handed_out_before_the_next_is_made_and_to_each_sender_from_the_first() -> None:
    vector, may_go_on = WireVector("key", 4, 2, 0, b"abcdefgh"), threading.Event()
    growing = outgoing_of(vector.header, slowly(vector, may_go_on))
    with in_thread() as threads:
        making = threads.submit(growing.make)
        first, second = growing.parts(), growing.parts()
        assert next(first) == next(second) == b"abcd"
        assert not making.done()
        may_go_on.set()
        assert list(first) == list(second) == [b"efgh"]
        assert making.result() == growing.whole() == vector
    assert list(growing.parts()) == [b"abcd", b"efgh"]


def test_nobody_gets_the_last_part_before_the_vector_counts_as_encrypted() -> None:
    events: list[str] = []
    vector = WireVector("key", 4, 2, 0, b"abcdefgh")
    may_go_on = threading.Event()
    may_go_on.set()
    growing = OutgoingVector(vector.header, slowly(vector, may_go_on), lambda: events.append("is whole"))
    growing._tell = lambda *parts: events.extend(part.decode() for part in parts)  # type: ignore[method-assign]
    growing.whole = lambda: vector  # type: ignore[method-assign]
    growing.make()
    assert events == ["abcd", "is whole", "efgh"]


@CIPHERS
@pytest.mark.parametrize("packing", [True, False])
def test_parts_are_the_vector_that_the_header_announces(
    plan: TrainingPlan, packing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cipher, "_CIPHERTEXTS_PER_PART", 2)
    pair = exchange_pair(replace(plan, packing=packing), rows=5)
    header, parts = pair.peer._cipher.encrypt(0, np.full((5, 1), 0.5))
    data = list(parts)
    assert len(data) == (1 if plan.cipher == "plain" else -(-header.count // 2))
    pair.exchange.receive("passive", "residuals", 0, outgoing_of(header, data).make())
    sums = pair.exchange.masked_sums(0, "passive", np.ones((5, 3)), StageTimer())
    pair.peer.outgoing_residuals(0, np.zeros((5, 1))).make()
    share = pair.exchange.gradient_share("passive", pair.peer.answer("active", "sums", 0, sums))
    np.testing.assert_allclose(share, 5 * 0.5, atol=1e-8)


def test_a_part_holds_whole_rows_of_as_many_ciphertexts_or_a_few_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cipher, "_CIPHERTEXTS_PER_PART", 4)
    agreement = replace(exchange_pair(replace(TINY, packing=False), rows=5).agreement, classes=3)
    header, parts = make_cipher(agreement, "passive").encrypt(0, np.zeros((5, 3)))
    assert [len(part) // header.width for part in parts] == [6, 6, 3]


@pytest.mark.parametrize("classes", [2, 3])
def test_training_in_many_parts_gives_the_same_weights(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = random_problem(classes=classes), replace(SMALL_PLAN, key_bits=384, epochs=1)
    expected = train_encrypted(problem, plan)
    monkeypatch.setattr(cipher, "_CIPHERTEXTS_PER_PART", 1)
    for mine, theirs in zip(train_encrypted(problem, plan), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_residuals_that_do_not_fit_are_refused_before_any_part_is_made() -> None:
    pair = exchange_pair(TINY)
    residual = np.zeros((4, 1))
    residual[-1] = 2.0**30
    with pytest.raises(Diverged, match="leave the agreed range"):
        pair.exchange.outgoing_residuals(0, residual)


# -- over the wire -------------------------------------------------------------------------------------------------


class Served:
    """An active party's exchange behind a real server, and a link of its peer to it."""

    def __init__(self, stack: ExitStack, certificates: Path) -> None:
        self.pair = exchange_pair(TINY, rows=6)
        self.arrived = threading.Event()
        served = servicer.MessagesServicer(lambda _: self.pair.exchange)
        self.server, port = transport_of(certificates, "active").serve(
            "127.0.0.1:0",
            [lambda server: messages_pb2_grpc.add_MessagesServicer_to_server(served, server)],
            servicer.PERMISSIONS,
            [servicer.SERVICE_NAME],
        )
        stack.callback(lambda: self.server.stop(None).wait())
        channel = transport_of(certificates, "passive").dial(f"127.0.0.1:{port}", "active")
        self.link = MessageLink("active", channel, HANGS)

    @property
    def residuals(self) -> dict[int, WireVector]:
        return {step: message.values for (_, _, step), message in self.pair.exchange._received.items()}


@pytest.fixture
def served(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with ExitStack() as stack:
        made = Served(stack, certificates)

        def watched(parts: Iterable[bytes], limit: int) -> bytes:
            def seen() -> Iterator[bytes]:
                for part in parts:
                    made.arrived.set()
                    yield part

            return joined(seen(), limit)

        monkeypatch.setattr("services.exchange.servicer.joined", watched)
        yield made


def test_the_first_part_arrives_while_the_next_is_not_yet_made(served: Served) -> None:
    vector = served.pair.peer_residuals(0)
    # It is the arrival that lets the second half be made.
    growing = outgoing_of(vector.header, slowly(vector, served.arrived))
    with in_thread() as threads:
        sending = threads.submit(served.link.send, SESSION, RESIDUALS, 0, growing)
        growing.make()
        sending.result(HANGS)
    assert served.residuals == {0: vector}
    # Twice is once, and others in its place are refused.
    served.link.send(SESSION, "residuals", 0, growing)
    assert served.residuals == {0: vector}
    with pytest.raises(PeerRefused, match="Different residuals of step 0"):
        served.link.send(SESSION, "residuals", 0, served.pair.peer_residuals(0))
    assert served.residuals == {0: vector}


def test_a_vector_that_breaks_off_is_refused_and_the_right_one_may_follow(served: Served) -> None:
    vector = served.pair.peer_residuals(0)
    growing = outgoing_of(vector.header, slowly(vector, served.arrived, fails=True))
    with in_thread() as threads:
        sending = threads.submit(served.link.send, SESSION, RESIDUALS, 0, growing)
        with pytest.raises(OverflowError):
            growing.make()
        with pytest.raises(PeerRefused, match=f"Expected {len(vector.data)} bytes of values"):
            sending.result(HANGS)
    assert served.residuals == {}
    served.link.send(SESSION, "residuals", 0, vector)
    assert served.residuals == {0: vector}


def test_a_peer_that_dies_while_parts_are_sent_is_named_and_nobody_hangs(served: Served) -> None:
    vector, may_go_on = served.pair.peer_residuals(0), threading.Event()
    growing = outgoing_of(vector.header, slowly(vector, may_go_on))
    with in_thread() as threads:
        sending = threads.submit(served.link.send, SESSION, RESIDUALS, 0, growing)
        making = threads.submit(growing.make)
        assert served.arrived.wait(HANGS)
        served.server.stop(None).wait()
        with pytest.raises(PeerVanished, match="active does not answer"):
            sending.result(HANGS)
        may_go_on.set()
        assert making.result(HANGS) == vector
    assert served.residuals == {}


# -- several peers -------------------------------------------------------------------------------------------------


class Late:
    """Holds back the residuals of one party until another's have been answered."""

    def __init__(self, sender: str, peer: Peer, answered: threading.Event) -> None:
        self.show_key = peer.show_key
        self._sender, self._peer, self._answered = sender, peer, answered

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        if self._sender == "passive-1" and step == 0:
            assert self._answered.wait(HANGS)
        self._peer.send(session_id, kind, step, vector)

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = self._peer.ask(session_id, kind, step, vector)
        if self._sender == "active":
            # Of passive-2, as passive-1's residuals are held back until now.
            self._answered.set()
        return answer


def test_a_peer_that_is_late_holds_up_nobody_else_and_the_weights_are_the_same() -> None:
    problem, plan = random_problem(parties=3), replace(SMALL_PLAN, key_bits=384, epochs=1)
    expected = train_encrypted(problem, plan)
    answered = threading.Event()
    with wired(problem, plan, through=lambda sender, peer: Late(sender, peer, answered)) as trainings:
        found = run_together(trainings, 1)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_peers_come_as_they_arrive_and_all_who_do_not_are_named() -> None:
    agreement = random_problem(parties=4).agreement(PLAIN)
    exchanges = {
        name: GradientExchange(
            make_cipher(agreement, name),
            [other.name for other in agreement.peers_of(name)],
            steps=1,
            rows_of_step=lambda _: 8,
            timeout=0.2,
        )
        for name in ("active", "passive-1", "passive-2", "passive-3")
    }
    own = exchanges.pop("active")
    for name, exchange in exchanges.items():
        own.receive_key(name, exchange.public_key)
    own.receive("passive-2", "residuals", 0, encrypted(exchanges["passive-2"], 0, np.zeros((8, 1))))
    arrivals = own.arrivals(0)
    assert next(arrivals) == "passive-2"
    with pytest.raises(PeerVanished, match="passive-1, passive-3's residuals of step 0"):
        next(arrivals)
