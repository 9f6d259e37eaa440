"""What a network that is trained in the federation tells: labels to a passive party, features to the label party.

Networks are trained in one place by the halves that services run, on tables in halves. Labels are also shuffled at
random: then no model of any columns tells them, and what is right comes from the messages alone.

    python -m scripts.network_attacks --data bank adult

With --federations real ones train on shared weights: an audit of each seed has its active party mount ``gram_space``,
with statistics of records that it doesn't attack.

    python -m scripts.network_attacks --federations --data breast_cancer bank adult

With --slopes labels are shuffled, and solved for from all numbers of one epoch by who knows the slope of each unit at
each record, as one nearly does whose columns are most of the hidden layer's: how many sums of labels a step tells.

    python -m scripts.network_attacks --slopes --data breast_cancer bank adult
"""

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import attacks
import plumbline
from attacks.prediction.known_moments import known_moments
from attacks.training.label_completion import own_classifier
from attacks.training.network_views import network_view
from attacks.training.recovered_labels import UNRESOLVED, EstimatedLabels
from attacks.training.recovered_values import EstimatedFeatures
from attacks.training_views import KnownRecords, TrainingView
from services.common.agreement import FIXED, RESHUFFLED
from vfl.arrays import FloatArray, IntArray
from vfl.data import column_blocks, fit_encoder, load_dataset, snap_to_grid
from vfl.learning import BatchSchedule, VerticalData
from vfl.learning.network import Network, train_network
from vfl.learning.score_quality import area_under_curve

_KNOWN_LABELS, _KNOWN_RECORDS = 40, 100
# Of hidden sums with no record known: records trained on, and at most so many others that statistics are over.
_SUMMED, _BESIDE, _SEEDS, _FEW = 400, 300, 5, 30
# Of the largest singular value: what a sum of labels must be.
_LEAST = (1e-2, 1e-4, 1e-6)


def problem(name: str, data_dir: Path | None, rows: int, seed: int, *, shuffled: bool) -> VerticalData:
    """The first rows of a shuffled table, in halves; the label party's first, with the constant 1."""
    table, generator = load_dataset(name, data_dir), np.random.default_rng(seed)
    names, labels = np.unique(table.labels.astype(str), return_inverse=True)
    chosen = generator.permutation(len(labels))[:rows]
    features = snap_to_grid(fit_encoder("minmax", table.features[chosen]).transform(table.features[chosen]))
    active, passive = column_blocks(features.shape[1], 2)
    labels = generator.permutation(labels[chosen]) if shuffled else labels[chosen]
    return VerticalData(
        [np.column_stack([features[:, active], np.ones(len(labels))]), features[:, passive]], labels, len(names)
    )


def seen(
    data: VerticalData, party: int, batch: int, epochs: int, seed: int, *, reshuffled: bool = True, **options: Any
) -> TrainingView:
    """What a party saw of a training with these options."""
    learner = Network(**options)
    schedule = BatchSchedule(np.arange(len(data.labels)), batch, seed, reshuffled=reshuffled)
    generators = [np.random.default_rng([seed, number]) for number in range(2)]
    run = train_network(learner, data, schedule, epochs=epochs, generators=generators)
    return network_view(run, learner, data, party, schedule)


def area(found: EstimatedLabels, labels: IntArray, given: int) -> str:
    """The area under the curve of what is believed, on records that it says something of, but for those given first."""
    rows = found.rows[np.isfinite(found.probabilities[found.rows]).all(axis=1) & (found.rows >= given)]
    return "nothing" if found.reason else f"{area_under_curve(found.probabilities[rows], labels[rows]):.3f}"


def known(labels: IntArray, rows: IntArray) -> IntArray:
    """Labels of these rows, and of no other."""
    found = np.full(len(labels), UNRESOLVED)
    found[rows] = labels[rows]
    return found


def print_labels(name: str, given: argparse.Namespace) -> None:
    """A line for each attack on labels: true labels, and shuffled ones."""
    for attack, backward, batches, batch, epochs in (
        ("gradient_direction", "plain", RESHUFFLED, 256, 5),
        ("batch_inversion", "paillier", RESHUFFLED, 8, 2),
        ("batch_inversion", "paillier", FIXED, 64, 1),
        ("batch_inversion", "paillier", FIXED, 64, 5),
        ("batch_inversion", "paillier", FIXED, 64, 20),
        ("batch_inversion", "paillier", FIXED, 256, 20),
        ("batch_inversion", "paillier", RESHUFFLED, 64, 10),
        ("batch_inversion", "paillier", RESHUFFLED, 256, 5),
        ("batch_inversion", "paillier", RESHUFFLED, 256, 30),
        ("batch_inversion", "paillier", RESHUFFLED, 256, 60),
        ("own_part", "paillier", RESHUFFLED, 256, 30),
    ):
        start, areas = time.process_time(), []
        for shuffled in (False, True):
            data = problem(name, given.data_dir, given.rows, given.seed, shuffled=shuffled)
            view = seen(data, 1, batch, epochs, given.seed, reshuffled=batches == RESHUFFLED, backward=backward)
            count = 1 if attack == "gradient_direction" else _KNOWN_LABELS
            view = replace(view, known_labels=known(data.labels, np.arange(count)))
            mounted: Any = attacks.load_training(attack)
            areas.append(area(mounted.attack(view), data.labels, count))
        seconds = time.process_time() - start
        plan = f"{backward:9} {batches:10} {batch:5} {epochs:6}"
        print(f"{name:8} {attack:20} {plan} {areas[0]:>8} {areas[1]:>9} {seconds:6.1f}", flush=True)
    data = problem(name, given.data_dir, given.rows, given.seed, shuffled=False)
    own = data.blocks[1]
    for count in (_KNOWN_LABELS, len(own)):
        classifier = own_classifier().fit(own[:count], data.labels[:count])
        rest = slice(count if count < len(own) else 0, None)
        guess = area_under_curve(classifier.predict_proba(own[rest]), data.labels[rest])
        print(f"{name:8} own classifier, {count} labels: {guess:.3f}")


def print_features(name: str, given: argparse.Namespace) -> None:
    """A line for each width of the layer: what is left of the guess's squared error."""
    data = problem(name, given.data_dir, given.rows, given.seed, shuffled=False)
    rows = np.arange(_KNOWN_RECORDS)
    for hidden, epochs in ((4, 1), (4, 5), (16, 5), (32, 5)):
        view = seen(data, 0, 256, epochs, given.seed, hidden=hidden)
        view = replace(view, known_records=KnownRecords(rows, data.blocks[1][rows]))
        mounted: Any = attacks.load_training("hidden_space")
        found: EstimatedFeatures = mounted.attack(view)
        truth = data.blocks[1][found.rows]
        left = _error(found.values["party-1"], truth) / _error(found.guesses["party-1"], truth)
        ways = ", ".join(f"{way} {error:.1e}" for way, error in found.errors.items())
        print(f"{name:8} d {truth.shape[1]:3}  h {hidden:3}  epochs {epochs}  left {left:.1e}  left out: {ways}")


def print_sums(name: str, given: argparse.Namespace) -> None:
    """Medians over seeds: the part of the columns' variance that sums tell, by what is known, and what is against."""
    cases: tuple[tuple[str, dict[str, Any], float, int | None], ...] = (
        ("16 units, 10 epochs", {}, 0.0, None),
        ("4 units, 10 epochs", {"hidden": 4}, 0.0, None),
        ("16 units, hidden_noise .01", {}, 0.01, None),
        ("16 units, hidden_noise .1", {}, 0.1, None),
        ("16 units, rounded to .01", {}, 0.0, 2),
    )
    for title, options, noise, digits in cases:
        parts: dict[str, list[float]] = {"marginals": [], "covariance": [], "records": []}
        start = time.process_time()
        for seed in range(given.seed, given.seed + _SEEDS):
            data = problem(name, given.data_dir, _SUMMED + _BESIDE, seed, shuffled=False)
            trained = VerticalData([block[:_SUMMED] for block in data.blocks], data.labels[:_SUMMED], data.classes)
            view = seen(trained, 0, 64, 10, seed, backward="shared", **options)
            generator = np.random.default_rng(seed)
            defended = tuple(
                replace(one, products=_defended(one.products, noise, digits, generator)) for one in view.forwarded
            )
            known_few = KnownRecords(np.arange(_FEW), data.blocks[1][:_FEW])
            view = replace(
                view,
                forwarded=defended,
                moments=known_moments(data.blocks[1][_SUMMED:]),
                known_records=known_few,
            )
            for prior, found_parts in parts.items():
                found = attacks.load("gram_space", prior=prior).attack(view)
                found_parts.append(0.0 if found.reason else _mean_part(found, data.blocks[1]))
        told = "  ".join(f"{prior} {np.median(some):.3f}" for prior, some in parts.items())
        columns, seconds = data.blocks[1].shape[1], (time.process_time() - start) / _SEEDS
        print(f"{name:14} d {columns:3}  {title:27} {told}  {seconds:5.1f} s each")


def print_federations(name: str, given: argparse.Namespace) -> None:
    """Medians over audits: the part of the columns' variance that the sums of a federation tell, by what is known."""
    table, parts = load_dataset(name, given.data_dir), dict[str, list[float]]()
    active, passive = column_blocks(table.features.shape[1], 2)
    for seed in range(given.seed, given.seed + _SEEDS):
        chosen = np.random.default_rng(seed).permutation(len(table.labels))[: _SUMMED + _BESIDE]
        columns = pd.DataFrame(table.features[chosen]).add_prefix("column ").assign(id=np.arange(len(chosen)))
        halves = [columns[["id", *columns.columns[block]]] for block in (active, passive)]
        with tempfile.TemporaryDirectory(prefix="plumbline-") as runs:
            folder = plumbline.audit(
                halves[0].assign(label=table.labels[chosen]),
                halves[1],
                label="label",
                attacks="gram_space",
                learner="network",
                backward="shared",
                black_box=True,
                auxiliary=_FEW,
                epochs=10,
                seed=seed,
                runs=runs,
                verbosity="quiet",
            ).folder
            if folder is None:
                raise SystemExit("An audit left no folder.")
            for outcome in folder.training_outcomes():
                told = folder.found_values(outcome.party, outcome.attack) if outcome.is_done else {}
                found = [_told(one.values, folder.features(peer).features[one.rows]) for peer, one in told.items()]
                parts.setdefault(outcome.attack, []).append(found[0] if found else 0.0)
        print(name, seed, {attack: round(some[-1], 4) for attack, some in parts.items()}, flush=True)
    for attack, some in parts.items():
        print(f"{name:14} d {halves[1].shape[1] - 1:3}  {attack:32} median {np.median(some):.4f}", flush=True)


def print_slopes(name: str, given: argparse.Namespace) -> None:
    """Sums of labels in a step, by how small they may be, and the area under the curve that they tell of labels."""
    told: list[tuple[float, float]] = []
    counts: list[list[int]] = []
    for seed in range(given.seed, given.seed + _SEEDS):
        data = problem(name, given.data_dir, given.rows, seed, shuffled=True)
        learner, schedule = Network(), BatchSchedule(np.arange(len(data.labels)), 64, seed)
        generators = [np.random.default_rng([seed, number]) for number in range(2)]
        run = train_network(learner, data, schedule, epochs=1, generators=generators)
        errors, linear = np.zeros(len(data.labels)), np.zeros(len(data.labels))
        for step in run.seen:
            own, hidden = data.blocks[1][step.rows], np.tanh(np.sum(step.products, axis=0))
            slopes = 1 - hidden**2
            # delta is an error of each record times one direction of the units times their slopes.
            direction = np.linalg.svd(step.sent / slopes, full_matrices=False)[2][0]
            system = np.einsum("sd,su->dus", own, slopes * direction).reshape(-1, len(step.rows))
            sizes = np.linalg.svd(system, compute_uv=False)
            counts.append([int((sizes > least * sizes[0]).sum()) for least in _LEAST])
            errors[step.rows] = np.linalg.lstsq(system, (own.T @ step.sent).ravel(), rcond=_LEAST[-1])[0]
            linear[step.rows] = np.linalg.lstsq(own.T, own.T @ (step.sent / slopes @ direction), rcond=None)[0]
        both = (area_under_curve(np.column_stack([-one, one]), data.labels) for one in (errors, linear))
        first, second = (max(area, 1 - area) for area in both)
        told.append((first, second))
    known, summed = np.median(told, axis=0)
    ranks = ", ".join(
        f"{count:.0f} beyond {least:g}" for count, least in zip(np.mean(counts, axis=0), _LEAST, strict=True)
    )
    columns = data.blocks[1].shape[1]
    print(
        f"{name:14} d {columns:3}  sums of a step: {ranks}; area {known:.3f}, of {columns} sums {summed:.3f}",
        flush=True,
    )


def _defended(products: FloatArray, noise: float, digits: int | None, generator: np.random.Generator) -> FloatArray:
    noisy = products + noise * generator.standard_normal(products.shape)
    return noisy if digits is None else noisy.round(digits)


def _mean_part(found: EstimatedFeatures, features: FloatArray) -> float:
    return _told(found.values["party-1"], features[found.rows])


def _told(values: FloatArray, truth: FloatArray) -> float:
    """The mean over columns that vary of the part of their variance that is told, below 0 where estimates err more."""
    varies = truth.var(axis=0) > 0
    return float((1 - ((values - truth) ** 2).mean(axis=0)[varies] / truth.var(axis=0)[varies]).mean())


def _error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"], help="data sets, by name")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"), help="raw files")
    parser.add_argument("--rows", type=int, default=2000, help="records of each table")
    parser.add_argument("--sums", action="store_true", help="only what hidden sums tell with no record known")
    parser.add_argument("--federations", action="store_true", help="only what hidden sums of real federations tell")
    parser.add_argument("--slopes", action="store_true", help="only what one epoch tells who knows the units' slopes")
    parser.add_argument("--seed", type=int, default=0, help="of tables, weights and batches")
    given = parser.parse_args()
    for name in given.data:
        if given.federations or given.slopes:
            (print_federations if given.federations else print_slopes)(name, given)
            continue
        print_sums(name, given)
        if given.sums:
            continue
        print("data     attack               backward  batches    batch epochs      AUC  shuffled  CPU s")
        print_labels(name, given)
        print_features(name, given)


if __name__ == "__main__":
    main()
