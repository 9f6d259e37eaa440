"""What the routes of boosted trees tell a passive party of labels: who listens, knows its columns and a few labels.

    python -m scripts.tree_routes --data breast_cancer credit --trees 1 10 --known 20

Every party is told which rows go left at every division, so that it knows the leaf of every training row. A logistic
regression from a party's own columns, with some labels known, is the guess without trees; with leaves as further
columns it is the attack; with the leaves of other rows, the control. Areas under the curve on the labels that aren't
known, mean of twenty draws of known ones, half of either class.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from vfl.arrays import FloatArray, IntArray
from vfl.data import load_dataset
from vfl.learning.score_quality import area_under_curve
from vfl.learning.trees import OwnedColumns, TreeOptions, TreePlan, train_in_plain

_DRAWS, _MOST_ROWS = 20, 3_000


def leaves_heard(tables: list[FloatArray], labels: IntArray, trees: int) -> IntArray:
    """Grow trees, and give the leaf of every row in each, (rows, trees)."""
    options, rows = TreeOptions(n_estimators=trees), np.arange(len(labels))
    plan = TreePlan(options, tuple(table.shape[1] for table in tables), rows, rows[:0], seed=1)
    owned = [OwnedColumns.of(table, rows, options) for table in tables]
    model = train_in_plain(labels, owned, plan)
    return model.reached(tables, [one.splits for one in owned])


def area_of(columns: FloatArray, labels: IntArray, known: int) -> float:
    """Fit on so many known labels of either class, and give the area under the curve on the others'."""
    areas = []
    for draw in range(_DRAWS):
        order = np.random.default_rng(draw).permutation(len(labels))
        chosen = np.concatenate([order[labels[order] == label][: known // 2] for label in (0, 1)])
        others = np.setdiff1d(order, chosen)
        scores = LogisticRegression(max_iter=2_000).fit(columns[chosen], labels[chosen]).predict_proba(columns[others])
        areas.append(area_under_curve(scores, labels[others]))
    return float(np.mean(areas))


def main() -> None:
    """Print a row for each data set and number of trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--trees", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--known", type=int, default=20)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"))
    asked = parser.parse_args()
    print("| data | trees | own columns | with leaves | with leaves of other rows |")
    print("|---|---:|---:|---:|---:|")
    for name in asked.data:
        loaded = load_dataset(name, asked.data_dir)
        rows = np.sort(np.random.default_rng(1).permutation(len(loaded.features))[:_MOST_ROWS])
        labels = np.unique(loaded.labels, return_inverse=True)[1][rows]
        half = loaded.features.shape[1] // 2
        tables = [loaded.features[rows, :half], loaded.features[rows, half:]]
        own = StandardScaler().fit_transform(tables[1])
        before = area_of(own, labels, asked.known)
        for trees in asked.trees:
            leaves = OneHotEncoder(sparse_output=False).fit_transform(leaves_heard(tables, labels, trees))
            other = np.random.default_rng(2).permutation(leaves)
            told, control = (area_of(np.hstack([own, part]), labels, asked.known) for part in (leaves, other))
            print(f"| {name} | {trees} | {before:.3f} | {told:.3f} | {control:.3f} |")


if __name__ == "__main__":
    main()
