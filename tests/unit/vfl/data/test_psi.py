"""Private set intersection: equal to set intersection, each misuse refused, and both sides under arbitrary bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.speed.alignment.alignments import align_in_processes
from vfl.crypto.curve25519 import BlindingKey, encode_to_curve
from vfl.data import BlindedIds, PsiClient, PsiError, PsiServer, common_order, psi

ids = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=12, unique=True)


def align(server_ids: Sequence[str], client_ids: Sequence[str]) -> list[str]:
    server, client = PsiServer(server_ids), PsiClient(client_ids)
    client.receive_setup(server.setup(len(client_ids)))
    return client.intersect(server.respond(client.request()))


def points_of(chunks: Iterable[bytes]) -> list[bytes]:
    data = b"".join(chunks)
    return [data[start : start + 32] for start in range(0, len(data), 32)]


@given(shared=ids, server_only=ids, client_only=ids, seed=st.randoms(use_true_random=False))
def test_equals_set_intersection(
    shared: list[str], server_only: list[str], client_only: list[str], seed: object
) -> None:
    server_ids = sorted({*shared, *server_only}, key=lambda value: hash((value, str(seed))))
    client_ids = list(dict.fromkeys([*client_only, *shared]))
    found = align(server_ids, client_ids)
    assert found == [value for value in client_ids if value in set(server_ids)]
    assert common_order(found) == sorted(set(server_ids) & set(client_ids))


@given(shared=st.integers(0, 9), server_only=st.integers(0, 9), client_only=st.integers(0, 9), chunk=st.integers(1, 7))
def test_chunks_of_any_size_give_the_same(shared: int, server_only: int, client_only: int, chunk: int) -> None:
    """Ids at a chunk's edge are neither lost nor moved."""
    server_ids = [f"s{number}" for number in range(server_only)] + [f"b{number}" for number in range(shared)]
    client_ids = [f"c{number}" for number in range(client_only)] + [f"b{number}" for number in range(shared)]
    if not server_ids or not client_ids:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psi, "CHUNK_IDS", chunk)
        assert align(server_ids, client_ids) == [value for value in client_ids if value.startswith("b")]


def test_several_chunks_of_the_real_size() -> None:
    server_ids, client_ids = [f"r{row}" for row in range(3000)], [f"r{row}" for row in range(1500, 5000)]
    assert align(server_ids, client_ids) == client_ids[:1500]


def test_no_normalisation_of_unicode_or_case() -> None:
    assert align(["\u00e9", "a", "001"], ["e\u0301", "A", "1"]) == []


def test_order_of_rows_does_not_matter() -> None:
    server_ids, client_ids = [f"s{i}" for i in range(40)], [f"s{i}" for i in range(20, 60)]
    forward = common_order(align(server_ids, client_ids))
    assert forward == common_order(align(server_ids[::-1], client_ids[::-1]))
    assert len(forward) == 20


def test_each_object_has_a_fresh_key_and_messages_hide_the_ids() -> None:
    names = ["alice-the-client", "bob-the-client"]
    messages = [b"".join(PsiClient(names).request()), b"".join(PsiClient(names).request())]
    messages += [b"".join(PsiServer(names).setup(2).chunks), b"".join(PsiServer(names).setup(2).chunks)]
    assert len({point for message in messages for point in points_of([message])}) == 8
    assert not any(b"alice" in message for message in messages)


def test_the_set_ups_order_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the server's key put on its ids in the table's order, the places differ from message to message."""
    names = [f"r{row}" for row in range(200)]
    orders = []
    for _ in range(2):
        server = PsiServer(names)
        encoded = encode_to_curve([name.encode() for name in names], psi._domain(""))
        in_table_order = [server._blinding.key.blind(point) for point in encoded]
        sent = points_of(server.setup(1).chunks)
        assert sorted(sent) == sorted(in_table_order)
        orders.append([in_table_order.index(point) for point in sent])
    assert orders[0] != orders[1]
    for order in orders:
        assert abs(np.corrcoef(order, range(200))[0, 1]) < 0.4


def test_a_second_request_is_refused() -> None:
    server, client = PsiServer(["a", "b"]), PsiClient(["a"])
    client.receive_setup(server.setup(1))
    response = list(server.respond(client.request()))
    for again in (client, PsiClient(["b"])):
        with pytest.raises(PsiError, match="one request"):
            server.respond(again.request())
    assert client.intersect(response) == ["a"]


def test_of_simultaneous_requests_one_is_answered() -> None:
    names = [f"r{i}" for i in range(300)]
    server = PsiServer(names)
    server.setup(300)
    requests = [list(PsiClient(names).request()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(_answer, server, request) for request in requests]
    assert sum(answer.exception() is None for answer in answers) == 1
    assert sum(isinstance(answer.exception(), PsiError) for answer in answers) == 3


def _answer(server: PsiServer, request: list[bytes]) -> list[bytes]:
    return list(server.respond(request))


@pytest.mark.parametrize(("asked", "message"), [(3, "more ids than the 2 declared"), (1, "holds 1 ids where 2")])
def test_another_number_of_ids_than_declared_is_refused(asked: int, message: str) -> None:
    server = PsiServer(["a", "b", "c"])
    server.setup(2)
    with pytest.raises(PsiError, match=message):
        next(server.respond(PsiClient(["a", "b", "c"][:asked]).request()))


def test_order_of_calls() -> None:
    server = PsiServer(["a"])
    with pytest.raises(PsiError, match="call setup first"):
        server.respond(PsiClient(["a"]).request())
    for count in (0, -1, psi.MOST_IDS + 1):
        with pytest.raises(PsiError, match="Expected a client with 1 to"):
            server.setup(count)
    server.setup(1)
    with pytest.raises(PsiError, match="already set up"):
        server.setup(10)
    with pytest.raises(PsiError, match="call receive_setup first"):
        PsiClient(["a"]).intersect([])


POINT, OTHER = encode_to_curve([b"somebody", b"somebody else"], b"test")
TWIST = (2).to_bytes(32, "little")
NOT_POINTS = {
    "highest bit": POINT[:31] + bytes([POINT[31] | 128]),
    "not canonical": b"\xff" * 32,
    "twist": TWIST,
    "zero": bytes(32),
    "small order": (1).to_bytes(32, "little"),
}
MALFORMED = {
    "empty part": [b"", POINT],
    "half a point": [POINT[:16]],
    "a point and a half": [POINT + POINT[:16]],
    "oversized part": [POINT * (psi.CHUNK_IDS + 1)],
}


def refusals(chunks: list[bytes], ids: list[str]) -> list[str]:
    """What the server, the client that receives a set-up and the client that compares say to these chunks."""

    def answered() -> None:
        server = PsiServer(ids)
        server.setup(len(ids))
        assert not list(server.respond(chunks))

    def received() -> None:
        PsiClient(ids).receive_setup(BlindedIds(len(ids), chunks))

    def compared() -> None:
        client = PsiClient(ids)
        client.receive_setup(PsiServer(ids).setup(len(ids)))
        client.intersect(chunks)

    said = []
    for role in (answered, received, compared):
        try:
            role()
            said.append("")
        except PsiError as error:
            said.append(str(error))
    return said


@pytest.mark.parametrize("chunks", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_messages_are_refused_by_both_sides(chunks: list[bytes]) -> None:
    assert all("is malformed" in words for words in refusals(chunks, [f"{row}" for row in range(psi.CHUNK_IDS + 1)]))


def test_a_message_of_nothing_is_refused_by_both_sides() -> None:
    assert all("holds 0 ids where 1 were declared" in words for words in refusals([], ["a"]))


@pytest.mark.parametrize("bad", NOT_POINTS.values(), ids=NOT_POINTS.keys())
@pytest.mark.parametrize("place", ["alone", "last of a part", "a later part"])
def test_what_is_no_point_is_refused_wherever_it_stands(bad: bytes, place: str) -> None:
    chunks = {"alone": [bad], "last of a part": [POINT + OTHER + bad], "a later part": [POINT, bad]}[place]
    server, receiver, comparer = refusals(chunks, [f"{row}" for row in range(len(b"".join(chunks)) // 32)])
    if bad == NOT_POINTS["small order"]:
        assert "a small order" in server
        assert "a small order" in receiver
        # A response isn't raised to a secret power: such a point is just nobody's.
        assert comparer == ""
    else:
        assert all("not on the curve" in words for words in (server, receiver, comparer))


def test_the_last_point_of_a_full_part_is_checked() -> None:
    points = encode_to_curve([b"%d" % row for row in range(psi.CHUNK_IDS - 1)], b"test")
    said = refusals([b"".join(points) + TWIST], [f"{row}" for row in range(psi.CHUNK_IDS)])
    assert all("not on the curve" in words for words in said)


def test_no_answer_before_the_whole_request_was_read() -> None:
    """With an answer in hand the client could choose its next question."""
    server, read = PsiServer(["a", "b"]), []
    server.setup(3)

    def request() -> Iterator[bytes]:
        for point in (POINT, OTHER, encode_to_curve([b"third"], b"test")[0]):
            read.append(point)
            yield point

    answers = server.respond(request())
    assert len(next(answers)) == 3 * 32
    assert len(read) == 3
    short = PsiServer(["a", "b"])
    short.setup(3)
    with pytest.raises(PsiError, match="holds 2 ids where 3"):
        next(short.respond([POINT, OTHER]))


def test_another_alignments_points_are_nobodys() -> None:
    server, client = PsiServer(["a", "b"], "one"), PsiClient(["a", "b"], "two")
    client.receive_setup(server.setup(2))
    assert client.intersect(server.respond(client.request())) == []
    server, client = PsiServer(["a", "b"], "one"), PsiClient(["b", "a"], "one")
    client.receive_setup(server.setup(2))
    assert client.intersect(server.respond(client.request())) == ["b", "a"]


def test_the_requests_order_tells_no_place_in_the_table() -> None:
    names = [f"r{row}" for row in range(200)]
    client = PsiClient(names)
    encoded = encode_to_curve([name.encode() for name in names], psi._domain(""))
    in_table_order = [client._blinding.key.blind(point) for point in encoded]
    order = [in_table_order.index(point) for point in points_of(client.request())]
    assert sorted(order) == list(range(200))
    assert abs(np.corrcoef(order, range(200))[0, 1]) < 0.4


def test_an_id_twice_is_refused_by_both_sides_even_in_disguise() -> None:
    """A point plus one of small order has another coordinate and the same powers."""
    disguised = [POINT, _plus_the_point_of_order_two(POINT)]
    assert disguised[0] != disguised[1]
    assert len({BlindingKey().blind(point) for point in disguised}) == 2
    key = BlindingKey()
    assert key.blind(disguised[0]) == key.blind(disguised[1])
    for points in ([POINT, POINT], disguised):
        server = PsiServer(["a", "b"])
        server.setup(2)
        with pytest.raises(PsiError, match="holds an id twice"):
            list(server.respond(points))
        with pytest.raises(PsiError, match="holds an id twice"):
            PsiClient(["a", "b"]).receive_setup(BlindedIds(2, points))
    client = PsiClient(["a", "b"])
    client.receive_setup(PsiServer(["a"]).setup(2))
    with pytest.raises(PsiError, match="holds an id twice"):
        client.intersect([POINT * 2])


def _plus_the_point_of_order_two(point: bytes) -> bytes:
    """(0, 0) added: the coordinate becomes its inverse (Montgomery's addition formula with u = 0)."""
    return pow(int.from_bytes(point, "little"), -1, 2**255 - 19).to_bytes(32, "little")


@pytest.mark.parametrize("count", [0, psi.MOST_IDS + 1])
def test_a_set_up_of_no_id_or_of_too_many_is_refused_before_it_is_read(count: int) -> None:
    def unread() -> Iterable[bytes]:
        pytest.fail("read")
        yield b""

    with pytest.raises(PsiError, match="Expected a set-up of 1 to"):
        PsiClient(["a"]).receive_setup(BlindedIds(count, unread()))


@given(st.lists(st.binary(max_size=100), max_size=4))
def test_arbitrary_bytes_are_taken_by_both_sides_only_as_two_points_or_refused_in_words(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    said = refusals(chunks, ["a", "b"])
    # Two random points are as likely as not to be on the curve; anything else never gets through.
    assert all(said) or len(whole) == 64


@given(place=st.integers(0, 63), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_takes_its_id_out_of_the_intersection(place: int, bit: int) -> None:
    server, client = PsiServer(["a", "b"]), PsiClient(["a", "b"])
    client.receive_setup(server.setup(2))
    response = bytearray(b"".join(server.respond(client.request())))
    response[place] ^= 1 << bit
    try:
        found = client.intersect([bytes(response)])
    except PsiError:
        return
    assert found == ["ab"[client._asked[1 if place < 32 else 0]]]


@pytest.mark.parametrize("bad", [[], ["a", "a"], ["a", "\ud800"]])
def test_bad_ids(bad: list[str]) -> None:
    for role in (PsiServer, PsiClient):
        with pytest.raises(PsiError):
            role(bad)


def test_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    align([os.urandom(8).hex() for _ in range(5)], ["x"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow("memory is measured with many ids, each of which is a power")
def test_memory_grows_by_less_than_a_kilobyte_an_id() -> None:
    """300,000 ids then take under 300 MB more than what a party's process takes for a few chunks."""

    def peak(count: int) -> float:
        return max(side.peak_bytes for side in align_in_processes(count))

    assert (peak(16_000) - peak(6_000)) / 10_000 < 1_000
