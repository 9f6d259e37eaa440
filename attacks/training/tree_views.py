"""What a party is told while boosted trees grow, without a federation: they are grown in one place (SIMULATION)."""

from dataclasses import replace

import numpy as np

from attacks.solving.told_bins import HeardTrees
from attacks.training_views import OwnStep, TrainingView
from vfl.arrays import IntArray
from vfl.learning import VerticalData
from vfl.learning.trees import OwnedColumns, TreePlan, train_in_plain
from vfl.learning.trees.boosted_trees import BoostedTrees
from vfl.learning.trees.tree_hearing import TreeHearing
from vfl.learning.trees.tree_requests import AskPlan


def tree_view(family: BoostedTrees, data: VerticalData, party: int, train: IntArray, seed: int) -> TrainingView:
    """Grow trees, and give what a party is told of them.

    Args:
        family: with its options; no tree is left out by early stopping.
        data: of all parties; the last of the label party's columns is the constant 1.
        party: whose view it is, an index into the blocks: the label party's is 0.
        train: rows that are trained on.
        seed: of the samples of rows and columns.
    """
    tables = [data.blocks[0][:, :-1], *data.blocks[1:]]
    rows, names = np.sort(train), [f"party-{at}" for at in range(len(tables))]
    options = replace(family, early_stopping_rounds=0)
    plan = TreePlan(options, tuple(table.shape[1] for table in tables), rows, rows[:0], seed)
    owned = [OwnedColumns.of(table, rows, options) for table in tables]
    hearing, heard = TreeHearing(), HeardTrees(len(data.labels))

    def hear(request: object, answer: object) -> None:
        for what in hearing.hear(request, answer):
            heard.hear(hearing.tree, names, what)

    if party == 0:
        hear(AskPlan(), plan)
    model = train_in_plain(np.maximum(data.labels, 0), owned, plan, hear if party == 0 else lambda *_: None)
    leaves = None
    if party:
        leaves = np.zeros((len(data.labels), len(model.trees)), dtype=np.int64)
        leaves[rows] = model.reached(tables, [one.splits for one in owned])[rows]
    return TrainingView(
        role="passive" if party else "active",
        features=data.blocks[party],
        steps=tuple(OwnStep(tree, rows, np.zeros((len(rows), 1))) for tree in range(len(model.trees))),
        equations=(),
        peer_features={names[at]: block.shape[1] for at, block in enumerate(data.blocks) if at != party},
        label_party=names[0] if party else None,
        labels=None if party else data.labels,
        learner=family,
        classes=data.classes,
        batch_size=len(rows),
        steps_per_epoch=1,
        bin_sums=heard.bin_sums,
        told_columns=heard.columns,
        leaves=leaves,
        knows_own_weights=False,
    )
