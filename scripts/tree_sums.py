"""What sums over bins tell a label party of a passive one's columns, tree by tree: breast_cancer, no ciphers.

    python -m scripts.tree_sums [--trees 1 2 5 10] [--fewest 1 20 50]

Sums under ciphertexts are these to the bit, so that the attack is the same. A cell is a row's bin of one column. It is
named where one bin is left; the control is the same attack's answers against the columns of other rows.
"""

import argparse
from dataclasses import dataclass, field

import numpy as np
from sklearn.datasets import load_breast_cancer

from attacks.told_bins import NodeSums, possible_bins
from vfl.arrays import IntArray
from vfl.learning.trees import NodeRows, OwnedColumns, TreeOptions, TreePlan, train_in_plain


@dataclass(eq=False)
class HeardColumns(OwnedColumns):
    """A party's columns whose sums are written down, as the label party has them: of both children where of one."""

    heard: list[tuple[int, NodeRows, IntArray, IntArray]] = field(default_factory=list)
    trees: int = 0

    def sums(self, nodes: list[NodeRows], columns: IntArray, values: IntArray) -> IntArray:  # type: ignore[override]
        """Sum, and write down."""
        found = super().sums(nodes, columns, values)
        self.trees += nodes[0].number == 1
        before = {node.number: (node, sums) for tree, node, _, sums in self.heard if tree == self.trees}
        for node, sums in zip(nodes, found, strict=True):
            self.heard.append((self.trees, node, values[node.summed], sums))
            if node.number > 1:
                parent, above = before[node.number // 2]
                others = np.setdiff1d(parent.summed, node.summed, assume_unique=True)
                sibling = NodeRows(node.number ^ 1, others, others)
                self.heard.append((self.trees, sibling, values[others], above - sums))
        return found


def named(columns: HeardColumns, trees: int, rows: IntArray) -> tuple[float, float, float, float]:
    """Share of cells that are named, of these that are right, right by the control, and bins left to a cell."""
    generator = np.random.default_rng(3)
    right = shuffled = told = left = 0.0
    for column in range(columns.binned.shape[1]):
        nodes = []
        for tree, node, values, prefixes in columns.heard:
            if tree <= trees:
                by_bin = np.diff(prefixes[column], axis=0, prepend=0)
                missing = values.sum(axis=0) - prefixes[column, -1]
                nodes.append(NodeSums(node.summed, values, np.vstack([by_bin, missing])))
        possible = possible_bins(nodes, len(columns.binned))[rows]
        single, truth = possible.sum(axis=1) == 1, columns.binned[rows, column]
        told += float(single.mean())
        right += float((possible.argmax(axis=1) == truth)[single].sum())
        shuffled += float((possible.argmax(axis=1) == generator.permutation(truth))[single].sum())
        left += float(possible.sum(axis=1).mean())
    count = columns.binned.shape[1]
    cells = max(1.0, told * len(rows))
    return told / count, right / cells, shuffled / cells, left / count


def main() -> None:
    """Train once for each smallest node, and print a row for each number of trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", nargs="+", type=int, default=[1, 2, 3, 5, 10])
    parser.add_argument("--fewest", nargs="+", type=int, default=[1, 20, 50])
    parser.add_argument("--gradient-bits", type=int, default=18)
    asked = parser.parse_args()
    table, labels = load_breast_cancer(return_X_y=True)
    rows = np.arange(len(table))
    print("| fewest rows of a node | trees | cells named | of them right | control | bins left to a cell |")
    print("|---:|---:|---:|---:|---:|---:|")
    for fewest in asked.fewest:
        options = TreeOptions(
            n_estimators=max(asked.trees), min_rows_of_a_node=fewest, gradient_bits=asked.gradient_bits
        )
        own = OwnedColumns.of(table[:, :15], rows, options)
        columns = HeardColumns.of(table[:, 15:], rows, options)
        assert isinstance(columns, HeardColumns)  # noqa: S101 - of() makes its own class
        train_in_plain(labels, [own, columns], TreePlan(options, (15, 15), rows, rows[:0], seed=1))
        for trees in asked.trees:
            told, right, control, left = named(columns, trees, rows)
            print(f"| {fewest} | {trees} | {told:.1%} | {right:.1%} | {control:.1%} | {left:.1f} |")


if __name__ == "__main__":
    main()
