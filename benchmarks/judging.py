"""How long judging takes: a made-up run of many records, columns and attacks, as an audit's folder has them.

python -m benchmarks.judging            # 8,000 records, 12 columns, 14 attacks
python -m benchmarks.judging --one-hot  # 8,000 records, 14 columns that are 100 features, as adult's are
"""

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from benchmarks.stopwatch import timed
from plumbline.judge.predictions import read_prediction_findings
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, PartyFeatures, PredictionAttackOutcome
from vfl.arrays import FloatArray, IntArray

# Features of each of adult's columns, 6 numbers and 8 categories.
_ADULT = (1, 1, 1, 1, 1, 1, 8, 16, 7, 14, 6, 5, 2, 36)


def numbers(records: int, columns: int, generator: np.random.Generator) -> PartyFeatures:
    """Make columns of numbers, some of few values."""
    features = generator.random((records, columns))
    features[:, ::3] = np.round(features[:, ::3] * 4) / 4
    return _described(features, list(range(columns)), ["number"] * columns)


def one_hot(records: int, generator: np.random.Generator) -> PartyFeatures:
    """Make numbers, and categories with a feature per value."""
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


def write_run(
    path: Path, passive: PartyFeatures, judged: IntArray, attacks: int, generator: np.random.Generator
) -> RunFolder:
    """Write a run whose attacks err more and more, every third of which says what it would guess without scores."""
    run, records = RunFolder(path), len(passive.features)
    labels = generator.integers(2, size=records)
    own = np.hstack([generator.random((records, 12)), np.ones((records, 1))])
    run.write_features("active", PartyFeatures(own, np.array([f"y{number}" for number in range(13)]), labels))
    run.write_features("passive", passive)
    truth, estimates, outcomes = passive.features[judged], dict[str, FloatArray](), []
    for number in range(attacks):
        name = f"attack_{number}"
        estimates[name] = np.clip(truth + generator.normal(0, 0.1 + 0.05 * number, truth.shape), 0, 1)
        if number % 3 == 0:
            estimates[f"withheld: {name}"] = np.clip(truth.mean(axis=0) + generator.normal(0, 0.01, truth.shape), 0, 1)
        outcomes.append(
            PredictionAttackOutcome(
                attack=name, batch=0, records=len(judged), status=DONE, level="nothing", sees_scores=True, seconds=1.0
            )
        )
    known = np.setdiff1d(np.arange(records), judged)[:1000]
    run.write_estimates(0, Estimates(judged, estimates, auxiliary_rows=known))
    run.write_prediction_outcomes(outcomes)
    return run


def main(
    records: Annotated[int, typer.Option(help="Judged records.")] = 8_000,
    columns: Annotated[int, typer.Option(help="Of numbers.")] = 12,
    attacks: Annotated[int, typer.Option(help="That saw scores.")] = 14,
    categories: Annotated[bool, typer.Option("--one-hot", help="14 columns as 100 features instead.")] = False,
) -> None:
    """Judge a made-up run and say how long it took."""
    generator = np.random.default_rng(1)
    everyone = records + records // 4
    passive = one_hot(everyone, generator) if categories else numbers(everyone, columns, generator)
    judged = np.sort(generator.permutation(everyone)[:records])
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(Path(folder), passive, judged, attacks, generator)
        seconds, _ = timed(read_prediction_findings, run, ["passive"])
    width = passive.features.shape[1]
    Console().print(f"{records:,} records x {width} features x {attacks} attacks: {seconds:.1f} s of CPU")


if __name__ == "__main__":
    typer.run(main)
