"""Trees that the label party grows before all others, on its own columns: no other party hears of them.

What routes of the trees behind them tell of labels is then what these have left open, and the model is as good.
"""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.trees.growing import Tree
from vfl.learning.trees.open_leaves import OwnPaths
from vfl.learning.trees.owned_columns import Split


@dataclass(frozen=True)
class OwnTrees:
    """The label party's own trees.

    Attributes:
        trees: in their order, all their divisions its own.
        splits: of its columns, by the number that these name.
    """

    trees: tuple[Tree, ...] = ()
    splits: tuple[Split, ...] = ()

    def reached(self, table: FloatArray) -> IntArray:
        """Find the place of the leaf of (n, d) records among each tree's leaves: (n, trees)."""
        paths = OwnPaths(tuple(tree.splits for tree in self.trees), 0, self.splits)
        leaves = np.split(paths.open_leaves(table), np.cumsum(paths.sizes)[:-1], axis=1)
        places = [is_open.argmax(axis=1) for is_open in leaves[: len(self.trees)]]
        return np.stack([np.zeros(len(table), dtype=np.int64), *places], axis=1)[:, 1:]


NO_TREES = OwnTrees()


def added_weights(trees: tuple[Tree, ...], reached: IntArray, start: FloatArray) -> FloatArray:
    """Add the weights of reached leaves, (n, trees) places among each tree's, to margins before them: (n,).

    Raises:
        ValueError: for a leaf that a tree hasn't.
    """
    margins = start
    for tree, places in zip(trees, reached.T, strict=True):
        if places.max(initial=0) >= len(tree.weights) or places.min(initial=0) < 0:
            raise ValueError("a record reaches a leaf that its tree hasn't")
        margins = margins + np.array([tree.weights[leaf] for leaf in tree.leaves])[places]
    return margins
