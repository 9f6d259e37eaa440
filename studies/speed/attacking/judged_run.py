"""A made-up run of many records, columns and attacks, as an audit's folder has them, to be judged."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, PartyFeatures, PredictionAttackOutcome
from vfl.arrays import FloatArray

# Features of each of adult's columns, 6 numbers and 8 categories.
_ADULT = (1, 1, 1, 1, 1, 1, 8, 16, 7, 14, 6, 5, 2, 36)


@dataclass(frozen=True)
class MadeRun:
    """What a made-up run has.

    Attributes:
        records: judged.
        columns: of numbers; 0 for adult's 14 columns, which are 102 features.
        attacks: that saw scores; every third says what it would guess without.
    """

    records: int
    columns: int
    attacks: int

    @property
    def words(self) -> str:
        """The run's columns."""
        return f"{self.columns} numbers" if self.columns else f"14 columns as {sum(_ADULT)} features"


def write_made_run(asked: MadeRun, path: Path, seed: int = 1) -> RunFolder:
    """Write a run whose attacks err more and more."""
    generator = np.random.default_rng(seed)
    everyone = asked.records + asked.records // 4
    passive = _numbers(everyone, asked.columns, generator) if asked.columns else _one_hot(everyone, generator)
    judged = np.sort(generator.permutation(everyone)[: asked.records])
    run = RunFolder(path)
    own = np.hstack([generator.random((everyone, 12)), np.ones((everyone, 1))])
    names = np.array([f"y{number}" for number in range(13)])
    run.write_features("active", PartyFeatures(own, names, generator.integers(2, size=everyone)))
    run.write_features("passive", passive)
    estimates, outcomes = _attacked(passive.features[judged], asked.attacks, generator)
    known = np.setdiff1d(np.arange(everyone), judged)[:1000]
    run.write_estimates(0, Estimates(judged, estimates, auxiliary_rows=known))
    run.write_prediction_outcomes(outcomes)
    return run


def _attacked(
    truth: FloatArray, attacks: int, generator: np.random.Generator
) -> tuple[dict[str, FloatArray], list[PredictionAttackOutcome]]:
    estimates, outcomes = dict[str, FloatArray](), []

    def near(middle: FloatArray, error: float) -> FloatArray:
        return np.clip(middle + generator.normal(0, error, truth.shape), 0, 1)

    for number in range(attacks):
        name = f"attack_{number}"
        estimates[name] = near(truth, 0.1 + 0.05 * number)
        if number % 3 == 0:
            estimates[f"withheld: {name}"] = near(truth.mean(axis=0), 0.01)
        outcomes.append(
            PredictionAttackOutcome(
                attack=name, batch=0, records=len(truth), status=DONE, level="nothing", sees_scores=True, seconds=1.0
            )
        )
    return estimates, outcomes


def _numbers(records: int, columns: int, generator: np.random.Generator) -> PartyFeatures:
    """Columns of numbers, some of few values."""
    features = generator.random((records, columns))
    features[:, ::3] = np.round(features[:, ::3] * 4) / 4
    return _described(features, list(range(columns)), ["number"] * columns)


def _one_hot(records: int, generator: np.random.Generator) -> PartyFeatures:
    """Numbers, and categories with a feature per value."""
    blocks, sources, kinds = list[FloatArray](), list[int](), list[str]()
    for source, width in enumerate(_ADULT):
        chosen = generator.integers(width, size=records)
        blocks.append(generator.random((records, 1)) if width == 1 else np.eye(width)[chosen])
        sources += [source] * width
        kinds += ["number" if width == 1 else "category"] * width
    return _described(np.hstack(blocks), sources, kinds)


def _described(features: FloatArray, sources: list[int], kinds: list[str]) -> PartyFeatures:
    count = features.shape[1]
    return PartyFeatures(
        features,
        np.array([f"x{number}" for number in range(count)]),
        sources=np.array([f"c{source}" for source in sources]),
        kinds=np.array(kinds),
        offsets=np.zeros(count),
        scales=np.full(count, 100.0),
    )
