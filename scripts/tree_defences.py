"""What helps against routes of boosted trees that tell labels, and what it costs: docs/trees.md keeps the table.

    python -m scripts.tree_defences --data credit bank adult --own 0 10 30 --flipped 0.1 0.3

A passive party listens, with half of the columns: which half, is the mean of both. Its attack is the direction in which
trees agree (``training.leaf_axis``), whichever way round is better. Areas under the curve: of the attack on up to 3,000
training labels, of the model on as many other records, and of what the label party would have by itself. Fifty trees
are grown together, with a learning rate of .1; before them so many of the label party's own, or with so many labels
flipped at random.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from attacks.training.leaf_axis import label_axis
from vfl.arrays import FloatArray, IntArray
from vfl.data import load_dataset
from vfl.learning.trees import OwnedColumns, TreeOptions, TreePlan, train_in_plain

_MOST_ROWS, _TREES, _RATE = 3_000, 50, 0.1


def areas(tables: Sequence[FloatArray], labels: IntArray, trained: int, own_trees: int, flipped: float) -> list[float]:
    """Give the attack's area on the first so many rows, and the model's on the others."""
    options = TreeOptions(n_estimators=_TREES, learning_rate=_RATE, own_trees=own_trees)
    rows = np.arange(trained)
    plan = TreePlan(options, tuple(table.shape[1] for table in tables), rows, rows[:0], seed=1)
    owned = [OwnedColumns.of(table, rows, options) for table in tables]
    turned = np.random.default_rng(1).random(len(labels)) < flipped
    model = train_in_plain(np.where(turned, 1 - labels, labels), owned, plan)
    splits = [columns.splits for columns in owned]
    attack = roc_auc_score(labels[:trained], label_axis(model.reached(tables, splits)[:trained]))
    return [max(attack, 1 - attack), roc_auc_score(labels[trained:], model.margins(tables, splits)[trained:])]


def main() -> None:
    """Print a row for each data set and defence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--own", nargs="+", type=int, default=[0, 10, 30])
    parser.add_argument("--flipped", nargs="*", type=float, default=[0.1, 0.3])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"))
    asked = parser.parse_args()
    print("| data | | attack | model | the label party alone |\n|---|---|---:|---:|---:|")
    for name in asked.data:
        loaded = load_dataset(name, asked.data_dir)
        trained = min(_MOST_ROWS, 2 * len(loaded.features) // 3)
        rows = np.random.default_rng(1).permutation(len(loaded.features))[: trained + _MOST_ROWS]
        labels = np.unique(loaded.labels, return_inverse=True)[1][rows]
        halves = np.array_split(loaded.features[rows], 2, axis=1)
        orders = [halves, halves[::-1]]
        alone = np.mean([areas([label, other[:, :0]], labels, trained, 0, 0.0)[1] for label, other in orders])
        cases = [
            *((f"{own} own trees", own, 0.0) for own in asked.own),
            *((f"{part:.0%} flipped", 0, part) for part in asked.flipped),
        ]
        for said, own, part in cases:
            attack, model = np.mean([areas(order, labels, trained, own, part) for order in orders], axis=0)
            print(f"| {name} | {said} | {attack:.3f} | {model:.3f} | {alone:.3f} |", flush=True)


if __name__ == "__main__":
    main()
