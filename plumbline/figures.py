"""``plumbline figures hu``: the experiments of Hu, section 7, redrawn by one command, beside what the paper states.

SIMULATION. Training runs in one place in float64, on the features' 16-bit grid and the sessions' public batch
schedule. f is taken as known: that is what the recovery of ``attacks.training_views.solve_shares`` yields wherever the
equations have full rank, and ``EquationFacts`` measures where they have it. Algorithm 3 (the defence) is not drawn.

The paper leaves open how features are scaled and whether there is an intercept. Each ``Reading`` is one answer.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from attacks.auxiliary_ciphertext import AuxiliaryCiphertext, AuxiliaryPlan, extend
from attacks.training_views import Equations, solve_shares
from vfl.crypto.fixed_point import RESIDUAL, FixedPoint
from vfl.data import (
    RegistryTable,
    column_blocks,
    encode_labels,
    fit_encoder,
    is_signed,
    load_dataset,
    magnitude_bits,
    rows_to_unit_norm,
    snap_to_grid,
)
from vfl.data.registry import WHOLE_ROW_UNIT_NORM
from vfl.learning import BatchSchedule, ResidualScheme, initial_weights, split_rows
from vfl.theory.training import copies, guaranteed_steps, initial_product_bound, sum_bits

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Advance = Callable[[], object]

INITIALISATIONS = ("zero", "xavier", "kaiming")
BATCH_SIZE = 256
LEARNING_RATE = 0.01
KEY_BITS = 2048
IOTA = 64

_FRACTION_BITS = 16
_SHARE_STEP = 2.0**-RESIDUAL.fraction_bits
_TEST_FRACTION = 0.1
_FAILURE = 0.01
_FACT_BATCHES = 3
_MEASURES = ("accuracy_train", "accuracy_test", "success_step", "success_kept", "theta_norm")
# Keeps the secret initial weights and the planted shares apart from the public streams of the same seed.
_WEIGHT_STREAM, _SHARE_STREAM = 0x4855, 0x4653

Scaling = Literal["whole_row_unit_norm", "unit_norm", "none", "standardise", "bounded"]


# --- what is run ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """One way to read the paper's preparation.

    scaling: whole_row_unit_norm and bounded (standardised, then rows longer than 1 shortened to 1) need the whole row:
    SIMULATION. unit_norm is each party's own half; standardise is fitted on the training rows; none is as loaded.
    """

    name: str
    scaling: Scaling
    intercept: bool


@dataclass(frozen=True)
class Experiment:
    """One data set of section 7. most_copies: u of Algorithm 2, at most; wide parties need few."""

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

_SIMULATION_WORDS = {
    "whole_row_unit_norm": f"unit-norm rows: {WHOLE_ROW_UNIT_NORM}",
    "bounded": "bounded rows: after standardising, every row longer than 1 was divided by its 2-norm over the columns "
    "of all parties: real parties could not compute it without showing each other their features.",
}


@dataclass(frozen=True, eq=False)
class Records:
    """A data set in memory. features: (n, d) as loaded; labels: (n,) 0 or 1; train_rows: published, None if not."""

    features: FloatArray
    labels: IntArray
    train_rows: int | None

    def rows_of(self, seed: int) -> tuple[IntArray, IntArray]:
        """Training and test rows: the published ones, or nine to one by ``seed``."""
        if self.train_rows is not None:
            return np.arange(self.train_rows), np.arange(self.train_rows, len(self.labels))
        rows = split_rows(len(self.labels), validation_fraction=0.0, test_fraction=_TEST_FRACTION, seed=seed)
        return rows.train, rows.test


def scaled_features(records: Records, scaling: Scaling, train: IntArray) -> FloatArray:
    """(n, d) features of a reading on the 16-bit grid, without the intercept."""
    features = records.features
    if scaling == "whole_row_unit_norm":
        features = rows_to_unit_norm(features)
    elif scaling == "unit_norm":
        blocks = column_blocks(features.shape[1], 2)
        features = np.hstack([rows_to_unit_norm(features[:, block.start : block.stop]) for block in blocks])
    elif scaling in ("standardise", "bounded"):
        features = fit_encoder("standardise", features[train]).transform(features)
        if scaling == "bounded":
            features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
    return snap_to_grid(features, _FRACTION_BITS)


# --- training and the label attack ------------------------------------------------------------------------------


class KeptLabels:
    """``LabelRecovery``'s overall estimate, epoch by epoch: a row's guaranteed label, else what most steps say.

    One column per training; guaranteed: (c,) T_eps of each. ``tests`` hold it against ``LabelRecovery`` itself.
    """

    def __init__(self, rows: int, guaranteed: IntArray) -> None:
        shape = (rows, len(guaranteed))
        self._limits = guaranteed
        self._sure = np.zeros(shape, dtype=np.bool_)
        self._seen = np.zeros(shape, dtype=np.bool_)
        # The guaranteed label, or the one that the earliest step gave: it decides ties.
        self._first = np.zeros(shape, dtype=np.bool_)
        self._votes = np.zeros(shape, dtype=np.int64)

    def add(self, rows: IntArray, steps: IntArray, told: BoolArray) -> None:
        """One epoch's (m, c) labels of ``rows`` (m,), each at most once, told at ``steps`` (m,)."""
        guaranteed = steps[:, None] < self._limits
        self._first[rows] = np.where(self._seen[rows], self._first[rows], told)
        self._seen[rows] = True
        self._sure[rows] |= guaranteed
        self._votes[rows] += np.where(told, 1, -1)

    @property
    def labels(self) -> BoolArray:
        """(rows, c): whether the label is 1."""
        # T_eps ends a run of first steps: a guaranteed row's first label is its guaranteed one.
        by_vote = np.where(self._votes == 0, self._first, self._votes > 0)
        return np.where(self._sure, self._first, by_vote)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """c trainings side by side, after each epoch. Measures: (epochs, c).

    success_step: share of the epoch's training rows whose label is -sign(f) at the step that uses them (Criterion 4.2).
    success_kept: share of training rows whose label ``LabelRecovery`` has after this epoch, from all steps so far.
    first_wrong_step: (c,) the first step, from 0, at which Criterion 4.2 errs; -1 when it never does.
    weights: (d, c), final.
    """

    accuracy_train: FloatArray
    accuracy_test: FloatArray
    success_step: FloatArray
    success_kept: FloatArray
    theta_norm: FloatArray
    first_wrong_step: IntArray
    weights: FloatArray


def train_side_by_side(
    features: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    *,
    test: IntArray,
    schedule: BatchSchedule,
    epochs: int,
    guaranteed: IntArray,
    learning_rate: float = LEARNING_RATE,
    advance: Advance | None = None,
) -> Trajectory:
    """Hu eq. 3-6 for every column of ``weights`` (d, c) on the same batches, and the label attack on each step.

    features: (n, d), an intercept's column included; labels: (n,) 0 or 1; guaranteed: (c,) T_eps of each column.
    """
    scheme = ResidualScheme(2)
    theta = weights.copy()
    train, size = schedule.train_rows, schedule.batch_size
    kept = KeptLabels(len(labels), guaranteed)
    first_wrong = np.full(theta.shape[1], -1, dtype=np.int64)
    measures: dict[str, list[FloatArray]] = {name: [] for name in _MEASURES}
    truth = labels[:, None] == 1
    for epoch in range(epochs):
        order = np.concatenate(list(schedule.epoch(epoch)))
        shuffled, targets = features[order], labels[order]
        told = np.empty((len(order), theta.shape[1]), dtype=np.bool_)
        for start in range(0, len(order), size):
            batch = shuffled[start : start + size]
            residual = scheme.active_share(batch @ theta, targets[start : start + size])
            told[start : start + size] = residual < 0
            theta = theta - learning_rate * scheme.gradient_scale(len(batch)) * (batch.T @ residual)
        steps = epoch * schedule.steps_per_epoch + np.arange(len(order)) // size
        kept.add(order, steps, told)
        right = told == truth[order]
        for column in np.flatnonzero((first_wrong < 0) & ~right.all(axis=0)):
            first_wrong[column] = steps[right[:, column].argmin()]
        decided = (features @ theta > 0) == truth
        measures["accuracy_train"].append(decided[train].mean(axis=0))
        measures["accuracy_test"].append(decided[test].mean(axis=0))
        measures["success_step"].append(right.mean(axis=0))
        measures["success_kept"].append((kept.labels == truth)[train].mean(axis=0))
        measures["theta_norm"].append(np.linalg.norm(theta, axis=0))
        if advance is not None:
            advance()
    arrays = {name: np.array(values) for name, values in measures.items()}
    return Trajectory(**arrays, first_wrong_step=first_wrong, weights=theta)


# --- the equations behind f -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EquationFacts:
    """Whether a passive party's equations determine f, on some batches of one scaling.

    copies: u of Algorithm 2, 1 without it. sum_bits: what one sum takes at fixed point; fits: whether u of them fit a
    2048-bit key. rank_low, rank_high: over ``batches`` batches. condition: the largest condition number.
    recovered: on how many of them a planted share was recovered; error: its largest absolute error, None without any.
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
    return FixedPoint(_FRACTION_BITS, magnitude_bits(features), signed=is_signed(features))


def auxiliary_plan(features: FloatArray, batch_size: int, most_copies: int | None) -> AuxiliaryPlan:
    """Algorithm 2 for a passive party's (n, d) features at 2048 bits, iota no less than what a sum takes.

    Raises NotPossible, a ValueError, when a batch has more rows than u d.
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
    """Facts of ``_FACT_BATCHES`` batches of a passive party's (n, d) features, extended to ``used_copies`` d columns."""
    fixed, size, width = _feature_format(features), schedule.batch_size, features.shape[1]
    bits = sum_bits(size, RESIDUAL.bound, fixed.bound)
    plan = AuxiliaryPlan(width, used_copies, IOTA)
    generator = np.random.default_rng((_SHARE_STREAM, schedule.seed))
    attack = AuxiliaryCiphertext()
    ranks, conditions, errors = [], [], []
    for step, rows in zip(range(_FACT_BATCHES), schedule.epoch(0), strict=False):
        matrix = extend(features[rows], plan, fixed, attack.generator(step))
        planted = np.rint(generator.normal(0.0, 2.0, (len(rows), 1)) / _SHARE_STEP) * _SHARE_STEP
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
    """Rank and condition number of one batch's equations with Algorithm 2, as ``solve_shares`` counts them."""
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
    """All readings, initialisations and seeds of one data set: the long table of ``run_hu``, and the equations' facts.

    Raises ValueError when there are fewer rows than a batch, or too few equations even with Algorithm 2.
    """
    rows: list[dict[str, Any]] = []
    facts: list[EquationFacts] = []
    passive = column_blocks(records.features.shape[1], 2)[1]
    for seed in range(seeds):
        train, test = records.rows_of(seed)
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
                        **{measure: float(getattr(trained, measure)[epoch, column]) for measure in _MEASURES},
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
        initial_product_bound(kind, width, len(labels), squared_norm=squared_norm, failure=_FAILURE)
        for kind in INITIALISATIONS
    ]
    limits = np.array([guaranteed_steps(LEARNING_RATE, bound, squared_norm=squared_norm) for bound in bounds])
    trained = train_side_by_side(
        features, labels, weights, test=test, schedule=schedule, epochs=epochs, guaranteed=limits, advance=advance
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
    """Mean and standard error over seeds: one row per data set, reading, initialisation and epoch.

    The standard error of a single seed is NaN.
    """
    groups = results.groupby(["dataset", "reading", "initialisation", "epoch"], sort=False)[list(_MEASURES)]
    means, errors = groups.mean(), groups.sem()
    return means.join(errors, rsuffix="_se").reset_index()


# --- the command ------------------------------------------------------------------------------------------------


def run_hu(
    folder: Path,
    data_dir: Path | None,
    *,
    seeds: int = 5,
    epochs: Mapping[str, int] | None = None,
    datasets: Sequence[str] = tuple(HU_EXPERIMENTS),
    console: Console,
) -> Path:
    """Run the experiments, write them into ``folder`` and return the path of ``hu.html``.

    epochs: by data set, where other than the paper's (30 and 10). Written: ``hu.parquet`` (one row per data set,
    reading, initialisation, seed and epoch; rank and condition are of the epoch's first batch with Algorithm 2),
    ``hu.json`` (settings, means and standard errors, equations, statements), ``hu-DATASET.svg``, ``hu.html``.
    The same arguments give the same files. Raises ValueError for arguments out of range, DatasetNotFound, which says
    how to get them, when raw files are missing.
    """
    planned = _planned_epochs(seeds, epochs or {}, datasets)
    loaded = {name: _load(name, data_dir) for name in planned}
    folder.mkdir(parents=True, exist_ok=True)
    parts, facts = [], []
    with _progress(console) as progress:
        total = sum(seeds * planned[name] * len(HU_EXPERIMENTS[name].readings) for name in planned)
        task = progress.add_task("starting", total=total)
        for name, records in loaded.items():
            progress.update(task, description=name)
            results, found = run_experiment(
                name,
                HU_EXPERIMENTS[name],
                records,
                seeds=seeds,
                epochs=planned[name],
                advance=lambda: progress.advance(task),
            )
            parts.append(results)
            facts += found
    page = write_hu(folder, pd.concat(parts, ignore_index=True), facts)
    _print(console, summary_of(pd.concat(parts, ignore_index=True)))
    console.print(f"Report: {page}", highlight=False)
    return page


def _planned_epochs(seeds: int, epochs: Mapping[str, int], datasets: Sequence[str]) -> dict[str, int]:
    known = ", ".join(HU_EXPERIMENTS)
    if seeds < 1:
        raise ValueError(f"Expected at least 1 seed, got {seeds}.")
    if not datasets:
        raise ValueError(f"No data set was chosen: choose from {known}.")
    for name in (*datasets, *epochs):
        if name not in HU_EXPERIMENTS:
            raise ValueError(f"Hu has no experiment on {name!r}: choose from {known}.")
    planned = {name: epochs.get(name, HU_EXPERIMENTS[name].epochs) for name in datasets}
    for name, count in planned.items():
        if count < 1:
            raise ValueError(f"Expected at least 1 epoch for {name}, got {count}.")
    return planned


def _load(name: str, data_dir: Path | None) -> Records:
    table: RegistryTable = load_dataset(name, data_dir)
    return Records(table.features, encode_labels(table.labels)[0], table.train_rows)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _print(console: Console, summary: pd.DataFrame) -> None:
    for name, part in summary.groupby("dataset", sort=False):
        table = Table(
            title=HU_EXPERIMENTS[str(name)].title,
            caption="Mean over seeds. Success of the label attack: by step is Criterion 4.2 at each step of the epoch; "
            "kept is what LabelRecovery has after it.",
        )
        for heading in ("reading", "start", "epoch", "test accuracy", "by step", "kept", "||theta||"):
            table.add_column(heading, justify="left" if heading in ("reading", "start") else "right")
        for row in _shown(part).itertuples():
            table.add_row(
                str(row.reading),
                str(row.initialisation),
                str(row.epoch),
                f"{row.accuracy_test:.4f}",
                f"{row.success_step:.4f}",
                f"{row.success_kept:.4f}",
                f"{row.theta_norm:.2f}",
            )
        console.print(table)


def _shown(part: pd.DataFrame) -> pd.DataFrame:
    """The epochs that tables show: 1, 10, and the last."""
    return part[part["epoch"].isin({1, 10, part["epoch"].max()})]


# --- beside the paper -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """What the paper says, where, and what was measured here."""

    dataset: str
    source: str
    paper: str
    verdict: Literal["reproduced", "in part", "not reproduced", "not stated", "not measured"]
    measured: str


def _verdict(good: bool) -> Literal["reproduced", "not reproduced"]:
    return "reproduced" if good else "not reproduced"


def statements_of(results: pd.DataFrame, facts: Sequence[EquationFacts]) -> list[Statement]:
    """The paper's statements on the data sets in ``results``, each with this run's numbers."""
    found: list[Statement] = []
    for name, write in (("mnist01", _mnist_statements), ("credit", _credit_statements)):
        part = results[results["dataset"] == name]
        if len(part):
            found += write(_Numbers(part), [fact for fact in facts if fact.dataset == name])
            found.append(_guarantee_statement(name, part))
    return found


class _Numbers:
    """Means over seeds of one data set's results."""

    def __init__(self, results: pd.DataFrame) -> None:
        self._results = results
        self.last = int(results["epoch"].max())
        self.readings = tuple(results["reading"].unique())

    def mean(self, measure: str, reading: str, initialisation: str, epoch: int) -> float:
        chosen = self._of(reading, initialisation)
        return float(chosen.loc[chosen["epoch"] == epoch, measure].mean())

    def lowest(self, measure: str, reading: str) -> float:
        return float(self._results.loc[self._results["reading"] == reading, measure].min())

    def highest(self, measure: str, reading: str) -> float:
        return float(self._results.loc[self._results["reading"] == reading, measure].max())

    def full_epochs(self, reading: str, initialisation: str) -> float:
        """How many epochs from the start have a success by step of exactly 1; mean over seeds."""
        chosen = self._of(reading, initialisation)
        by_seed = chosen.sort_values("epoch").groupby("seed")["success_step"]
        return float(by_seed.apply(lambda values: int((values == 1.0).cumprod().sum())).mean())

    def _of(self, reading: str, initialisation: str) -> pd.DataFrame:
        return self._results[
            (self._results["reading"] == reading) & (self._results["initialisation"] == initialisation)
        ]


def _mnist_statements(numbers: _Numbers, facts: Sequence[EquationFacts]) -> list[Statement]:
    last, rows, raw = numbers.last, "unit-norm rows", "raw pixels"
    ahead = {name: numbers.full_epochs(name, "zero") - numbers.full_epochs(name, "xavier") for name in numbers.readings}
    norms = {name: (numbers.lowest("theta_norm", name), numbers.highest("theta_norm", name)) for name in ahead}
    alone = [fact for fact in facts if fact.copies == 1]
    return [
        Statement(
            "mnist01",
            "Figure 3, top",
            "Without defense, the success rate of the label attack is 100 % for several epochs.",
            _verdict(min(numbers.full_epochs(rows, kind) for kind in INITIALISATIONS) >= min(2, last)),
            f"Unit-norm rows: lowest success by step of any epoch, start and seed {numbers.lowest('success_step', rows):.4f}"
            f" over {last} epochs. Raw pixels, whose norms exceed the paper's 1: "
            f"{numbers.mean('success_step', raw, 'zero', 1):.3f} in epoch 1 and "
            f"{numbers.mean('success_step', raw, 'zero', last):.3f} in epoch {last} from zero, yet "
            f"{numbers.mean('success_kept', raw, 'zero', 1):.3f} and "
            f"{numbers.mean('success_kept', raw, 'zero', last):.3f} of the kept labels are right.",
        ),
        Statement(
            "mnist01",
            "section 7, results on MNIST",
            "For zero initialization, the success rate stays 100 % for 10 more epochs than Xavier, while the accuracy "
            "increases faster.",
            _in_part(max(ahead.values()) >= 10, _faster(numbers, rows)),
            "Epochs at 100 % by step, zero less Xavier: "
            + "; ".join(
                f"{name} {numbers.full_epochs(name, 'zero'):.1f} - {numbers.full_epochs(name, 'xavier'):.1f} = {lead:.1f}"
                for name, lead in ahead.items()
            )
            + f" (runs end at {last}). Test accuracy after epoch 1, {rows}: "
            f"{numbers.mean('accuracy_test', rows, 'zero', 1):.3f} from zero, "
            f"{numbers.mean('accuracy_test', rows, 'xavier', 1):.3f} from Xavier.",
        ),
        Statement(
            "mnist01",
            "Figure 3, bottom",
            "The norm of theta is bounded by 2 throughout training, which verifies G = 1.",
            _verdict(max(high for _, high in norms.values()) <= 2),
            f"Largest ||theta|| within {last} epochs, over starts and seeds: "
            + "; ".join(f"{name} {high:.2f}" for name, (_, high) in norms.items())
            + f". After epoch {last}, {rows}: "
            + ", ".join(f"{kind} {numbers.mean('theta_norm', rows, kind, last):.2f}" for kind in INITIALISATIONS)
            + ".",
        ),
        Statement(
            "mnist01",
            "Corollary 3.2, section 7 (batch 256)",
            "s <= d_B equations determine f: features are taken to be in general position.",
            _verdict(all(fact.recovered == fact.batches for fact in alone if fact.batch_size <= fact.features)),
            "Constant pixels cost rank. "
            + " ".join(_fact_words(fact) for fact in facts if fact.reading == rows)
            + " Success is drawn for the f that Algorithm 2 makes known.",
        ),
        Statement(
            "mnist01",
            "Figure 2",
            "More than 90 % test accuracy under the defense, even for epsilon as small as 0.2.",
            "not measured",
            "Algorithm 3 is not part of these figures; this run has no number on it.",
        ),
    ]


def _credit_statements(numbers: _Numbers, facts: Sequence[EquationFacts]) -> list[Statement]:
    last, plain, bounded, bare = numbers.last, "standardised", "bounded rows", "standardised, no intercept"
    lowest = {
        name: {kind: numbers.mean("success_step", name, kind, last) for kind in INITIALISATIONS}
        for name in numbers.readings
    }
    return [
        Statement(
            "credit",
            "Figure 4",
            "The success rate of the label attack is less than 1 for Xavier because there are only 23 features, so that "
            "its scale is large.",
            _in_part(lowest[plain]["xavier"] < 1, lowest[plain]["zero"] == 1 and lowest[bounded]["xavier"] < 1),
            "Success by step, epoch 1 to "
            f"{last}: "
            + "; ".join(
                f"{name}: "
                + ", ".join(
                    f"{kind} {numbers.mean('success_step', name, kind, 1):.4f} to {value:.4f}"
                    for kind, value in values.items()
                )
                for name, values in lowest.items()
            )
            + ". Rows that are far longer than 1 matter more than the start does.",
        ),
        Statement(
            "credit",
            "Figure 4",
            "Models with Xavier initialization converge slower than those with zero initialization.",
            _verdict(_faster(numbers, plain)),
            f"Test accuracy after epoch 1, {plain}: zero {numbers.mean('accuracy_test', plain, 'zero', 1):.3f}, Xavier "
            f"{numbers.mean('accuracy_test', plain, 'xavier', 1):.3f}; after epoch {last}: "
            f"{numbers.mean('accuracy_test', plain, 'zero', last):.3f} and "
            f"{numbers.mean('accuracy_test', plain, 'xavier', last):.3f}.",
        ),
        Statement(
            "credit",
            "section 7, learning setting",
            "Nothing is said about an intercept.",
            "not stated",
            f"Test accuracy from zero after epoch {last}: {numbers.mean('accuracy_test', bare, 'zero', last):.3f} without an "
            f"intercept, {numbers.mean('accuracy_test', plain, 'zero', last):.3f} with one. Only the second is of use.",
        ),
        Statement(
            "credit",
            "section 5.2",
            f"u = {copies(KEY_BITS, IOTA)} auxiliary features per feature at {KEY_BITS} bits and iota = {IOTA} make f unique "
            "at batch 256.",
            _in_part(
                all(fact.recovered == fact.batches for fact in facts if fact.equations >= fact.batch_size),
                all(fact.fits for fact in facts),
            ),
            "Standardised features exceed 1, so that a sum may take more than iota bits: fewer fit a key. "
            + " ".join(f"{fact.reading}: {_fact_words(fact)}" for fact in facts),
        ),
    ]


def _guarantee_statement(name: str, results: pd.DataFrame) -> Statement:
    runs = results[results["epoch"] == 1]
    wrong = runs["first_wrong_step"]
    broken = int((wrong < runs["guaranteed_steps"]).fillna(value=False).sum())
    spans = "; ".join(
        f"{reading} {kind} {part['guaranteed_steps'].min()}, "
        + (
            f"first error at step {part['first_wrong_step'].min()}"
            if part["first_wrong_step"].notna().any()
            else "no error"
        )
        for (reading, kind), part in runs.groupby(["reading", "initialisation"], sort=False)
    )
    return Statement(
        name,
        "Corollary 4.5, Theorems 4.6, 4.8",
        "The criterion is right for at least the first T_eps iterations.",
        _verdict(broken == 0),
        f"T_eps with the largest ||x||^2 of a row, and the first step (from 0) that errs in any seed: {spans}.",
    )


def _in_part(first: bool, second: bool) -> Literal["reproduced", "in part", "not reproduced"]:
    return "reproduced" if first and second else "in part" if first or second else "not reproduced"


def _faster(numbers: _Numbers, reading: str) -> bool:
    zero, xavier = (numbers.mean("accuracy_test", reading, kind, 1) for kind in ("zero", "xavier"))
    return zero > xavier


def _fact_words(fact: EquationFacts) -> str:
    condition = "" if fact.condition is None else f", condition number up to {fact.condition:.2g}"
    with_copies = f"u = {fact.copies}, " if fact.copies > 1 else ""
    too_many = "" if fact.fits else f", but a sum takes {fact.sum_bits} bits and so many don't fit the key"
    return (
        f"Batch {fact.batch_size}: {with_copies}{fact.equations} equations of rank {fact.ranks}{condition}, "
        f"f recovered on {fact.recovered} of {fact.batches} batches{too_many}."
    )


# --- files ------------------------------------------------------------------------------------------------------


def write_hu(folder: Path, results: pd.DataFrame, facts: Sequence[EquationFacts]) -> Path:
    """Write all files of ``run_hu`` from its results; returns the path of ``hu.html``."""
    summary, statements = summary_of(results), statements_of(results, facts)
    seeds = int(results["seed"].nunique())
    epochs = {str(name): int(count) for name, count in results.groupby("dataset", sort=False)["epoch"].max().items()}
    simulation = _simulation(results)
    results.to_parquet(folder / "hu.parquet", index=False)
    content = {
        "settings": {
            "seeds": seeds,
            "epochs": epochs,
            "batch_size": BATCH_SIZE,
            "learning_rate": LEARNING_RATE,
            "key_bits": KEY_BITS,
            "iota": IOTA,
        },
        "simulation": simulation,
        "statements": [asdict(statement) for statement in statements],
        "equations": [asdict(fact) for fact in facts],
        "summary": json.loads(summary.to_json(orient="records", double_precision=15)),
    }
    (folder / "hu.json").write_text(json.dumps(content, indent=1, allow_nan=False))
    drawings = {}
    for name in epochs:
        drawings[name] = _draw(summary[summary["dataset"] == name])
        (folder / f"hu-{name}.svg").write_text(drawings[name])
    page = folder / "hu.html"
    page.write_text(
        Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(_PAGE)
        .render(
            settings=content["settings"],
            simulation=simulation,
            sections=[
                {
                    "title": HU_EXPERIMENTS[name].title,
                    "drawing": Markup(drawing[drawing.index("<svg") :]),  # noqa: S704 - our own drawing
                    "statements": [statement for statement in statements if statement.dataset == name],
                    "numbers": _numbers_table(_shown(summary[summary["dataset"] == name])),
                    "equations": _equations_table([fact for fact in facts if fact.dataset == name]),
                }
                for name, drawing in drawings.items()
            ],
        )
    )
    return page


@dataclass(frozen=True)
class _PageTable:
    caption: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def _numbers_table(shown: pd.DataFrame) -> _PageTable:
    def cell(row: dict[Any, Any], measure: str) -> str:
        error = row[f"{measure}_se"]
        return f"{row[measure]:.4f}" + ("" if np.isnan(error) else f" ± {error:.4f}")

    return _PageTable(
        "Mean ± standard error over seeds.",
        ("reading", "start", "epoch", *(title for _, title in _PANELS)),
        [
            (row["reading"], row["initialisation"], str(row["epoch"]), *(cell(row, measure) for measure in _MEASURES))
            for row in shown.to_dict("records")
        ],
    )


def _equations_table(facts: Sequence[EquationFacts]) -> _PageTable:
    return _PageTable(
        "The passive party's equations, first batches of seed 0. u = 1 is the honest gradient, more is Algorithm 2. A "
        "planted share was to be recovered from each.",
        (
            "reading",
            "batch",
            "u",
            "equations",
            "bits per sum",
            f"fits {KEY_BITS} bits",
            "rank",
            "condition number",
            "recovered",
            "largest error",
        ),
        [
            (
                fact.reading,
                str(fact.batch_size),
                str(fact.copies),
                str(fact.equations),
                str(fact.sum_bits),
                "yes" if fact.fits else "no",
                fact.ranks,
                "" if fact.condition is None else f"{fact.condition:.3g}",
                f"{fact.recovered} of {fact.batches}",
                "" if fact.error is None else f"{fact.error:.1e}",
            )
            for fact in facts
        ],
    )


def _simulation(results: pd.DataFrame) -> list[str]:
    notes = [
        "Training ran in one place in float64 with every party's features, and the attack was given f as its equations "
        "determine it with Algorithm 2; no ciphertext was made."
    ]
    used = {
        reading.scaling
        for name in results["dataset"].unique()
        for reading in HU_EXPERIMENTS[name].readings
        if reading.name in set(results["reading"])
    }
    return notes + [words for scaling, words in _SIMULATION_WORDS.items() if scaling in used]


_COLOURS = {"zero": "#1b6ca8", "xavier": "#c8553d", "kaiming": "#2a9d8f"}
_STYLES = {"zero": "-", "xavier": "--", "kaiming": ":"}
_PANELS = (
    ("accuracy_train", "training accuracy"),
    ("accuracy_test", "test accuracy"),
    ("success_step", "attack success by step"),
    ("success_kept", "attack success, kept"),
    ("theta_norm", "||theta||"),
)


def _draw(summary: pd.DataFrame) -> str:
    """One row of panels per reading: mean over seeds, and the standard error as a shade. An SVG document."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    readings = list(summary["reading"].unique())
    figure = Figure(figsize=(3.0 * len(_PANELS), 0.5 + 2.3 * len(readings)), layout="constrained")
    grid = figure.subplots(len(readings), len(_PANELS), squeeze=False, sharex=True, sharey="col")
    for line, reading in zip(grid, readings, strict=True):
        for axes, (measure, title) in zip(line, _PANELS, strict=True):
            for kind in INITIALISATIONS:
                part = summary[(summary["reading"] == reading) & (summary["initialisation"] == kind)]
                epoch, mean = part["epoch"].to_numpy(), part[measure].to_numpy()
                error = part[f"{measure}_se"].fillna(0.0).to_numpy()
                axes.plot(epoch, mean, color=_COLOURS[kind], linestyle=_STYLES[kind], label=kind)
                axes.fill_between(epoch, mean - error, mean + error, color=_COLOURS[kind], alpha=0.2, linewidth=0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.get_major_locator().set_params(integer=True)
            if line is grid[0]:
                axes.set_title(title, fontsize=10)
            if line is grid[-1]:
                axes.set_xlabel("epoch")
        line[0].set_ylabel(reading)
    for axes in grid[:, -1]:
        axes.axhline(2.0, color="#999999", linewidth=0.8, linestyle="-.")
    grid[0, 0].legend(frameon=False, fontsize=8)
    buffer = io.StringIO()
    # Without a fixed salt every drawing has other ids, and the same run other files.
    with rc_context({"svg.hashsalt": "plumbline"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hu, section 7, redrawn</title>
<style>
  :root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #dde3e9; }
  body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 80rem; margin: 2rem auto; }
  h2 { margin-top: 2.2rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
  .note, caption { color: var(--soft); }
  .simulation { background: #fff6e0; border-left: 5px solid #c98a00; padding: .6rem 1rem; }
  table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); }
  caption { text-align: left; }
  .scroll { overflow-x: auto; } svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
{% macro table(content) %}
<div class="scroll"><table>
<caption>{{ content.caption }}</caption>
<tr>{% for heading in content.headings %}<th>{{ heading }}</th>{% endfor %}</tr>
{% for row in content.rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% endmacro %}
<h1>Hu, section 7, redrawn</h1>
<p>Vertical logistic regression without defence: batch {{ settings.batch_size }}, learning rate
{{ settings.learning_rate }}, {{ settings.seeds }} seed{{ "s" if settings.seeds > 1 }}. The first half of the features
is the active party's, the last the passive party's, which attacks the labels.</p>
{% for note in simulation %}
<p class="simulation">Simulation: {{ note }}</p>
{% endfor %}
<p>The paper does not say how rows are scaled on MNIST, nor whether there is an intercept: each reading is shown; all
have an intercept but those that say otherwise. <b>By step</b> is the paper's measure: the share of an epoch's training
records whose label is the sign of -f at the step that uses them (Criterion 4.2). <b>Kept</b> is what this project's
LabelRecovery holds after the epoch: the label of a step within T<sub>&epsilon;</sub>, where theory promises it,
otherwise what most steps so far say.</p>
{% for section in sections %}
<h2>{{ section.title }}</h2>
{{ section.drawing }}
<p class="note">Mean over seeds; shaded: standard error. Dash-dotted: 2, the paper's bound of ||theta|| on MNIST.</p>
<h3>What the paper states, and what came out</h3>
{% for statement in section.statements %}
<p><b>{{ statement.source }}: {{ statement.verdict }}.</b> Paper: <i>{{ statement.paper }}</i>
Here: {{ statement.measured }}</p>
{% endfor %}
<h3>Numbers</h3>
{{ table(section.numbers) }}
<h3>Do the equations determine f?</h3>
{{ table(section.equations) }}
{% endfor %}
</body>
</html>
"""
