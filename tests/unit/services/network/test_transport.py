"""Protocol 1 over real mTLS in one process: permissions, malformed streams against a live session, large vectors."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import grpc
import numpy as np
import pytest

from protos.v1 import messages_pb2, messages_pb2_grpc
from services.ciphers.cipher import make_cipher
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.certificates import create_federation_certificates
from services.common.errors import OutOfOrder
from services.common.identity import Identity, role_of
from services.common.meters import TrafficMeter
from services.common.wire import PART_BYTES
from services.exchange import servicer as exchange_servicer
from services.exchange.message_link import MessageLink, parts_of_message
from services.exchange.peer import Peer
from services.exchange.vectors import DecryptedVector, VectorHeader, WireVector
from services.network import gate, statuses
from services.party.party_training import PartyTraining
from services.party.training_means import TrainingMeans
from services.protocols.hu.gradient_exchange import RESIDUALS, SUMS, GradientExchange
from tests.harness.connections import NAMELESS, issue_nameless, raw_channel, transport_of
from tests.harness.exchanges import (
    SESSION,
    SMALL_PLAN,
    ExchangePair,
    encrypted,
    exchange_pair,
    largest_difference,
    modulus_of,
    problem_of,
    run_together,
    train_plainly,
)
from tests.harness.processes import refused

NAMES = ["coordinator", "active", "passive", "operator", "stranger"]
TINY = replace(SMALL_PLAN, key_bits=256)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certs")
    create_federation_certificates(folder, [Identity(role_of(name), name) for name in NAMES])
    return folder


def serve_exchange(
    stack: ExitStack, certificates: Path, name: str, exchange_of: Callable[[str], GradientExchange]
) -> str:
    """Serve one party's exchange until the stack closes; returns its address."""
    servicer = exchange_servicer.MessagesServicer(exchange_of)
    server, port = transport_of(certificates, name).serve(
        "127.0.0.1:0",
        [lambda added: messages_pb2_grpc.add_MessagesServicer_to_server(servicer, added)],
        exchange_servicer.PERMISSIONS,
        [exchange_servicer.SERVICE_NAME],
    )
    stack.callback(lambda: server.stop(None).wait())
    return f"127.0.0.1:{port}"


@dataclass(frozen=True)
class Live:
    """An active party's exchange in mid-step 0 behind a server, and how to reach it as anyone."""

    pair: ExchangePair
    question: WireVector
    address: str
    certificates: Path

    def stub(self, caller: str = "passive") -> messages_pb2_grpc.MessagesStub:
        return messages_pb2_grpc.MessagesStub(transport_of(self.certificates, caller).dial(self.address, "active"))


@pytest.fixture
def live(certificates: Path) -> Iterator[Live]:
    pair = exchange_pair(TINY, rows=6)

    def exchange_of(session_id: str) -> GradientExchange:
        if session_id != SESSION:
            raise OutOfOrder("No such session here.")
        return pair.exchange

    with ExitStack() as stack:
        question = pair.peer_sums(pair.exchange.outgoing_residuals(0, np.zeros((6, 1))).make())
        yield Live(pair, question, serve_exchange(stack, certificates, "active", exchange_of), certificates)


def ask(stub: messages_pb2_grpc.MessagesStub, parts: list[messages_pb2.MessagePart]) -> bytes:
    return b"".join(part.data for part in stub.Ask(iter(parts), timeout=10))


def parts_of_question(live: Live, **changes: object) -> list[messages_pb2.MessagePart]:
    return list(parts_of_message(SESSION, SUMS, 0, replace(live.question, **changes)))  # type: ignore[arg-type]


def first_value(live: Live, value: int) -> bytes:
    width = live.question.width
    return value.to_bytes(width, "big") + live.question.data[width:]


MALFORMED: dict[str, Callable[[Live], list[messages_pb2.MessagePart]]] = {
    "nothing at all": lambda live: [],
    "no header": lambda live: parts_of_question(live)[1:],
    "header after data": lambda live: parts_of_question(live)[::-1],
    "header alone": lambda live: parts_of_question(live)[:1],
    "count too large": lambda live: parts_of_question(live, count=live.question.count + 1),
    "count zero": lambda live: parts_of_question(live, count=0),
    "width zero": lambda live: parts_of_question(live, width=0),
    "too many bytes": lambda live: parts_of_question(live, data=live.question.data * 2),
    "too few bytes": lambda live: parts_of_question(live, data=live.question.data[:-1]),
    "a gigantic vector": lambda live: parts_of_question(live, count=2**31, width=2**31),
    "exponent": lambda live: parts_of_question(live, exponent=3),
    "another key": lambda live: parts_of_question(live, key_id=live.pair.peer.public_key.key_id),
    "garbage bytes": lambda live: parts_of_question(live, data=b"\xff" * len(live.question.data)),
    "ciphertext 0": lambda live: parts_of_question(live, data=first_value(live, 0)),
    "a multiple of n": lambda live: parts_of_question(
        live, data=first_value(live, 3 * modulus_of(live.pair.exchange.public_key))
    ),
    "step beyond the session": lambda live: list(parts_of_message(SESSION, SUMS, 2**32 - 1, live.question)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_question_is_an_invalid_argument_and_the_right_one_is_still_answered(
    live: Live, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    stub = live.stub()
    with pytest.raises(grpc.RpcError) as error:
        ask(stub, MALFORMED[name](live))
    status, words = refused(error)
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert words.endswith(".")
    assert len(ask(stub, parts_of_question(live))) == live.pair.answer_bytes
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("name", sorted(set(MALFORMED) - {"a multiple of n"}))
def test_malformed_residuals_are_refused_alike(live: Live, name: str) -> None:
    parts = MALFORMED[name](live)
    for part in parts:
        if part.WhichOneof("part") == "header":
            part.header.kind = RESIDUALS
    with pytest.raises(grpc.RpcError) as error:
        live.stub().Send(iter(parts), timeout=10)
    assert refused(error)[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_a_caller_who_hangs_up_in_mid_stream_leaves_no_traceback(
    live: Live, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: the servicer's own iterator raises grpc.RpcError, which is logged as "Unexpected error" with a traceback.
    reading, logged, released = threading.Event(), threading.Event(), threading.Event()
    read_values, abort_with = exchange_servicer.read_values, statuses.abort_with

    def observed_read(header: VectorHeader, parts: Iterator[messages_pb2.MessagePart]) -> object:
        reading.set()
        return read_values(header, parts)

    def observed_abort(context: grpc.ServicerContext, error: Exception, call: str, *, is_logged: bool) -> NoReturn:
        try:
            abort_with(context, error, call, is_logged=is_logged)
        finally:
            logged.set()

    def hanging() -> Iterator[messages_pb2.MessagePart]:
        yield next(parts_of_message(SESSION, "residuals", 0, live.pair.peer_residuals(0)))
        released.wait(10)

    monkeypatch.setattr(exchange_servicer, "read_values", observed_read)
    monkeypatch.setattr(gate, "abort_with", observed_abort)
    call = live.stub().Send.future(hanging(), timeout=10)
    assert reading.wait(5)
    call.cancel()
    logged.wait(2)
    released.set()
    assert ask(live.stub(), parts_of_question(live))
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("caller", "status", "words"),
    [
        ("operator", grpc.StatusCode.PERMISSION_DENIED, "not for role operator"),
        ("coordinator", grpc.StatusCode.PERMISSION_DENIED, "not for role coordinator"),
        ("stranger", grpc.StatusCode.PERMISSION_DENIED, "stranger is not a party of this session"),
    ],
)
def test_who_is_no_party_of_the_session_gets_nothing_decrypted(
    live: Live, caller: str, status: grpc.StatusCode, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as error:
        ask(live.stub(caller), parts_of_question(live))
    assert refused(error)[0] is status
    assert words in refused(error)[1]
    assert ask(live.stub(), parts_of_question(live))


def test_an_unknown_session_is_a_failed_precondition(live: Live) -> None:
    with pytest.raises(grpc.RpcError) as error:
        ask(live.stub(), list(parts_of_message("another", SUMS, 0, live.question)))
    assert refused(error)[0] is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(grpc.RpcError) as error:
        live.stub().ShowKey(messages_pb2.KeyMessage(session_id="another"), timeout=10)
    assert refused(error)[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_a_second_different_question_is_a_failed_precondition(live: Live) -> None:
    stub = live.stub()
    answer = ask(stub, parts_of_question(live))
    other = live.pair.peer_sums(live.pair.exchange.outgoing_residuals(0, np.ones((6, 1))).make())
    with pytest.raises(grpc.RpcError) as error:
        ask(stub, list(parts_of_message(SESSION, SUMS, 0, other)))
    assert refused(error)[0] is grpc.StatusCode.FAILED_PRECONDITION
    assert ask(stub, parts_of_question(live)) == answer


def test_an_error_that_is_not_ours_reaches_the_caller_without_its_text(
    certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(session_id: str) -> GradientExchange:
        raise RuntimeError("the data of a person")

    with ExitStack() as stack:
        address = serve_exchange(stack, certificates, "active", broken)
        stub = messages_pb2_grpc.MessagesStub(transport_of(certificates, "passive").dial(address, "active"))
        with pytest.raises(grpc.RpcError) as error:
            stub.ShowKey(messages_pb2.KeyMessage(), timeout=10)
    status, words = refused(error)
    assert status is grpc.StatusCode.INTERNAL
    assert "RuntimeError" in words
    assert "person" not in words


def test_a_certificate_without_an_identity_of_this_federation_is_unauthenticated(live: Live, tmp_path: Path) -> None:
    """Signed by the right authority, but its name is no plumbline:// URI."""
    for name in ("ca.crt", "ca.key"):
        shutil.copy(live.certificates / name, tmp_path)
    issue_nameless(tmp_path)
    stub = messages_pb2_grpc.MessagesStub(raw_channel(tmp_path, NAMELESS, live.address, "active"))
    with pytest.raises(grpc.RpcError) as error:
        ask(stub, parts_of_question(live))
    assert refused(error)[0] is grpc.StatusCode.UNAUTHENTICATED


def test_a_server_with_another_partys_certificate_is_refused_by_the_client(certificates: Path, live: Live) -> None:
    """The server at this address is `active`, whoever the caller believes to be there."""
    channel = transport_of(certificates, "active").dial(live.address, "passive")
    with pytest.raises(grpc.RpcError) as error:
        ask(messages_pb2_grpc.MessagesStub(channel), parts_of_question(live))
    assert refused(error)[0] in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


# -- sizes ------------------------------------------------------------------------------------------------------------


def _train_over_the_wire(certificates: Path, rows: int, columns: int, plan: TrainingPlan) -> float:
    """One epoch of one step of the whole batch over mTLS; the largest difference from central training."""
    generator = np.random.default_rng(0)
    problem = problem_of(generator.uniform(size=(rows, columns)), np.arange(rows) % 2, 2)
    plan = replace(plan, epochs=1, batch_size=rows, validation_fraction=0.0, test_fraction=0.0)
    trainings: dict[str, PartyTraining] = {}

    def exchange_of(name: str, session_id: str) -> GradientExchange:
        exchange: GradientExchange = trainings[name].exchange
        return exchange

    with ExitStack() as stack:
        addresses = {
            name: serve_exchange(stack, certificates, name, partial(exchange_of, name)) for name in problem.blocks
        }
        for number, (name, other) in enumerate((("active", "passive"), ("passive", "active"))):
            channel = transport_of(certificates, name).dial(addresses[other], other)
            peers: dict[str, Peer] = {other: MessageLink(other, channel, 60)}
            trainings[name] = PartyTraining(
                problem.agreement(plan),
                name,
                problem.gridded[name],
                problem.labels if name == "active" else None,
                TrainingMeans(
                    peers, np.random.default_rng(100 + number), 60, stack.enter_context(ThreadPoolExecutor())
                ),
            )
        return largest_difference(run_together(trainings, 1), train_plainly(problem, plan))


def test_a_batch_of_4096_rows_and_784_columns_passes_the_default_message_limits(certificates: Path) -> None:
    plan = replace(SMALL_PLAN, cipher="plain", packing=False)
    assert _train_over_the_wire(certificates, 4096, 784, plan) <= 1e-9


def test_784_columns_train_under_encryption_without_packing(certificates: Path) -> None:
    assert _train_over_the_wire(certificates, 64, 784, replace(SMALL_PLAN, key_bits=256, packing=False)) <= 1e-6


def test_4096_rows_of_three_classes_at_2048_bits_pass_the_default_message_limits(certificates: Path) -> None:
    """12,288 ciphertexts of 512 bytes: 6 MiB in a stream, where one message may have 4 MiB."""
    plan = TrainingPlan(batch_size=4096, packing=False, key_bits=2048)
    agreement = Agreement(
        SESSION,
        plan,
        3,
        (PartyDescription("active", 2, 0, False, 6000), PartyDescription("passive", 4096, 0, False, 6000)),
    )

    mine, theirs = (
        GradientExchange(make_cipher(agreement, name), [other], steps=1, rows_of_step=lambda _: 4096, timeout=60)
        for name, other in (("active", "passive"), ("passive", "active"))
    )
    mine.receive_key("passive", theirs.public_key)
    few = encrypted(theirs, 0, np.zeros((4, 3)))
    many = replace(few, count=3 * 4096, data=few.data * 1024)
    assert len(many.data) == 6 << 20 > 4 << 20 > PART_BYTES
    with ExitStack() as stack:
        address = serve_exchange(stack, certificates, "active", lambda _: mine)
        meter = TrafficMeter()
        metered = replace(transport_of(certificates, "passive"), meter=meter)
        link = MessageLink("active", metered.dial(address, "active"), 60)
        link.send(SESSION, "residuals", 0, many)
        assert mine._received[RESIDUALS, "passive", 0].values == many
        assert meter.snapshot()["Send: MessagePart"] > 6 << 20


def test_an_answer_of_12288_residues_at_2048_bits_comes_back_whole(certificates: Path) -> None:
    """3 MiB in parts; its arithmetic is tested elsewhere, so that here the answer is simply given."""
    given = DecryptedVector(3 * 4096, 256, np.random.default_rng(0).bytes(3 << 20))

    class Answering(GradientExchange):
        def expects_question(self, peer: str, kind: str, step: int, header: VectorHeader) -> None:
            """Whatever is asked."""

        def answer(self, peer: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
            return given

    pair = exchange_pair(TINY)
    exchange = Answering(pair.exchange._cipher, ["passive"], steps=1, rows_of_step=lambda _: 4, timeout=5)
    with ExitStack() as stack:
        address = serve_exchange(stack, certificates, "active", lambda _: exchange)
        link = MessageLink("active", transport_of(certificates, "passive").dial(address, "active"), 60)
        assert link.ask(SESSION, SUMS, 0, WireVector("key", given.count, 512, 0, bytes(6 << 20))) == given
