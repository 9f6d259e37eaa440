"""A party's own columns while trees grow: their bins, its splits, and which rows a split sends left."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.trees.column_bins import ColumnBins
from vfl.learning.trees.growing import NodeRows, is_large_enough
from vfl.learning.trees.split_gains import Candidate
from vfl.learning.trees.tree_gradients import bin_sums
from vfl.learning.trees.tree_options import TreeOptions


@dataclass(frozen=True)
class Split:
    """How a party divides a node: its own, and told to nobody.

    Attributes:
        column: of its table.
        threshold: values up to it go left.
        missing_left: whether rows without a value go left.
    """

    column: int
    threshold: float
    missing_left: bool

    def goes_left(self, table: FloatArray) -> BoolArray:
        """Tell which of (n, d) rows go left."""
        values = table[:, self.column]
        left: BoolArray = np.where(np.isnan(values), self.missing_left, values <= self.threshold)
        return left


@dataclass(eq=False)
class OwnedColumns:
    """One party's columns, in bins.

    Attributes:
        bins: how they are cut.
        binned: (n, d) of all rows.
        order: which column of the table each number of the session stands for.
        splits: those that were made, by number.
    """

    bins: ColumnBins
    binned: IntArray
    order: IntArray
    splits: list[Split] = field(default_factory=list)

    @classmethod
    def of(
        cls, table: FloatArray, trained: IntArray, options: TreeOptions, order: IntArray | None = None
    ) -> "OwnedColumns":
        """Cut a table, (n, d), by the values of its training rows.

        Args:
            table: of all rows; what is missing is NaN.
            trained: rows by which bins are chosen.
            options: of the training.
            order: the session's numbers of the columns; by default the table's own.
        """
        bins = ColumnBins.of(table[trained], options.max_bin)
        return cls(bins, bins.apply(table), np.arange(table.shape[1]) if order is None else order)

    def sampled_bins(self, rows: IntArray, columns: IntArray) -> IntArray:
        """Give the bins of some rows, in the session's numbering of the columns that a tree may divide by."""
        chosen: IntArray = self.binned[np.ix_(rows, self.order[columns])]
        return chosen

    def sums(self, nodes: Sequence[NodeRows], columns: IntArray, values: IntArray) -> IntArray:
        """Sum (n, 2) derivatives over bins, (nodes, columns, max_bin, 2)."""
        return np.stack(
            [
                bin_sums(self.sampled_bins(node.summed, columns), values[node.summed], self.bins.max_bin)
                for node in nodes
            ]
        )

    def divide(self, node: NodeRows, candidate: Candidate, columns: IntArray, options: TreeOptions) -> BoolArray:
        """Divide a node and keep the split. Raises ValueError, and keeps nothing, for too few rows on a side."""
        column = int(self.order[columns[candidate.column]])
        bins = self.binned[node.routed, column]
        left: BoolArray = np.where(bins == self.bins.max_bin, candidate.missing_left, bins <= candidate.bin)
        if not is_large_enough(node, left, options):
            fewest = options.min_rows_of_a_node
            raise ValueError(f"Node {node.number} would have a side of fewer than {fewest} rows, the session's fewest.")
        self.splits.append(Split(column, self.bins.upper(column, candidate.bin), candidate.missing_left))
        return left


def drawn_order(columns: int) -> IntArray:
    """Draw numbers that hide which column is which, from this session to the next; not what is in one."""
    return np.array(secrets.SystemRandom().sample(range(columns), columns), dtype=np.int64)
