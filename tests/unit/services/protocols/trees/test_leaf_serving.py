"""Predictions by leaves on shares are those in plain, and show the adder one place a tree."""

from dataclasses import dataclass

import numpy as np
import pytest

from services.common.errors import InvalidMessage
from services.protocols.trees.leaf_serving import ORDER_BYTES, LeafServer, margins_of, reached_places
from tests.harness.tree_tables import TreeTable, made_table
from vfl.arrays import FloatArray
from vfl.crypto.pairwise_masks import PairwiseMasks
from vfl.learning.trees import OwnedColumns, TreeModel, TreeOptions
from vfl.learning.trees.open_leaves import OwnPaths

OPTIONS = TreeOptions(n_estimators=5, max_depth=4, min_rows_of_a_node=4)


@dataclass(frozen=True, eq=False)
class Served:
    table: TreeTable
    model: TreeModel
    owned: list[OwnedColumns]
    servers: list[LeafServer]
    paths: list[OwnPaths]

    @classmethod
    def of(cls, table: TreeTable, options: TreeOptions = OPTIONS) -> "Served":
        model, owned = table.train(table.plan(options))
        trees = tuple(tree.splits for tree in model.trees)
        masks = {f"party {place}": PairwiseMasks(f"party {place}", "s") for place in range(len(owned))}
        for name, own in masks.items():
            own.agree({other: one.public_key for other, one in masks.items() if other != name})
        paths = [OwnPaths(trees, place, one.splits) for place, one in enumerate(owned)]
        servers = [
            LeafServer(own, part, mask, b"o" * ORDER_BYTES)
            for own, part, mask in zip(paths, table.tables, masks.values(), strict=True)
        ]
        return cls(table, model, owned, servers, paths)

    def margins(self, request: int, rows: list[int]) -> FloatArray:
        shares = [server.answer(request, rows) for server in self.servers]
        places = reached_places(shares, self.paths[0].sizes)
        return margins_of(self.model, self.servers[0].reached(request, places))


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
    assert served.paths[0].sizes == (1,) * OPTIONS.n_estimators
    assert np.isfinite(served.margins(0, [0, 5])).all()


def test_the_same_request_has_the_same_bytes_and_another_under_its_number_is_refused(served: Served) -> None:
    server = served.servers[1]
    first = server.answer(20, [3, 4, 5])
    np.testing.assert_array_equal(server.answer(20, [3, 4, 5]), first)
    for rows in ([3, 4, 6], [3, 4], [5, 4, 3]):
        with pytest.raises(InvalidMessage, match="Request 20 was about other records"):
            server.answer(20, rows)
    assert not np.any(server.answer(21, [3, 4, 5]) == first)


def test_rows_that_are_not_there_are_refused(served: Served) -> None:
    for row in (-1, 150):
        with pytest.raises(InvalidMessage, match="0 to 149"):
            served.servers[0].answer(30, [row])


@pytest.mark.parametrize("request_", [-1, 1 << 64])
def test_a_number_that_is_no_request_is_refused(served: Served, request_: int) -> None:
    with pytest.raises(InvalidMessage, match="64 bits"):
        served.servers[0].answer(request_, [1])


def test_places_that_an_adder_makes_up_are_refused(served: Served) -> None:
    shares = [server.answer(70, [1, 2]) for server in served.servers]
    places = reached_places(shares, served.paths[0].sizes)
    for wrong in (places - 32, places + 32, places[:1], places[:, :-1]):
        with pytest.raises(InvalidMessage, match="request 70"):
            served.servers[0].reached(70, wrong)
    with pytest.raises(InvalidMessage, match="request 71"):
        served.servers[0].reached(71, places)


def test_the_adder_sees_a_uniform_place_for_the_same_leaf(served: Served) -> None:
    """One record 3,000 times: the place of its leaf in the first tree is each one about as often."""
    rows = [7] * 3_000
    shares = [server.answer(40, rows) for server in served.servers]
    places = reached_places(shares, served.paths[0].sizes)
    assert len(np.unique(served.servers[0].reached(40, places)[:, 0])) == 1
    counts = np.bincount(places[:, 0], minlength=served.paths[0].sizes[0])
    expected = 3_000 / len(counts)
    # Six standard deviations of each count.
    assert np.abs(counts - expected).max() < 6 * expected**0.5


def test_shares_of_fewer_than_all_parties_show_no_zero(served: Served) -> None:
    rows = list(range(150))
    shares = [server.answer(50, rows) for server in served.servers]
    for left_out in range(3):
        some = [share for party, share in enumerate(shares) if party != left_out]
        assert np.count_nonzero(some[0] + some[1]) == some[0].size
        with pytest.raises(InvalidMessage, match="reaches no leaf"):
            reached_places(some, served.paths[0].sizes)


def test_a_party_with_wrong_shares_is_found_out(served: Served) -> None:
    shares = [server.answer(60, [1, 2]) for server in served.servers]
    with pytest.raises(InvalidMessage, match="not about the same records"):
        reached_places([shares[0][:1], *shares[1:]], served.paths[0].sizes)
    places = reached_places(shares, served.paths[0].sizes)
    shares[1] = shares[1].copy()
    shares[1][0, places[0, 0]] += np.uint64(1)
    with pytest.raises(InvalidMessage, match="no leaf of tree 0"):
        reached_places(shares, served.paths[0].sizes)
