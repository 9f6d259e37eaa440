"""``plumbline figures hu``: the experiments of Hu, section 7, redrawn by one command, beside what the paper states.

SIMULATION. Training runs in one place in float64, on the features' 16-bit grid and the sessions' public batch
schedule. f is taken as known: that is what the recovery of ``attacks.training_views.solve_shares`` yields wherever the
equations have full rank, and ``EquationFacts`` measures where they have it. Algorithm 3, the defence, is drawn by
``plumbline.figures.defences.noise``.

The paper leaves open how features are scaled and whether there is an intercept. Each ``Reading`` is one answer.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from attacks.auxiliary_ciphertext import AuxiliaryCiphertext, AuxiliaryPlan, extend
from attacks.training_views import Equations, solve_shares
from plumbline.simulation.records import FRACTION_BITS, Reading, Records, scaled_features
from plumbline.simulation.side_by_side import (
    BATCH_SIZE,
    FAILURE,
    LEARNING_RATE,
    MEASURES,
    Advance,
    Starts,
    Trajectory,
    Watch,
    train_side_by_side,
)
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.fixed_point import RESIDUAL, FixedPoint
from vfl.data import (
    column_blocks,
    is_signed,
    magnitude_bits,
)
from vfl.learning import BatchSchedule, GradientDescent, initial_weights
from vfl.theory.training import copies, guaranteed_steps, initial_product_bound, sum_bits

INITIALISATIONS = ("zero", "xavier", "kaiming")
KEY_BITS = 2048
IOTA = 64
SHARE_STEP = 2.0**-RESIDUAL.fraction_bits
_FACT_BATCHES = 3

# Keeps the secret initial weights and the planted shares apart from the public streams of the same seed.
_WEIGHT_STREAM, _SHARE_STREAM = 0x4855, 0x4653


@dataclass(frozen=True)
class Experiment:
    """One data set of section 7.

    Attributes:
        title: on the page.
        epochs: of the paper.
        readings: how its preparation may be meant.
        most_copies: u of Algorithm 2, at most; wide parties need few.
    """

    title: str
    epochs: int
    readings: tuple[Reading, ...]
    most_copies: int | None


HU_EXPERIMENTS: dict[str, Experiment] = {
    "mnist01": Experiment(
        "MNIST, digits 0 and 1",
        30,
        (
            Reading("unit-norm rows", "whole_row_unit_norm", True),
            Reading("unit-norm rows, no intercept", "whole_row_unit_norm", False),
            Reading("unit-norm halves", "unit_norm", True),
            Reading("raw pixels", "none", True),
        ),
        2,
    ),
    "credit": Experiment(
        "Default of credit card clients",
        10,
        (
            Reading("standardised", "standardise", True),
            Reading("standardised, no intercept", "standardise", False),
            Reading("bounded rows", "bounded", True),
        ),
        None,
    ),
}


# --- the equations behind f -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EquationFacts:
    """Whether a passive party's equations determine f, on some batches of one scaling.

    Attributes:
        dataset: its name.
        reading: its preparation.
        batch_size: rows.
        features: of the passive party.
        copies: u of Algorithm 2; 1 without it.
        equations: per batch.
        sum_bits: what one sum takes at fixed point.
        fits: whether u of them fit a 2048-bit key.
        batches: how many were looked at.
        rank_low: the least rank over batches.
        rank_high: the greatest.
        condition: the largest condition number.
        recovered: on how many of them a planted share was recovered.
        error: its largest absolute error; None without any.
    """

    dataset: str
    reading: str
    batch_size: int
    features: int
    copies: int
    equations: int
    sum_bits: int
    fits: bool
    batches: int
    rank_low: int
    rank_high: int
    condition: float | None
    recovered: int
    error: float | None

    @property
    def ranks(self) -> str:
        """The ranks in words."""
        return str(self.rank_low) if self.rank_low == self.rank_high else f"{self.rank_low} to {self.rank_high}"


def _feature_format(features: FloatArray) -> FixedPoint:
    return FixedPoint(FRACTION_BITS, magnitude_bits(features), signed=is_signed(features))


def auxiliary_plan(features: FloatArray, batch_size: int, most_copies: int | None) -> AuxiliaryPlan:
    """Plan Algorithm 2 for a passive party's (n, d) features at 2048 bits, iota no less than what a sum takes.

    Raises:
        NotPossible: a ValueError, when a batch has more rows than u d.
    """
    fixed = _feature_format(features)
    iota = max(IOTA, sum_bits(batch_size, RESIDUAL.bound, fixed.bound))
    return AuxiliaryCiphertext(iota=iota, most_copies=most_copies).plan(
        key_bits=KEY_BITS,
        features=features.shape[1],
        rows=batch_size,
        residual_format=RESIDUAL,
        feature_format=fixed,
    )


def equation_facts(
    dataset: str,
    reading: str,
    features: FloatArray,
    schedule: BatchSchedule,
    *,
    used_copies: int,
) -> EquationFacts:
    """Measure some batches of a passive party's (n, d) features, extended to ``used_copies`` d columns."""
    fixed, size, width = _feature_format(features), schedule.batch_size, features.shape[1]
    bits = sum_bits(size, RESIDUAL.bound, fixed.bound)
    plan = AuxiliaryPlan(width, used_copies, IOTA)
    generator = np.random.default_rng((_SHARE_STREAM, schedule.seed))
    attack = AuxiliaryCiphertext()
    ranks, conditions, errors = [], [], []
    for step, rows in zip(range(_FACT_BATCHES), schedule.epoch(0), strict=False):
        matrix = extend(features[rows], plan, fixed, attack.generator(step))
        planted = np.rint(generator.normal(0.0, 2.0, (len(rows), 1)) / SHARE_STEP) * SHARE_STEP
        solved = solve_shares(Equations(step, "active", rows, matrix, matrix.T @ planted))
        ranks.append(solved.rank)
        conditions.append(solved.condition_number)
        if solved.values is not None:
            errors.append(float(np.abs(solved.values - planted).max()))
    condition = max(conditions)
    return EquationFacts(
        dataset=dataset,
        reading=reading,
        batch_size=size,
        features=width,
        copies=used_copies,
        equations=plan.equations,
        sum_bits=bits,
        fits=used_copies == 1 or used_copies <= copies(KEY_BITS, max(bits, IOTA)),
        batches=len(ranks),
        rank_low=min(ranks),
        rank_high=max(ranks),
        condition=condition if np.isfinite(condition) else None,
        recovered=len(errors),
        error=max(errors, default=None),
    )


def rank_and_condition(features: FloatArray, rows: IntArray, plan: AuxiliaryPlan, step: int) -> tuple[int, float]:
    """Compute rank and condition number of one batch's equations with Algorithm 2, as ``solve_shares`` counts them."""
    matrix = extend(features[rows], plan, _feature_format(features), AuxiliaryCiphertext().generator(step))
    singular = np.linalg.svd(matrix, compute_uv=False)
    counted = singular[singular > max(matrix.shape) * 2.0**-52 * singular[0]]
    return len(counted), float(counted[0] / counted[-1])


# --- one data set -----------------------------------------------------------------------------------------------


def run_experiment(
    name: str,
    experiment: Experiment,
    records: Records,
    *,
    seeds: int,
    epochs: int,
    batch_size: int = BATCH_SIZE,
    advance: Advance | None = None,
) -> tuple[pd.DataFrame, list[EquationFacts]]:
    """Run all readings, initialisations and seeds of one data set: the long table of ``run_hu``, and the equations'
    facts.

    Raises:
        ValueError: when there are fewer rows than a batch, or too few equations even with Algorithm 2.
    """
    rows: list[dict[str, Any]] = []
    facts: list[EquationFacts] = []
    passive = column_blocks(records.features.shape[1], 2)[1]
    for seed in range(seeds):
        train, test = records.rows_of(seed)
        majority = float(max(records.labels[test].mean(), 1 - records.labels[test].mean()))
        schedule = BatchSchedule(train, batch_size, seed)
        equations: dict[str, list[tuple[int, float]]] = {}
        for reading in experiment.readings:
            features = scaled_features(records, reading.scaling, train)
            own = features[:, passive.start : passive.stop]
            if reading.scaling not in equations:
                plan = auxiliary_plan(own, batch_size, experiment.most_copies)
                equations[reading.scaling] = [
                    rank_and_condition(own, next(schedule.epoch(epoch)), plan, step=epoch * schedule.steps_per_epoch)
                    for epoch in range(epochs)
                ]
                if seed == 0:
                    facts += _facts(name, reading.name, own, schedule, plan, experiment.most_copies)
            if reading.intercept:
                features = np.hstack([features, np.ones((len(features), 1))])
            trained, limits = _train_reading(features, records.labels, test, schedule, epochs, seed, advance)
            for column, epoch in product(range(len(INITIALISATIONS)), range(epochs)):
                rank, condition = equations[reading.scaling][epoch]
                wrong = int(trained.first_wrong_step[column])
                rows.append(
                    {
                        "dataset": name,
                        "reading": reading.name,
                        "initialisation": INITIALISATIONS[column],
                        "seed": seed,
                        "epoch": epoch + 1,
                        **{measure: float(getattr(trained, measure)[epoch, column]) for measure in MEASURES},
                        "majority_test": majority,
                        "rank": rank,
                        "condition": condition,
                        "guaranteed_steps": int(limits[column]),
                        "first_wrong_step": None if wrong < 0 else wrong,
                    }
                )
    return pd.DataFrame(rows).astype({"first_wrong_step": "Int64"}), facts


def _train_reading(
    features: FloatArray,
    labels: IntArray,
    test: IntArray,
    schedule: BatchSchedule,
    epochs: int,
    seed: int,
    advance: Advance | None,
) -> tuple[Trajectory, IntArray]:
    """One training per initialisation, and T_eps of each."""
    width = features.shape[1]
    weights = np.hstack(
        [
            initial_weights(
                kind, width, 1, total_features=width, generator=np.random.default_rng((_WEIGHT_STREAM, seed, number))
            )
            for number, kind in enumerate(INITIALISATIONS)
        ]
    )
    squared_norm = float((features**2).sum(axis=1).max())
    bounds = [
        initial_product_bound(kind, width, len(labels), squared_norm=squared_norm, failure=FAILURE)
        for kind in INITIALISATIONS
    ]
    limits = np.array([guaranteed_steps(LEARNING_RATE, bound, squared_norm=squared_norm) for bound in bounds])
    trained = train_side_by_side(
        features,
        labels,
        Starts(weights, limits),
        GradientDescent(schedule, epochs=epochs, learning_rate=LEARNING_RATE),
        test=test,
        watch=Watch(epoch=advance),
    )
    return trained, limits


def _facts(
    name: str, reading: str, own: FloatArray, schedule: BatchSchedule, plan: AuxiliaryPlan, most_copies: int | None
) -> list[EquationFacts]:
    """The batch alone and its half alone; then Algorithm 2 with the u that fits and, where it differs, the paper's."""
    half = BatchSchedule(schedule.train_rows, max(1, schedule.batch_size // 2), schedule.seed)
    paper = min(copies(KEY_BITS, IOTA), most_copies or KEY_BITS)
    return [
        equation_facts(name, reading, own, schedule, used_copies=1),
        equation_facts(name, reading, own, half, used_copies=1),
        *(equation_facts(name, reading, own, schedule, used_copies=u) for u in dict.fromkeys((paper, plan.copies))),
    ]


def summary_of(results: pd.DataFrame) -> pd.DataFrame:
    """Average over seeds, with standard errors: one row per data set, reading, initialisation and epoch.

    The standard error of a single seed is NaN.
    """
    groups = results.groupby(["dataset", "reading", "initialisation", "epoch"], sort=False)[list(MEASURES)]
    means, errors = groups.mean(), groups.sem()
    return means.join(errors.add_suffix("_se")).reset_index()
