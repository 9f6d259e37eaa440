"""Predictions by leaves on shares are those in plain, and show the adder one place a tree."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pytest

from services.common.errors import InvalidMessage
from services.protocols.trees.leaf_serving import SECRET_BYTES, LeafServer, Shares, named_request, reached_places
from tests.harness.tree_tables import TreeTable, made_table
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.pairwise_masks import PairwiseMasks
from vfl.learning.trees import OwnedColumns, TreeModel, TreeOptions
from vfl.learning.trees.trees_part import TreesPart

OPTIONS = TreeOptions(n_estimators=5, max_depth=4, min_rows_of_a_node=4)
LEAVES = 1 << OPTIONS.max_depth
TREES = OPTIONS.n_estimators


@dataclass(frozen=True, eq=False)
class Served:
    table: TreeTable
    model: TreeModel
    owned: list[OwnedColumns]
    servers: list[LeafServer]
    label: TreesPart

    @classmethod
    def of(cls, table: TreeTable, options: TreeOptions = OPTIONS) -> "Served":
        model, owned = table.train(table.plan(options))
        masks = {f"party {place}": PairwiseMasks(f"party {place}", "s") for place in range(len(owned))}
        for name, own in masks.items():
            own.agree({other: one.public_key for other, one in masks.items() if other != name})
        label, *parts = (
            TreesPart(place, model.trees, tuple(one.splits), None if place else model.first_margin)
            for place, one in enumerate(owned)
        )
        servers = [
            LeafServer(part.paths(TREES), mask.agreed, b"o" * SECRET_BYTES, name.encode().ljust(32), LEAVES)
            for part, (name, mask) in zip((label, *parts), masks.items(), strict=True)
        ]
        return cls(table, model, owned, servers, label)

    def answer(self, party: int, number: int, rows: list[int]) -> Shares:
        return self.servers[party].answer(self.named(number, rows), self.table.tables[party][rows])

    def shares(self, number: int, rows: list[int]) -> list[Shares]:
        return [self.answer(party, number, rows) for party in range(len(self.servers))]

    def named(self, number: int, rows: list[int]) -> bytes:
        return named_request(bytes([number]), TREES, rows)

    def reached(self, number: int, rows: list[int], places: IntArray) -> IntArray:
        return self.servers[0].reached(self.named(number, rows), places)

    def margins(self, number: int, rows: list[int]) -> FloatArray:
        places = reached_places(self.shares(number, rows), TREES)
        return self.label.margins(self.reached(number, rows, places))


@pytest.fixture(scope="module")
def served() -> Served:
    return Served.of(made_table(150, (1, 2, 2), missing=0.1))


@pytest.mark.parametrize("columns", [(2, 2), (0, 3), (1, 2, 2)])
def test_margins_are_the_plain_ones_to_the_bit(columns: tuple[int, ...]) -> None:
    served = Served.of(made_table(150, columns, missing=0.1, seed=8))
    plain = served.model.margins(served.table.tables, [one.splits for one in served.owned])
    np.testing.assert_array_equal(served.margins(0, list(range(150))), plain)
    np.testing.assert_array_equal(served.margins(1, [9]), plain[[9]])


def test_trees_of_one_leaf_are_served_too() -> None:
    served = Served.of(made_table(6, (1, 1)))
    assert served.label.paths(TREES).sizes == (1,) * TREES
    assert np.isfinite(served.margins(0, [0, 5])).all()


def test_the_same_request_has_the_same_bytes_and_any_other_has_other_masks(served: Served) -> None:
    """Under one mask the difference of two answers would be 0 wherever a leaf is open to both."""
    first = served.answer(1, 20, [3, 4, 5])
    np.testing.assert_array_equal(served.answer(1, 20, [3, 4, 5]), first)
    for number, rows in ((21, [3, 4, 5]), (20, [3, 4, 6]), (20, [5, 4, 3])):
        assert not np.any(served.answer(1, number, rows) == first)
    assert not np.any(served.answer(1, 20, [3, 4]) == first[:2])
    fewer = named_request(bytes([20]), TREES - 1, [3, 4, 5])
    assert not np.any(served.servers[1].answer(fewer, served.table.tables[1][[3, 4, 5]]) == first)


def test_places_that_an_adder_makes_up_are_refused(served: Served) -> None:
    places = reached_places(served.shares(70, [1, 2]), TREES)
    for wrong in (places - LEAVES, places + LEAVES, places[:, :-1]):
        with pytest.raises(InvalidMessage, match="not those of the model's trees"):
            served.reached(70, [1, 2], wrong)
    for place in range(LEAVES):
        with suppress(InvalidMessage):
            assert (served.reached(70, [1, 2], np.full_like(places, place)) < served.label.paths(TREES).sizes).all()


def test_the_adder_sees_a_uniform_place_for_the_same_leaf(served: Served) -> None:
    """One record 3,000 times: the place of its leaf in the first tree is each one about as often."""
    rows = [7] * 3_000
    places = reached_places(served.shares(40, rows), TREES)
    assert len(np.unique(served.reached(40, rows, places)[:, 0])) == 1
    counts = np.bincount(places[:, 0], minlength=LEAVES)
    expected = 3_000 / LEAVES
    # Six standard deviations of each count.
    assert np.abs(counts - expected).max() < 6 * expected**0.5


def test_shares_of_fewer_than_all_parties_show_no_zero(served: Served) -> None:
    shares = served.shares(50, list(range(150)))
    for left_out in range(3):
        some = [share for party, share in enumerate(shares) if party != left_out]
        assert np.count_nonzero(some[0] + some[1]) == some[0].size
        with pytest.raises(InvalidMessage, match="reaches no leaf"):
            reached_places(some, TREES)


def test_a_party_with_wrong_shares_is_found_out(served: Served) -> None:
    shares = served.shares(60, [1, 2])
    with pytest.raises(InvalidMessage, match="not about the same records"):
        reached_places([shares[0][:1], *shares[1:]], TREES)
    places = reached_places(shares, TREES)
    shares[1] = shares[1].copy()
    shares[1][0, places[0, 0]] += np.uint64(1)
    with pytest.raises(InvalidMessage, match="no leaf of tree 0"):
        reached_places(shares, TREES)
