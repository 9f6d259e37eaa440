"""The setting that this study's sections share (Jiang 5.1): data sets, windows by ratio, models, who attacks them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from studies.brought_plugins import foreknowledge_of
from studies.measurements import AttackMeasurement, Choice, DataChoice, Measurement, ModelChoice, windows
from studies.measurements.descriptions import frozen_options
from studies.study import StudyRun
from vfl.data import dataset

# Jiang keeps all of bank's 20 columns.
DATA_SETS = ("bank_all", "robot", "satellite", "drive")
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Predictions attacked at each ratio, b; hidden layers of eight units each.
RECORDS, HIDDEN = 100, (8, 8)
# Rounds of gradient inversion at its default rate of 0.01. Jiang goes on until the distance approaches 0, and doesn't
# tell for how long. Less where it has to be quick.
STEPS, QUICK_STEPS, QUICK_ROWS = 5000, 300, 3000


@dataclass(frozen=True)
class Contender:
    """Somebody who attacks, as one curve.

    Attributes:
        label: of the curve.
        attack: with options.
        ours: whether no paper has it.
        moments: whether the adversary knows the passive columns' moments.
        auxiliary: how many complete records it has.
    """

    label: str
    attack: Choice
    ours: bool = False
    moments: bool = False
    auxiliary: int = 0


@dataclass(frozen=True)
class Target:
    """A model and the passive party's columns, one point of a curve but for the mean over windows and seeds.

    Attributes:
        model: what is attacked.
        passive: columns.
        columns: of both parties.
    """

    model: ModelChoice
    passive: tuple[int, ...]
    columns: int

    @property
    def described(self) -> dict[str, Any]:
        """Columns of results beside those of the measurement."""
        classes = dataset(self.model.data.name).classes
        return {"columns": self.columns, "classes": classes, "ratio": len(self.passive) / self.columns}


@dataclass(frozen=True)
class Grid:
    """Which models are attacked.

    Attributes:
        datasets: names.
        ratios: r, the passive party's share of the columns.
        windows: of adjacent columns, at each ratio.
        seeds: of the split and of training; windows take them in turn.
        rows: most rows of a data set; None for all.
    """

    datasets: tuple[str, ...]
    ratios: tuple[float, ...] = RATIOS
    windows: int = 4
    seeds: int = 2
    rows: int | None = None

    @property
    def words(self) -> str:
        """What numbers are averages over."""
        rows = "" if self.rows is None else f", at most {self.rows:,} rows of a data set"
        return f"{self.windows} windows of adjacent columns at each r, of {self.seeds} splits and trainings{rows}"


@dataclass(frozen=True)
class InversionPlan:
    """What a figure of gradient inversion is drawn from.

    Attributes:
        grid: of models.
        records: attacked at each point.
        steps: of gradient inversion.
        draws: of the Bayesian sampler, whose errors fall with their root.
    """

    grid: Grid
    records: int = RECORDS
    steps: int = STEPS
    draws: int = 60


# Of networks, which take longest.
QUICK_NETWORKS = InversionPlan(
    Grid(("robot",), ratios=(0.1, 0.8), windows=1, rows=QUICK_ROWS), steps=QUICK_STEPS, draws=10, records=25
)


def size_of(name: str, ratio: float) -> int:
    """How many columns a ratio of a data set's is: at least one, and not all."""
    columns = dataset(name).features
    return min(max(1, round(ratio * columns)), columns - 1)


def complete_ratio(name: str) -> float:
    """The largest ratio at which scores of a linear model determine all features: d = k - 1 (Jiang 4.2.1)."""
    return (dataset(name).classes - 1) / dataset(name).features


def linear_model(name: str, seed: int, rows: int | None = None) -> ModelChoice:
    """A logistic regression, trained as the paper's accuracies suggest: by Adam, until it gets no better."""
    return ModelChoice(DataChoice(name, rows), trainer="adam", seed=seed)


def network_model(
    name: str,
    passive: tuple[int, ...],
    seed: int,
    hidden: tuple[int, ...] = HIDDEN,
    activation: str = "sigmoid",
    rows: int | None = None,
) -> ModelChoice:
    """A network of a part per party, with the paper's two hidden layers of eight unless said otherwise."""
    options = frozen_options({"hidden": hidden, "activation": activation})
    return ModelChoice(
        DataChoice(name, rows), kind="network", trainer="adam", seed=seed, passive=passive, options=options
    )


def linear_targets(grid: Grid, first_seed: int, *, complete: bool = True) -> list[Target]:
    """Logistic regressions at a grid's ratios and, if asked for, at the largest whose scores determine all features."""
    return [
        Target(linear_model(name, seed, grid.rows), passive, dataset(name).features)
        for name in grid.datasets
        for passive, seed in _places(
            grid, name, (*grid.ratios, *((complete_ratio(name),) if complete else ())), first_seed
        )
    ]


def network_targets(
    grid: Grid, first_seed: int, hidden: tuple[int, ...] = HIDDEN, activation: str = "sigmoid"
) -> list[Target]:
    """Networks at a grid's ratios; each window needs its own, whose parts it decides."""
    return [
        Target(network_model(name, passive, seed, hidden, activation, grid.rows), passive, dataset(name).features)
        for name in grid.datasets
        for passive, seed in _places(grid, name, grid.ratios, first_seed)
    ]


def _places(grid: Grid, name: str, ratios: Sequence[float], first_seed: int) -> list[tuple[tuple[int, ...], int]]:
    return [
        (passive, first_seed + number % grid.seeds)
        for size in sorted({size_of(name, ratio) for ratio in ratios})
        for number, passive in enumerate(windows(dataset(name).features, size, grid.windows))
    ]


def contests(
    attacked: Iterable[Target], contenders: Sequence[Contender], records: int
) -> list[tuple[dict[str, Any], Measurement]]:
    """What each contender gets of each target: a measurement, and what describes it beside."""
    return [
        (
            target.described | {"curve": one.label, "ours": one.ours},
            AttackMeasurement(
                target.model, target.passive, one.attack, records=records, auxiliary=one.auxiliary, moments=one.moments
            ),
        )
        for target in attacked
        for one in contenders
    ]


def measured(run: StudyRun, planned: Sequence[tuple[dict[str, Any], Measurement]]) -> pd.DataFrame:
    """Measure measurements; what describes each stands in columns of its own before its measures."""
    described = pd.DataFrame([beside for beside, _ in planned])
    found = run.measure([measurement for _, measurement in planned])
    results = pd.concat([described, found.drop(columns=described.columns, errors="ignore")], axis=1)
    # Nothing may have been there to measure.
    return results.reindex(columns=list(dict.fromkeys((*results.columns, *_COLUMNS))))


_COLUMNS = (
    *("dataset", "columns", "classes", "d", "ratio", "start", "seed", "curve", "ours", "status", "reason"),
    *("mse", "attack_accuracy", "baseline"),
)


def usable(run: StudyRun, grid: Grid) -> tuple[Grid, tuple[str, ...]]:
    """The grid without data sets whose files are missing, and a sentence for each of these."""
    there, skipped = run.available(grid.datasets)
    return replace(grid, datasets=there), skipped


def plugged_in(run: StudyRun) -> tuple[Contender, ...]:
    """Attacks that the run draws into every figure, as curves of their own; each knows what it says it needs."""
    return tuple(
        Contender(one.words, one, ours=True, moments=known.moments, auxiliary=RECORDS if known.records else 0)
        for one in run.attacks
        for known in [foreknowledge_of(one)]
    )


def gradient_inversion(steps: int, distance: str = "mse", init: str = "zero") -> Choice:
    """Jiang's Algorithm 1, from zeros unless said otherwise."""
    return Choice.of("gia", distance=distance, init=init, steps=steps)
