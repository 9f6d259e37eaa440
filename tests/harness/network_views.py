"""What the parties of a network see of its training in one place, as views for attacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from attacks.training.network_views import network_view
from attacks.training_views import KnownRecords, TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.learning import BatchSchedule, VerticalData
from vfl.learning.network import Network, ReferenceTraining, train_network
from vfl.learning.network.network_reference import Defended


@dataclass(frozen=True, eq=False)
class NetworkRun:
    """A training: party 0 has the labels and the constant 1."""

    learner: Network
    data: VerticalData
    schedule: BatchSchedule
    training: ReferenceTraining

    @property
    def labels(self) -> IntArray:
        return self.data.labels

    def passive(self, **pieces: Any) -> TrainingView:
        """Party 1's view; sums as Paillier gives them, or the signal itself under ``plain``."""
        return replace(network_view(self.training, self.learner, self.data, 1, self.schedule), **pieces)

    def active(self, known: Sequence[int] = (), *, noise: float = 0.0, **pieces: Any) -> TrainingView:
        """The label party's view, with ``known`` records, and noise on what is forwarded."""
        view = network_view(self.training, self.learner, self.data, 0, self.schedule)
        rows, generator = np.array(known, dtype=np.int64), np.random.default_rng(1)
        noisy = tuple(
            replace(one, products=one.products + noise * generator.standard_normal(one.products.shape))
            for one in view.forwarded
        )
        records = KnownRecords(rows, np.hstack(self.data.blocks[1:])[rows]) if len(rows) else None
        return replace(view, forwarded=noisy, known_records=records, **pieces)


def network_run(
    blocks: Sequence[FloatArray],
    labels: IntArray,
    *,
    batch: int = 64,
    epochs: int = 5,
    reshuffled: bool = True,
    trained_on: int | None = None,
    seed: int = 0,
    defended: Defended | None = None,
    **options: Any,
) -> NetworkRun:
    """Train on these columns; the constant 1 is added to the label party's."""
    learner = Network(**{"hidden": 16, **options})
    data = VerticalData(
        [np.column_stack([blocks[0], np.ones(len(labels))]), *blocks[1:]], labels, classes=int(labels.max()) + 1
    )
    schedule = BatchSchedule(np.arange(trained_on or len(labels)), batch, seed, reshuffled=reshuffled)
    generators = [np.random.default_rng([seed, party]) for party in range(len(data.blocks))]
    return NetworkRun(
        learner,
        data,
        schedule,
        train_network(learner, data, schedule, epochs=epochs, generators=generators, defended=defended),
    )


def breast_cancer(
    *, columns: int = 10, shuffled: bool = False, rare: bool = False
) -> tuple[list[FloatArray], IntArray]:
    """Ten columns for the label party, ``columns`` for party 1; class 1 is the rarer.

    shuffled: labels that no column tells. rare: of class 1 only every fifth record is kept.
    """
    table, classes = load_breast_cancer(return_X_y=True)
    labels = (1 - classes).astype(np.int64)
    table = (table - table.min(axis=0)) / np.ptp(table, axis=0)
    if rare:
        kept = np.flatnonzero((labels == 0) | (np.arange(len(labels)) % 5 == 0))
        table, labels = table[kept], labels[kept]
    if shuffled:
        labels = np.random.default_rng(7).permutation(labels)
    return [table[:, :10], table[:, 10 : 10 + columns]], labels
