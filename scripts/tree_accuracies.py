"""The area under the curve of this project's boosted trees beside XGBoost's with the same options and as many bins.

    python -m scripts.tree_accuracies --data bank adult credit [--trees 100]

Each party has half of the columns. Trees are grown in one place: those under ciphertexts are the same to the bit. Test
records are a third, in five splits; a mean over them, with the largest difference of any.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import xgboost  # of the extra dev

from vfl.arrays import FloatArray
from vfl.data import load_dataset
from vfl.learning import split_rows
from vfl.learning.score_quality import area_under_curve
from vfl.learning.trees import OwnedColumns, TreeOptions, TreePlan, train_in_plain

_SPLITS = 5


def areas(name: str, data_dir: Path | None, options: TreeOptions, seed: int) -> tuple[float, float]:
    """Compute both areas of one split: this project's, and XGBoost's."""
    loaded = load_dataset(name, data_dir)
    table, labels = loaded.features, np.unique(loaded.labels, return_inverse=True)[1]
    split = split_rows(len(table), validation_fraction=0.0, test_fraction=1 / 3, seed=seed)
    trained, test = np.sort(split.train), np.sort(split.test)
    half = table.shape[1] // 2
    tables = [table[:, :half], table[:, half:]]
    plan = TreePlan(options, (half, table.shape[1] - half), trained, split.validation, seed)
    owned = [OwnedColumns.of(part, trained, options) for part in tables]
    model = train_in_plain(labels, owned, plan)
    ours = model.margins([part[test] for part in tables], [one.splits for one in owned])
    asked: dict[str, Any] = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_bin": options.max_bin,
        "max_depth": options.max_depth,
        "eta": options.learning_rate,
        "lambda": options.reg_lambda,
        "gamma": options.gamma,
        "min_child_weight": options.min_child_weight,
        "nthread": 1,
    }
    theirs = xgboost.train(asked, xgboost.DMatrix(table[trained], labels[trained]), options.n_estimators)
    margins = theirs.predict(xgboost.DMatrix(table[test]), output_margin=True)
    return _area(ours, labels[test]), _area(margins, labels[test])


def _area(margins: FloatArray, labels: Any) -> float:
    return area_under_curve(np.column_stack([-margins, margins]), labels)


def main() -> None:
    """Print a row for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--fewest", type=int, default=20, help="rows of a node, of this project's trees alone")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"))
    asked = parser.parse_args()
    options = TreeOptions(n_estimators=asked.trees, learning_rate=asked.learning_rate, min_rows_of_a_node=asked.fewest)
    print("| data | this project | XGBoost | difference of means | largest difference |")
    print("|---|---:|---:|---:|---:|")
    for name in asked.data:
        found = np.array([areas(name, asked.data_dir, options, seed) for seed in range(_SPLITS)])
        ours, theirs = found.mean(axis=0)
        largest = np.abs(found[:, 0] - found[:, 1]).max()
        print(f"| {name} | {ours:.4f} | {theirs:.4f} | {ours - theirs:+.4f} | {largest:.4f} |")


if __name__ == "__main__":
    main()
