"""What growing trees tells the party that asks: sums over others' bins, sides of their columns, and leaves."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vfl.arrays import BoolArray, IntArray
from vfl.learning.hearing import NodeSums, Told, ToldGroups, ToldSides, ToldSums
from vfl.learning.trees.boosting import BeginTree, TreePlan
from vfl.learning.trees.growing import ROOT, Divide, Division, Histograms, NodeRows
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
        # Of each node of the tree whose sums are known: its rows, and every party's sums.
        self._nodes: dict[int, tuple[IntArray, list[IntArray]]] = {}

    def hear(self, request: object, answer: Any) -> Iterator[Told]:
        """Say what an answer tells, a word for each node and column."""
        match request:
            case AskPlan():
                self._plan = answer
            case BeginTree() if self._plan is not None:
                self.tree, self._values, self._nodes = request.number, request.gradients.values, {}
                self._columns = self._plan.columns_of(request.number)
            case Histograms(nodes):
                yield from self._sums(nodes, answer)
            case Divide(divisions):
                yield from self._sides(divisions, answer)
            case FollowTree():
                yield ToldGroups(answer.leaves)

    def _sums(self, nodes: Sequence[NodeRows], prefix_sums: Sequence[IntArray]) -> Iterator[ToldSums]:
        """Hear each other party's prefix sums, (nodes, columns, max_bin, 2), and of siblings what parents have more."""
        for index, node in enumerate(nodes):
            yield from self._sums_of(node.number, node.summed, [sums[index] for sums in prefix_sums])
            if node.number > ROOT:
                rows, of_parent = self._nodes[node.number // 2]
                rest = np.setdiff1d(rows, node.summed, assume_unique=True)
                of_sibling = [sums - part[index] for sums, part in zip(of_parent, prefix_sums, strict=True)]
                yield from self._sums_of(node.number ^ 1, rest, of_sibling, follows=True)

    def _sums_of(
        self, number: int, rows: IntArray, prefix_sums: list[IntArray], *, follows: bool = False
    ) -> Iterator[ToldSums]:
        """Hear a node's sums, (columns, max_bin, 2) of each party, as those of bins; what is missing last."""
        self._nodes[number] = rows, prefix_sums
        values = self._values[rows]
        for party, columns in list(enumerate(self._columns))[1:]:
            for column, of_column in zip(columns.tolist(), prefix_sums[party], strict=True):
                by_bin = np.vstack([np.diff(of_column, axis=0, prepend=0), values.sum(axis=0) - of_column[-1]])
                yield ToldSums(party, column, NodeSums(rows, values, by_bin, follows=follows))

    def _sides(self, divisions: Sequence[Division], lefts: Sequence[BoolArray]) -> Iterator[ToldSides]:
        """Hear which rows of each node go left at another party's column."""
        for division, below in zip(divisions, lefts, strict=True):
            candidate = division.candidate
            if candidate.party:
                column = int(self._columns[candidate.party][candidate.column])
                yield ToldSides(
                    candidate.party, column, candidate.bin, candidate.missing_left, division.node.routed, below
                )
