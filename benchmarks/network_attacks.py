"""Speed of batched gradient inversion, and the agnostic attack on the data sets of Varasteh figures 4 and 7.

    PLUMBLINE_DATA_DIR=data python -m benchmarks.network_attacks

The speed needs no data. It prints, for a linear model and a network, seconds for 1,000 records in one batch and for a
loop over single records, measured on a few and scaled, in the same run. Where raw data are present it prints the error
of half, half*, the agnostic attack (AM) and its refinements by 100 delivered scores or their labels (RAM), and the
accuracy of networks of two hidden layers with the error of gradient inversion where few columns are passive (Jiang,
Table 1 and Figure 7).
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import attacks
from attacks import AuxiliaryRows, PredictionView
from vfl.arrays import FloatArray, IntArray
from vfl.data import encode_labels, fit_encoder, load_dataset, missing_files
from vfl.learning import confidence_scores
from vfl.learning.networks import VerticalNetwork
from vfl.learning.torch_training import AdamTraining, dense_network, initial_layers, scores_of

RECORDS = 1000
LOOPED_RECORDS = 10
WINDOWS = 4
DELIVERED = 100
COLUMNS = ("half", "half*", "AM", "RAM scores", "RAM labels")
NETWORKS = ("bank", "robot", "satellite")
# Jiang's: two hidden layers of eight units. Figure 7 has errors close to 0 up to this share of passive columns.
HIDDEN, SHARE = (8, 8), 0.1
INVERTED = 100
PASSIVE_FEATURES = {"bank": (1, 2, 4, 9, 15), "satellite": (2, 5, 8, 16, 28), "adult": (1, 2, 4, 9), "grid": (2, 4, 8)}


@dataclass(frozen=True, eq=False)
class Setting:
    """A data set, min-max scaled and split 80:20, and a linear model trained on the 80 (Varasteh, section III).

    features: (n, d_t); labels: (n,); training, prediction: row indices; evaluated: rows of both on which errors are
    measured ("average over time"); scores: (n, k) of the model.
    """

    features: FloatArray
    labels: IntArray
    training: IntArray
    prediction: IntArray
    evaluated: IntArray
    weights: FloatArray
    bias: FloatArray
    scores: FloatArray


def linear_setting(name: str, data_dir: Path, *, evaluated: int, seed: int = 0) -> Setting:
    """Load, split by the seed and train; errors are measured on so many rows, drawn from all."""
    table = load_dataset(name, data_dir)
    features = fit_encoder("minmax", table.features).transform(table.features)
    labels = encode_labels(table.labels)[0].astype(np.int64)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(features))
    training, prediction = np.split(order, [round(0.8 * len(order))])
    weights, bias = AdamTraining().train_linear(features[training], labels[training], seed=seed)
    scores = confidence_scores(features @ weights.T + bias)
    drawn = generator.permutation(len(features))[:evaluated]
    return Setting(features, labels, training, prediction, drawn, weights, bias, scores)


def agnostic_errors(setting: Setting, d: int, *, windows: int = WINDOWS) -> dict[str, float]:
    """MSE per feature of COLUMNS, averaged over so many evenly spaced windows of d neighbouring features."""
    total = setting.features.shape[1]
    rows = []
    for start in np.linspace(0, total, windows, endpoint=False).astype(int):
        passive = (start + np.arange(d)) % total
        active = np.setdiff1d(np.arange(total), passive)
        delivered = setting.prediction[:DELIVERED]
        view = PredictionView(
            features_active=setting.features[np.ix_(setting.evaluated, active)],
            weights_active=setting.weights[:, active],
            weights_passive=setting.weights[:, passive],
            bias=setting.bias,
            labels=setting.labels[setting.training],
            features_train=setting.features[np.ix_(setting.training, active)],
            auxiliary=AuxiliaryRows(
                setting.features[np.ix_(delivered, active)], np.empty((DELIVERED, 0)), setting.scores[delivered]
            ),
        )
        exact = replace(view, scores=setting.scores[setting.evaluated])
        estimates = [
            np.full((view.n, d), 0.5),
            attacks.load("half_star").reconstruct(exact).clip(0, 1),
            *(attacks.load("agnostic", refine=refine).reconstruct(view) for refine in ("none", "scores", "labels")),
        ]
        truth = setting.features[np.ix_(setting.evaluated, passive)]
        rows.append([((estimate - truth) ** 2).mean() for estimate in estimates])
    return dict(zip(COLUMNS, np.mean(rows, axis=0).tolist(), strict=True))


def inversion_seconds(hidden: Sequence[int], *, steps: int = 500) -> tuple[float, float]:
    """Seconds for RECORDS records in one batch, and in a loop of LOOPED_RECORDS single ones, scaled to RECORDS."""
    generator = torch.Generator().manual_seed(0)
    d_active, d, k = 6, 30, 6
    network = VerticalNetwork(
        *(dense_network(initial_layers([inputs, *hidden, k], generator), "sigmoid") for inputs in (d_active, d))
    )
    numbers = np.random.default_rng(0)
    active, passive = numbers.random((RECORDS, d_active)), numbers.random((RECORDS, d))
    scores = scores_of(network, active, passive)
    view = PredictionView(features_active=active, scores=scores, network=network, passive_features=d)
    attack = attacks.load("gia", steps=steps)
    attack.reconstruct(replace(view, features_active=active[:1], scores=scores[:1]))  # warm up
    start = time.perf_counter()
    batch = attack.reconstruct(view)
    batched = time.perf_counter() - start
    start = time.perf_counter()
    singles = [
        attack.reconstruct(replace(view, features_active=active[[i]], scores=scores[[i]]))
        for i in range(LOOPED_RECORDS)
    ]
    looped = (time.perf_counter() - start) * RECORDS / LOOPED_RECORDS
    np.testing.assert_allclose(np.vstack(singles), batch[:LOOPED_RECORDS], rtol=0, atol=1e-6)
    return batched, looped


def network_inversion(name: str, data_dir: Path, *, seeds: int = 3) -> tuple[list[float], list[float]]:
    """Accuracy of networks on held-out rows, and gia's error on some of them, by seed; the last columns are passive."""
    table = load_dataset(name, data_dir)
    features = fit_encoder("minmax", table.features).transform(table.features)
    labels = encode_labels(table.labels)[0].astype(np.int64)
    split = features.shape[1] - max(1, int(SHARE * features.shape[1]))
    accuracies, errors = [], []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(features))
        training, held_out = np.split(order, [round(0.8 * len(order))])
        active, passive = features[:, :split], features[:, split:]
        network = AdamTraining().train_network(
            active[training], passive[training], labels[training], hidden=HIDDEN, seed=seed
        )
        scores = scores_of(network, active[held_out], passive[held_out])
        accuracies.append(float((scores.argmax(axis=1) == labels[held_out]).mean()))
        rows = held_out[:INVERTED]
        view = PredictionView(
            features_active=active[rows],
            scores=scores[:INVERTED],
            network=network,
            passive_features=features.shape[1] - split,
        )
        estimate = attacks.load("gia", distance="kld", init="half").reconstruct(view)
        errors.append(float(((estimate - passive[rows]) ** 2).mean()))
    return accuracies, errors


def _networks(console: Console, data_dir: Path) -> None:
    shown = Table(
        title=f"Networks {HIDDEN}; gia (kld, half) with {SHARE:.0%} of the columns passive, {INVERTED} records"
    )
    for heading in ("data", "accuracy", "MSE per feature"):
        shown.add_column(heading, justify="right")
    for name in (name for name in NETWORKS if not missing_files(name, data_dir)):
        accuracies, errors = network_inversion(name, data_dir)
        ranges = [f"{min(values):.3f}-{max(values):.3f}" for values in (accuracies, errors)]
        shown.add_row(name, *ranges)
    console.print(shown)


def main() -> None:
    """Print the tables; see the module."""
    torch.set_num_threads(1)
    console = Console()
    speed = Table(title=f"gia, {RECORDS:,} records, 500 rounds (loop: {LOOPED_RECORDS} records, scaled)")
    for heading in ("model", "batch s", "loop s", "ratio"):
        speed.add_column(heading, justify="right")
    for hidden in ((), (8,), (8, 8)):
        batched, looped = inversion_seconds(hidden)
        name = "linear" if not hidden else f"network {hidden}"
        speed.add_row(name, f"{batched:.2f}", f"{looped:.1f}", f"{looped / batched:.0f}x")
    console.print(speed)

    directory = os.environ.get("PLUMBLINE_DATA_DIR")
    found = [name for name in PASSIVE_FEATURES if directory and not missing_files(name, Path(directory))]
    if not directory or not found:
        console.print("No raw data: set PLUMBLINE_DATA_DIR for the agnostic attack's table.")
        return
    errors = Table(title=f"Agnostic attack, MSE per feature, mean of {WINDOWS} windows, {DELIVERED} delivered records")
    for heading in ("data", "d", *COLUMNS):
        errors.add_column(heading, justify="right")
    for name in found:
        setting = linear_setting(name, Path(directory), evaluated=2000)
        for d in PASSIVE_FEATURES[name]:
            measured = agnostic_errors(setting, d)
            errors.add_row(name, str(d), *(f"{measured[column]:.4f}" for column in COLUMNS))
    console.print(errors)
    _networks(console, Path(directory))


if __name__ == "__main__":
    main()
