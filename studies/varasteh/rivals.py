"""Who attacks in Varasteh's figures, published and ours, and what each is given; the paper's data sets and model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from studies.brought_plugins import foreknowledge_of
from studies.measurements import AttackMeasurement, Choice, DataChoice, ModelChoice, windows
from studies.study import StudyRun
from vfl.data import dataset

# Of as many columns as in Table I, categories as section III says.
ADULT, GRID = "adult_means", "grid_all"
PAPER_DATASETS = ("bank", ADULT, "satellite", "pendigits", GRID)
HALF, HALF_STAR = "1/2 for all", "half*, exact scores"
OWN_MODEL, BY_SCORES, BY_LABELS = "AM", "RAM, scores", "RAM, labels"
KNOWS_NOTHING, KNOWS_MARGINALS = "Bayesian: ranges, scores", "Bayesian: marginals, scores"
KNOWS_COVARIANCE, KNOWS_RECORDS = "Bayesian: covariance, scores", "Bayesian: records, scores"
IMPUTED = "records, no scores"
# Delivered scores that refine the adversary's model, as in Figure 4; complete records of who has some.
DELIVERED = RECORDS_KNOWN = 100


@dataclass(frozen=True)
class Rival:
    """Somebody who attacks.

    Attributes:
        label: on the page.
        attack: with its options.
        delivered: scores that it was sent of other records.
        auxiliary: complete records that it has besides.
        moments: whether it knows the passive columns' moments.
        ours: whether the paper lacks it.
        defences: what the scores, parameters or features went through.
    """

    label: str
    attack: Choice
    delivered: int = 0
    auxiliary: int = 0
    moments: bool = False
    ours: bool = False
    defences: tuple[Choice, ...] = ()

    def measurement(self, model: ModelChoice, passive: tuple[int, ...], records: int) -> AttackMeasurement:
        """Describe its attack on the first held-out records of a model."""
        return AttackMeasurement(
            model,
            passive,
            self.attack,
            records=records,
            auxiliary=self.auxiliary,
            moments=self.moments,
            delivered=self.delivered,
            defences=self.defences,
        )


def refined(label: str, by: str, delivered: int, **options: float) -> Rival:
    """The adversary model, refined by so many delivered scores or labels (Varasteh eq. 9)."""
    return Rival(label, Choice.of("agnostic", refine=by, delivered=delivered, **options), delivered=delivered)


PUBLISHED = (
    Rival(HALF, Choice.of("half")),
    Rival(HALF_STAR, Choice.of("half_star")),
    Rival(OWN_MODEL, Choice.of("agnostic")),
    refined(BY_SCORES, "scores", DELIVERED, alpha=1.0),
    refined(BY_LABELS, "labels", DELIVERED),
)
OURS = (
    Rival(KNOWS_NOTHING, Choice.of("posterior", prior="half"), ours=True),
    Rival(KNOWS_MARGINALS, Choice.of("posterior", prior="mean"), moments=True, ours=True),
    Rival(KNOWS_COVARIANCE, Choice.of("posterior", prior="covariance"), moments=True, ours=True),
    Rival(KNOWS_RECORDS, Choice.of("posterior", prior="imputation"), auxiliary=RECORDS_KNOWN, ours=True),
    Rival(IMPUTED, Choice.of("imputation"), auxiliary=RECORDS_KNOWN, ours=True),
)


def brought(choices: Iterable[Choice]) -> tuple[Rival, ...]:
    """Attacks of ``--with``, each given what it declares that it needs."""
    return tuple(
        Rival(choice.words, choice, 0, RECORDS_KNOWN if known.records else 0, known.moments, ours=True)
        for choice in choices
        for known in [foreknowledge_of(choice)]
    )


def paper_model(name: str, seed: int = 0) -> ModelChoice:
    """The paper's model (section III): Adam, no penalty, early stopping, on four fifths of the records."""
    return ModelChoice(DataChoice(name), trainer="adam", seed=seed)


def columns_of(name: str) -> int:
    """How many columns a data set has."""
    return dataset(name).features


def widths(columns: int, count: int) -> tuple[int, ...]:
    """At most so many numbers of passive columns, evenly spaced from 1 to all but one."""
    return tuple(int(d) for d in np.unique(np.linspace(1, columns - 1, count).round().astype(int)))


@dataclass(frozen=True)
class Attacked:
    """Where somebody attacks: a model, and the columns of its passive party."""

    model: ModelChoice
    passive: tuple[int, ...]


def situations(name: str, sizes: Sequence[int], count: int | None, seeds: Sequence[int]) -> list[Attacked]:
    """All windows of these sizes, ``count`` of each size at most, on a model for every seed."""
    return [
        Attacked(paper_model(name, seed), window)
        for seed in seeds
        for size in sizes
        for window in windows(columns_of(name), size, count)
    ]


@dataclass(frozen=True)
class WindowPlan:
    """Which windows of which data sets are attacked.

    Attributes:
        datasets: names.
        sizes: numbers of passive columns for each data set, evenly spaced.
        windows: of adjacent columns, for each size. The paper takes all, as many as there are columns.
        seeds: models of each data set.
        records: attacked predictions.
    """

    datasets: tuple[str, ...] = PAPER_DATASETS
    sizes: int = 8
    windows: int = 6
    seeds: int = 2
    records: int = 500

    def of(self, name: str, first_seed: int) -> list[Attacked]:
        """The windows of one data set, on a model for every seed."""
        seeds = range(first_seed, first_seed + self.seeds)
        return situations(name, widths(columns_of(name), self.sizes), self.windows, seeds)


# Of the section on the agnostic attack, whose windows others take as well.
QUICK = WindowPlan(datasets=("bank", "satellite", "pendigits"), sizes=2, windows=1, seeds=1, records=50)


def placed(frame: pd.DataFrame, windows: Sequence[tuple[int, ...]]) -> pd.DataFrame:
    """Rows with how many passive columns each has, ``d``, and the first of them, ``start``."""
    return frame.assign(d=[len(one) for one in windows], start=[one[0] for one in windows])


def errors(run: StudyRun, at: Sequence[Attacked], rivals: Sequence[Rival], records: int) -> pd.DataFrame:
    """Measure every rival in every situation: a row each, its ``curve`` the rival's label."""
    pairs = [(one, rival) for one in at for rival in rivals]
    frame = run.measure([rival.measurement(one.model, one.passive, records) for one, rival in pairs])
    return frame.assign(curve=[rival.label for _, rival in pairs])
