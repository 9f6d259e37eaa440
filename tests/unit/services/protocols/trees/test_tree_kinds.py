"""Messages of trees in a mailbox: what is written is read again, whatever a level has, and nothing else is taken."""

from dataclasses import replace

import numpy as np
import pytest

from services.common import limits
from services.common.errors import InvalidMessage
from services.protocols.trees.tree_kinds import TreeKinds, filled
from services.protocols.trees.tree_messages import NodeDivided, SplitChosen, TreeTerms
from tests.harness.tree_tables import made_table
from vfl.learning.trees import TreeOptions

NAMES = ("bank", "fintech", "insurer")


def kinds_of(rows: int = 90, key_bits: int = 512) -> TreeKinds:
    table = made_table(rows, (1, 2, 3))
    options = TreeOptions(n_estimators=2, max_depth=4, max_bin=6, gradient_bits=10)
    return TreeKinds(TreeTerms(NAMES, table.plan(options, validation=20), key_bits))


def test_splits_and_routes_are_read_as_they_were_written() -> None:
    kinds = kinds_of()
    splits = [SplitChosen(4, 7, 2, 5, True), SplitChosen(6, 8, 0, 0, False)]
    assert kinds.read_splits(kinds.splits_of(splits, 2)) == splits
    routes = [NodeDivided(4, 1, 7, b"\x80\x01"), NodeDivided(7, 0, 0, b"\xff")]
    assert kinds.read_routes(kinds.routes_of(routes, 2), 2) == routes
    assert kinds.read_splits(kinds.splits_of([], 3)) == []
    assert kinds.read_routes(kinds.routes_of([], 3), 3) == []


def test_what_a_message_tells_is_counted_under_its_name() -> None:
    told = {"sums": "bins' sums", "splits": "splits", "divided": "routes", "routes": "routes"}
    secrets = dict.fromkeys(("mask_key", "order", "key"), "")
    for key_bits, derivatives in ((512, ""), (0, "derivatives in the clear")):
        for kind in kinds_of(key_bits=key_bits).kinds():
            word = {**told, **secrets, "derivatives": derivatives}[kind.name.split()[0]]
            assert (kind.tells.word if kind.tells else "") == word


@pytest.mark.parametrize("key_bits", [512, 0], ids=["paillier", "plain"])
def test_every_message_has_one_size_in_every_tree_and_room_for_a_full_level(key_bits: int) -> None:
    kinds = kinds_of(key_bits=key_bits)
    for kind in kinds.kinds():
        assert kind.shape(0) == kind.shape(1)
        assert kind.header(0).size <= limits.VECTOR_BYTES
    for level in range(4):
        # As many bits as rows, and each node's filled up to a byte.
        sizes = [-(-len(rows) // 8) for rows in np.array_split(np.arange(90), 1 << level)]
        full = [NodeDivided(1 + at, 0, at, b"\1" * one) for at, one in enumerate(sizes)]
        assert kinds.read_routes(kinds.routes_of(full, level), level) == full
        nodes = max(1, (1 << level) // 2)
        assert kinds.sums_bytes(level, 2) == kinds.terms.sums_bytes(nodes * 3 * 6)


def test_derivatives_of_many_rows_travel_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = kinds_of()
    monkeypatch.setattr(limits, "VECTOR_BYTES", 30 * kinds.terms.ciphertext_bytes)
    assert [rows for _, rows in kinds.chunks()] == [30, 30, 10]
    assert len({name for name, _ in kinds.chunks()}) == 3


@pytest.mark.parametrize(("column", "value"), [(1, 3), (3, 1_000)], ids=["another party", "more bits than there are"])
def test_routes_that_no_party_wrote_are_refused(column: int, value: int) -> None:
    kinds = kinds_of()
    words = kinds.routes_of([NodeDivided(1, 0, 0, b"\1")], 0)
    words[column] = value
    with pytest.raises(InvalidMessage, match="by a party that isn't here, or of too many rows"):
        kinds.read_routes(words, 0)


def test_parties_of_one_name_have_no_terms() -> None:
    with pytest.raises(InvalidMessage, match="parties of different names"):
        replace(kinds_of().terms, names=("bank", "bank", "insurer"))


def test_what_a_level_has_not_is_zeros() -> None:
    np.testing.assert_array_equal(filled(b"\1\2", 4), [1, 2, 0, 0])
