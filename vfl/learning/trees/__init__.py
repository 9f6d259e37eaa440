"""Boosted trees over several parties' columns: growing, boosting, and the same in one place.

Nothing here knows ciphers or messages: a program asks for sums of bins and for divisions, and whoever runs it answers.

Examples:
    >>> import numpy as np
    >>> from vfl.learning.trees import OwnedColumns, TreeOptions, TreePlan, train_in_plain
    >>> table, labels = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> options = TreeOptions(n_estimators=1, min_rows_of_a_node=1, min_child_weight=0.0)
    >>> rows = np.arange(4)
    >>> plan = TreePlan(options, columns=(1,), trained=rows, validation=rows[:0], seed=0)
    >>> own = OwnedColumns.of(table, rows, options)
    >>> model = train_in_plain(labels, [own], plan)
    >>> own.splits
    [Split(column=0, threshold=1.5, missing_left=False)]
    >>> model.margins([table], [own.splits])
    array([-0.2, -0.2,  0.2,  0.2])
"""

from vfl.learning.trees.boosting import BeginTree, BoostedSoFar, TreeModel, TreePlan, boost, train_in_plain
from vfl.learning.trees.column_bins import ColumnBins
from vfl.learning.trees.growing import Divide, Division, Histograms, NodeRows, Tree
from vfl.learning.trees.owned_columns import OwnedColumns, Split
from vfl.learning.trees.split_gains import Candidate
from vfl.learning.trees.tree_gradients import Gradients
from vfl.learning.trees.tree_options import TreeOptions

__all__ = [
    "BeginTree",
    "BoostedSoFar",
    "Candidate",
    "ColumnBins",
    "Divide",
    "Division",
    "Gradients",
    "Histograms",
    "NodeRows",
    "OwnedColumns",
    "Split",
    "Tree",
    "TreeModel",
    "TreeOptions",
    "TreePlan",
    "boost",
    "train_in_plain",
]
