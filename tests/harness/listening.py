"""Trainings for those who listen: planted ones, and breast_cancer as two parties train on it by default."""

import numpy as np
from sklearn.datasets import load_breast_cancer

from attacks.training_views import TrainingView, simulated_view
from vfl.arrays import IntArray
from vfl.data import snap_to_grid
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.theory.training import Approximation, OracleRun, simulate_oracle

SHARE_STEP = 2.0**-32


def planted(
    *,
    rows: int = 60,
    batch: int = 8,
    parties: tuple[int, ...] = (20, 12),
    epochs: int = 3,
    initialisation: str = "zero",
    classes: int = 2,
    approximation: Approximation = "first_order",
    learning_rate: float = 0.05,
    norm: float = 1.0,
    bias: bool = True,
    seed: int = 0,
    l2: float = 0.0,
    own_moments: bool = False,
) -> OracleRun:
    """A training on whole rows of unit norm; party 0 has the labels and, with ``bias``, the constant feature."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, sum(parties)))
    features *= norm / np.linalg.norm(features, axis=1, keepdims=True)
    blocks = np.split(features, np.cumsum(parties)[:-1], axis=1)
    spared = [np.zeros(width, dtype=np.bool_) for width in parties]
    if bias:
        blocks[0] = np.hstack([blocks[0], np.ones((rows, 1))])
        spared[0] = np.append(spared[0], True)
    columns = 1 if classes == 2 else classes
    total = sum(block.shape[1] for block in blocks)
    weights = [
        initial_weights(initialisation, block.shape[1], columns, total_features=total, generator=generator)
        for block in blocks
    ]
    return simulate_oracle(
        VerticalData(blocks, generator.integers(0, classes, rows), classes=classes),
        weights,
        GradientDescent(BatchSchedule(np.arange(rows), batch, seed), epochs, learning_rate, own_moments),
        approximation=approximation,
        l2=l2,
        unpenalised=spared,
        share_step=SHARE_STEP,
    )


def view_of(run: OracleRun, party: int, initialisation: str = "zero", *, bias: bool = True) -> TrainingView:
    return simulated_view(run, party, initialisation=initialisation, label_party_bias=bias, share_step=SHARE_STEP)


def trained(
    seed: int = 0,
    *,
    shuffled: bool = True,
    epochs: int = 60,
    batch: int = 128,
    reshuffled: bool = True,
    rows: IntArray | None = None,
    labels: IntArray | None = None,
    label_columns: int = 15,
    start: int | None = None,
) -> OracleRun:
    """breast_cancer as two parties train on it by default; ``labels`` in place of its own.

    The label party has ``label_columns`` and its bias. ``start`` draws other weights for the same records and batches.
    """
    generator = np.random.default_rng(seed)
    table, classes = load_breast_cancer(return_X_y=True)
    kept = generator.permutation(len(table))[:383] if rows is None else rows
    table = (table - table.min(axis=0)) / np.ptp(table, axis=0)
    chosen = classes if labels is None else labels
    truth = generator.permutation(chosen[kept]) if shuffled else chosen[kept]
    table = snap_to_grid(table)
    blocks = [np.column_stack([table[kept, :label_columns], np.ones(len(kept))]), table[kept, label_columns:]]
    generator = generator if start is None else np.random.default_rng(start)
    weights = [initial_weights("xavier", one.shape[1], 1, total_features=31, generator=generator) for one in blocks]
    batches = BatchSchedule(np.arange(len(kept)), min(batch, len(kept)), seed, reshuffled=reshuffled)
    descent = GradientDescent(batches, epochs=epochs, learning_rate=0.5)
    return simulate_oracle(VerticalData(blocks, truth), weights, descent, share_step=2.0**-32)


def seen(run: OracleRun, party: int = 1) -> TrainingView:
    return simulated_view(run, party, initialisation="xavier", label_party_bias=True, share_step=SHARE_STEP)
