"""Between which values a record's columns are, by the leaves that it reaches and thresholds that were disclosed."""

from collections.abc import Sequence

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.trees.growing import ROOT
from vfl.learning.trees.trees_part import TreesPart


def leaf_bounds(
    label_part: TreesPart, disclosed: Sequence[TreesPart], reached: IntArray, columns: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Bound the columns of passive parties, side by side: values are above the first and at most the second, (n, D).

    Args:
        label_part: the label party's.
        disclosed: of each passive party, in the session's order.
        reached: (n, trees) the place of each record's leaf among its tree's leaves.
        columns: of each passive party.
    """
    starts = dict(zip((part.place for part in disclosed), np.cumsum([0, *columns]).tolist(), strict=False))
    splits = {part.place: part.splits for part in disclosed}
    shape = (len(reached), sum(columns))
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    for tree, places in zip(label_part.trees, reached.T, strict=False):
        leaf_low, leaf_high = (np.full((len(tree.leaves), shape[1]), end) for end in (-np.inf, np.inf))
        for index, leaf in enumerate(tree.leaves):
            node = leaf
            while node > ROOT:
                party, number = tree.splits[node // 2]
                if party in splits:
                    split = splits[party][number]
                    column = starts[party] + split.column
                    if node % 2:
                        leaf_low[index, column] = max(leaf_low[index, column], split.threshold)
                    else:
                        leaf_high[index, column] = min(leaf_high[index, column], split.threshold)
                node //= 2
        low, high = np.maximum(low, leaf_low[places]), np.minimum(high, leaf_high[places])
    return low, high
