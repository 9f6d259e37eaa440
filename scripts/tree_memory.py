"""How much memory and time large tables take: both parties of a few trees in one process, messages as bytes.

    python -m scripts.tree_memory [--rows 1000000] [--columns 20] [--trees 2] [--key-bits 0]

With --key-bits 0 derivatives and sums travel in the clear (INSECURE, here between two objects of one process); with
2048 they are encrypted by the best kernel on one core. The passive party has all columns.
"""

import argparse
import resource
import time

import numpy as np

from services.protocols.trees.label_side import LabelSide
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.tree_messages import TreeTerms
from vfl.crypto import keygen
from vfl.learning.trees import TreeOptions, TreePlan


def peak() -> float:
    """Give the largest resident size of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Grow trees, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--key-bits", type=int, default=0)
    size = parser.parse_args()
    generator = np.random.default_rng(1)
    table = generator.normal(size=(size.rows, size.columns))
    margins = table @ generator.normal(size=size.columns) + generator.normal(size=size.rows)
    labels, rows = (margins > np.median(margins)).astype(np.int64), np.arange(size.rows)
    plan = TreePlan(TreeOptions(n_estimators=size.trees), (0, size.columns), rows, rows[:0], seed=1)
    terms = TreeTerms(("label party", "passive party"), plan, size.key_bits)
    public_key, private_key = keygen(size.key_bits) if size.key_bits else (None, None)
    before, start = peak(), time.process_time()
    passive = PassiveSide(terms, "passive party", table, public_key)
    label = LabelSide(terms, np.empty((size.rows, 0)), private_key, {"passive party": passive})
    model = label.train(labels)
    print(
        f"{size.rows:,} rows x {size.columns} columns, {len(model.trees)} trees of "
        f"{sum(len(tree.splits) for tree in model.trees)} splits, key_bits={size.key_bits}: "
        f"{time.process_time() - start:.1f} s of CPU; {peak():.2f} GB at most, "
        f"{before:.2f} of them the table and labels"
    )


if __name__ == "__main__":
    main()
