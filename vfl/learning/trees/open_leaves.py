"""Which leaves of its trees a party's own splits leave open for a record: all that it can say of where it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vfl.arrays import BoolArray, FloatArray
from vfl.learning.trees.growing import ROOT
from vfl.learning.trees.owned_columns import Split

# By node, (party, that party's split number): what every party knows of a tree.
Splits = Mapping[int, tuple[int, int]]


def leaves_of(splits: Splits) -> tuple[int, ...]:
    """List a tree's leaves, ascending.

    Examples:
        >>> leaves_of({1: (0, 0), 3: (1, 0)}), leaves_of({})
        ((2, 6, 7), (1,))
    """
    children = [child for node in splits for child in (2 * node, 2 * node + 1)]
    return tuple(sorted(node for node in [ROOT, *children] if node not in splits))


@dataclass(frozen=True, eq=False)
class OwnPaths:
    """A party's part of a trained model.

    Attributes:
        trees: their splits, whoever's they are.
        party: its place among the parties.
        splits: its own, by number.
    """

    trees: tuple[Splits, ...]
    party: int
    splits: Sequence[Split]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of leaves of each tree."""
        return tuple(len(leaves_of(tree)) for tree in self.trees)

    def open_leaves(self, table: FloatArray) -> BoolArray:
        """Tell which leaves are open for (n, d) records: (n, all leaves), tree by tree."""
        columns = [self._open(tree, table) for tree in self.trees]
        return np.hstack([np.zeros((len(table), 0), dtype=np.bool_), *columns])

    def _open(self, tree: Splits, table: FloatArray) -> BoolArray:
        is_open = {ROOT: np.ones(len(table), dtype=np.bool_)}
        for node in sorted(tree):
            party, number = tree[node]
            if party == self.party:
                left = self.splits[number].goes_left(table)
                is_open[2 * node], is_open[2 * node + 1] = is_open[node] & left, is_open[node] & ~left
            else:
                is_open[2 * node] = is_open[2 * node + 1] = is_open[node]
        return np.column_stack([is_open[leaf] for leaf in leaves_of(tree)])
