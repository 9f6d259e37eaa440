"""What a passive party that only listens reads of labels, over a whole plan: where the guard's count comes from.

The label party's share of a record changes smoothly from step to step. Sums of different steps therefore have the same
few unknowns of each record, and one ridge regression over all steps solves for them. Trainings run in one place in
float64, on shares as the wire rounds them. Labels are also shuffled at random: then no model of any columns tells them,
and what is right beyond the larger class comes from the messages alone.

    python -m scripts.listening --data breast_cancer --batches reshuffled fixed
"""

import argparse
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr
from sklearn.metrics import roc_auc_score

from services.common.agreement import TrainingPlan
from services.party.party_model import rows_of_plan
from vfl.arrays import FloatArray, IntArray
from vfl.data import column_blocks, fit_encoder, load_dataset, snap_to_grid
from vfl.learning import GradientDescent, ResidualScheme, VerticalData, confidence_scores, initial_weights
from vfl.theory.training import OracleRun, simulate_oracle

# Smooth functions of time, and how much of a share follows each: measured on breast_cancer.
_SCALES = np.array([1.0, 0.2, 0.06, 0.02])
_PENALTIES = (1e-2, 1e-3, 1e-4)
_SHARE_STEP = 2.0**-32


def listened(run: OracleRun, rows: int, penalty: float) -> FloatArray:
    """Solve all sums of a run for the label party's shares at its end, (rows, columns), by ridge regression."""
    peer = 1 - run.label_party
    own, steps = run.blocks[peer], run.steps
    time = np.log1p(np.arange(len(steps)))
    basis = np.polynomial.legendre.legvander(2 * time / max(time[-1], 1) - 1, len(_SCALES) - 1) * _SCALES
    width, terms = own.shape[1], len(_SCALES)

    def sums_of(flat: FloatArray) -> FloatArray:
        found = flat.reshape(rows, terms)
        return np.concatenate(
            [own[step.rows].T @ (found[step.rows] @ now) for step, now in zip(steps, basis, strict=True)]
        )

    def back(flat: FloatArray) -> FloatArray:
        found = np.zeros((rows, terms))
        for step, now, part in zip(steps, basis, flat.reshape(len(steps), width), strict=True):
            found[step.rows] += np.outer(own[step.rows] @ part, now)
        return found.ravel()

    operator = LinearOperator((len(steps) * width, rows * terms), matvec=sums_of, rmatvec=back, dtype=np.float64)
    largest, start = 1.0, np.random.default_rng(0).standard_normal(rows * terms)
    for _ in range(12):
        start = back(sums_of(start / np.linalg.norm(start)))
        largest = float(np.linalg.norm(start))
    shares = []
    for column in range(steps[0].shares[0].shape[1]):
        sums = np.concatenate([own[step.rows].T @ step.shares[run.label_party][:, column] for step in steps])
        solved = lsmr(operator, sums, damp=np.sqrt(penalty * largest), maxiter=400, atol=1e-10, btol=1e-10)[0]
        shares.append(solved.reshape(rows, terms) @ basis.mean(axis=0))
    return np.column_stack(shares)


def told(shares: FloatArray, labels: IntArray, classes: int) -> tuple[float, float]:
    """Share of labels that follow, with the cut that is best, and the area under the curve (mean over classes)."""
    if classes == 2:
        ranked = labels[np.argsort(shares[:, 0])]
        right = np.cumsum(ranked) + np.concatenate([(1 - ranked)[::-1].cumsum()[::-1][1:], [0]])
        best = max(right.max(), (labels == 1).sum(), (labels == 0).sum()) / len(labels)
        return float(best), float(roc_auc_score(labels, -shares[:, 0]))
    centred = shares - shares.mean(axis=0)
    areas = [roc_auc_score(labels == one, -shares[:, one]) for one in range(classes)]
    return float((centred.argmin(axis=1) == labels).mean()), float(np.mean(areas))


def cases(given: argparse.Namespace) -> Iterator[tuple[str, bool, int, int, int, int, int]]:
    """Batches, shuffled labels, seed, rows, epochs, sums and batch size of each training."""
    return itertools.product(
        given.batches, (False, True), range(given.seeds), given.rows, given.epochs, given.sums, given.batch
    )


def main() -> None:
    """Print a line per training."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="breast_cancer")
    parser.add_argument("--batches", nargs="+", default=["reshuffled", "fixed"])
    for name, default in (("rows", 0), ("epochs", 60), ("sums", 0), ("batch", 128)):
        parser.add_argument(f"--{name}", nargs="+", type=int, default=[default], help="0: all")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    table = load_dataset(given.data, Path(os.environ.get("PLUMBLINE_DATA_DIR", "data")))
    names, of_class = np.unique(table.labels.astype(str), return_inverse=True)
    classes = len(names)
    print("batches shuffled rows steps sums batch equations/row majority accuracy area test_accuracy", flush=True)
    for batches, shuffled, seed, most, epochs, sums, size in cases(given):
        generator = np.random.default_rng(seed)
        chosen = generator.permutation(len(table.labels))[: most or None]
        labels = of_class[chosen]
        labels = generator.permutation(labels) if shuffled else labels
        features = fit_encoder("minmax", table.features[chosen]).transform(table.features[chosen])
        active, passive = column_blocks(features.shape[1], 2)
        own = features[:, passive][:, : sums or None]
        blocks = [snap_to_grid(np.column_stack([features[:, active], np.ones(len(labels))])), snap_to_grid(own)]
        split = rows_of_plan(TrainingPlan(seed=seed), len(labels))
        train = split.train
        plan = TrainingPlan(epochs=epochs, batch_size=min(size, len(train)) or len(train), batches=batches, seed=seed)
        columns = ResidualScheme(classes).columns
        total = sum(block.shape[1] for block in blocks)
        weights = [
            initial_weights("xavier", block.shape[1], columns, total_features=total, generator=generator)
            for block in blocks
        ]
        schedule = plan.schedule(np.arange(len(train)))
        data = VerticalData([block[train] for block in blocks], labels[train], classes)
        run = simulate_oracle(data, weights, GradientDescent(schedule, epochs, 0.5), share_step=_SHARE_STEP)
        found = [told(listened(run, len(train), penalty), labels[train], classes) for penalty in _PENALTIES]
        accuracy, area = max(found, key=lambda one: one[1])
        logits = np.sum([block[split.test] @ part for block, part in zip(blocks, run.weights, strict=True)], axis=0)
        right = (confidence_scores(logits).argmax(axis=1) == labels[split.test]).mean()
        majority = np.bincount(labels[train]).max() / len(train)
        width = blocks[1].shape[1]
        fresh = width * (1 + (schedule.steps_per_epoch - 1) * (epochs if batches == "reshuffled" else 1))
        print(
            f"{batches} {shuffled:d} {len(train)} {len(run.steps)} {width} {plan.batch_size} {fresh / len(train):.3f} "
            f"{majority:.3f} {accuracy:.3f} {area:.3f} {right:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
