"""What an adversary knows beforehand against what exact scores add to it: MSE per feature at each level of knowledge.

    PLUMBLINE_DATA_DIR=data OMP_NUM_THREADS=1 python -m benchmarks.prior_knowledge [--splits 5 --records 100]

The active party has the first columns and the labels. A logistic regression (C = 10) is trained on rows that are
neither known to the adversary nor attacked; at most 500 are attacked. Moments are those of all rows that aren't
attacked. "withheld" is the attack's estimate without a score or a parameter, "covered" the share of cells within its
90 % interval. The last line times the closed form on 1,000 records of 30 columns.
"""

import argparse
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

import attacks
from attacks.bayes.exact import condition
from attacks.bayes.prior import GaussianPrior
from benchmarks.stopwatch import timed
from vfl.arrays import FloatArray, IntArray
from vfl.data import encode_labels, fit_encoder, load_dataset
from vfl.data.datasets import DatasetNotFound
from vfl.learning import confidence_scores

CASES = (("satellite", 18), ("satellite", 4), ("breast_cancer", 15), ("bank", 10), ("adult", 7))
MOUNTED = (
    ("half", {}),
    ("half_star", {}),
    ("imputation", {}),
    *(("posterior", {"prior": prior}) for prior in ("half", "mean", "covariance", "imputation")),
)
# A column with more values than that is a number.
MOST_VALUES = 20


def moments_of(rows: FloatArray) -> attacks.PassiveMoments:
    """Everything that an adversary may know of columns (m, d) without having a record."""
    counted = [np.unique(column, return_counts=True) for column in rows.T]
    few = [len(values) <= MOST_VALUES for values, _ in counted]
    return attacks.PassiveMoments(
        mean=rows.mean(axis=0),
        variance=rows.var(axis=0),
        covariance=np.cov(rows.T, bias=True).reshape(rows.shape[1], -1),
        supports=tuple(values if one else None for (values, _), one in zip(counted, few, strict=True)),
        frequencies=tuple(counts / len(rows) if one else None for (_, counts), one in zip(counted, few, strict=True)),
    )


def split(
    name: str, d: int, records: int, seed: int, data_dir: Path | None
) -> tuple[attacks.PredictionView, FloatArray]:
    """What the adversary sees of one random split, its last d columns passive; and these columns."""
    table = load_dataset(name, data_dir)
    rows, labels = fit_encoder("minmax", table.features).transform(table.features), encode_labels(table.labels)[0]
    order = np.random.default_rng(seed).permutation(len(rows))
    training, known, attacked = np.split(order, np.cumsum([min(4000, len(rows) // 2), records]))
    attacked = attacked[:500]
    weights, bias = _trained(rows[training], labels[training])
    scores = confidence_scores(rows @ weights.T + bias)
    auxiliary = attacks.AuxiliaryRows(rows[known, :-d], rows[known, -d:], scores[known], labels[known])
    view = attacks.PredictionView(
        features_active=rows[attacked, :-d],
        scores=scores[attacked],
        weights_active=weights[:, :-d],
        weights_passive=weights[:, -d:],
        bias=bias,
        auxiliary=auxiliary,
        record_labels=labels[attacked],
        moments=moments_of(np.delete(rows[:, -d:], attacked, axis=0)),
    )
    return view, rows[attacked, -d:]


def _trained(features: FloatArray, labels: IntArray) -> tuple[FloatArray, FloatArray]:
    model = LogisticRegression(C=10.0, max_iter=2000).fit(features, labels)
    weights, bias = model.coef_, model.intercept_
    if len(weights) == 1:
        weights, bias = np.vstack([-weights / 2, weights / 2]), np.append(-bias / 2, bias / 2)
    return weights, bias


def measure(view: attacks.PredictionView, truth: FloatArray) -> list[tuple[float, ...]]:
    """Error, error withheld, share covered (NaN where there is none) and CPU seconds of each attack."""
    results: list[tuple[float, ...]] = []
    for name, options in MOUNTED:
        attack = attacks.load_prediction(name, **options)
        seconds, found = timed(attacks.reconstruct, attack, view)
        withheld, covered = np.nan, np.nan
        if isinstance(attack, attacks.BaselinedAttack):
            withheld = float(((attack.without_scores(view) - truth) ** 2).mean())
        if found.low is not None and found.high is not None:
            covered = float(((found.low <= truth + 1e-9) & (truth <= found.high + 1e-9)).mean())
        results.append((float(((found.estimate - truth) ** 2).mean()), withheld, covered, seconds))
    return results


def tabulate(name: str, d: int, measured: list[list[tuple[float, ...]]], records: int) -> Table:
    """One case's table: means over splits, and the standard error of each error's."""
    table = Table("attack", "error", "± s.e.", "withheld", "covered", "CPU s")
    table.title = f"{name}, d = {d}, {records} records, {len(measured)} splits"
    for (attack, options), rows in zip(MOUNTED, zip(*measured, strict=True), strict=True):
        mean, deviation = np.mean(rows, axis=0), np.std(rows, axis=0) / max(1, len(rows) - 1) ** 0.5
        label = attack + "".join(f"({key}={value})" for key, value in options.items())
        blank = ["" if np.isnan(value) else f"{value:.4f}" for value in mean[1:3]]
        table.add_row(label, f"{mean[0]:.5f}", f"{deviation[0]:.5f}", *blank, f"{mean[3]:.2f}")
    return table


def closed_form_seconds() -> float:
    """CPU seconds to condition 1,000 records of 30 columns on nine equations each; the fastest of five."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((30, 30)) / 20
    prior = GaussianPrior(rng.random((1000, 30)), root @ root.T)
    matrix, sides = rng.standard_normal((9, 30)), rng.standard_normal((1000, 9))
    return min(timed(condition, prior, matrix, sides)[0] for _ in range(5))


def main() -> None:
    """Measure all cases whose data are there, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--records", type=int, default=100)
    options = parser.parse_args()
    console, data_dir = Console(width=120), os.environ.get("PLUMBLINE_DATA_DIR")
    measured = defaultdict(list)
    for name, d in CASES:
        try:
            for seed in range(options.splits):
                view = split(name, d, options.records, seed, None if data_dir is None else Path(data_dir))
                measured[name, d].append(measure(*view))
        except DatasetNotFound as missing:
            console.print(str(missing))
            continue
        console.print(tabulate(name, d, measured[name, d], options.records))
    console.print(f"Closed form, 1,000 records of 30 columns: {1000 * closed_form_seconds():.1f} ms of CPU.")


if __name__ == "__main__":
    main()
