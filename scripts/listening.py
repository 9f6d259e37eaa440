"""What a passive party that only listens reads of labels, over a whole plan: where the guard's count comes from.

The label party's share of a record changes smoothly from step to step. Sums of different steps therefore have the same
few unknowns of each record, and one ridge regression over all steps solves for them. Trainings run in one place in
float64, on shares as the wire rounds them. Labels, and the passive party's rows, are also shuffled at random: then no
model of any columns tells them, and what is right beyond the larger class comes from the messages alone.

    python -m scripts.listening --data breast_cancer --batches reshuffled fixed
    python -m scripts.listening --batches fixed --attack trajectory_labels --sessions 1 3 5
"""

import argparse
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr
from sklearn.metrics import roc_auc_score

import attacks
from attacks.training.averaged_products import RecoveredProducts
from attacks.training.feature_order import RecoveredFeatures
from attacks.training.recovered_labels import EstimatedLabels, RecoveredLabels
from attacks.training_attack import ListeningAttack
from attacks.training_views import simulated_view
from services.common.agreement import BATCHES, RESHUFFLED, TrainingPlan
from vfl.arrays import FloatArray, IntArray
from vfl.data import column_blocks, fit_encoder, load_dataset, snap_to_grid
from vfl.data.datasets import RegistryTable
from vfl.learning import (
    GradientDescent,
    RowSplit,
    VerticalData,
    confidence_scores,
    initial_weights,
    log_loss,
    residual_columns,
    train_centrally,
)
from vfl.learning.score_quality import area_under_curve
from vfl.theory.training import OracleRun, simulate_oracle

# Smooth functions of time, and how much of a share follows each: measured on breast_cancer.
_SCALES = np.array([1.0, 0.2, 0.06, 0.02])
_PENALTIES = (1e-2, 1e-3, 1e-4)
_NOISY = (100.0, 10.0, 1.0, 0.1, 0.01)
_ATTACKS = ("label_recovery", "trajectory_labels", "trajectory_products", "feature_order")
_SHARE_STEP, _LEARNING_RATE = 2.0**-32, 0.5


class Case(NamedTuple):
    """A training: its plan, how much of the table it takes (0: all), and whether what is read is shuffled first."""

    batches: str
    shuffled: bool
    rows: int
    epochs: int
    sums: int
    batch: int
    sigma: float = 0.0
    sessions: int = 1
    seed: int = 0


def listened(run: OracleRun, rows: int, penalty: float, holder: int, sigma: float = 0.0) -> FloatArray:
    """Solve all sums that a run tells of a party's shares for their means over time, (rows, columns), by regression.

    With ``sigma`` shares are heard with the noise of ``dp_noise``. The model is trained without it.
    """
    noise = np.random.default_rng(rows)
    own, steps = run.blocks[1 - holder], run.steps
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
        heard = [step.shares[holder][:, column] for step in steps]
        noisy = [share + sigma * noise.standard_normal(len(share)) for share in heard]
        sums = np.concatenate([own[step.rows].T @ share for step, share in zip(steps, noisy, strict=True)])
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


def explained(shares: FloatArray, run: OracleRun) -> float:
    """Squared correlation of what was listened to of the passive party's first column of products with their means."""
    sums, uses = np.zeros(len(shares)), np.zeros(len(shares))
    for step in run.steps:
        sums[step.rows] += step.shares[1][:, 0]
        uses[step.rows] += 1
    return float(np.corrcoef(shares[:, 0], sums / uses)[0, 1] ** 2)


def read_by(name: str, runs: Sequence[OracleRun]) -> dict[str, float]:
    """Share that an attack reads: of labels, of the variance of products at the end, or of a lone feature's ratios.

    Of ratios those of its largest joined set; NaN where it says that nothing follows of products. Of labels with the
    area under the curve as well, where it says how likely each class is; of several sessions about the same records.
    """
    run, party = runs[0], 1 if "label" in name else 0
    views = [
        simulated_view(one, party, initialisation="xavier", label_party_bias=True, share_step=_SHARE_STEP)
        for one in runs
    ]
    records = np.arange(len(run.labels))
    view, *earlier = [replace(one, records=records) for one in views]
    found = cast(ListeningAttack, attacks.load_training(name)).attack(replace(view, earlier=tuple(earlier)))
    if isinstance(found, RecoveredLabels | EstimatedLabels):
        right = {name: float((found.labels == run.labels).mean())}
        if isinstance(found, RecoveredLabels):
            return right
        likely = np.nan_to_num(found.probabilities, nan=1 / view.classes)
        return right | {"area": area_under_curve(likely, run.labels)}
    if isinstance(found, RecoveredProducts):
        if not found.products:
            return {name: float("nan")}
        products = run.blocks[1] @ run.weights[1]
        return {name: float(np.corrcoef(found.products["party-1"][:, 0], products[:, 0])[0, 1] ** 2)}
    features = cast(RecoveredFeatures, found).features
    return {name: float((features["party-1"].sets == 0).mean())}


def problem(table: RegistryTable, given: Case) -> tuple[VerticalData, list[FloatArray], RowSplit]:
    """A table in halves, scaled and on the grid, both parties' initial weights, and the rows of each set."""
    generator = np.random.default_rng(given.seed)
    names, of_class = np.unique(table.labels.astype(str), return_inverse=True)
    chosen = generator.permutation(len(of_class))[: given.rows or None]
    features = fit_encoder("minmax", table.features[chosen]).transform(table.features[chosen])
    active, passive = column_blocks(features.shape[1], 2)
    own, labels = features[:, passive][:, : given.sums or None], of_class[chosen]
    if given.shuffled:
        labels, own = generator.permutation(labels), generator.permutation(own)
    blocks = [snap_to_grid(np.column_stack([features[:, active], np.ones(len(labels))])), snap_to_grid(own)]
    columns, total = residual_columns(len(names)), sum(block.shape[1] for block in blocks)
    weights = [
        initial_weights("xavier", block.shape[1], columns, total_features=total, generator=generator)
        for block in blocks
    ]
    split = TrainingPlan(seed=given.seed).split(len(labels))
    return VerticalData(blocks, labels, len(names)), weights, split


def measured(table: RegistryTable, given: Case, *, attacked: bool, attack: str = "") -> dict[str, float]:
    """Train a plan, listen to it where it is attacked, and say what was told and how well the model does."""
    data, weights, split = problem(table, given)
    train = split.train
    size = min(given.batch, len(train)) or len(train)
    plan = TrainingPlan(epochs=given.epochs, batch_size=size, batches=given.batches, seed=given.seed)
    trained = replace(data, blocks=[block[train] for block in data.blocks], labels=data.labels[train])
    descent = GradientDescent(plan.schedule(np.arange(len(train))), given.epochs, _LEARNING_RATE)
    steps, width = descent.schedule.steps_per_epoch, data.blocks[1].shape[1]
    found = {
        "rows": len(train),
        "sums": width,
        "batch": size,
        "majority": np.bincount(trained.labels).max() / len(train),
        "sums/row": width * (1 + (steps - 1) * (given.epochs if plan.batches == RESHUFFLED else 1)) / len(train),
    }
    if attacked and attack:
        runs = [simulate_oracle(trained, weights, descent, share_step=_SHARE_STEP)]
        for number in range(1, given.sessions):
            # Other batches, and other start weights of the same size.
            drawn = np.random.default_rng([given.seed, number])
            starts = [drawn.permuted(block) * drawn.choice([-1.0, 1.0], block.shape) for block in weights]
            schedule = replace(plan, seed=1_000 * number + given.seed).schedule(np.arange(len(train)))
            again = GradientDescent(schedule, given.epochs, _LEARNING_RATE)
            runs.append(simulate_oracle(trained, starts, again, share_step=_SHARE_STEP))
        final = list(runs[0].weights)
        found |= read_by(attack, runs)
    elif attacked:
        run = simulate_oracle(trained, weights, descent, share_step=_SHARE_STEP)
        final = list(run.weights)
        penalties = _NOISY if given.sigma else _PENALTIES
        shares = [
            [listened(run, len(train), penalty, holder, given.sigma) for penalty in penalties] for holder in (0, 1)
        ]
        told_best = max((told(one, trained.labels, data.classes) for one in shares[0]), key=lambda one: one[1])
        found |= dict(zip(("labels", "area"), told_best, strict=True))
        found["products"] = max(explained(one, run) for one in shares[1])
    else:
        final = train_centrally(trained, weights, descent)
    logits = np.sum([block[split.test] @ part for block, part in zip(data.blocks, final, strict=True)], axis=0)
    scores, labels = confidence_scores(logits), data.labels[split.test]
    return found | {"test_accuracy": (scores.argmax(axis=1) == labels).mean(), "test_loss": log_loss(scores, labels)}


def main() -> None:
    """Print a line per training, or the means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="breast_cancer")
    parser.add_argument("--batches", nargs="+", default=list(BATCHES))
    for name, default in (("rows", 0), ("epochs", 60), ("sums", 0), ("batch", 128)):
        parser.add_argument(f"--{name}", nargs="+", type=int, default=[default], help="0: all")
    parser.add_argument("--sigma", nargs="+", type=float, default=[0.0], help="of dp_noise at both parties")
    parser.add_argument("--sessions", nargs="+", type=int, default=[1], help="about the same records, with --attack")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-only", action="store_true", help="how well the model does, without the attack")
    parser.add_argument("--attack", default="", choices=_ATTACKS, help="another attack")
    given = parser.parse_args()
    table = load_dataset(given.data, Path(os.environ.get("PLUMBLINE_DATA_DIR", "data")))
    shuffled = (False,) if given.train_only else (False, True)
    plans = (given.rows, given.epochs, given.sums, given.batch, given.sigma, given.sessions)
    for terms in itertools.product(given.batches, shuffled, *plans):
        found = [
            measured(table, Case(*terms, seed), attacked=not given.train_only, attack=given.attack)
            for seed in range(given.seeds)
        ]
        means = " ".join(f"{name}={np.mean([one[name] for one in found]):.3f}" for name in found[0])
        labels, sessions = "shuffled" if terms[1] else "true", f"sessions={terms[7]}"
        print(f"{terms[0]} {labels} epochs={terms[3]} sigma={terms[6]:g} {sessions} {means}", flush=True)


if __name__ == "__main__":
    main()
