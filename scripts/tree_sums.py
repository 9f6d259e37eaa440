"""What a label party is told of a passive one's columns while trees grow, tree by tree, no ciphers.

    python -m scripts.tree_sums [--data breast_cancer credit] [--trees 1 2 5 10] [--fewest 1 20 50] [--rows 1500]

Sums under ciphertexts are these to the bit, and sides are told in the clear, so that the attack is the same. A cell is
a row's bin of one column. It is named where one bin is left; the control is the same attack's answers against the
columns of other rows. The label party has the first half of the columns. Of more than 1,500 rows sides alone are read.
"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from attacks.training.named_bins import NameBins, NamedBins
from attacks.training.tree_views import tree_view
from attacks.training_views import TrainingView
from vfl.arrays import IntArray
from vfl.data import load_dataset
from vfl.learning import VerticalData
from vfl.learning.trees import ColumnBins
from vfl.learning.trees.boosted_trees import BoostedTrees

_NAMED: Mapping[str, Mapping[str, object]] = {"sums": {"told_columns": {}}, "sides": {"bin_sums": {}}, "both": {}}


def named(view: TrainingView, truth: IntArray) -> tuple[float, float, float, float]:
    """Share of cells that are named, of these that are right, right by the control, and bins left to a cell."""
    found = NameBins(trees=len(view.steps)).attack(view)
    assert isinstance(found, NamedBins)  # noqa: S101 - without a prior bins are counted
    (bins,) = found.bins.values()
    is_named = bins >= 0
    other = np.random.default_rng(3).permutation(truth)
    right, shuffled = ((bins == one)[is_named].mean() if is_named.any() else np.nan for one in (truth, other))
    return float(is_named.mean()), float(right), float(shuffled), found.bins_left


def main() -> None:
    """Train once for each table, smallest node and number of trees, and print a row for each way of reading."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"])
    parser.add_argument("--trees", nargs="+", type=int, default=[1, 2, 3, 5, 10])
    parser.add_argument("--fewest", nargs="+", type=int, default=[20])
    parser.add_argument("--gradient-bits", type=int, default=18)
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--read", nargs="+", choices=_NAMED, default=list(_NAMED))
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"))
    asked = parser.parse_args()
    print("| data | rows | fewest | trees | read | cells named | of them right | control | bins left to a cell |")
    print("|---|---:|---:|---:|---|---:|---:|---:|---:|")
    for name in asked.data:
        loaded = load_dataset(name, asked.data_dir)
        rows = np.sort(np.random.default_rng(1).permutation(len(loaded.features))[: asked.rows])
        labels = np.unique(loaded.labels, return_inverse=True)[1][rows]
        half = loaded.features.shape[1] // 2
        own, passive = loaded.features[rows, :half], loaded.features[rows, half:]
        data = VerticalData([np.column_stack([own, np.ones(len(rows))]), passive], labels, 2)
        for fewest in asked.fewest:
            for trees in asked.trees:
                options = BoostedTrees(n_estimators=trees, min_rows_of_a_node=fewest, gradient_bits=asked.gradient_bits)
                truth = ColumnBins.of(passive, options.max_bin).apply(passive)
                view = tree_view(options, data, 0, np.arange(len(rows)), seed=1)
                for how in asked.read:
                    seen = replace(view, **_NAMED[how])  # type: ignore[arg-type]
                    told, right, control, left = named(seen, truth)
                    print(
                        f"| {name} | {len(rows):,} | {fewest} | {trees} | {how} | {told:.1%} | {right:.1%} | "
                        f"{control:.1%} | {left:.1f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
