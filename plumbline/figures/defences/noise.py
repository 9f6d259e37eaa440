"""``dp_noise`` at work: Hu, Figures 2 to 4, with both readings of (71)-(72) and what theory predicts of each.

SIMULATION, as in ``hu_experiments``: training runs in one place in float64, and the label attack is given f + Z^A as
its equations determine it. The noise is seeded.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from plumbline.figures.hu.experiments import (
    BATCH_SIZE,
    FAILURE,
    LEARNING_RATE,
    MEASURES,
    SIMULATION_WORDS,
    Reading,
    Records,
    ResidualNoise,
    scaled_features,
    train_side_by_side,
)
from plumbline.figures.page.section import Plot, Section
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data import DatasetNotFound, column_blocks, encode_labels, load_dataset
from vfl.learning import BatchSchedule, initial_weights
from vfl.theory.dp_noise import (
    READINGS,
    best_success,
    error_bound,
    expected_accuracy,
    gaussian_epsilon,
    mean_noise_covariance,
    noise_levels,
    noisy_guaranteed_steps,
    product_variance,
    sign_success,
)
from vfl.theory.training import guaranteed_steps, initial_product_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas.api.typing import DataFrameGroupBy


EPSILONS = (0.1, 0.2, 0.5)
DELTA = 0.1
GRADIENT_BOUND = 1.0
INITIALISATIONS = ("zero", "xavier")
_SEEDS, _QUICK_SEEDS, _QUICK_EPOCHS = 5, 2, 3
# Keeps secret initial weights and noise apart from the public streams of the same seed.
_WEIGHT_STREAM, _NOISE_STREAM = 0x4E57, 0x4E5A

_KEYS = ["dataset", "preparation", "initialisation", "formula", "epsilon"]


@dataclass(frozen=True)
class _Case:
    """One preparation of one data set."""

    dataset: str
    title: str
    reading: Reading
    epochs: int
    batch_size: int = BATCH_SIZE


_CASES = (
    _Case("mnist01", "MNIST, digits 0 and 1", Reading("unit-norm rows", "whole_row_unit_norm", False), 30),
    _Case("mnist01", "MNIST, digits 0 and 1", Reading("unit-norm rows, intercept", "whole_row_unit_norm", True), 30),
    _Case("credit", "Default of credit card clients", Reading("standardised, intercept", "standardise", True), 10),
    _Case("credit", "Default of credit card clients", Reading("bounded rows, intercept", "bounded", True), 10),
)
# As measured, one of its features is longer than all others together: standardised first.
_FALLBACK = _Case("breast_cancer", "Breast cancer", Reading("bounded rows", "bounded", False), 30, 32)


def noise_section(data_dir: Path | None, *, seed: int = 0, quick: bool = False) -> Section:
    """Accuracy, the label attack and ||theta|| without defence and at epsilon 0.1, 0.2, 0.5, for both readings.

    Five seeds from ``seed`` on, batches and epochs of the paper; quick: two seeds, three epochs, one preparation per
    data set. Without the raw files of MNIST and credit, breast_cancer takes their place. In ``data``, one row per
    training and epoch: success_step is Criterion 4.2 on f + Z^A in that epoch, success_averaged on the sum of all of a
    record's so far, success_kept the majority over steps (``LabelRecovery``'s); each predicted one is the probability
    given the true f. From first_product_step on, columns are of the whole training.
    """
    cases, records, missing = _available(data_dir)
    if quick:
        first = {name: next(case for case in cases if case.dataset == name) for name in _names(cases)}
        cases = [replace(case, epochs=_QUICK_EPOCHS) for case in first.values()]
    seeds = range(seed, seed + (_QUICK_SEEDS if quick else _SEEDS))
    parts = [_run(case, records[case.dataset], seeds) for case in cases]
    data = pd.concat(parts, ignore_index=True)
    summary = _summary(data)
    return Section(
        name="defences_noise",
        title="Noise on the residuals (Hu, Algorithm 3)",
        data=data,
        summary=summary,
        plots=tuple(_plot(case, part) for case, part in zip(cases, parts, strict=True)),
        notes=(*missing, *_notes(data, summary, cases)),
    )


def _available(data_dir: Path | None) -> tuple[list[_Case], dict[str, Records], list[str]]:
    """The cases whose raw files are there, else the fallback; their records; what to say about those that aren't."""
    records: dict[str, Records] = {}
    said = []
    for name in _names(_CASES):
        try:
            records[name] = _load(name, data_dir)
        except DatasetNotFound as missing:
            said.append(f"{name} was left out. {missing}")
    if records:
        return [case for case in _CASES if case.dataset in records], records, said
    said.append("breast_cancer takes their place, in batches of 32: its numbers are not the paper's.")
    return [_FALLBACK], {_FALLBACK.dataset: _load(_FALLBACK.dataset, data_dir)}, said


def _names(cases: Sequence[_Case]) -> list[str]:
    return list(dict.fromkeys(case.dataset for case in cases))


def _load(name: str, data_dir: Path | None) -> Records:
    table = load_dataset(name, data_dir)
    return Records(table.features, encode_labels(table.labels)[0], table.train_rows)


# --- training ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """One of the trainings that run side by side. formula "none": without noise, epsilon is infinite."""

    initialisation: str
    formula: str
    epsilon: float
    sigma_active: float
    sigma_passive: float
    sensitivity: float

    @property
    def noisy(self) -> bool:
        return self.formula != "none"


@dataclass(frozen=True, eq=False)
class _Problem:
    """What one seed trains on. features: (n, d); active: (d,), the label party's columns, the intercept's too."""

    features: FloatArray
    labels: IntArray
    active: BoolArray
    test: IntArray
    schedule: BatchSchedule
    epochs: int
    seed: int

    @property
    def train(self) -> IntArray:
        return self.schedule.train_rows

    @property
    def steps(self) -> int:
        return self.epochs * self.schedule.steps_per_epoch

    @property
    def rows(self) -> int:
        """Of the largest batch."""
        return self.schedule.rows_of_step(0)

    @cached_property
    def squared_norm(self) -> float:
        """The largest ||x||^2."""
        return float((self.features**2).sum(axis=1).max())


class _LabelAttack:
    """Watches a training: the attack on sums over epochs, and the probability of each success, given f."""

    def __init__(self, labels: IntArray, train: IntArray, sigma: FloatArray) -> None:
        self._labels, self._train, self._sigma = labels[:, None], train, sigma
        shape = (len(labels), len(sigma))
        self._true, self._seen = np.zeros(shape), np.zeros(shape)
        self._steps = 0
        self._right = np.zeros(len(sigma))
        # The first step, from 0, at which some |theta^T x| of the batch reaches 2; -1 for never.
        self.first_product_step = np.full(len(sigma), -1, dtype=np.int64)
        self._epochs: dict[str, list[FloatArray]] = {
            name: [] for name in ("success_step_predicted", "success_averaged", "success_averaged_predicted")
        }

    @property
    def measures(self) -> dict[str, FloatArray]:
        """By name, (epochs, c)."""
        return {name: np.array(values) for name, values in self._epochs.items()}

    def observe(self, rows: IntArray, residual: FloatArray, seen: FloatArray) -> None:
        """One step; see ``train_side_by_side``."""
        labels = self._labels[rows]
        self._true[rows] += residual
        self._seen[rows] += seen
        self._right += sign_success(residual, labels, self._sigma).sum(axis=0)
        outside = (np.abs(residual + np.where(labels == 1, 2.0, -2.0)) >= 2).any(axis=0)
        self.first_product_step[outside & (self.first_product_step < 0)] = self._steps
        self._steps += 1

    def end_epoch(self) -> None:
        """After every row was used once more."""
        labels = self._labels[self._train]
        uses = len(self._epochs["success_averaged"]) + 1
        predicted = sign_success(self._true[self._train], labels, self._sigma * np.sqrt(uses))
        self._epochs["success_step_predicted"].append(self._right / len(self._train))
        self._epochs["success_averaged"].append(((self._seen[self._train] < 0) == (labels == 1)).mean(axis=0))
        self._epochs["success_averaged_predicted"].append(predicted.mean(axis=0))
        self._right = np.zeros_like(self._right)


def _run(case: _Case, records: Records, seeds: Sequence[int]) -> pd.DataFrame:
    """All seeds of one preparation, in the form of ``noise_section``'s data."""
    parts = []
    variances: tuple[FloatArray, FloatArray] | None = None
    for seed in seeds:
        problem = _problem(case, records, seed)
        # Published training rows are the same for every seed, and so is what noise does to them on average.
        if variances is None or records.train_rows is None:
            variances = _unit_variances(problem)
        for part in _train(problem, variances):
            parts.append(part.assign(dataset=case.dataset, preparation=case.reading.name, seed=seed))
    return pd.concat(parts, ignore_index=True)


def _problem(case: _Case, records: Records, seed: int) -> _Problem:
    train, test = records.rows_of(seed)
    features = scaled_features(records, case.reading.scaling, train)
    active = np.arange(features.shape[1]) < column_blocks(features.shape[1], 2)[1].start
    if case.reading.intercept:
        features = np.hstack([features, np.ones((len(features), 1))])
        active = np.append(active, True)
    schedule = BatchSchedule(train, case.batch_size, seed)
    return _Problem(features, records.labels, active, test, schedule, case.epochs, seed)


def _unit_variances(problem: _Problem) -> tuple[FloatArray, FloatArray]:
    """Variance of the test rows' theta^T x at the end, per unit of sigma_A^2 alone and of sigma_B^2 alone."""
    used = problem.features[problem.train]
    moment = used.T @ used / len(used)

    def variance(sigma_active: float, sigma_passive: float) -> FloatArray:
        covariance = mean_noise_covariance(
            moment,
            problem.active,
            rows=problem.rows,
            steps=problem.steps,
            learning_rate=LEARNING_RATE,
            sigma_active=sigma_active,
            sigma_passive=sigma_passive,
        )
        return product_variance(problem.features[problem.test], covariance)

    return variance(1.0, 0.0), variance(0.0, 1.0)


def _columns(problem: _Problem) -> list[_Column]:
    columns = []
    for start in INITIALISATIONS:
        columns.append(_Column(start, "none", float("inf"), 0.0, 0.0, 0.0))
        for formula, epsilon in product(READINGS, EPSILONS):
            levels = noise_levels(
                epsilon,
                DELTA,
                epochs=problem.epochs,
                steps=problem.steps,
                rows=problem.rows,
                learning_rate=LEARNING_RATE,
                gradient_bound=GRADIENT_BOUND,
                reading=formula,
            )
            sigmas = levels.sigma_active, levels.sigma_passive
            columns.append(_Column(start, formula, epsilon, *sigmas, levels.sensitivity_active))
    return columns


def _train(problem: _Problem, variances: tuple[FloatArray, FloatArray]) -> Iterator[pd.DataFrame]:
    """One seed: the rows of each column, (epochs) of them."""
    columns = _columns(problem)
    width = problem.features.shape[1]
    start = {
        kind: initial_weights(
            kind,
            width,
            1,
            total_features=width,
            generator=np.random.default_rng((_WEIGHT_STREAM, problem.seed, number)),
        )
        for number, kind in enumerate(INITIALISATIONS)
    }
    bounds = [_initial_bound(problem, column) for column in columns]
    limits = [
        # With noise no step's labels are guaranteed.
        0 if column.noisy else guaranteed_steps(LEARNING_RATE, bound, squared_norm=problem.squared_norm)
        for column, bound in zip(columns, bounds, strict=True)
    ]
    noise = ResidualNoise(
        problem.active,
        np.array([column.sigma_active for column in columns]),
        np.array([column.sigma_passive for column in columns]),
        np.random.default_rng((_NOISE_STREAM, problem.seed)),
    )
    attack = _LabelAttack(problem.labels, problem.train, noise.sigma_active)
    trained = train_side_by_side(
        problem.features,
        problem.labels,
        np.hstack([start[column.initialisation] for column in columns]),
        test=problem.test,
        schedule=problem.schedule,
        epochs=problem.epochs,
        guaranteed=np.array(limits),
        noise=noise,
        observe=attack.observe,
        advance=attack.end_epoch,
    )
    plain = {column.initialisation: trained.weights[:, j] for j, column in enumerate(columns) if not column.noisy}
    by_epoch = {measure: getattr(trained, measure) for measure in MEASURES} | attack.measures
    for j, (column, bound) in enumerate(zip(columns, bounds, strict=True)):
        of_run = {
            "initialisation": column.initialisation,
            "formula": column.formula,
            "epsilon": column.epsilon,
            "sigma_active": column.sigma_active,
            "sigma_passive": column.sigma_passive,
            **_theory(problem, column, bound, plain[column.initialisation], variances),
            "first_product_step": int(attack.first_product_step[j]),
            "first_wrong_step": int(trained.first_wrong_step[j]),
            "own_part_auc": _own_part_auc(problem, trained.weights[:, j]),
        }
        measured = {measure: values[:, j] for measure, values in by_epoch.items()}
        yield pd.DataFrame({"epoch": np.arange(1, problem.epochs + 1), **measured, **of_run})


def _initial_bound(problem: _Problem, column: _Column) -> float:
    rows, width = problem.features.shape
    return initial_product_bound(column.initialisation, width, rows, squared_norm=problem.squared_norm, failure=FAILURE)


def _theory(
    problem: _Problem,
    column: _Column,
    initial_bound: float,
    plain_weights: FloatArray,
    variances: tuple[FloatArray, FloatArray],
) -> dict[str, float | int]:
    """What is known of a training before it: but for its accuracy, for which it takes the one without noise."""
    products = problem.features[problem.test] @ plain_weights
    spread = column.sigma_active**2 * variances[0] + column.sigma_passive**2 * variances[1]
    u = error_bound(column.sigma_active, problem.rows, problem.steps, FAILURE)
    return {
        "attained_epsilon": gaussian_epsilon(column.sensitivity, column.sigma_active, DELTA)
        if column.noisy
        else float("inf"),
        "accuracy_test_predicted": expected_accuracy(products, problem.labels[problem.test], spread),
        "success_bound": best_success(column.sigma_active, problem.epochs) if column.noisy else 1.0,
        "guaranteed_steps": noisy_guaranteed_steps(LEARNING_RATE, initial_bound, u, squared_norm=problem.squared_norm),
    }


def _own_part_auc(problem: _Problem, weights: FloatArray) -> float:
    """How well the passive party's own part of the final model tells training labels apart: 0.5 is chance."""
    passive = ~problem.active
    products = problem.features[np.ix_(problem.train, passive)] @ weights[passive]
    return float(roc_auc_score(problem.labels[problem.train], products))


# --- what is shown -------------------------------------------------------------------------------------------------


def _summary(data: pd.DataFrame) -> pd.DataFrame:
    """One row per training, over seeds: the end of it, but for success_step, which is of all epochs.

    first_product_step and first_wrong_step are the earliest over seeds, -1 when it never happened.
    """
    last = data[data["epoch"] == data.groupby(["dataset", "preparation"])["epoch"].transform("max")]
    ends = last.groupby(_KEYS, sort=False)
    everything = data.groupby(_KEYS, sort=False)
    table = ends[["sigma_active", "sigma_passive", "attained_epsilon"]].first()
    table["accuracy_test"] = ends["accuracy_test"].mean()
    table["accuracy_test_se"] = ends["accuracy_test"].sem()
    table["accuracy_test_predicted"] = ends["accuracy_test_predicted"].mean()
    for measure in ("success_step", "success_step_predicted"):
        table[measure] = everything[measure].mean()
    for measure in (
        "success_averaged",
        "success_averaged_predicted",
        "success_bound",
        "success_kept",
        "own_part_auc",
        "theta_norm",
    ):
        table[measure] = ends[measure].mean()
    table["guaranteed_steps"] = ends["guaranteed_steps"].min()
    for measure in ("first_product_step", "first_wrong_step"):
        table[measure] = ends[measure].agg(_earliest)
    return table.reset_index()


def _earliest(steps: pd.Series) -> int:
    happened = steps[steps >= 0]
    return -1 if happened.empty else int(happened.min())


# --- what the numbers say ------------------------------------------------------------------------------------------


def _notes(data: pd.DataFrame, summary: pd.DataFrame, cases: Sequence[_Case]) -> list[str]:
    scalings = {case.reading.scaling for case in cases}
    notes = [
        "Training ran in one place in float64 and the attack was given f + Z^A as its equations determine it; no "
        "ciphertext was made, and the noise is seeded.",
        *(words for scaling, words in SIMULATION_WORDS.items() if scaling in scalings),
        "Formula: lemma is what Lemma D.4 proves, sigma = sqrt(2 ln(5 / (4 delta))) Delta / epsilon; printed is "
        f"(71)-(72) with the root over everything. delta = {DELTA}, G = {GRADIENT_BOUND:g}, T the number of steps.",
    ]
    for case in cases:
        chosen, whole = (
            table[(table["dataset"] == case.dataset) & (table["preparation"] == case.reading.name)]
            for table in (summary, data)
        )
        said = [_utility(chosen), _privacy(chosen), *_target(case, chosen), _theory_held(whole), _bounds(chosen)]
        notes += [f"{case.title}, {case.reading.name}: {sentence}" for sentence in said]
    printed = summary[summary["formula"] == "printed"].groupby("epsilon")["attained_epsilon"].max()
    worth = ", ".join(f"{value:.2f} instead of {asked}" for asked, value in printed.items())
    latest = int(data[data["formula"] != "none"]["first_wrong_step"].max())
    return [
        *notes,
        f"The Gaussian mechanism with the printed formula's sigma has epsilon = {worth} at delta = {DELTA}, exactly.",
        "Theorem 6.6 bounds theta^T x only. What the passive party sees is f plus the noise on its own record: in "
        f"every training with noise its sign was wrong for some record by step {latest}, counted from 0.",
    ]


def _row(chosen: pd.DataFrame, formula: str, epsilon: float, start: str) -> Any:
    """The training of a preparation's summary, its columns as attributes."""
    fits = (chosen["formula"] == formula) & (chosen["epsilon"] == epsilon) & (chosen["initialisation"] == start)
    return next(chosen[fits].itertuples())


def _utility(chosen: pd.DataFrame) -> str:
    parts = [
        f"{formula} {row.accuracy_test:.3f} ± {row.accuracy_test_se:.3f} from {start} "
        f"(mean over all noise, computed: {row.accuracy_test_predicted:.3f})"
        for formula, start in product(READINGS, INITIALISATIONS)
        for row in [_row(chosen, formula, 0.2, start)]
    ]
    none = _row(chosen, "none", float("inf"), "xavier")
    return (
        "Hu, Figures 2 and 4: accuracy with noise is comparable, even at epsilon = 0.2. Test accuracy there, after "
        f"{none.accuracy_test:.3f} without noise: {'; '.join(parts)}."
    )


def _privacy(chosen: pd.DataFrame) -> str:
    parts = [
        f"{formula} {row.success_step:.3f} by step, {row.success_averaged:.3f} on sums over epochs "
        f"({row.success_bound:.3f} for who knows theta^T x)"
        for formula in READINGS
        for row in [_row(chosen, formula, 0.5, "xavier")]
    ]
    none, lemma = _row(chosen, "none", float("inf"), "xavier"), _row(chosen, "lemma", 0.5, "xavier")
    return (
        "Hu, Figures 3 and 4: at epsilon = 0.5 the label attack is a random guess. Success from xavier, after "
        f"{none.success_step:.3f} by step without noise: {'; '.join(parts)}. What noise doesn't stop: the passive "
        "party's own part of the model tells training labels apart with an area under the curve of "
        f"{lemma.own_part_auc:.3f} (lemma; {none.own_part_auc:.3f} without noise; 0.5 is chance)."
    )


def _target(case: _Case, chosen: pd.DataFrame) -> list[str]:
    """The project's own numbers, which are about MNIST."""
    if case.dataset != "mnist01":
        return []
    said = []
    for formula, start in product(READINGS, INITIALISATIONS):
        rows = [_row(chosen, formula, epsilon, start) for epsilon in EPSILONS]
        success = max((value for row in rows for value in (row.success_step, row.success_averaged)), key=_from_chance)
        accuracy = _row(chosen, formula, 0.2, start).accuracy_test
        met = _from_chance(success) <= 0.03 and accuracy > 0.9
        said.append(f"{formula} from {start} {'meets' if met else 'misses'} it ({success:.3f}, {accuracy:.3f})")
    return [
        "Target: label recovery at 0.5 ± 0.03 at every epsilon, by step and on sums, and a test accuracy above 0.9 at "
        f"epsilon = 0.2: {'; '.join(said)}."
    ]


def _from_chance(success: float) -> float:
    return abs(success - 0.5)


def _theory_held(whole: pd.DataFrame) -> str:
    noisy = whole[whole["formula"] != "none"]
    steps, ends = noisy.groupby(_KEYS), noisy[noisy["epoch"] == noisy["epoch"].max()].groupby(_KEYS)
    by_step = (steps["success_step"].mean() - steps["success_step_predicted"].mean()).abs().max()
    on_sums = (ends["success_averaged"].mean() - ends["success_averaged_predicted"].mean()).abs().max()
    return (
        f"The attack's success, mean over seeds, is off what theory gives by {by_step:.4f} at most by step, by "
        f"{on_sums:.4f} on sums."
    )


def _bounds(chosen: pd.DataFrame) -> str:
    row = _row(chosen, "lemma", 0.5, "zero")
    reached = f"at step {row.first_product_step}" if row.first_product_step >= 0 else "never"
    longest = chosen.groupby("formula")["theta_norm"].max()
    return (
        f"T~ of Theorem 6.6, in steps, is {row.guaranteed_steps} (lemma, epsilon = 0.5, zero); |theta^T x| reached 2 "
        f"{reached}. ||theta|| is to stay within 4 G - 2 = {4 * GRADIENT_BOUND - 2:g}: it ended at "
        f"{longest['none']:.1f} without noise, at up to {longest['printed']:.1f} with printed's and at up to "
        f"{longest['lemma']:.1f} with lemma's."
    )


# --- drawing -------------------------------------------------------------------------------------------------------

_PANELS = (
    ("accuracy_train", "training accuracy", ""),
    ("accuracy_test", "test accuracy", ""),
    ("success_step", "attack success by step", "success_step_predicted"),
    ("success_averaged", "attack success on sums", "success_averaged_predicted"),
    ("theta_norm", "||theta||", ""),
)
_COLOURS = {float("inf"): "#444444", 0.5: "#1b6ca8", 0.2: "#c8553d", 0.1: "#2a9d8f"}


def _plot(case: _Case, data: pd.DataFrame) -> Plot:
    """One row of panels per formula and initialisation: mean over seeds, standard error as a shade, theory dotted."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    lines = list(product(READINGS, INITIALISATIONS))
    figure = Figure(figsize=(3.0 * len(_PANELS), 0.5 + 2.3 * len(lines)), layout="constrained")
    grid = figure.subplots(len(lines), len(_PANELS), squeeze=False, sharex=True, sharey="col")
    for row, (formula, start) in zip(grid, lines, strict=True):
        of_line = data[data["formula"].isin(["none", formula]) & (data["initialisation"] == start)]
        for axes, (measure, _, predicted) in zip(row, _PANELS, strict=True):
            for epsilon, colour in _COLOURS.items():
                by_epoch = of_line[of_line["epsilon"] == epsilon].groupby("epoch")
                _curve(axes, by_epoch, measure, colour, "none" if np.isinf(epsilon) else f"epsilon {epsilon:g}")
                if predicted and np.isfinite(epsilon):
                    mean = by_epoch[predicted].mean()
                    axes.plot(mean.index, mean, color=colour, linestyle=":", linewidth=1)
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.get_major_locator().set_params(integer=True)
        row[0].set_ylabel(f"{formula}, {start}")
        row[-1].axhline(4 * GRADIENT_BOUND - 2, color="#999999", linewidth=0.8, linestyle="-.")
    for top, bottom, (_, title, _) in zip(grid[0], grid[-1], _PANELS, strict=True):
        top.set_title(title, fontsize=10)
        bottom.set_xlabel("epoch")
    grid[0, 0].legend(frameon=False, fontsize=8)
    buffer = io.StringIO()
    # Without a fixed salt every drawing has other ids, and the same run other files.
    with rc_context({"svg.hashsalt": "plumbline", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return Plot(
        name=f"defences_noise-{case.dataset}-{'-'.join(case.reading.name.replace(',', '').split())}",
        svg=buffer.getvalue(),
        caption=f"{case.title}, {case.reading.name} (Hu, Figures 2 to 4): mean and standard error over seeds. Dotted: "
        "the success that theory gives. Dash-dotted: 4 G - 2.",
    )


def _curve(axes: "Axes", by_epoch: "DataFrameGroupBy[Any, Any]", measure: str, colour: str, label: str) -> None:
    mean, error = by_epoch[measure].mean(), by_epoch[measure].sem().fillna(0.0)
    axes.plot(mean.index, mean, color=colour, label=label)
    axes.fill_between(mean.index, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
