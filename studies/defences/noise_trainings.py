"""The trainings behind Hu, Figures 2 to 4: with noise of every calibration, under the label attack, beside theory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from studies.simulation.expected_models import expected_accuracy, mean_noise_covariance, product_variance
from studies.simulation.records import Reading, Records, scaled_features
from studies.simulation.side_by_side import (
    BATCH_SIZE,
    FAILURE,
    LEARNING_RATE,
    MEASURES,
    ResidualNoise,
    Starts,
    Watch,
    train_side_by_side,
)
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data import column_blocks
from vfl.learning import BatchSchedule, GradientDescent, initial_weights
from vfl.theory.dp_noise import (
    Calibration,
    PrivacyBudget,
    best_success,
    noise_levels,
    noisy_guaranteed_steps,
    norm_bound,
    sign_success,
)
from vfl.theory.gaussian_mechanism import gaussian_epsilon
from vfl.theory.noisy_training import error_bound
from vfl.theory.training import guaranteed_steps, initial_product_bound

EPSILONS = (0.1, 0.2, 0.5)
# The paper's delta, and the one that dp_noise takes by itself: 1 / (10 n).
PAPER, DEFAULT = "0.1", "1/(10 n)"
DELTAS = (PAPER, DEFAULT)
GRADIENT_BOUND = 1.0
INITIALISATIONS = ("zero", "xavier")


@dataclass(frozen=True)
class Variant:
    """How sigma is computed, and whether the parties keep the norm that the computation assumes."""

    calibration: Calibration
    project: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.calibration}, projected" if self.project else self.calibration


VARIANTS = (Variant("exact"), Variant("exact", project=True), Variant("lemma"), Variant("printed"))


# Keeps secret initial weights and noise apart from the public streams of the same seed.
_WEIGHT_STREAM, _NOISE_STREAM = 0x4E57, 0x4E5A


@dataclass(frozen=True)
class NoiseCase:
    """One preparation of one data set."""

    dataset: str
    title: str
    reading: Reading
    epochs: int
    batch_size: int = BATCH_SIZE


@dataclass(frozen=True)
class _Column:
    """One of the trainings that run side by side; without a variant, without noise."""

    initialisation: str
    variant: Variant | None = None
    delta_name: str = "none"
    epsilon: float = float("inf")
    delta: float = float("nan")
    sigma_active: float = 0.0
    sigma_passive: float = 0.0
    sensitivity: float = 0.0

    @property
    def noisy(self) -> bool:
        return self.variant is not None

    @property
    def calibration(self) -> str:
        return self.variant.name if self.variant else "none"

    @property
    def norm_bound(self) -> float:
        return norm_bound(GRADIENT_BOUND) if self.variant and self.variant.project else float("inf")


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
    """Watches a training: the attack on sums of shares over epochs, and the probability of each success, given f.

    A passive party knows its own product and leaves it out: what it sums is the label party's share, of which theta^T x
    takes less away from -2 y than of the whole f.
    """

    def __init__(self, problem: "_Problem", sigma: FloatArray) -> None:
        self._labels, self._train, self._sigma = problem.labels[:, None], problem.train, sigma
        self._own = problem.features[:, ~problem.active]
        self._is_own = ~problem.active
        shape = (len(problem.labels), len(sigma))
        self._true, self._seen = np.zeros(shape), np.zeros(shape)
        self._steps = 0
        self._right = np.zeros(len(sigma))
        # The first step, from 0, at which some |theta^T x| of the batch reaches 2; -1 for never.
        self.first_product_step = np.full(len(sigma), -1, dtype=np.int64)
        self._epochs: dict[str, list[FloatArray]] = {
            name: [] for name in ("success_step_predicted", "success_summed", "success_summed_predicted")
        }

    @property
    def measures(self) -> dict[str, FloatArray]:
        """By name, (epochs, c)."""
        return {name: np.array(values) for name, values in self._epochs.items()}

    def observe(self, rows: IntArray, residual: FloatArray, seen: FloatArray, theta: FloatArray) -> None:
        """Attack one step; see ``train_side_by_side``."""
        labels, own = self._labels[rows], self._own[rows] @ theta[self._is_own]
        self._true[rows] += residual - own
        self._seen[rows] += seen - own
        self._right += sign_success(residual, labels, self._sigma).sum(axis=0)
        outside = (np.abs(residual + np.where(labels == 1, 2.0, -2.0)) >= 2).any(axis=0)
        self.first_product_step[outside & (self.first_product_step < 0)] = self._steps
        self._steps += 1

    def end_epoch(self) -> None:
        """Measure after every row was used once more."""
        labels = self._labels[self._train]
        uses = len(self._epochs["success_summed"]) + 1
        predicted = sign_success(self._true[self._train], labels, self._sigma * np.sqrt(uses))
        self._epochs["success_step_predicted"].append(self._right / len(self._train))
        self._epochs["success_summed"].append(((self._seen[self._train] < 0) == (labels == 1)).mean(axis=0))
        self._epochs["success_summed_predicted"].append(predicted.mean(axis=0))
        self._right = np.zeros_like(self._right)


def run_case(case: NoiseCase, records: Records, seeds: Sequence[int]) -> pd.DataFrame:
    """Train all seeds of one preparation, and measure in the form of ``noise_section``'s data."""
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


def _problem(case: NoiseCase, records: Records, seed: int) -> _Problem:
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
        columns.append(_Column(start))
        for variant, delta_name, epsilon in product(VARIANTS, DELTAS, EPSILONS):
            delta = 0.1 if delta_name == PAPER else 0.1 / len(problem.train)
            levels = noise_levels(
                PrivacyBudget(epsilon, delta, variant.calibration),
                epochs=problem.epochs,
                steps=problem.steps,
                rows=problem.rows,
                learning_rate=LEARNING_RATE,
                gradient_bound=GRADIENT_BOUND,
            )
            sigmas = levels.sigma_active, levels.sigma_passive
            columns.append(_Column(start, variant, delta_name, epsilon, delta, *sigmas, levels.sensitivity_active))
    return columns


def _train(problem: _Problem, variances: tuple[FloatArray, FloatArray]) -> Iterator[pd.DataFrame]:
    """One seed: the rows of each column, (epochs) of them."""
    columns = _columns(problem)
    width = problem.features.shape[1]
    start = {}
    for number, kind in enumerate(INITIALISATIONS):
        generator = np.random.default_rng((_WEIGHT_STREAM, problem.seed, number))
        start[kind] = initial_weights(kind, width, 1, total_features=width, generator=generator)
    rows, norm = len(problem.features), problem.squared_norm
    bounds = [
        initial_product_bound(column.initialisation, width, rows, squared_norm=norm, failure=FAILURE)
        for column in columns
    ]
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
        np.array([column.norm_bound for column in columns]),
    )
    attack = _LabelAttack(problem, noise.sigma_active)
    trained = train_side_by_side(
        problem.features,
        problem.labels,
        Starts(np.hstack([start[column.initialisation] for column in columns]), np.array(limits)),
        GradientDescent(problem.schedule, epochs=problem.epochs, learning_rate=LEARNING_RATE),
        test=problem.test,
        noise=noise,
        watch=Watch(step=attack.observe, epoch=attack.end_epoch),
    )
    plain = {column.initialisation: trained.weights[:, j] for j, column in enumerate(columns) if not column.noisy}
    by_epoch = {measure: getattr(trained, measure) for measure in MEASURES} | attack.measures
    # How well the passive party's own parts of the final products, (rows, c), tell training labels apart is an area
    # under the curve of 0.5 by chance.
    passive = ~problem.active
    own_parts = problem.features[np.ix_(problem.train, passive)] @ trained.weights[passive]
    for j, (column, bound) in enumerate(zip(columns, bounds, strict=True)):
        shown = ("initialisation", "calibration", "delta_name", "epsilon", "sigma_active", "sigma_passive")
        described = {name.removesuffix("_name"): getattr(column, name) for name in shown}
        of_run = {
            **described,
            **_theory(problem, column, bound, plain[column.initialisation], variances),
            "first_product_step": int(attack.first_product_step[j]),
            "first_wrong_step": int(trained.first_wrong_step[j]),
            "own_part_auc": float(roc_auc_score(problem.labels[problem.train], own_parts[:, j])),
        }
        measured = {measure: values[:, j] for measure, values in by_epoch.items()}
        yield pd.DataFrame({"epoch": np.arange(1, problem.epochs + 1), **measured, **of_run})


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
        "attained_epsilon": gaussian_epsilon(column.sensitivity, column.sigma_active, column.delta)
        if column.noisy
        else float("inf"),
        "accuracy_test_predicted": expected_accuracy(products, problem.labels[problem.test], spread),
        "success_bound": best_success(column.sigma_active, problem.epochs) if column.noisy else 1.0,
        "guaranteed_steps": noisy_guaranteed_steps(LEARNING_RATE, initial_bound, u, squared_norm=problem.squared_norm),
    }
