"""How far an alignment says it has come, in ids."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.active.progress import AlignmentProgress
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import BlindedIds, PsiClient, PsiServer, common_order
from vfl.data.psi import CHUNK_IDS

SIZES = st.lists(st.integers(1, 5_000), min_size=1, max_size=4)


def chunks(ids: int) -> list[bytes]:
    """So many blinded ids, as they travel."""
    return [bytes(COORDINATE_BYTES * min(CHUNK_IDS, ids - start)) for start in range(0, ids, CHUNK_IDS)]


@given(own=st.integers(1, 9_000), others=SIZES)
def test_it_ends_where_all_ids_are_counted_and_never_goes_back(own: int, others: list[int]) -> None:
    told: list[tuple[int, int]] = []
    progress = AlignmentProgress(lambda done, planned: told.append((done, planned)), own, len(others))
    remaining = own
    for count in others:
        setup = progress.setup_of(BlindedIds(count, chunks(count)), remaining)
        for _ in chain(setup.chunks, progress.counted(chunks(remaining)), progress.counted(chunks(remaining))):
            pass
        remaining = min(remaining, count)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert all(done <= planned for done, planned in told)
    assert told[-1][0] == told[-1][1]
    # With one party all of it is known from its first chunk on.
    if len(others) == 1:
        assert {planned for _, planned in told} == {others[0] + 2 * own}


def test_a_real_alignment_is_counted_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vfl.data.psi.CHUNK_IDS", 8)
    own, other = [f"r{number}" for number in range(20)], [f"r{number}" for number in range(10, 22)]
    told: list[tuple[int, int]] = []
    progress = AlignmentProgress(lambda done, planned: told.append((done, planned)), len(own), 1)
    client, server = PsiClient(own, "here"), PsiServer(other, "here")
    client.receive_setup(progress.setup_of(server.setup(len(own)), len(own)))
    common = client.intersect(progress.counted(server.respond(progress.counted(client.request()))))
    assert common_order(common) == sorted(own[10:])
    assert told == [(done, 52) for done in (8, 12, 20, 28, 32, 40, 48, 52)]
