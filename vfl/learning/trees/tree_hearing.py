"""What growing trees tells the party that asks: sums over others' bins, sides of their columns, and leaves."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vfl.arrays import BoolArray, IntArray
from vfl.learning.hearing import NodeSums, Told, ToldGroups, ToldSides, ToldSums
from vfl.learning.trees.boosting import BeginTree, TreePlan
from vfl.learning.trees.growing import Divide, Division, Histograms, NodeRows
from vfl.learning.trees.tree_requests import AskPlan, FollowTree


class TreeHearing:
    """Hears one party's requests while trees grow.

    Attributes:
        tree: that grows.
    """

    def __init__(self) -> None:
        self.tree = -1
        self._plan: TreePlan | None = None
        self._values: IntArray = np.zeros((0, 2), dtype=np.int64)
        self._columns: list[IntArray] = []

    def hear(self, request: object, answer: Any) -> Iterator[Told]:
        """Say what an answer tells, a word for each node and column."""
        match request:
            case AskPlan():
                self._plan = answer
            case BeginTree() if self._plan is not None:
                self.tree, self._values = request.number, request.gradients.values
                parties = range(len(self._plan.columns))
                self._columns = [self._plan.sampled_columns(request.number, party) for party in parties]
            case Histograms(nodes):
                yield from self._sums(nodes, answer)
            case Divide(divisions):
                yield from self._sides(divisions, answer)
            case FollowTree():
                yield ToldGroups(answer.leaves)

    def _sums(self, nodes: Sequence[NodeRows], prefix_sums: Sequence[IntArray]) -> Iterator[ToldSums]:
        """Hear each other party's prefix sums, (nodes, columns, max_bin, 2), as those of bins."""
        for party, columns in list(enumerate(self._columns))[1:]:
            for node, prefixes in zip(nodes, prefix_sums[party], strict=True):
                values = self._values[node.summed]
                for column, of_column in zip(columns.tolist(), prefixes, strict=True):
                    by_bin = np.vstack([np.diff(of_column, axis=0, prepend=0), values.sum(axis=0) - of_column[-1]])
                    yield ToldSums(party, column, NodeSums(node.summed, values, by_bin))

    def _sides(self, divisions: Sequence[Division], lefts: Sequence[BoolArray]) -> Iterator[ToldSides]:
        """Hear which rows of each node go left at another party's column."""
        for division, below in zip(divisions, lefts, strict=True):
            candidate = division.candidate
            if candidate.party:
                column = int(self._columns[candidate.party][candidate.column])
                yield ToldSides(
                    candidate.party, column, candidate.bin, candidate.missing_left, division.node.routed, below
                )
