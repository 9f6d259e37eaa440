"""The data sets of Hu, section 7, how their preparation may be meant, and how much of it a run measures.

The paper leaves open how features are scaled and whether there is an intercept. Each ``Reading`` is one answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from studies.measurements import DataChoice, TaskMeasurement
from studies.simulation.records import Reading
from studies.simulation.side_by_side import BATCH_SIZE, LEARNING_RATE
from studies.study import StudyRun

INITIALISATIONS = ("zero", "xavier", "kaiming")


@dataclass(frozen=True)
class Experiment:
    """One data set of section 7.

    Attributes:
        title: on the page.
        epochs: of the paper.
        readings: how its preparation may be meant; the first is the one that the other sections measure.
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


_SEEDS = 5
# Of a short study.
_QUICK_SEEDS, _QUICK_EPOCHS = 2, {"mnist01": 5, "credit": 4}


@dataclass(frozen=True)
class HuChoices:
    """What of the study is asked for.

    Attributes:
        seeds: the seeds, in order.
        epochs: by data set.
        datasets: those of them that are asked for and there.
        wire: whether federations are started.
        skipped: a sentence for each data set that is asked for and missing.
        quick: whether it is the short study.
    """

    seeds: tuple[int, ...]
    epochs: Mapping[str, int]
    datasets: tuple[str, ...]
    wire: bool
    skipped: tuple[str, ...]
    quick: bool

    @classmethod
    def of(cls, run: StudyRun) -> "HuChoices":
        """Read what a run asks for.

        Raises:
            ValueError: for a data set that Hu has no experiment on, or no seed.
        """
        epochs = _QUICK_EPOCHS if run.quick else {name: one.epochs for name, one in HU_EXPERIMENTS.items()}
        asked = tuple(cast("Sequence[str]", run.options.get("datasets", ()))) or tuple(HU_EXPERIMENTS)
        for name in asked:
            if name not in HU_EXPERIMENTS:
                raise ValueError(f"Hu has no experiment on {name!r}: choose from {', '.join(HU_EXPERIMENTS)}.")
        count = int(cast("int", run.options.get("seeds", _SEEDS)))
        if count < 1:
            raise ValueError(f"Expected at least 1 seed, got {count}.")
        seeds = tuple(range(run.seed, run.seed + (min(count, _QUICK_SEEDS) if run.quick else count)))
        there, skipped = run.available(asked)
        return cls(seeds, epochs, there, bool(run.options.get("wire")), skipped, run.quick)

    @property
    def words(self) -> str:
        """What a short study leaves out, as a sentence; empty for a full one."""
        if not self.quick:
            return ""
        epochs = ", ".join(
            f"{self.epochs[name]} of {HU_EXPERIMENTS[name].epochs} epochs on {name}" for name in self.epochs
        )
        return f"Quick: {len(self.seeds)} seeds and {epochs}."


def measurement(task: str, dataset: str, /, **options: Any) -> TaskMeasurement:
    """Describe a measurement of this study: ``module:function`` below this folder, on a data set as it is loaded."""
    return TaskMeasurement.of(f"studies.hu.{task}", DataChoice(dataset, scaled=False), **options)


def of_paper(results: pd.DataFrame) -> pd.DataFrame:
    """Choose the trainings with the paper's rate and batch size."""
    return results[(results["learning_rate"] == LEARNING_RATE) & (results["batch_size"] == BATCH_SIZE)]
