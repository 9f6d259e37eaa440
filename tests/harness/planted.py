"""Planted leaks: columns of which an attack removes a known part of what is unknown, judged as an audit judges them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.judge.columns import sources_of
from plumbline.judge.evidence import Evidence, Predictor, SourceVerdict, beside_each_other
from plumbline.judge.federation_part import LevelVerdict, at
from plumbline.judge.lights import Light, light_of_column
from tests.harness.judged_runs import Feature, typed
from vfl.arrays import FloatArray


@dataclass(frozen=True)
class PlantedColumn:
    """What an audit says of one column.

    Attributes:
        light: of it.
        verdict: on its squared errors, at the headline's level.
    """

    light: Light
    verdict: LevelVerdict


def estimate_of(truth: FloatArray, part: float, generator: np.random.Generator) -> FloatArray:
    """Estimates of (n,) cells that err by a share 1 - part of their variance, as a posterior mean does."""
    noise = generator.normal(0, np.sqrt(part * (1 - part)) * truth.std(), len(truth))
    found: FloatArray = truth.mean() + part * (truth - truth.mean()) + noise
    return found


def useless(truth: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Estimates that follow the truth and are so noisy that they err exactly as much as its mean, on average."""
    noise = generator.normal(0, np.sqrt(1 - 0.7**2) * truth.std(), len(truth))
    found: FloatArray = truth.mean() + 0.3 * (truth - truth.mean()) + noise
    return found


def audit(truth: FloatArray, attacks: Sequence[Predictor], guesses: Sequence[Predictor] = ()) -> list[PlantedColumn]:
    """Judge (n, d) cells, a number each, by these attacks."""
    own = typed([Feature(column, str(number), scale=100) for number, column in enumerate(truth.T)])
    sources = sources_of("passive", own, truth, 0)
    width, near = (np.array([getattr(one, name) for one in sources]) for name in ("tolerance", "near"))
    evidence = Evidence.of(truth, attacks, guesses, tolerance=width, near=near)
    verdicts = evidence.column_verdicts([one.name for one in sources], ["passive"] * len(sources))
    judged = beside_each_other(
        [SourceVerdict.of(source, one, None, None) for source, one in zip(sources, verdicts, strict=True)]
    )
    return [PlantedColumn(light_of_column(one), at(one.levels)) for one in judged]
