"""What this paper's figures are measured over: its data sets, models, and windows of adjacent passive columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from studies.brought_plugins import foreknowledge_of
from studies.measurements.descriptions import (
    AttackMeasurement,
    Choice,
    DataChoice,
    Measurement,
    ModelChoice,
    Trainer,
    frozen_options,
    windows,
)
from studies.study import StudyRun
from vfl.data.catalogue import dataset

SYNTHETIC = "synthetic"
DATASETS = ("bank", "robot", "satellite", SYNTHETIC)
# scikit-learn's make_classification as the paper calls it (Table I): all other arguments at their defaults.
_SYNTHETIC_ROWS, _SYNTHETIC_COLUMNS, _SYNTHETIC_CLASSES = 50_000, 10, 2


@dataclass(frozen=True)
class Size:
    """How large a data set is.

    Attributes:
        records: rows.
        columns: features, the label left out.
        classes: k.
    """

    records: int
    columns: int
    classes: int


def size_of(name: str) -> Size:
    """Tell how large a data set is, from the catalogue. Raises DatasetNotFound for a name that it doesn't have."""
    if name == SYNTHETIC:
        return Size(_SYNTHETIC_ROWS, _SYNTHETIC_COLUMNS, _SYNTHETIC_CLASSES)
    entry = dataset(name)
    return Size(entry.rows, entry.features, entry.classes)


@dataclass(frozen=True)
class Windows:
    """At how many d, and over how many windows, something is measured.

    Attributes:
        sizes: so many d, evenly spaced from 1 to all columns but one; None for all.
        count: windows per d; None for all, as the paper.
    """

    sizes: int | None = None
    count: int | None = None

    def of(self, name: str) -> list[tuple[int, ...]]:
        """The windows of a data set's columns, from small d to large; d = k is always among them."""
        size = size_of(name)
        most = size.columns - 1
        chosen = np.arange(1, most + 1)
        if self.sizes is not None:
            spaced = np.linspace(1, most, min(self.sizes, most)).round().astype(int)
            chosen = np.unique([*spaced, min(size.classes, most)])
        return [window for d in chosen.tolist() for window in windows(size.columns, d, self.count)]


def model_of(name: str, seed: int, trainer: Trainer = "adam", rows: int | None = None) -> ModelChoice:
    """The paper's model: a logistic regression without a penalty, trained by Adam with early stopping on 80 %."""
    return ModelChoice(DataChoice(name, rows=rows), trainer=trainer, seed=seed)


@dataclass(frozen=True)
class Known:
    """What an adversary knows of the passive columns before it sees a score.

    Attributes:
        auxiliary: complete records.
        moments: means, variances and covariance.
    """

    auxiliary: int = 0
    moments: bool = False


NOTHING = Known()
POSTERIOR = "posterior"
# What the Bayesian adversary knows beforehand, by its prior.
LEVELS = {"half": "nothing", "mean": "means", "covariance": "covariance", "imputation": "records"}


def measurements_over(
    model: ModelChoice, over: Windows, attacks: Sequence[Choice], records: int, known: Known = NOTHING
) -> list[AttackMeasurement]:
    """Every attack on every window, by an adversary that knows so much beforehand."""
    return [
        AttackMeasurement(
            model, window, attack, records, auxiliary=known.auxiliary, moments=known.moments, seed=model.seed
        )
        for window in over.of(model.data.name)
        for attack in attacks
    ]


def brought_measurements(
    attacks: Sequence[Choice], model: ModelChoice, over: Windows, records: int, auxiliary: int
) -> list[AttackMeasurement]:
    """Every attack of ``--with`` on every window; ``auxiliary`` complete records for those that say they need some."""
    found = []
    for attack in attacks:
        needed = foreknowledge_of(attack)
        known = Known(auxiliary if needed.records else 0, moments=needed.moments)
        found += measurements_over(model, over, (attack,), records, known)
    return found


def posterior_measurements(model: ModelChoice, over: Windows, records: int, auxiliary: int) -> list[AttackMeasurement]:
    """The Bayesian adversary at each level with what that level knows: at the highest, ``auxiliary`` records."""
    known = {"half": NOTHING, "imputation": Known(auxiliary, moments=True)}
    return [
        measurement
        for level in LEVELS
        for measurement in measurements_over(
            model, over, (Choice.of(POSTERIOR, prior=level),), records, known.get(level, Known(moments=True))
        )
    ]


def measured_on(
    run: StudyRun, names: Sequence[str], measurements_of: Callable[[str], Sequence[Measurement]]
) -> pd.DataFrame:
    """The rows of all data sets' measurements that could be measured."""
    return done_rows(run.measure([measurement for name in names for measurement in measurements_of(name)]))


def window_options(window: tuple[int, ...]) -> dict[str, int]:
    """A window as options of a task: how many columns, and the first."""
    return {"d": len(window), "start": window[0]}


def columns_of(d: int, start: int, columns: int) -> list[int]:
    """The window that ``window_options`` described, of so many columns in all."""
    return [(start + step) % columns for step in range(d)]


def done_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that were measured: none of a frame without any, as where all data sets are missing."""
    return frame[frame["status"] == "done"].reset_index(drop=True) if len(frame) else frame


def classes_over(frame: pd.DataFrame) -> pd.Series:
    """k of each row's data set."""
    return frame["dataset"].map({name: size_of(name).classes for name in frame["dataset"].unique()})


def mean_errors(frame: pd.DataFrame, rows: Sequence[str], columns: str) -> pd.DataFrame:
    """Tabulate mean errors over all windows with d >= k, the attacks (``columns``) beside each other."""
    hidden = frame[frame["d"] >= frame["k"]]
    return hidden.pivot_table(index=list(rows), columns=columns, values="mse", sort=False).round(4).reset_index()


def choice_words(name: str, **options: object) -> str:
    """How a frame's column ``attack`` writes an attack with options."""
    return Choice(name, frozen_options(options)).words
