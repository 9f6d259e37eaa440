"""What defences of networks trained in the federation cost, and what they leave to those who know them.

Trains networks in one place, as services would (``vfl.learning.network``), with what each defence makes of the
messages, and prints a line per defence: the test records' area under the curve, and what two adversaries read.

- A passive party that reads the backward signal in the clear: areas under the curve of two classes' training labels by
  the lengths and by the directions of the last epoch's signals, and by all epochs' signals, directions or projections
  summed, which averages noise away. The larger of an area and 1 minus it: one known label tells which.
- The label party, which knows 100 complete records: the error of a regression of the passive columns on its own
  columns, labels and all forwarded products, as a part of the error without the products. Products of all records are
  projected on as many directions as there are columns where that helps: noise has more of them.

With ``--sums`` also what a passive party reads of labels in its gradients alone (``batch_inversion``), under batches
that every epoch draws anew.

    python -m scripts.network_defences --data bank
"""

import argparse
import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score

import attacks
import defences
from attacks.training.recovered_labels import EstimatedLabels
from attacks.training_attack import ListeningAttack
from attacks.training_views import Equations, OwnStep, TrainingView
from defences import NoiseSource, TrainingTerms
from services.common.agreement import FIXED, RESHUFFLED, TrainingPlan
from services.party.party_defences import Message, PartyDefences
from vfl.arrays import FloatArray, IntArray
from vfl.data import column_blocks, fit_encoder, load_dataset, snap_to_grid
from vfl.data.datasets import RegistryTable
from vfl.learning import VerticalData
from vfl.learning.network import Network
from vfl.learning.network.network_reference import Defended, ReferenceTraining, SeenStep, train_network

_KNOWN_RECORDS = 100
_PENALTIES = np.logspace(-8, 4, 25)
_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {}),
    ("max_norm", {}),
    ("marvell", {"auc": 0.8}),
    ("marvell", {"auc": 0.7}),
    ("marvell", {"auc": 0.6}),
    ("discrete_gradients", {"bins": 12}),
    ("discrete_gradients", {"bins": 2}),
    ("label_randomised_response", {"epsilon": 3.0}),
    ("label_randomised_response", {"epsilon": 2.0}),
    ("label_randomised_response", {"epsilon": 1.0}),
    ("label_randomised_response", {"epsilon": 0.5}),
    ("hidden_rounding", {"step": 0.1}),
    ("hidden_rounding", {"step": 0.5}),
    ("hidden_rounding", {"step": 2.0}),
    ("hidden_noise", {"sigma": 0.05}),
    ("hidden_noise", {"sigma": 0.2}),
    ("hidden_noise", {"sigma": 0.5}),
    ("hidden_noise", {"sigma": 1.0}),
)


@dataclass(frozen=True)
class Case:
    """A training: its network, how much of the table it takes, and the defence with its options."""

    learner: Network
    rows: int
    epochs: int
    batch: int
    seed: int
    sums: bool
    defence: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def defences(self) -> PartyDefences:
        """The defence, with noise that repeats."""
        chosen = [defences.load(self.defence, **dict(self.options))] if self.defence else []
        return PartyDefences(chosen, NoiseSource(self.seed))


def measured(table: RegistryTable, case: Case) -> dict[str, float]:
    """Train one case and attack it."""
    generator = np.random.default_rng(case.seed)
    names, of_class = np.unique(table.labels.astype(str), return_inverse=True)
    chosen = generator.permutation(len(of_class))[: case.rows or None]
    features, labels = fit_encoder("minmax", table.features[chosen]).transform(table.features[chosen]), of_class[chosen]
    own, others = column_blocks(features.shape[1], 2)
    blocks = [
        snap_to_grid(np.column_stack([features[:, own], np.ones(len(labels))])),
        snap_to_grid(features[:, others]),
    ]
    batches = RESHUFFLED if case.sums else FIXED
    plan = TrainingPlan(epochs=case.epochs, batch_size=case.batch, seed=case.seed, batches=batches)
    rows, party = plan.split(len(labels)), case.defences
    trained = party.replace_labels(labels, [str(one) for one in chosen], len(names))
    terms = TrainingTerms(
        "active",
        case.epochs,
        case.epochs,
        case.batch,
        case.learner.learning_rate,
        128.0,
        classes=len(names),
        hidden=case.learner.hidden,
    )
    party.check(terms)
    steps = itertools.count()

    def protect_hidden(products: FloatArray) -> FloatArray:
        return party.protect_hidden(products, Message("hidden", "", next(steps), np.arange(len(products))))

    def protect_backward(backward: FloatArray, of_rows: IntArray) -> FloatArray:
        message = Message("residuals", "", next(steps), np.arange(len(backward)))
        return party.protect_residuals(backward, terms, message, of_rows)

    data = VerticalData(blocks, labels, len(names))
    run = train_network(
        case.learner,
        replace(data, labels=trained),
        plan.schedule(rows.train),
        epochs=case.epochs,
        generators=[np.random.default_rng([case.seed, one]) for one in range(2)],
        defended=Defended(protect_hidden, protect_backward),
    )
    shares = [part.shares(block[rows.test]) for part, block in zip(run.parts, blocks, strict=True)]
    scores = run.parts[0].scores(shares[0] + protect_hidden(shares[1]))
    return {
        "test": area(labels[rows.test], scores),
        **labels_read(run, labels, len(names)),
        "columns": columns_read(run, data, rows.train),
        **({"sums": labels_in_sums(run, data, case)} if case.sums else {}),
    }


def area(labels: IntArray, scores: FloatArray) -> float:
    """Area under the curve, the mean over classes where there are more than two."""
    if scores.shape[1] == 2:
        return float(roc_auc_score(labels, scores[:, 1]))
    return float(roc_auc_score(labels, scores, multi_class="ovr"))


def labels_read(run: ReferenceTraining, labels: IntArray, classes: int) -> dict[str, float]:
    """What a passive party reads of two classes' labels in backward signals; nothing of more."""
    if classes != 2:
        return {}
    last, lengths = (np.full(len(labels), np.nan) for _ in range(2))
    directions, projections = np.zeros(len(labels)), np.zeros(len(labels))
    axis = np.linalg.svd(run.seen[0].sent, full_matrices=False)[2][0]
    for step in run.seen:
        now = np.linalg.svd(step.sent, full_matrices=False)[2][0]
        axis = now if now @ axis > 0 else -now
        sizes = np.linalg.norm(step.sent, axis=1)
        along, lengths[step.rows] = step.sent @ axis, sizes
        last[step.rows] = along / sizes
        directions[step.rows] += along / sizes
        projections[step.rows] += along / sizes.mean()
    seen = np.flatnonzero(~np.isnan(last))
    one_epoch = {"lengths": lengths, "directions": last}
    found = {name: float(roc_auc_score(labels[seen], values[seen])) for name, values in one_epoch.items()}
    summed = [float(roc_auc_score(labels[seen], values[seen])) for values in (directions, projections)]
    return {
        **{name: max(one, 1 - one) for name, one in found.items()},
        "all_epochs": max(max(one, 1 - one) for one in summed),
    }


def labels_in_sums(run: ReferenceTraining, data: VerticalData, case: Case) -> float:
    """Area under the curve of the training labels, by what a passive party reads of its gradients."""
    own, last = data.blocks[1], run.seen[-1].step + 1
    view = TrainingView(
        role="passive",
        features=own,
        steps=tuple(OwnStep(one.step, one.rows, one.products[1]) for one in run.seen),
        equations=tuple(Equations(one.step, "active", one.rows, own[one.rows], one.sums[1]) for one in run.seen),
        peer_features={"active": data.blocks[0].shape[1]},
        label_party="active",
        learner=replace(case.learner, backward="paillier"),
        classes=data.classes,
        batch_size=case.batch,
        share_step=2.0**-32,
        steps_per_epoch=last // case.epochs,
    )
    found = cast(EstimatedLabels, cast(ListeningAttack, attacks.load_training("batch_inversion")).attack(view))
    if found.reason:
        return float("nan")
    read = float(roc_auc_score(data.labels[found.rows], found.probabilities[found.rows, 1]))
    return max(read, 1 - read)


def columns_read(run: ReferenceTraining, data: VerticalData, train: IntArray) -> float:
    """The label party's error on passive columns, as a part of its error without what is forwarded."""
    known, others = train[:_KNOWN_RECORDS], train[_KNOWN_RECORDS:]
    beside = np.column_stack([data.blocks[0], np.eye(data.classes)[data.labels]])
    products = forwarded(run.seen, len(data.labels))
    varied = data.blocks[1][:, data.blocks[1][known].std(axis=0) > 0]

    def error(*further: FloatArray) -> tuple[float, float]:
        told = np.column_stack([beside, *further])
        scale = told[train].std(axis=0)
        told = (told - told[train].mean(axis=0))[:, scale > 0] / scale[scale > 0]
        model = RidgeCV(_PENALTIES).fit(told[known], varied[known])
        return -float(model.best_score_), float(((model.predict(told[others]) - varied[others]) ** 2).mean())

    centred = products - products[train].mean(axis=0)
    directions = np.linalg.svd(centred[train], full_matrices=False)[2][: varied.shape[1]]
    # By the error on known records left out, as an adversary would choose.
    best = min(error(products), error(centred @ directions.T))
    return best[1] / error()[1]


def forwarded(seen: tuple[SeenStep, ...], records: int) -> FloatArray:
    """All that is forwarded of each record, (records, epochs * h)."""
    visits: list[list[FloatArray]] = [[] for _ in range(records)]
    for step in seen:
        for row, products in zip(step.rows, step.forwarded, strict=True):
            visits[row].append(products)
    width = max(map(len, visits)) * seen[0].forwarded.shape[1]
    return np.array([np.concatenate(one) if one else np.zeros(width) for one in visits])


def main() -> None:
    """Print a line per defence, means over seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="breast_cancer")
    parser.add_argument("--rows", type=int, default=0, help="0: all")
    parser.add_argument("--hidden", nargs="+", type=int, default=[16])
    parser.add_argument("--sums", action="store_true", help="attack gradients as well")
    for name, default in (("epochs", 10), ("batch", 256), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--only", default="", help="the defences whose names begin so")
    given = parser.parse_args()
    table = load_dataset(given.data, Path(os.environ.get("PLUMBLINE_DATA_DIR", "data")))
    for hidden in given.hidden:
        learner = Network(hidden=hidden, learning_rate=given.rate, backward="plain")
        for name, options in _CASES:
            if not (name or "none").startswith(given.only):
                continue
            case = Case(learner, given.rows, given.epochs, given.batch, 0, given.sums, name, tuple(options.items()))
            found = [measured(table, replace(case, seed=seed)) for seed in range(given.seeds)]
            told = " ".join(f"{one}={np.mean([each[one] for each in found]):.3f}" for one in found[0])
            print(f"h={hidden} {name or 'none'}{options or ''}: {told}", flush=True)


if __name__ == "__main__":
    main()
