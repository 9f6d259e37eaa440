"""Alignment on the wire: the set-up's header, chunks both ways, and peers that speak another version of it."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from protos.v1 import passive_pb2, passive_pb2_grpc
from services.active.passive_link import PassiveLink
from services.common.alignment import ALIGNMENT_VERSION, alignment_context
from services.common.errors import InvalidMessage, OutOfOrder, PeerRefused, PeerVanished
from services.common.identity import Identity, Role
from services.common.meters import TrafficMeter
from services.network.transport import Transport
from services.passive import servicer as passive_servicer
from services.passive.servicer import PassiveServicer
from tests.harness.parties import ACTIVE, house, party_data, small_settings
from tests.harness.processes import refused
from vfl.data import BlindedIds, PsiClient, PsiError, PsiServer

Dial = Callable[[passive_pb2_grpc.PassiveServicer], grpc.Channel]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Serve a passive party, real or not, and reach it as the active party does."""
    with ExitStack() as stack:

        def reach(servicer: passive_pb2_grpc.PassiveServicer) -> grpc.Channel:
            served = Transport(Identity(Role.PASSIVE, "passive"), None, TrafficMeter())
            server, port = served.serve(
                "127.0.0.1:0",
                [lambda added: passive_pb2_grpc.add_PassiveServicer_to_server(servicer, added)],
                passive_servicer.PERMISSIONS,
                [passive_servicer.SERVICE_NAME],
            )
            stack.callback(lambda: server.stop(None).wait())
            caller = Transport(Identity(Role.ACTIVE, "active"), None, TrafficMeter())
            channel = caller.dial(f"127.0.0.1:{port}", "passive")
            stack.callback(channel.close)
            return channel

        yield reach


class AnsweringPassive(PassiveServicer):
    """Another release's passive party: answers a set-up with the parts that it is given."""

    def __init__(self, *parts: passive_pb2.AlignmentPart) -> None:
        self._parts = parts
        self.asked: list[passive_pb2.AlignmentPart] = []

    def SetUpAlignment(
        self, request: passive_pb2.AlignmentSetupRequest, context: grpc.ServicerContext
    ) -> Iterator[passive_pb2.AlignmentPart]:
        yield from self._parts

    def Align(
        self, request_iterator: Iterator[passive_pb2.AlignmentPart], context: grpc.ServicerContext
    ) -> Iterator[passive_pb2.AlignmentPart]:
        self.asked.extend(request_iterator)
        yield from self._parts


def test_two_parties_align_over_the_wire_in_several_chunks(
    tmp_path: Path, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vfl.data.psi.CHUNK_IDS", 7)
    with house(tmp_path, passive=[party_data(rows=range(20, 60))], settings=small_settings(cipher="plain")) as home:
        link = PassiveLink("passive", dial(PassiveServicer(home.passive["passive"])), 10.0)
        own = [f"id-{row}" for row in range(50)]
        session_id = home.opened()
        client = PsiClient(own, alignment_context(session_id, "passive"))
        setup = link.set_up_alignment(session_id, len(own))
        assert setup.count == 40
        client.receive_setup(setup)
        assert client.intersect(link.align(session_id, client.request(), len(own)).chunks) == own[20:]


def test_a_request_that_ends_with_its_alignment_writes_no_traceback(
    dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    passive = AnsweringPassive()

    def ended() -> Iterator[bytes]:
        yield bytes(32)
        raise PsiError("This alignment has ended: start a new one.")

    assert not list(PassiveLink("passive", dial(passive), 10.0).align("s", ended(), 2).chunks)
    assert len(passive.asked) == 1
    # A request is drawn by a thread of gRPC's, which logs what it raises.
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "parts",
    [
        [passive_pb2.AlignmentPart(data=b"\x0a\x21" + bytes(33))],
        [],
        [passive_pb2.AlignmentPart(version=ALIGNMENT_VERSION + 1, count=3)],
    ],
    ids=["before versions", "nothing", "later"],
)
def test_a_passive_party_of_another_version_is_named_before_any_id_leaves(
    dial: Dial, parts: list[passive_pb2.AlignmentPart]
) -> None:
    other = AnsweringPassive(*parts)
    link = PassiveLink("clinic", dial(other), 10.0)
    spoken = ALIGNMENT_VERSION + 1 if parts and parts[0].version else 1
    with pytest.raises(InvalidMessage, match=f"clinic aligns by version {spoken} .* install the same release"):
        link.set_up_alignment("one", 3)
    assert other.asked == []


@pytest.mark.parametrize("version", [0, 1, ALIGNMENT_VERSION + 1])
def test_an_active_party_of_another_version_is_told_and_starts_no_session(
    tmp_path: Path, dial: Dial, version: int
) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        stub = passive_pb2_grpc.PassiveStub(dial(PassiveServicer(home.passive["passive"])))
        request = passive_pb2.AlignmentSetupRequest(session_id=home.opened(), client_count=3, version=version)
        with pytest.raises(grpc.RpcError) as error:
            list(stub.SetUpAlignment(request, timeout=10))
        status, words = refused(error)
        assert status is grpc.StatusCode.INVALID_ARGUMENT
        assert words.startswith(f"active aligns by version {version or 1} of the private set intersection")
        request.version = ALIGNMENT_VERSION
        assert list(stub.SetUpAlignment(request, timeout=10))


def test_a_request_that_ends_early_is_refused(tmp_path: Path, dial: Dial) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        link = PassiveLink("passive", dial(PassiveServicer(home.passive["passive"])), 10.0)
        session_id = home.opened()
        list(link.set_up_alignment(session_id, 3).chunks)
        with pytest.raises(PeerRefused) as refusal:
            list(link.align(session_id, PsiClient(["id-10", "id-11"]).request(), 3).chunks)
        assert str(refusal.value) == "passive: The request holds 2 ids where 3 were declared: start a new alignment."
        assert refusal.value.kind is InvalidMessage


def test_a_party_that_falls_silent_in_the_middle_of_its_set_up_is_named(dial: Dial) -> None:
    class Silent(AnsweringPassive):
        def SetUpAlignment(
            self, request: passive_pb2.AlignmentSetupRequest, context: grpc.ServicerContext
        ) -> Iterator[passive_pb2.AlignmentPart]:
            yield passive_pb2.AlignmentPart(version=ALIGNMENT_VERSION, count=2)
            context.set_code(grpc.StatusCode.UNAVAILABLE)

    link = PassiveLink("clinic", dial(Silent()), 10.0)
    setup = link.set_up_alignment("one", 3)
    with pytest.raises(PeerVanished, match="clinic does not answer"):
        PsiClient(["a"]).receive_setup(setup)


def test_a_set_up_that_lies_about_its_count_is_refused(dial: Dial) -> None:
    def announcing(count: int, chunks: Iterable[bytes]) -> AnsweringPassive:
        header = passive_pb2.AlignmentPart(version=ALIGNMENT_VERSION, count=count)
        return AnsweringPassive(header, *(passive_pb2.AlignmentPart(data=chunk) for chunk in chunks))

    for announced in (1, 3, 0, 2**32 - 1):
        link = PassiveLink("clinic", dial(announcing(announced, PsiServer(["a", "b"]).setup(1).chunks)), 10.0)
        setup = link.set_up_alignment("one", 1)
        assert isinstance(setup, BlindedIds)
        with pytest.raises(ValueError, match=r"declared|Expected a set-up"):
            PsiClient(["a"]).receive_setup(setup)


def test_a_stream_that_is_no_longer_read_ends_at_both_sides(dial: Dial) -> None:
    """An honest party that refuses a set-up half-way must not hold the other's thread until a deadline."""
    ended = threading.Event()

    class Endless(AnsweringPassive):
        def SetUpAlignment(
            self, request: passive_pb2.AlignmentSetupRequest, context: grpc.ServicerContext
        ) -> Iterator[passive_pb2.AlignmentPart]:
            context.add_callback(ended.set)
            yield passive_pb2.AlignmentPart(version=ALIGNMENT_VERSION, count=10**6)
            for chunk in PsiServer([f"r{row}" for row in range(10**5)]).setup(1).chunks:
                yield passive_pb2.AlignmentPart(data=bytes(32) + chunk[32:])

    link = PassiveLink("clinic", dial(Endless()), 10.0)
    setup = link.set_up_alignment("one", 1)
    with pytest.raises(PsiError, match="not on the curve") as error, setup:
        PsiClient(["a"]).receive_setup(setup)
    # The traceback, still held here, must not keep the call open.
    assert error.traceback
    assert ended.wait(60)


@pytest.mark.parametrize(
    ("version", "count", "words"),
    [(ALIGNMENT_VERSION, 0, "Expected a set-up of 1 to"), (ALIGNMENT_VERSION + 1, 5, "aligns by version")],
    ids=["count", "version"],
)
def test_a_set_up_refused_before_anything_of_it_was_read_ends_at_both_sides(
    dial: Dial, version: int, count: int, words: str
) -> None:
    ended = threading.Event()

    class Waiting(AnsweringPassive):
        def SetUpAlignment(
            self, request: passive_pb2.AlignmentSetupRequest, context: grpc.ServicerContext
        ) -> Iterator[passive_pb2.AlignmentPart]:
            context.add_callback(ended.set)
            yield passive_pb2.AlignmentPart(version=version, count=count)
            ended.wait(60)

    link = PassiveLink("clinic", dial(Waiting()), 10.0)
    with pytest.raises((PsiError, InvalidMessage), match=words) as error, link.set_up_alignment("one", 1) as setup:
        PsiClient(["a"]).receive_setup(setup)
    # The traceback, still held here, must not keep the call open.
    assert error.traceback
    assert ended.wait(30)


def test_what_one_party_blinded_is_another_partys_nonsense(tmp_path: Path) -> None:
    """Relayed between two passive parties, by one who holds no id at all, points would tell what both have."""
    settings = small_settings(cipher="plain")
    with house(tmp_path, passive=[party_data(rows=range(20)), party_data(rows=range(20))], settings=settings) as home:
        first, second = home.passive.values()
        session_id = home.opened()
        sets = [party.set_up_alignment(ACTIVE, session_id, 20) for party in (first, second)]
        blinded = [list(one.chunks) for one in sets]
        crossed = [
            b"".join(party.align(ACTIVE, session_id, other))
            for party, other in ((first, blinded[1]), (second, blinded[0]))
        ]
        points = [{one[start : start + 32] for start in range(0, len(one), 32)} for one in crossed]
        assert [len(one) for one in points] == [20, 20]
        assert not points[0] & points[1]


def test_an_ended_session_answers_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfl.data.psi.CHUNK_IDS", 1)
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        party = home.passive["passive"]
        ends: list[Callable[[str], object]] = [
            lambda session_id: party.end_session(ACTIVE, session_id, "enough."),
            lambda _: party.set_up_alignment(ACTIVE, home.opened(), 1),
        ]
        for end in ends:
            session_id = home.opened()
            setup = party.set_up_alignment(ACTIVE, session_id, 3)
            answers = party.align(ACTIVE, session_id, PsiClient(["id-10", "id-11", "id-12"]).request())
            next(iter(setup.chunks))
            next(answers)
            end(session_id)
            for stream in (iter(setup.chunks), answers):
                with pytest.raises(OutOfOrder, match="The session has ended"):
                    next(stream)


def test_a_refused_set_up_ends_nothing_and_uses_nothing_up(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        party = home.passive["passive"]
        first = home.opened()
        party.set_up_alignment(ACTIVE, first, 2)
        second = home.opened()
        with pytest.raises(InvalidMessage, match="Expected a client with"):
            party.set_up_alignment(ACTIVE, second, 0)
        assert list(party.align(ACTIVE, first, PsiClient(["id-10", "id-11"]).request()))
        assert party.set_up_alignment(ACTIVE, second, 1)


def test_the_passive_party_logs_who_asks_about_how_many_ids(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        party = home.passive["passive"]
        session_id = home.opened()
        party.set_up_alignment(ACTIVE, session_id, 2)
        list(party.align(ACTIVE, session_id, PsiClient(["id-10", "id-11"]).request()))
    assert f"active begins session {session_id} and will ask about 2 ids." in caplog.messages
    assert "Sent 2 blinded ids." in caplog.messages


def test_nothing_in_common_with_the_first_of_two_parties_is_said_so(tmp_path: Path) -> None:
    with (
        house(tmp_path, passive=[party_data(rows=range(100, 120)), party_data(rows=range(20))]) as home,
        pytest.raises(InvalidMessage, match="have no id in common"),
    ):
        home.train()
