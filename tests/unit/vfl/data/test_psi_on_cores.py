"""An alignment on several cores is the one of one core: the same bytes, the same refusals, each in its turn."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.core_tasks import process_id
from tests.harness.cores import CoresAhead
from vfl.cores import Cores, OneCore, ProcessCores
from vfl.cores.cores import Result, Task
from vfl.crypto.curve25519 import BlindingKey, encode_to_curve
from vfl.data import BlindedIds, PsiClient, PsiError, PsiServer, psi

POINTS = encode_to_curve([b"%d" % number for number in range(8)], b"test")
TWIST = (2).to_bytes(32, "little")
SMALL_ORDER = (1).to_bytes(32, "little")


@pytest.fixture(scope="module")
def ahead() -> Iterator[CoresAhead]:
    cores = CoresAhead()
    yield cores
    cores.close()


class KillingCores:
    """Processes, one of which is killed while each message is made."""

    count = 2

    def __init__(self, processes: ProcessCores) -> None:
        self._processes = processes
        self.killed = 0

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        # Workers that have died three times without a result between are given up.
        self._processes.forget()
        for number, result in enumerate(self._processes.map(function, tasks)):
            if number == 2:
                os.kill(next(self._processes.map(process_id, [None])), signal.SIGKILL)
                self.killed += 1
            yield result

    def forget(self) -> None:
        self._processes.forget()

    def close(self) -> None:
        self._processes.close()


def known_randomness(patch: pytest.MonkeyPatch) -> None:
    """The same key and the same orders in each alignment."""
    key = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    patch.setattr(X25519PrivateKey, "generate", staticmethod(lambda: key))
    draw = np.random.default_rng(1)
    patch.setattr("vfl.data.psi.secrets.token_bytes", lambda count: draw.bytes(count))


def messages(cores: Cores, count: int) -> list[list[bytes]]:
    """All three messages of an alignment, and what was found as the fourth."""
    server = PsiServer([f"r{row}" for row in range(count)], "known", cores)
    client = PsiClient([f"r{row}" for row in range(count // 2, 2 * count)], "known", cores)
    setup = list(server.setup(len(client._ids)).chunks)
    client.receive_setup(BlindedIds(count, setup))
    request = list(client.request())
    response = list(server.respond(request))
    return [setup, request, response, [value.encode() for value in client.intersect(response)]]


def test_messages_are_the_same_on_one_core_and_on_two(monkeypatch: pytest.MonkeyPatch, ahead: CoresAhead) -> None:
    monkeypatch.setattr(psi, "CHUNK_IDS", 7)
    made = []
    for cores in (OneCore(), ahead):
        with pytest.MonkeyPatch.context() as patch:
            known_randomness(patch)
            made.append(messages(cores, 60))
    assert made[0] == made[1]
    assert made[0][3] == [b"r%d" % row for row in range(30, 60)]
    assert len(made[0][0]) == 9


def test_workers_that_are_killed_in_mid_alignment_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psi, "CHUNK_IDS", 16)
    with pytest.MonkeyPatch.context() as patch:
        known_randomness(patch)
        expected = messages(OneCore(), 200)
    processes = ProcessCores(2)
    killing = KillingCores(processes)
    try:
        known_randomness(monkeypatch)
        assert messages(killing, 200) == expected
    finally:
        processes.close()
    assert killing.killed == 4, "one in each of the four messages that a key works on"


def test_messages_are_those_of_before(monkeypatch: pytest.MonkeyPatch, ahead: CoresAhead) -> None:
    """The digest is of the points of a release that had one core: parties of both releases find each other's ids."""
    known_randomness(monkeypatch)
    data = b"".join(PsiServer([f"r{row}" for row in range(5000)], "known", ahead).setup(1).chunks)
    points = sorted(data[start : start + 32] for start in range(0, len(data), 32))
    digest = hashlib.sha256(b"".join(points)).hexdigest()
    assert digest == "03ca50f9ebf35846cbb1a57ef46c6021a689d8a090910c062a0236475ffc90e8"


def words(cores: Cores, chunks: list[bytes], declared: int) -> list[str]:
    """What each side says to these chunks, as request, as set-up and as response."""

    def answered() -> None:
        server = PsiServer(["a"], cores=cores)
        server.setup(declared)
        list(server.respond(chunks))

    def received() -> None:
        PsiClient(["a"], cores=cores).receive_setup(BlindedIds(declared, chunks))

    def compared() -> None:
        client = PsiClient([f"{number}" for number in range(declared)], cores=cores)
        client.receive_setup(BlindedIds(1, POINTS[:1]))
        client.intersect(chunks)

    said = []
    for role in (answered, received, compared):
        try:
            role()
            said.append("")
        except PsiError as error:
            said.append(str(error))
    return said


@given(
    chunks=st.lists(
        st.sampled_from([*POINTS, TWIST, SMALL_ORDER, b"", POINTS[0][:16], POINTS[0] + POINTS[1], POINTS[2] * 2]),
        min_size=1,
        max_size=6,
    ),
    declared=st.integers(1, 6),
)
def test_of_several_faults_the_first_is_told_on_any_cores(
    ahead: CoresAhead, chunks: list[bytes], declared: int
) -> None:
    assert words(OneCore(), chunks, declared) == words(ahead, chunks, declared)


def test_a_fault_ahead_waits_for_its_turn(ahead: CoresAhead) -> None:
    said = words(ahead, [POINTS[0], SMALL_ORDER, POINTS[0][:16]], 3)
    assert "a small order" in said[1]
    assert "is malformed" in said[0], "a request is read to its end before any of it is worked on"


def test_no_point_of_a_chunk_meets_the_key_before_all_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[bytes] = []
    real = BlindingKey.blind

    def blind(key: BlindingKey, coordinate: bytes) -> bytes:
        touched.append(coordinate)
        return real(key, coordinate)

    monkeypatch.setattr(BlindingKey, "blind", blind)
    server = PsiServer(["a"])
    server.setup(4)
    for faulty in ([POINTS[0] + POINTS[1], POINTS[2] + TWIST], [POINTS[0], POINTS[1]]):
        with pytest.raises(PsiError):
            next(server._answers(BlindedIds(4, faulty)))
    assert touched == [], "a request that is refused as a whole"
    with pytest.raises(PsiError, match="not on the curve"):
        PsiClient(["a"]).receive_setup(BlindedIds(4, [POINTS[0] + POINTS[1], POINTS[2] + TWIST]))
    assert touched == POINTS[:2]


def test_a_stream_is_drawn_only_a_few_chunks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psi, "CHUNK_IDS", 1)
    cores = CoresAhead()
    chunks = iter(PsiServer([f"r{row}" for row in range(50)], cores=cores).setup(1).chunks)
    next(chunks)
    assert cores.drawn <= 4
    chunks.close()  # type: ignore[attr-defined]
    cores.close()
    assert cores.drawn <= 4


def test_workers_forget_the_key_however_a_stream_ends() -> None:
    cores = CoresAhead()
    server, client = PsiServer(["a", "b"], cores=cores), PsiClient(["a"], cores=cores)
    client.receive_setup(server.setup(1))
    assert cores.forgotten == 2
    left = iter(client.request())
    next(left)
    del left
    assert cores.forgotten == 3, "a reader that has gone"
    for chunks in ([SMALL_ORDER], [TWIST], [b"half"]):
        with pytest.raises(PsiError):
            PsiClient(["a"], cores=cores).receive_setup(BlindedIds(1, chunks))
    assert cores.forgotten == 6
    held = iter(server.respond(client.request()))
    next(held)
    server.close()
    assert cores.forgotten == 8, "a reader that holds on: the request was read to its end, and the answer is over"
    client.close()
    with pytest.raises(PsiError, match="This alignment has ended"):
        next(iter(client.request()))
    cores.close()


def test_orders_of_equal_draws_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter(
        [
            bytes(8 * 5),
            np.array([3, 1, 2, 1, 0], dtype=np.uint64).tobytes(),
            b"".join(number.to_bytes(8, "little") for number in (4, 3, 2, 1, 0)),
        ]
    )
    monkeypatch.setattr("vfl.data.psi.secrets.token_bytes", lambda _: next(draws))
    assert psi._random_order(5).tolist() == [4, 3, 2, 1, 0]
    assert next(draws, None) is None


def test_every_order_is_as_likely() -> None:
    """Chi-squared over the 24 orders of four: a biased shuffle of 6,000 draws would stand out by hundreds."""
    found = [tuple(psi._random_order(4).tolist()) for _ in range(6000)]
    counts = np.array([found.count(order) for order in set(found)])
    assert len(counts) == 24
    # 23 degrees of freedom: 70 is beyond one in a million.
    assert ((counts - 250) ** 2 / 250).sum() < 70
