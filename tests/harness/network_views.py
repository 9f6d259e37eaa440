"""What the parties of a network see of its training in one place, as views for attacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from attacks.training_views import Equations, Forwarded, KnownRecords, OwnStep, TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.learning import BatchSchedule, VerticalData
from vfl.learning.network import Network, ReferenceTraining, train_network
from vfl.learning.network.network_reference import Defended

SHARE_STEP = 2.0**-32


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
        equations = []
        for one in self.training.seen:
            own = self.data.blocks[1][one.rows]
            matrix = np.eye(len(one.rows)) if self.learner.backward == "plain" else own
            sums = matrix.T @ np.rint(one.sent / SHARE_STEP) * SHARE_STEP
            equations.append(Equations(one.step, "party-0", one.rows, matrix, sums))
        others = {f"party-{at}": block.shape[1] for at, block in enumerate(self.data.blocks) if at != 1}
        return self._view(1, role="passive", equations=tuple(equations), peers=others, **pieces)

    def active(self, known: Sequence[int] = (), *, noise: float = 0.0, **pieces: Any) -> TrainingView:
        """The label party's view, with ``known`` records, and noise on what is forwarded."""
        passive = np.hstack(self.data.blocks[1:])
        rows = np.array(known, dtype=np.int64)
        generator = np.random.default_rng(1)
        forwarded = tuple(
            Forwarded(
                one.step,
                one.rows,
                one.forwarded + noise * generator.standard_normal(one.forwarded.shape),
                one.backward,
            )
            for one in self.training.seen
        )
        others = {f"party-{at}": block.shape[1] for at, block in enumerate(self.data.blocks) if at}
        pieces = {"known_records": KnownRecords(rows, passive[rows]) if len(rows) else None, **pieces}
        return self._view(0, role="active", peers=others, labels=self.labels, forwarded=forwarded, **pieces)

    def _view(self, party: int, *, role: Any, peers: dict[str, int], **pieces: Any) -> TrainingView:
        return TrainingView(
            role=role,
            features=self.data.blocks[party],
            steps=tuple(OwnStep(one.step, one.rows, one.products[party]) for one in self.training.seen),
            equations=pieces.pop("equations", ()),
            peer_features=peers,
            label_party="party-0" if party else None,
            learner=self.learner,
            classes=self.data.classes,
            batch_size=max(len(one.rows) for one in self.training.seen),
            share_step=SHARE_STEP,
            steps_per_epoch=self.schedule.steps_per_epoch,
            **pieces,
        )


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
