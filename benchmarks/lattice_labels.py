"""How many labels one honest answer tells from zero weights, by lattice reduction: its reach over sums, rows and bits.

    python -m benchmarks.lattice_labels [--quick]

Rows of breast_cancer, drawn anew in each trial, the first d columns scaled to [0, 1] on a grid of so many bits, its own
labels (the larger class has 63 %). The adversary knows the features and the d sums of those of class 1. A trial counts
where all labels are named, and are right. Beside it the most rows that any method could tell: where 2^s choices of
labels, at this share of classes, are as many as the sums have values (``vfl.theory.label_sums``).
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer

from attacks.lattice_labels import RowSums
from vfl.arrays import IntArray
from vfl.theory.label_sums import log2_other_labels

# Sums d, bits, and the numbers of rows s that show where it ends.
_REACH = (
    (5, 16, (30, 45, 60, 70)),
    (8, 16, (52, 70, 90, 110)),
    (13, 8, (52, 70, 80, 90, 100)),
    (13, 15, (52, 80, 100, 120, 140, 160)),
    (13, 17, (52, 100, 140, 160, 180)),
    (20, 16, (80, 150, 190, 220)),
    (30, 8, (100, 140, 160)),
    (30, 16, (150, 200, 250)),
)
_QUICK = ((5, 16, (30, 45)), (13, 8, (52, 80)), (13, 15, (52, 100)), (30, 16, (150,)))
_TARGET, _TARGET_TRIALS = (13, 15, 52), 20


@dataclass(frozen=True)
class Reach:
    """What some trials came to.

    Attributes:
        found: trials in which all labels were named, all of them right.
        wrong: trials in which a label named was wrong.
        trials: how many there were.
        seconds: the longest of them.
        spare_bits: log2 of the number of choices per other choice that fits, in the worst trial.
    """

    found: int
    wrong: int
    trials: int
    seconds: float
    spare_bits: float


def batch(rows: int, columns: int, bits: int, seed: int) -> tuple[IntArray, IntArray]:
    """Features on their grid as integers, (rows, columns), and labels, (rows,)."""
    features, labels = load_breast_cancer(return_X_y=True)
    scaled = (features - features.min(axis=0)) / np.ptp(features, axis=0)
    chosen = np.random.default_rng(seed).choice(len(labels), rows, replace=False)
    return np.rint(scaled[chosen][:, :columns] * 2**bits).astype(np.int64), labels[chosen].astype(np.int64)


def reach(columns: int, bits: int, rows: int, trials: int) -> Reach:
    """Run trials with seeds from 0 on."""
    found = wrong = 0
    longest, spare = 0.0, np.inf
    for seed in range(trials):
        matrix, labels = batch(rows, columns, bits, seed)
        start = time.perf_counter()
        named = RowSums(matrix).find(matrix.T @ labels).rows
        longest = max(longest, time.perf_counter() - start)
        found += named is not None and bool((named == labels).all())
        wrong += named is not None and bool((named != labels).any())
        volume = float(np.log2(np.linalg.svd(matrix.astype(np.float64), compute_uv=False)).sum())
        spare = min(spare, -log2_other_labels(rows, columns, volume, float(labels.mean())))
    return Reach(found, wrong, trials, longest, float(spare))


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows of the table, two trials each")
    quick = parser.parse_args().quick
    table = Table(title="all labels of s rows from d sums, zero weights")
    for name in ("sums d", "bits", "rows s", "all labels", "wrong", "longest s", "spare bits"):
        table.add_column(name, justify="right")
    console = Console()
    for columns, bits, numbers in _QUICK if quick else _REACH:
        for rows in numbers:
            is_target = (columns, bits, rows) == _TARGET
            measured = reach(columns, bits, rows, _TARGET_TRIALS if is_target else 2 if quick else 5)
            cells = (
                *(str(number) for number in (columns, bits, rows)),
                f"{measured.found} of {measured.trials}",
                str(measured.wrong),
                f"{measured.seconds:.1f}",
                f"{measured.spare_bits:.0f}",
            )
            console.print(" ".join(cells), style="dim")
            table.add_row(*cells)
    console.print(table)


if __name__ == "__main__":
    main()
