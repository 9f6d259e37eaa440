"""What the routes of boosted trees tell a passive party of labels: who listens, knows its columns and a few labels.

    python -m scripts.tree_routes --data breast_cancer credit --trees 1 10 --known 20

Every party is told which rows go left at every division, so that it knows the leaf of every training row. A logistic
regression from a party's own columns, with some labels known, is the guess without trees. With leaves as further
columns it is one attack. The other is the direction in which trees agree (``training.leaf_axis``): it needs no known
label, and is completed by some. Its guess without trees is the first principal component of own columns, whichever
way round is better. The leaves of other rows are the control. Areas under the curve of labels that aren't known, mean
of twenty draws of known ones, half of either class; where none is known, on all labels.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from attacks.training.leaf_axis import label_axis, labels_by_leaves
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


def area_of(estimate: Callable[[IntArray], FloatArray], labels: IntArray, known: int) -> float:
    """Estimate (n, 2) from so many known labels of either class, and give the area under the curve on the others'."""
    areas = []
    for draw in range(_DRAWS):
        order = np.random.default_rng(draw).permutation(len(labels))
        chosen = np.concatenate([order[labels[order] == label][: known // 2] for label in (0, 1)])
        others = np.setdiff1d(order, chosen)
        areas.append(area_under_curve(estimate(chosen)[others], labels[others]))
    return float(np.mean(areas))


def areas_of(own: FloatArray, leaves: IntArray, labels: IntArray, known: int) -> list[float]:
    """Give the areas of a table's row, but for the guess without trees."""
    indicators = OneHotEncoder(sparse_output=False).fit_transform(leaves)
    axis, other = label_axis(leaves), np.random.default_rng(2).permutation(leaves)

    def by_regression(columns: FloatArray) -> float:
        def estimate(rows: IntArray) -> FloatArray:
            fitted = LogisticRegression(max_iter=2_000).fit(columns[rows], labels[rows])
            estimates: FloatArray = fitted.predict_proba(columns)
            return estimates

        return area_of(estimate, labels, known)

    def by_axis(given: IntArray) -> float:
        return area_of(lambda rows: labels_by_leaves(given, own, rows, labels[rows]), labels, known)

    principal = np.linalg.svd(own - own.mean(axis=0), full_matrices=False)[0][:, 0]
    return [
        max(area_under_curve(np.column_stack([-end, end]), labels) for end in (principal, -principal)),
        area_under_curve(np.column_stack([-axis, axis]), labels),
        by_regression(own),
        by_regression(np.hstack([own, indicators])),
        by_axis(leaves),
        by_axis(other),
    ]


def main() -> None:
    """Print a row for each data set and number of trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--trees", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--known", type=int, default=20)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"))
    asked = parser.parse_args()
    print(
        "| data | trees | no label: own columns | leaves | some labels: own columns | leaves | direction | other rows |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in asked.data:
        loaded = load_dataset(name, asked.data_dir)
        rows = np.sort(np.random.default_rng(1).permutation(len(loaded.features))[:_MOST_ROWS])
        labels = np.unique(loaded.labels, return_inverse=True)[1][rows]
        half = loaded.features.shape[1] // 2
        tables = [loaded.features[rows, :half], loaded.features[rows, half:]]
        own = StandardScaler().fit_transform(tables[1])
        for trees in asked.trees:
            areas = areas_of(own, leaves_heard(tables, labels, trees), labels, asked.known)
            print(f"| {name} | {trees} | {' | '.join(f'{area:.3f}' for area in areas)} |")


if __name__ == "__main__":
    main()
