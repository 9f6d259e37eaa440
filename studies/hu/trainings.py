"""The measurements behind Hu, Figures 2 to 4: trainings in one place, and what a passive party's equations determine.

SIMULATION. Training runs in one place in float64, on the features' 16-bit grid and the sessions' public batch
schedule. f is taken as known: that is what the recovery of ``attacks.training_views.solve_shares`` yields wherever the
equations have full rank, and ``EquationFacts`` measures where they have it.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from studies.hu.equations import IOTA, KEY_BITS, EquationFacts, auxiliary_plan, equation_facts, rank_and_condition
from studies.hu.experiments import INITIALISATIONS
from studies.simulation.records import LoadedTable, Records, Scaling, records_of, scaled_features
from studies.simulation.side_by_side import BATCH_SIZE, FAILURE, LEARNING_RATE, MEASURES, Starts, train_side_by_side
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data import column_blocks
from vfl.learning import BatchSchedule, GradientDescent, initial_weights
from vfl.theory.training import copies, guaranteed_steps, initial_product_bound

# Keeps the secret initial weights apart from the public streams of the same seed.
_WEIGHT_STREAM = 0x4855


@dataclass(frozen=True, eq=False)
class Prepared:
    """What one seed trains on.

    Attributes:
        features: (n, d), the intercept's column last where there is one.
        labels: (n,), 0 or 1.
        test: rows of the test set.
        schedule: the batches, of training rows.
        active: (d,), the label party's columns, the intercept's too.
        seed: of the schedule and of initial weights.
    """

    features: FloatArray
    labels: IntArray
    test: IntArray
    schedule: BatchSchedule
    active: BoolArray
    seed: int

    @cached_property
    def squared_norm(self) -> float:
        """The largest ||x||^2."""
        return float((self.features**2).sum(axis=1).max())

    @property
    def majority(self) -> float:
        """The share of the larger class among test rows."""
        share = float(self.labels[self.test].mean())
        return max(share, 1 - share)

    def initial_bound(self, kind: str) -> float:
        """Bound max |theta_0^T x| over all rows, but for a small probability."""
        rows, width = self.features.shape
        return initial_product_bound(kind, width, rows, squared_norm=self.squared_norm, failure=FAILURE)

    def start(self, kind: str) -> FloatArray:
        """Draw the initial weights of a kind, (d, 1)."""
        width = self.features.shape[1]
        generator = np.random.default_rng((_WEIGHT_STREAM, self.seed, INITIALISATIONS.index(kind)))
        return initial_weights(kind, width, 1, total_features=width, generator=generator)

    def descent(self, epochs: int, learning_rate: float = LEARNING_RATE) -> GradientDescent:
        """Describe the training."""
        return GradientDescent(self.schedule, epochs=epochs, learning_rate=learning_rate)


def prepared(
    records: Records, scaling: Scaling, seed: int, *, intercept: bool = True, batch_size: int = BATCH_SIZE
) -> Prepared:
    """Prepare a data set as a reading says. Raises ValueError for fewer rows than a batch."""
    train, test = records.rows_of(seed)
    features = scaled_features(records, scaling, train)
    active = np.arange(features.shape[1]) < column_blocks(features.shape[1], 2)[1].start
    if intercept:
        features, active = np.hstack([features, np.ones((len(features), 1))]), np.append(active, True)
    return Prepared(features, records.labels, test, BatchSchedule(train, batch_size, seed), active, seed)


def training(
    table: LoadedTable,
    *,
    scaling: Scaling,
    intercept: bool,
    seed: int,
    epochs: int,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
) -> dict[str, Any]:
    """Train one reading from each initialisation, and attack the labels at each step.

    Returns:
        lists with an entry per initialisation and epoch, in that order: initialisation, epoch, and each of
        ``MEASURES``;
        guaranteed_steps and first_wrong_step (-1 for none), an entry per initialisation; majority_test;
        train_counts and test_counts, rows of the classes 0 and 1.
    """
    ready = prepared(records_of(table), scaling, seed, intercept=intercept, batch_size=batch_size)
    limits = [
        guaranteed_steps(learning_rate, ready.initial_bound(kind), squared_norm=ready.squared_norm)
        for kind in INITIALISATIONS
    ]
    trained = train_side_by_side(
        ready.features,
        ready.labels,
        Starts(np.hstack([ready.start(kind) for kind in INITIALISATIONS]), np.array(limits)),
        ready.descent(epochs, learning_rate),
        test=ready.test,
    )
    return {
        "initialisation": np.repeat(INITIALISATIONS, epochs).tolist(),
        "epoch": list(range(1, epochs + 1)) * len(INITIALISATIONS),
        **{measure: getattr(trained, measure).T.ravel().tolist() for measure in MEASURES},
        "guaranteed_steps": limits,
        "first_wrong_step": trained.first_wrong_step.tolist(),
        "majority_test": ready.majority,
        "train_counts": np.bincount(ready.labels[ready.schedule.train_rows], minlength=2).tolist(),
        "test_counts": np.bincount(ready.labels[ready.test], minlength=2).tolist(),
        "columns": int(table.features.shape[1]),
    }


def ranks(
    table: LoadedTable, *, scaling: Scaling, seed: int, epochs: int, batch_size: int, most_copies: int | None
) -> dict[str, list[Any]]:
    """Compute rank and condition number of the passive party's equations with Algorithm 2, of each epoch's first batch.

    Raises:
        NotPossible: a ValueError, when there are too few equations even so.
    """
    own, schedule = _passive_part(table, scaling, seed, batch_size)
    plan = auxiliary_plan(own, batch_size, most_copies)
    found = [
        rank_and_condition(own, next(schedule.epoch(epoch)), plan, step=epoch * schedule.steps_per_epoch)
        for epoch in range(epochs)
    ]
    return {"rank": [rank for rank, _ in found], "condition": [condition for _, condition in found]}


def facts(
    table: LoadedTable, *, scaling: Scaling, seed: int, batch_size: int, most_copies: int | None
) -> dict[str, list[Any]]:
    """Measure the first batches' equations: a batch alone and half of it; Algorithm 2 with the paper's u and what fits.

    Returns:
        the fields of ``EquationFacts``, an entry each.
    """
    own, schedule = _passive_part(table, scaling, seed, batch_size)
    plan = auxiliary_plan(own, batch_size, most_copies)
    half = BatchSchedule(schedule.train_rows, max(1, batch_size // 2), seed)
    paper = min(copies(KEY_BITS, IOTA), most_copies or KEY_BITS)
    found = [
        equation_facts(own, schedule, used_copies=1),
        equation_facts(own, half, used_copies=1),
        *(equation_facts(own, schedule, used_copies=u) for u in dict.fromkeys((paper, plan.copies))),
    ]
    return {one.name: [getattr(fact, one.name) for fact in found] for one in fields(EquationFacts)}


def _passive_part(table: LoadedTable, scaling: Scaling, seed: int, batch_size: int) -> tuple[FloatArray, BatchSchedule]:
    """The passive party's (n, d) features, and the schedule."""
    ready = prepared(records_of(table), scaling, seed, intercept=False, batch_size=batch_size)
    return ready.features[:, ~ready.active], ready.schedule
