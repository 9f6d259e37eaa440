"""How well networks predict that services train, on each rung, beside the same network in plain torch.

A federation of real processes trains each rung. torch trains one network of the same first weights on the same batches,
in float64 throughout: on features, sums and gradients that no fixed point has rounded.

    python -m scripts.network_accuracies --data bank adult credit
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from services.common.agreement import TrainingPlan
from services.common.run_folder import RunFolder
from services.party.features import load_party_data
from vfl.arrays import FloatArray, IntArray
from vfl.data import common_order, encode_labels, fit_columns, load_dataset, rows_of
from vfl.data.split import column_blocks
from vfl.learning import VerticalData
from vfl.learning.network import Network, NetworkPart, train_network
from vfl.learning.score_quality import area_under_curve

RUNGS = ("plain", "paillier", "shared")
# Test AUC of a rung by that of plain torch, at most, as a mean of seeds.
TOLERANCE = 0.002
# Of torch: an optimiser's name, and what it is made with besides its rate.
_OPTIMISERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "adam": ("Adam", {}),
}


@dataclass(frozen=True)
class Compared:
    """A rung's network beside torch's, on test records.

    Attributes:
        auc: of the services' scores.
        expected_auc: of torch's.
        difference: the largest one of any score.
    """

    auc: float
    expected_auc: float
    difference: float


def in_plain_torch(
    learner: Network, first: Sequence[NetworkPart], data: VerticalData, batches: Iterator[IntArray]
) -> tuple[FloatArray, FloatArray]:
    """Train a network as a whole, in float64.

    Args:
        learner: its options.
        first: every party's part as training begins.
        data: per party its features, the label party's first.
        batches: rows of each step.

    Returns:
        Weights of the first layer, (D, h), and scores of all records, (n, classes).
    """
    import torch  # an extra, which not every machine has

    top = first[0].top
    assert top is not None  # noqa: S101 - the label party's
    features, labels = torch.from_numpy(np.hstack(data.blocks)), torch.from_numpy(data.labels)
    weights = torch.from_numpy(np.vstack([part.weights for part in first])).requires_grad_()
    widths = [learner.hidden, *([learner.upper] if learner.upper else []), data.classes]
    layers = [torch.nn.Linear(inputs, outputs, dtype=torch.float64) for inputs, outputs in pairwise(widths)]
    activation = torch.nn.Tanh if learner.activation == "tanh" else torch.nn.ReLU
    with torch.no_grad():
        for layer, weight, bias in zip(layers, top.weights, top.biases, strict=True):
            layer.weight.copy_(torch.from_numpy(weight.T.copy()))
            layer.bias.copy_(torch.from_numpy(bias))
    model = torch.nn.Sequential(*[one for layer in layers for one in (activation(), layer)])
    name, options = _OPTIMISERS[learner.optimiser]
    optimiser = getattr(torch.optim, name)([weights, *model.parameters()], lr=learner.learning_rate, **options)
    for batch in batches:
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(features[batch] @ weights), labels[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        scores: FloatArray = torch.softmax(model(features @ weights), dim=1).numpy()
    return weights.detach().numpy(), scores


def compared(name: str, data_dir: Path | None, rows: int, seed: int, **terms: Any) -> Compared:
    """Train a network in services, and in torch.

    Args:
        name: of the data set.
        data_dir: of its raw files.
        rows: records, drawn by the seed.
        seed: of records, split, batches and first weights.
        terms: settings of the training, such as ``backward`` and ``learner_options``.
    """
    with tempfile.TemporaryDirectory(prefix="plumbline-accuracies-") as made:
        folder = Path(made)
        files = _written(name, data_dir, rows, seed, folder)
        settings = {"learner": "network", "patience": 0, "seed": seed, **terms}
        request = AuditRequest.of(active=files[0], passive=(files[1],), label="label", settings=settings)
        parties = request.recipe(request.tables.party_settings).checked().settings(folder / "parties")
        with Federation.start(processes := LocalProcesses(folder, parties)) as federation:
            federation.train()
        agreement = RunFolder(folder / "parties").record("active").agreement
        assert agreement is not None  # noqa: S101 - a training has ended
        tested = RunFolder(folder / "parties").delivered_scores(agreement)
        expected = _expected(processes, agreement.plan)[tested.rows]
    return Compared(
        area_under_curve(tested.scores, tested.labels),
        area_under_curve(expected, tested.labels),
        float(np.abs(tested.scores - expected).max()),
    )


def _written(name: str, data_dir: Path | None, rows: int, seed: int, folder: Path) -> list[str]:
    """Records of a table, in halves: each party's file, the label party's first."""
    table = load_dataset(name, data_dir)
    chosen = np.random.default_rng(seed).permutation(len(table.labels))[:rows]
    files = []
    for number, columns in enumerate(column_blocks(table.features.shape[1], 2)):
        frame = pd.DataFrame(table.features[chosen][:, columns]).add_prefix("c")
        frame["id"] = [f"r{row:06d}" for row in chosen]
        if number == 0:
            frame["label"] = table.labels[chosen].astype(str)
        files.append(str(folder / f"{number}.parquet"))
        frame.to_parquet(files[-1], index=False)
    return files


def _expected(processes: LocalProcesses, plan: TrainingPlan) -> FloatArray:
    """Scores of all records, in the common order, of the network that torch trains from the parties' first weights."""
    names = [name for name in processes.settings if name != "coordinator"]
    tables = [load_party_data(processes.settings[name], with_bias=name == "active") for name in names]
    common = common_order(set(tables[0].ids).intersection(*(table.ids for table in tables[1:])))
    own_rows = [rows_of(table.ids, common) for table in tables]
    training = plan.split(len(common)).train
    blocks = [
        fit_columns(table.table, rows[training], table.encoder).transform(table.table)[rows]
        for table, rows in zip(tables, own_rows, strict=True)
    ]
    blocks[0] = np.column_stack([blocks[0], np.ones(len(common))])
    given = tables[0].labels
    assert given is not None  # noqa: S101 - the label party's
    labels, class_names = encode_labels(given[own_rows[0]])
    data, schedule, learner = VerticalData(blocks, labels, len(class_names)), plan.schedule(training), plan.family
    assert isinstance(learner, Network)  # noqa: S101 - it was asked for
    generators = [np.random.default_rng(processes.settings[name].private_seed) for name in names]
    first = train_network(learner, data, schedule, epochs=0, generators=generators).parts
    batches = (batch for epoch in range(plan.epochs) for batch in schedule.epoch(epoch))
    return in_plain_torch(learner, first, data, batches)[1]


def main() -> None:
    """Print a line for each data set and rung: means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["breast_cancer"], help="data sets, by name")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("PLUMBLINE_DATA_DIR"), help="raw files")
    parser.add_argument("--rows", type=int, default=4000, help="records of each table")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--epochs", type=int, default=10, help="of each training")
    parser.add_argument("--batch", type=int, default=256, help="records of a batch")
    given = parser.parse_args()
    print("| | `backward` | test AUC | in plain torch | difference | of any score, at most |")
    print("|---|---|---:|---:|---:|---:|")
    missed = False
    for name in given.data:
        for rung in RUNGS:
            terms = {"backward": rung, "epochs": given.epochs, "batch_size": given.batch}
            runs = [compared(name, given.data_dir, given.rows, seed, **terms) for seed in range(1, given.seeds + 1)]
            auc, expected = (float(np.mean([getattr(run, of) for run in runs])) for of in ("auc", "expected_auc"))
            most = max(run.difference for run in runs)
            print(f"| {name} | `{rung}` | {auc:.5f} | {expected:.5f} | {auc - expected:.1e} | {most:.1e} |", flush=True)
            missed |= not abs(auc - expected) <= TOLERANCE
    raise SystemExit(f"A test AUC differs by more than {TOLERANCE:g}." if missed else 0)


if __name__ == "__main__":
    main()
