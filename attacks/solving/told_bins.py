"""Which bin of a column each row is in, from the sums of derivatives over its bins that boosted trees tell (ours).

The label party knows g and h of every row in every tree, and reads of every node their sums over each bin. It is told
as well which rows go left at each division, whose bin it chose: bounds on the bin of every row (`ToldColumn`). A row's
bin is the same in all trees. So a row is in none of the bins whose sum of h it exceeds in any of its nodes. What is
left is, for each bin, a system of linear equations whose unknowns are 0 or 1, and in small nodes a subset sum with one
solution.

What is learnt is a bin's place in the order of its column. Thresholds, and which column it is, stay with its owner.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.hearing import NodeSums, Told, ToldGroups, ToldSides, ToldSums

# Equations of more records take minutes.
MOST_ROWS = 1_500
# Records times columns of which sides are kept: half a gigabyte; and trees of which sums are.
_MOST_SIDES, _MOST_TREES = 100_000_000, 200
# Rows of a node of which all subsets are tried.
_MOST_TRIED = 12
# How much of a row's direction equations may leave open, and how far from 0 or 1 its value may be.
_OPEN, _NEAR = 1e-6, 1e-2
# Singular values below this share of the largest are rounding: sums are exact, floating point isn't.
_RANK = 1e-10
_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class ToldColumn:
    """What sums of a root, and all sides of a column that were told, say of it: for tables of any size.

    Attributes:
        shares: (bins + 1,) how much of all rows' h is in each bin, what is missing last.
        low: (n,) the lowest bin that each row may be in.
        high: (n,) the highest.
        may_miss: (n,) whether its value may be missing.
    """

    shares: FloatArray
    low: NDArray[np.int16]
    high: NDArray[np.int16]
    may_miss: BoolArray

    @classmethod
    def of(cls, root: NodeSums, rows: int) -> Self:
        """Begin with what the sums of a root say, of a table of so many rows."""
        seconds = np.maximum(root.sums[:, 1].astype(np.float64), 0.0)
        low = np.zeros(rows, dtype=np.int16)
        may_miss = np.full(rows, seconds[-1] > 0)
        return cls(seconds / max(1.0, seconds.sum()), low, np.full_like(low, len(seconds) - 2), may_miss)

    def hear(self, told: ToldSides) -> None:
        """Narrow the rows of a node by the side that each went to."""
        below, above = told.rows[told.below], told.rows[~told.below]
        self.high[below] = np.minimum(self.high[below], told.bin)
        self.low[above] = np.maximum(self.low[above], told.bin + 1)
        self.may_miss[above if told.missing_below else below] = False

    def possible(self) -> BoolArray:
        """Tell which bins each row may be in, (n, bins + 1); none but what is missing where sides say no other."""
        bins = np.arange(len(self.shares) - 1)
        inside = (bins >= self.low[:, None]) & (bins <= self.high[:, None])
        return np.column_stack([inside, self.may_miss])


@dataclass
class HeardTrees:
    """What one party was told while trees grew.

    Attributes:
        records: aligned.
        grown: numbers of the trees.
        leaves: by tree, which leaf each row has reached, (n,).
        bin_sums: by peer and number of its column in the session, sums over its bins with their tree; of few records.
        columns: likewise, what is told of a column of any number of records.
    """

    records: int = 0
    grown: set[int] = field(default_factory=set)
    leaves: dict[int, IntArray] = field(default_factory=dict)
    bin_sums: dict[tuple[str, int], list[tuple[int, NodeSums]]] = field(default_factory=dict)
    columns: dict[tuple[str, int], ToldColumn] = field(default_factory=dict)

    @property
    def reached(self) -> IntArray | None:
        """Which leaf of each tree each row has reached, (n, trees); None at who isn't told."""
        return np.column_stack(list(self.leaves.values())) if self.leaves else None

    def hear(self, tree: int, parties: Sequence[str], what: Told) -> None:
        """Keep what was told; ``parties``: names by their places."""
        self.grown.add(tree)
        match what:
            case ToldGroups(groups):
                self.leaves[tree] = groups
            case ToldSums(party, column, sums):
                place = parties[party], column
                if place not in self.columns and (1 + len(self.columns)) * self.records <= _MOST_SIDES:
                    self.columns[place] = ToldColumn.of(sums, self.records)
                if self.records <= MOST_ROWS and tree < _MOST_TREES:
                    self.bin_sums.setdefault(place, []).append((tree, sums))
            case ToldSides(party, column) if (parties[party], column) in self.columns:
                self.columns[parties[party], column].hear(what)


def possible_bins(nodes: Sequence[NodeSums], rows: int, sides: BoolArray | None = None) -> BoolArray:
    """Tell which bins of a column each row may be in, (rows, bins); all of them for a row that no sum is over.

    Args:
        nodes: of one or more trees, any of them.
        rows: of the table.
        sides: (rows, bins) what else says so; None for nothing.

    Raises:
        ValueError: without a node.

    Examples:
        >>> values = np.array([[5, 1], [-3, 2], [4, 3]])
        >>> node = NodeSums(np.arange(3), values, np.array([[1, 4], [5, 1]]))
        >>> possible_bins([node], 3).argmax(axis=1)
        array([1, 0, 0])
    """
    if not nodes:
        raise ValueError("Expected at least one node's sums.")
    possible = np.ones((rows, len(nodes[0].sums)), dtype=np.bool_) if sides is None else sides.copy()
    weights = np.zeros((2 * len(nodes), rows))
    for index, node in enumerate(nodes):
        possible[node.rows] &= node.sums[:, 1] >= node.values[:, 1:]
        weights[2 * index : 2 * index + 2, node.rows] = node.values.T
    sums = np.stack([node.sums for node in nodes], axis=1).astype(np.float64)
    is_new = np.repeat([not node.follows for node in nodes], 2)
    for _ in range(_ROUNDS):
        before = int(possible.sum())
        for bin_ in range(possible.shape[1]):
            _settle(possible, bin_, weights, sums[bin_].ravel(), is_new)
        if int(possible.sum()) == before:
            break
    return possible


def _settle(possible: BoolArray, bin_: int, weights: FloatArray, sums: FloatArray, is_new: BoolArray) -> None:
    """Take out of a bin, or of all others, the rows whose place in it follows from its sums.

    Equations that follow from others say nothing new (``is_new``); subsets of small nodes do.
    """
    settled = possible.sum(axis=1) == 1
    remaining = sums - weights[:, possible[:, bin_] & settled].sum(axis=1)
    for solve, is_read in ((_by_equations, is_new), (_by_subsets, np.ones_like(is_new))):
        unknown = np.flatnonzero(possible[:, bin_] & ~settled)
        if not len(unknown):
            return
        inside, outside = solve(weights[np.ix_(is_read, unknown)], remaining[is_read])
        possible[unknown[outside], bin_] = False
        possible[unknown[inside]] = np.arange(possible.shape[1]) == bin_
        settled = settled | (possible.sum(axis=1) == 1)
        remaining = remaining - weights[:, unknown[inside]].sum(axis=1)


def _by_equations(weights: FloatArray, sums: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Find the rows, (k,) twice, that linear equations put into the bin, and out of it."""
    used = weights.any(axis=1)
    scales = np.abs(weights[used]).max(axis=1, keepdims=True)
    left_vectors, sizes, right = np.linalg.svd(weights[used] / scales, full_matrices=False)
    rank = int((sizes > _RANK * sizes.max(initial=0.0)).sum())
    values = right[:rank].T @ ((left_vectors[:, :rank].T @ (sums[used] / scales[:, 0])) / sizes[:rank])
    determined = 1 - np.square(right[:rank]).sum(axis=0) < _OPEN
    return determined & (np.abs(values - 1) < _NEAR), determined & (np.abs(values) < _NEAR)


def _by_subsets(weights: FloatArray, sums: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Find the rows, (k,) twice, that are in all subsets with a node's sums, and in none of them."""
    count = weights.shape[1]
    inside, outside = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for index in range(0, len(sums), 2):
        members = np.flatnonzero(weights[index + 1])
        if not 0 < len(members) <= _MOST_TRIED:
            continue
        subsets = (np.arange(1 << len(members))[:, None] >> np.arange(len(members)) & 1).astype(np.float64)
        totals = subsets @ weights[index : index + 2, members].T
        fitting = subsets[(totals == sums[index : index + 2]).all(axis=1)]
        if len(fitting):
            inside[members] |= fitting.all(axis=0)
            outside[members] |= ~fitting.any(axis=0)
    return inside, outside
