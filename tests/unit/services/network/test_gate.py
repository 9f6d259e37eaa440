"""The gate over real mTLS: idle callers, unreadable bytes, who may list the calls. Handlers are the tests' own."""

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from protos.v1 import (
    active_pb2,
    active_pb2_grpc,
    common_pb2,
    coordinator_pb2_grpc,
    messages_pb2,
    messages_pb2_grpc,
    passive_pb2,
    passive_pb2_grpc,
)
from services.active.servicer import PERMISSIONS as ACTIVE_PERMISSIONS
from services.coordinator.servicer import PERMISSIONS as COORDINATOR_PERMISSIONS
from services.exchange.servicer import PERMISSIONS as EXCHANGE_PERMISSIONS
from services.network import admission, call_limits, occupancy
from services.network.callers import INSTANCE_KEY
from services.network.transport import Permissions, is_serving
from services.network.versions import WIRE_KEY, WIRE_VERSION
from services.passive.servicer import PERMISSIONS as PASSIVE_PERMISSIONS
from tests.harness.connections import NAMELESS, make_certificates, raw_channel, transport_of
from tests.harness.hostile import code_of
from tests.harness.processes import refused

ACTIVE, PASSIVE, EXCHANGE, COORDINATOR = (
    f"/plumbline.v1.{service}/" for service in ("Active", "Passive", "Messages", "Coordinator")
)
CHECK = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
PERMISSIONS: Permissions = {
    **ACTIVE_PERMISSIONS,
    **COORDINATOR_PERMISSIONS,
    **EXCHANGE_PERMISSIONS,
    **PASSIVE_PERMISSIONS,
}
# Twice as many as the server once had threads.
MANY = 64
SECONDS = 20.0


def said(instance: str) -> list[tuple[str, str]]:
    """What a process of this release says of itself."""
    return [(INSTANCE_KEY, instance), (WIRE_KEY, str(WIRE_VERSION))]


class House(  # type: ignore[misc]  # two services have a call of one name
    active_pb2_grpc.ActiveServicer,
    coordinator_pb2_grpc.CoordinatorServicer,
    messages_pb2_grpc.MessagesServicer,
    passive_pb2_grpc.PassiveServicer,
):
    """Every service of a federation in one process, with nothing behind it."""

    def __init__(self) -> None:
        self.all_joined = threading.Event()
        self.answer_given_up = threading.Event()

    def PredictOne(self, request: active_pb2.PredictOneRequest, context: Any) -> active_pb2.RecordPrediction:
        return active_pb2.RecordPrediction(id=request.id)

    def Predict(
        self, request_iterator: Iterator[active_pb2.PredictRequest], context: Any
    ) -> Iterator[active_pb2.PredictReply]:
        for request in request_iterator:
            yield active_pb2.PredictReply(records=[active_pb2.RecordPrediction(id=one) for one in request.ids])

    def JoinSession(self, request: Any, context: Any) -> common_pb2.Agreement:
        self.all_joined.wait(SECONDS)
        return common_pb2.Agreement()

    def ShowKey(self, request: messages_pb2.KeyMessage, context: Any) -> common_pb2.Acknowledgement:
        return common_pb2.Acknowledgement()

    def Send(self, request_iterator: Iterator[Any], context: Any) -> common_pb2.Acknowledgement:
        assert sum(1 for _ in request_iterator) >= 0
        return common_pb2.Acknowledgement()

    def Ask(self, request_iterator: Iterator[Any], context: Any) -> Iterator[messages_pb2.AnswerPart]:
        for _ in request_iterator:
            yield messages_pb2.AnswerPart()

    def SetUpAlignment(self, request: Any, context: Any) -> Iterator[passive_pb2.AlignmentPart]:
        try:
            while True:
                yield passive_pb2.AlignmentPart(data=bytes(1 << 20))
        finally:
            self.answer_given_up.set()

    def Align(self, request_iterator: Iterator[Any], context: Any) -> Iterator[passive_pb2.AlignmentPart]:
        for _ in request_iterator:
            yield passive_pb2.AlignmentPart()

    FixOrder = Send

    def add_to(self, server: grpc.Server) -> None:
        active_pb2_grpc.add_ActiveServicer_to_server(self, server)
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(self, server)
        messages_pb2_grpc.add_MessagesServicer_to_server(self, server)
        passive_pb2_grpc.add_PassiveServicer_to_server(self, server)


class Server:
    """A house behind the gate, and connections to it."""

    def __init__(self, certificates: Path, stack: ExitStack, **options: Any) -> None:
        self.house = House()  # type: ignore[abstract]  # only what the tests call
        self.idle = threading.Event()
        self._certificates = certificates
        self._stack = stack
        server, port = transport_of(certificates, "active").serve(
            "127.0.0.1:0", [self.house.add_to], PERMISSIONS, ["plumbline.v1.Active"], **options
        )
        self._address = f"127.0.0.1:{port}"
        stack.callback(lambda: server.stop(None).wait())
        stack.callback(self.house.all_joined.set)
        stack.callback(self.idle.set)

    def channel(self, caller: str) -> Any:
        channel = raw_channel(self._certificates, caller, self._address, "active")
        self._stack.callback(channel.close)
        return channel

    def hold(self, caller: str, method: str, first: bytes | None = None, instance: str = "") -> Any:
        """A call that never sends its next message; over a connection of its own, or the caller's end would wait."""

        def parts() -> Iterator[bytes]:
            if first is not None:
                yield first
            self.idle.wait(SECONDS)

        call = self.channel(caller).stream_unary(method)
        return call.future(parts(), timeout=SECONDS, metadata=said(instance))

    def hold_many(self, caller: str, method: str, first: bytes | None = None) -> list[Any]:
        """MANY idle calls, and a check that each is inside or refused."""
        return [self.hold(caller, method, first) for _ in range(MANY)]

    def predict_one(self, caller: str = "operator") -> str:
        stub = active_pb2_grpc.ActiveStub(self.channel(caller))
        return str(stub.PredictOne(active_pb2.PredictOneRequest(id="r1"), timeout=SECONDS / 2).id)

    def hold_thieves(self, method: str) -> list[Any]:
        """MANY idle calls with the passive party's certificate, each of which says that it is another process."""
        return [self.hold("passive", method, instance=secrets.token_hex(8)) for _ in range(MANY)]

    def send_key(self, caller: str, instance: str = "") -> None:
        stub = messages_pb2_grpc.MessagesStub(self.channel(caller))
        stub.ShowKey(messages_pb2.KeyMessage(), timeout=SECONDS / 2, metadata=said(instance))

    def send_nothing(self, method: str, instance: str) -> None:
        """A whole request of no message from one process of the passive party."""
        call = self.channel("passive").stream_stream(method)
        assert not [*call(iter([]), timeout=SECONDS / 2, metadata=said(instance))][1:]

    def check(self, instance: str) -> None:
        """A health check of one process of the passive party."""
        stub = health_pb2_grpc.HealthStub(self.channel("passive"))
        request = health_pb2.HealthCheckRequest()
        stub.Check(request, timeout=SECONDS / 2, metadata=said(instance))  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def server(certificates: Path, stack: ExitStack) -> Server:
    return Server(certificates, stack, reflection=True)


def status_of_call(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return refused(error)


def soon(done: Callable[[], bool]) -> bool:
    """Whether it is so within SECONDS."""
    waiting = threading.Event()
    return any(done() or waiting.wait(0.05) for _ in range(int(SECONDS / 0.05))) or done()


# -- idle callers -----------------------------------------------------------------------------------------------------

JOIN = b""
IDLE = [
    ("operator", ACTIVE + "Predict", None),
    ("operator", ACTIVE + "PredictOne", None),
    ("operator", ACTIVE + "Train", None),
    ("operator", REFLECTION, None),
    ("active", PASSIVE + "Align", None),
    ("active", PASSIVE + "FixOrder", None),
    ("active", PASSIVE + "SetUpAlignment", b""),
    ("active", EXCHANGE + "Send", None),
    ("active", EXCHANGE + "Ask", None),
    ("active", EXCHANGE + "ShowKey", None),
    ("active", COORDINATOR + "JoinSession", JOIN),
    ("active", COORDINATOR + "SubmitPartialScores", None),
    (NAMELESS, ACTIVE + "Predict", None),
    (NAMELESS, "/grpc.health.v1.Health/Check", None),
]


@pytest.mark.parametrize(("caller", "method", "first"), IDLE, ids=[f"{one[0]} {one[1]}" for one in IDLE])
def test_idle_calls_of_one_caller_take_nothing_from_the_others(
    server: Server, caller: str, method: str, first: bytes | None
) -> None:
    held = server.hold_many(caller, method, first)
    assert soon(lambda: all(call.done() or call.running() for call in held))
    server.send_key("passive")
    assert is_serving(server.channel("passive"), timeout=SECONDS / 2)
    assert server.predict_one("operator" if caller != "operator" else "active") == "r1"
    refusals = [call.exception() for call in held if call.done()]
    assert all(isinstance(one, grpc.RpcError) for one in refusals)


@pytest.mark.parametrize("method", ["Predict", "PredictOne", "Train"])
def test_an_operator_who_keeps_calls_idle_is_still_answered(server: Server, method: str) -> None:
    held = server.hold_many("operator", ACTIVE + method)
    limit = call_limits.limits_of(ACTIVE + method, 60).at_once
    if limit < MANY:
        assert soon(lambda: sum(call.done() for call in held) == MANY - limit)
        assert {call.exception().code() for call in held if call.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}

    def answered() -> bool:
        try:
            return server.predict_one() == "r1"
        except grpc.RpcError:
            return False

    # The one that was idle longest makes room, as soon as it is idle at all.
    assert soon(answered)


def test_a_full_house_refuses_at_once_and_says_why(server: Server) -> None:
    """All of these are at work, waiting for others to join: none is idle, and none makes room."""
    joining = server.hold_many("active", COORDINATOR + "JoinSession", JOIN)
    assert soon(lambda: sum(call.done() for call in joining) == MANY - 8)
    status, words = status_of_call(lambda: server.hold("active", COORDINATOR + "JoinSession", JOIN).result())
    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert words == "This caller has 8 calls at work here, as many as it may: wait until one has ended."
    server.house.all_joined.set()
    assert soon(lambda: all(call.done() for call in joining))
    assert sum(call.exception() is None for call in joining) == 8


@pytest.mark.parametrize(
    ("caller", "method", "first"),
    [
        ("operator", ACTIVE + "Predict", None),
        ("operator", ACTIVE + "Predict", b""),
        ("operator", ACTIVE + "PredictOne", None),
        ("passive", EXCHANGE + "Send", b""),
        ("operator", REFLECTION, None),
        ("passive", "/grpc.health.v1.Health/Check", None),
    ],
)
def test_who_sends_no_message_in_time_is_cut_off_with_a_sentence(
    certificates: Path,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    caller: str,
    method: str,
    first: bytes | None,
) -> None:
    monkeypatch.setattr(call_limits, "_LEAST_PATIENCE", 0.2)
    server = Server(certificates, stack, step_timeout=0.2, reflection=True)
    status, words = status_of_call(lambda: server.hold(caller, method, first).result())
    assert (status, words) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "No message came for 0.2 s: the call was ended. Call again.",
    )
    assert f"Cut off {method.rpartition('/')[2]} of {caller}: No message came" in caplog.text
    assert "Traceback" not in caplog.text


def test_who_reads_no_answer_is_cut_off_and_its_handler_ends(
    certificates: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_limits, "_LEAST_PATIENCE", 0.2)
    monkeypatch.setattr(call_limits, "_ALIGNMENT_PATIENCE", 0.2)
    server = Server(certificates, stack, step_timeout=0.2)
    replies = passive_pb2_grpc.PassiveStub(server.channel("active")).SetUpAlignment(
        passive_pb2.AlignmentSetupRequest(), timeout=SECONDS
    )
    assert server.house.answer_given_up.wait(SECONDS)
    status, words = status_of_call(lambda: [*replies])
    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert words == "Nobody read the answer for 0.4 s: the call was ended. Call again."


def test_a_stream_that_trickles_must_end_some_day(
    certificates: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_limits, "_LEAST_PATIENCE", 0.5)
    monkeypatch.setattr(call_limits, "_WAITS_PER_REQUEST", 2)
    server = Server(certificates, stack, step_timeout=0.5)
    stopped = threading.Event()
    stack.callback(stopped.set)

    def trickle() -> Iterator[bytes]:
        while not stopped.wait(0.05):
            yield b""

    call = server.channel("passive").stream_unary(EXCHANGE + "Send")
    status, words = status_of_call(lambda: call(trickle(), timeout=SECONDS))
    assert (status, words[:40]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "The request wasn't complete after 1 s: t")


@pytest.mark.parametrize(
    ("caller", "method", "status"),
    [
        ("operator", EXCHANGE + "Send", grpc.StatusCode.PERMISSION_DENIED),
        ("passive", ACTIVE + "PredictOne", grpc.StatusCode.PERMISSION_DENIED),
        (NAMELESS, PASSIVE + "FixOrder", grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_who_may_not_call_is_refused_before_it_has_sent_anything(
    server: Server, caller: str, method: str, status: grpc.StatusCode
) -> None:
    assert status_of_call(server.hold(caller, method).result)[0] is status


# -- other processes with the same certificate ------------------------------------------------------------------------

HONEST, THIEF = "aa", "bb"


@pytest.mark.parametrize("method", ["Send", "Ask"])
def test_other_processes_of_a_party_take_no_place_of_the_one_that_acts(
    server: Server, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    # Once the honest job ended within half a second: "This caller has 4 calls at work here".
    monkeypatch.setattr(occupancy, "SILENT_SECONDS", SECONDS / 2)
    server.send_key("passive", HONEST)
    thieves = server.hold_thieves(EXCHANGE + method)
    # Whatever each calls itself: so few of them wait, and hold a thread.
    assert soon(lambda: sum(call.done() for call in thieves) == MANY - call_limits.NEWCOMERS_AT_ONCE)
    assert {call.code() for call in thieves if call.done()} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    server.send_nothing(EXCHANGE + method, HONEST)
    assert soon(lambda: all(call.done() for call in thieves))
    assert sum(call.code() is grpc.StatusCode.PERMISSION_DENIED for call in thieves) == call_limits.NEWCOMERS_AT_ONCE


def test_health_checks_of_other_processes_take_no_place_of_the_one_that_acts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_IDLE_SECONDS", SECONDS)
    server.send_key("passive", HONEST)
    thieves = server.hold_thieves(CHECK)
    assert soon(lambda: sum(call.done() for call in thieves) == MANY - call_limits.NEWCOMERS_AT_ONCE)
    server.check(HONEST)
    assert status_of_call(lambda: server.check(THIEF))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_who_checks_too_often_is_heard_and_keeps_its_place(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_IDLE_SECONDS", SECONDS)
    server.send_key("passive", HONEST)
    limit = call_limits.limits_of(CHECK, 60).at_once
    held = [server.hold("passive", CHECK, instance=HONEST) for _ in range(limit)]

    def is_refused() -> bool:
        # Found by CI: a check that came before the last of them took its place.
        held[:] = [server.hold("passive", CHECK, instance=HONEST) if call.done() else call for call in held]
        try:
            server.check(HONEST)
        except grpc.RpcError as error:
            return code_of(error) is grpc.StatusCode.RESOURCE_EXHAUSTED
        return False

    assert soon(is_refused)
    thief = server.hold("passive", EXCHANGE + "ShowKey", b"", THIEF)
    assert soon(lambda: is_refused() and thief.done())
    assert thief.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not any(call.done() for call in held)


# -- messages ---------------------------------------------------------------------------------------------------------

# A field of type string that promises more bytes than there are; and one that is no UTF-8.
UNREADABLE = [b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 30, b"\x0a\x02\xff\xfe"]


@pytest.mark.parametrize("content", UNREADABLE)
@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (ACTIVE + "PredictOne", "PredictOneRequest"),
        (ACTIVE + "Train", "TrainRequest"),
        (ACTIVE + "Predict", "PredictRequest"),
        (EXCHANGE + "ShowKey", "KeyMessage"),
        (EXCHANGE + "Send", "MessagePart"),
        (EXCHANGE + "Ask", "MessagePart"),
        ("/grpc.health.v1.Health/Check", "HealthCheckRequest"),
        (REFLECTION, "ServerReflectionRequest"),
    ],
)
def test_bytes_that_are_no_message_are_an_invalid_argument(
    server: Server, caplog: pytest.LogCaptureFixture, method: str, kind: str, content: bytes
) -> None:
    call = server.channel("active").stream_stream(method)
    status, words = status_of_call(lambda: [*call(iter([content]), timeout=SECONDS)])
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert words == f"The message can't be read as {kind}: its bytes are damaged, or of another release."
    assert "Traceback" not in caplog.text
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("caller", "status"),
    [("operator", grpc.StatusCode.PERMISSION_DENIED), (NAMELESS, grpc.StatusCode.UNAUTHENTICATED)],
)
@pytest.mark.parametrize("method", ["ShowKey", "Send", "Ask"])
def test_bytes_of_a_caller_without_the_role_are_not_read(
    server: Server, caplog: pytest.LogCaptureFixture, caller: str, status: grpc.StatusCode, method: str
) -> None:
    call = server.channel(caller).stream_stream(EXCHANGE + method)
    assert status_of_call(lambda: [*call(iter(UNREADABLE), timeout=SECONDS)])[0] is status
    assert "Traceback" not in caplog.text


def test_nobody_can_fill_the_log(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    channel = server.channel("passive")
    methods = [EXCHANGE + "ShowKey", EXCHANGE + "Send", ACTIVE + "Predict"]

    def storm(number: int) -> grpc.StatusCode:
        call = channel.stream_stream(methods[number % len(methods)])
        return status_of_call(lambda: [*call(iter(UNREADABLE), timeout=SECONDS)])[0]

    with ThreadPoolExecutor(4) as threads:
        statuses = [*threads.map(storm, range(300))]
    assert {*statuses} == {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED}
    assert len(caplog.records) == 5 * len(methods)
    assert not caplog.records[0].exc_info


def test_a_call_without_its_message_is_an_invalid_argument(server: Server) -> None:
    call = server.channel("passive").stream_stream(EXCHANGE + "ShowKey")
    status, words = status_of_call(lambda: [*call(iter([]), timeout=SECONDS)])
    assert (status, words) == (grpc.StatusCode.INVALID_ARGUMENT, "The call came without its message.")


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
def test_a_message_is_4_mib_at_most_unpacked(
    server: Server, compression: grpc.Compression | None, caplog: pytest.LogCaptureFixture
) -> None:
    call = server.channel("passive").stream_unary(EXCHANGE + "ShowKey")
    status, _ = status_of_call(lambda: call(iter([bytes(32 << 20)]), timeout=SECONDS, compression=compression))
    assert status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "Traceback" not in caplog.text


# -- reflection -------------------------------------------------------------------------------------------------------


def services_listed(server: Server, caller: str) -> set[str]:
    stub = reflection_pb2_grpc.ServerReflectionStub(server.channel(caller))
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    (reply,) = stub.ServerReflectionInfo(iter([request]), timeout=SECONDS)  # type: ignore[operator]
    return {service.name for service in reply.list_services_response.service}


@pytest.mark.parametrize("caller", ["operator", "active"])
def test_operators_list_the_calls_where_the_settings_say_so(server: Server, caller: str) -> None:
    assert "plumbline.v1.Active" in services_listed(server, caller)


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        ("passive", grpc.StatusCode.PERMISSION_DENIED),
        ("coordinator", grpc.StatusCode.PERMISSION_DENIED),
        (NAMELESS, grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_nobody_else_lists_the_calls(server: Server, caller: str, status: grpc.StatusCode) -> None:
    assert status_of_call(lambda: services_listed(server, caller))[0] is status


def test_by_default_the_calls_are_not_listed(certificates: Path, stack: ExitStack) -> None:
    server = Server(certificates, stack)
    assert status_of_call(lambda: services_listed(server, "operator"))[0] is grpc.StatusCode.UNIMPLEMENTED
