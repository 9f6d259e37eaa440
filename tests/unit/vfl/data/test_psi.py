"""Private set intersection: equal to set intersection, and each misuse refused."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import private_set_intersection.python as openmined
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfl.data import EmptyIntersection, PsiClient, PsiError, PsiServer, common_order, rows_of

ids = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=12, unique=True)


def align(server_ids: list[str], client_ids: list[str]) -> list[str]:
    server, client = PsiServer(server_ids), PsiClient(client_ids)
    return client.intersect(server.setup(len(client_ids)), server.respond(client.request()))


@given(shared=ids, server_only=ids, client_only=ids, seed=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_equals_set_intersection(
    shared: list[str], server_only: list[str], client_only: list[str], seed: object
) -> None:
    server_ids = sorted({*shared, *server_only}, key=lambda value: hash((value, str(seed))))
    client_ids = list(dict.fromkeys([*client_only, *shared]))
    found = align(server_ids, client_ids)
    assert found == [value for value in client_ids if value in set(server_ids)]
    assert common_order(found) == sorted(set(server_ids) & set(client_ids))


def test_no_normalisation_of_unicode_or_case() -> None:
    assert align(["\u00e9", "a", "001"], ["e\u0301", "A", "1"]) == []


def test_order_of_rows_does_not_matter() -> None:
    server_ids, client_ids = [f"s{i}" for i in range(40)], [f"s{i}" for i in range(20, 60)]
    forward = common_order(align(server_ids, client_ids))
    assert forward == common_order(align(server_ids[::-1], client_ids[::-1]))
    assert len(forward) == 20


def test_each_object_has_a_fresh_key_and_messages_hide_the_ids() -> None:
    names = ["alice-the-client", "bob-the-client"]
    first, second = PsiClient(names).request(), PsiClient(names).request()
    assert first != second
    assert PsiServer(names).setup(2) != PsiServer(names).setup(2)
    assert b"alice" not in first + PsiServer(names).setup(2)


def test_set_up_is_sorted_by_ciphertext() -> None:
    message = openmined.ServerSetup.FromString(PsiServer([f"r{i}" for i in range(30)]).setup(1))
    elements = list(message.raw.encrypted_elements)
    assert elements == sorted(elements)


def test_a_second_request_is_refused() -> None:
    server, client = PsiServer(["a", "b"]), PsiClient(["a"])
    setup = server.setup(1)
    response = server.respond(client.request())
    for again in (client, PsiClient(["b"])):
        with pytest.raises(PsiError, match="one request"):
            server.respond(again.request())
    assert client.intersect(setup, response) == ["a"]


def test_of_simultaneous_requests_one_is_answered() -> None:
    ids = [f"r{i}" for i in range(300)]
    server = PsiServer(ids)
    server.setup(300)
    requests = [PsiClient(ids).request() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(server.respond, request) for request in requests]
    assert sum(answer.exception() is None for answer in answers) == 1
    assert sum(isinstance(answer.exception(), PsiError) for answer in answers) == 3


def test_more_ids_than_declared_are_refused() -> None:
    server = PsiServer(["a", "b", "c"])
    server.setup(2)
    with pytest.raises(PsiError, match="holds 3 ids but the client declared 2"):
        server.respond(PsiClient(["a", "b", "c"]).request())
    assert server.respond(PsiClient(["a", "b"]).request())


def test_order_of_calls() -> None:
    server = PsiServer(["a"])
    with pytest.raises(PsiError, match="call setup first"):
        server.respond(PsiClient(["a"]).request())
    for count in (0, -1):
        with pytest.raises(PsiError, match="at least one id"):
            server.setup(count)
    server.setup(1)
    with pytest.raises(PsiError, match="already set up"):
        server.setup(10)


def request_of(elements: list[bytes], reveal: bool = True) -> bytes:
    data: bytes = openmined.Request(reveal_intersection=reveal, encrypted_elements=elements).SerializeToString()
    return data


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\xff\xff\xff",
        b"not a message",
        request_of([b"x"]),
        request_of([b"\x00"]),
        request_of([b"\x02" + b"\xff" * 32]),
    ],
)
def test_malformed_requests(request_bytes: bytes) -> None:
    server = PsiServer(["a"])
    server.setup(5)
    with pytest.raises(PsiError):
        server.respond(request_bytes)


def test_request_for_the_size_only_is_refused() -> None:
    elements = list(openmined.Request.FromString(PsiClient(["a"]).request()).encrypted_elements)
    server = PsiServer(["a"])
    server.setup(1)
    with pytest.raises(PsiError, match="size only"):
        server.respond(request_of(elements, reveal=False))
    assert server.respond(request_of(elements))


def response_of(elements: list[bytes]) -> bytes:
    data: bytes = openmined.Response(encrypted_elements=elements).SerializeToString()
    return data


def test_malformed_answers() -> None:
    server, client = PsiServer(["a", "b"]), PsiClient(["a", "c"])
    setup, response = server.setup(2), server.respond(client.request())
    elements = list(openmined.Response.FromString(response).encrypted_elements)
    other = openmined.server.CreateWithNewKey(True)
    compressed = [
        other.CreateSetupMessage(0.1, 2, ["a"], kind).SerializeToString()
        for kind in (openmined.DataStructure.GCS, openmined.DataStructure.BLOOM_FILTER)
    ]
    for bad_setup in (b"", b"\xff\xff", *compressed):
        with pytest.raises(PsiError):
            client.intersect(bad_setup, response)
    for bad_response in (b"", b"\xff\xff", *map(response_of, [elements[:1], elements * 2, [b"x", b"y"]])):
        with pytest.raises(PsiError):
            client.intersect(setup, bad_response)
    assert client.intersect(setup, response) == ["a"]


@pytest.mark.parametrize("bad", [[], ["a", "a"], ["a", "\ud800"]])
def test_bad_ids(bad: list[str]) -> None:
    for role in (PsiServer, PsiClient):
        with pytest.raises(PsiError):
            role(bad)


def test_common_order_of_nothing() -> None:
    with pytest.raises(EmptyIntersection, match="leading zeros"):
        common_order([])


def test_common_order_ignores_order_and_repeats() -> None:
    assert common_order(["b", "a", "B", "a"]) == ["B", "a", "b"]


def test_rows_of() -> None:
    rows = rows_of(("c", "a", "b"), ["a", "b", "c"])
    np.testing.assert_array_equal(rows, [1, 2, 0])
    assert rows.dtype == np.int64
    with pytest.raises(PsiError, match="lacks 1 of the 2 common ids") as caught:
        rows_of(("c", "a"), ["a", "secret"])
    assert "secret" not in str(caught.value)


def test_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    align([os.urandom(8).hex() for _ in range(5)], ["x"])
    assert capfd.readouterr() == ("", "")
