"""Planted leaks: columns of which an attack removes a known part of what is unknown, judged as an audit judges them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np

from plumbline.judge.clusters import Clusters
from plumbline.judge.columns import LogScale, sources_of
from plumbline.judge.evidence import Evidence, Predictor, SourceVerdict, judged_source, verdicts_of
from plumbline.judge.federation_part import LevelVerdict, at
from plumbline.judge.lights import light_of_column
from plumbline.telling.document import Light
from tests.harness.judged_runs import Feature, typed
from vfl.arrays import FloatArray

# Estimates of (n,) cells.
Estimate = Callable[[FloatArray, np.random.Generator], FloatArray]


@dataclass(frozen=True)
class PlantedColumn:
    """What an audit says of one column.

    Attributes:
        light: of it.
        judged: all that was found of it.
    """

    light: Light
    judged: SourceVerdict

    @property
    def verdict(self) -> LevelVerdict:
        """On its squared errors at the headline's level, of skewed ones on their log scale."""
        return at(self.judged.logs or self.judged.levels)


def estimate_of(part: float, truth: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Estimates of (n,) cells that err by a share 1 - part of their variance, as a posterior mean does."""
    noise = generator.normal(0, np.sqrt(part * (1 - part)) * truth.std(), len(truth))
    found: FloatArray = truth.mean() + part * (truth - truth.mean()) + noise
    return found


def useless(truth: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Estimates that follow the truth and are so noisy that they err exactly as much as its mean, on average."""
    noise = generator.normal(0, np.sqrt(1 - 0.7**2) * truth.std(), len(truth))
    found: FloatArray = truth.mean() + 0.3 * (truth - truth.mean()) + noise
    return found


def independent(truth: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Estimates that know nothing: the mean, moved by .3 of another cell's distance from it."""
    found: FloatArray = truth.mean() + 0.3 * (generator.permutation(truth) - truth.mean())
    return found


def audit(
    truth: FloatArray,
    attacks: Sequence[Predictor],
    guesses: Sequence[Predictor] = (),
) -> list[PlantedColumn]:
    """Judge (n, d) cells, a number each, by these attacks."""
    (found,) = audits(truth, attacks, guesses, columns=truth.shape[1])
    return found


def audits(
    truth: FloatArray,
    attacks: Sequence[Predictor],
    guesses: Sequence[Predictor] = (),
    *,
    columns: int,
    persons: Clusters | None = None,
) -> list[list[PlantedColumn]]:
    """Judge several audits of as many records at once, each of the next ``columns`` of (n, d) cells."""
    own = typed([Feature(column, str(number), scale=100) for number, column in enumerate(truth.T)])
    sources = sources_of("passive", own, truth, 0)
    width, near = (np.array([getattr(one, name) for one in sources]) for name in ("tolerance", "near"))
    evidence = Evidence.of(truth, attacks, guesses, tolerance=width, near=near, persons=persons)
    evidence = replace(evidence, logs={one.value: one.logs for one in sources if one.logs is not None})
    features = evidence.judged()
    judged = [judged_source(source, features, None, None) for source in sources]
    return [
        [PlantedColumn(light_of_column(one), one) for one in verdicts_of(judged[first : first + columns])]
        for first in range(0, len(judged), columns)
    ]


Shape = Literal["normal", "lognormal", "five values"]
_DRAWN: dict[Shape, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "normal": lambda generator, shape: generator.standard_normal(shape),
    "lognormal": lambda generator, shape: np.exp(1.5 * generator.standard_normal(shape)),
    "five values": lambda generator, shape: generator.integers(0, 5, shape).astype(np.float64),
}
COLUMNS = 8


@dataclass(frozen=True)
class Cell:
    """A kind of audit: of eight columns that a party scaled to 0 to 1.

    Attributes:
        shape: how values spread. What is planted in lognormal ones is so on their log scale.
        records: how many judge.
        copies: records of each person, one rounding apart.
        attacks: how many compete at each level of what an adversary knows beforehand.
    """

    shape: Shape
    records: int
    copies: int
    attacks: int

    def runs(
        self, draws: int, estimate: Estimate, planted: Sequence[float] = (), *, seed: int = 0
    ) -> Iterator[list[PlantedColumn]]:
        """Judge audits.

        Args:
            draws: how many.
            estimate: what attacks take columns for.
            planted: of the first columns, which part the first attack removes in place of that.
            seed: draws them.
        """
        for first in range(0, draws, _AT_ONCE):
            yield from self._several(
                min(_AT_ONCE, draws - first), estimate, planted, np.random.default_rng([seed, first])
            )

    def _several(
        self, draws: int, estimate: Estimate, planted: Sequence[float], generator: np.random.Generator
    ) -> list[list[PlantedColumn]]:
        drawn = _DRAWN[self.shape](generator, (self.records // self.copies, draws * COLUMNS))
        cells = (drawn - drawn.min(axis=0)) / np.ptp(drawn, axis=0)
        scales = [LogScale.for_skewed(column) for column in cells.T]
        scaled = [column if one is None else one.of(column) for column, one in zip(cells.T, scales, strict=True)]
        found = [[estimate(column, generator) for column in scaled] for _ in range(self.attacks)]
        for number, column in product(range(len(planted)), range(0, draws * COLUMNS, COLUMNS)):
            found[0][column + number] = estimate_of(planted[number], scaled[column + number], generator)
        whose = generator.permutation(np.repeat(np.arange(len(cells)), self.copies))
        rounding = 0.0 if self.shape == "five values" else _STEP
        apart = rounding * generator.integers(0, 2, (self.records, draws * COLUMNS)) * (self.copies > 1)
        truth = np.clip(np.rint(cells[whose] / _STEP) * _STEP + apart, 0.0, 1.0)
        persons = Clusters.of(truth, np.full(draws * COLUMNS, rounding))
        attacks = [
            Predictor(f"attack {number}", "marginals", np.column_stack(list(map(_from_log_scale, one, scales)))[whose])
            for number, one in enumerate(found)
        ]
        return audits(truth, attacks, columns=COLUMNS, persons=persons)


@dataclass(frozen=True)
class Power:
    """What audits say of a column of which a part is planted, over many of them.

    Attributes:
        red: share of audits in which it is red.
        shown: share in which it is amber or red.
        green: share in which it is green.
        part: mean of what was measured.
        covered: share in which the interval has the planted part.
    """

    red: float
    shown: float
    green: float
    part: float
    covered: float

    @classmethod
    def of(cls, planted: float, found: Sequence[PlantedColumn]) -> "Power":
        """Sum up what was found of one such column."""
        lights = Counter(one.light for one in found)
        parts = [one.verdict.part for one in found if one.verdict.part is not None]
        return cls(
            lights["red"] / len(found),
            (lights["red"] + lights["amber"]) / len(found),
            lights["green"] / len(found),
            float(np.mean([one.mean for one in parts])),
            float(np.mean([one.low <= planted <= one.high for one in parts])),
        )


def alarms(cell: Cell, draws: int, estimate: Estimate) -> int:
    """Count audits without a leak of which a light is red or amber."""
    return sum(any(one.light in ("red", "amber") for one in run) for run in cell.runs(draws, estimate))


# Parts that are planted in the first two columns.
PARTS = (0.63, 0.28)


def powers(cell: Cell, draws: int) -> list[Power]:
    """Sum up what is found of the columns with ``PARTS``, beside others that an attack follows and tells nothing of."""
    runs = list(cell.runs(draws, useless, PARTS))
    return [Power.of(part, [run[number] for run in runs]) for number, part in enumerate(PARTS)]


# Audits that are judged at once: fewer calls of numpy.
_AT_ONCE = 50
# That of a session's fixed point.
_STEP = 2.0**-16


def _from_log_scale(places: FloatArray, scale: LogScale | None) -> FloatArray:
    """Find the cells at places of a log scale; of none, the cells themselves."""
    if scale is None:
        return places
    distance: FloatArray = scale.unit * np.expm1(places * np.log1p(1 / scale.unit))
    return 1 - distance if scale.is_mirrored else distance
