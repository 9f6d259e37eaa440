"""``plumbline bench attacks``: every attack on predictions of a standard table, and judging a made-up run of many."""

import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import attacks
from attacks import AuxiliaryRows, PassiveMoments, PredictionView, ViewError
from attacks.registry import REGISTRY
from plumbline.judge.predictions import read_prediction_findings
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, PartyFeatures, PredictionAttackOutcome
from studies.simulation.linear_models import TrainedModel, train
from studies.speed.repetition import WrongResult, in_turns, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

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
        said: dict[str, Any] = {"status": DONE, "level": "nothing", "sees_scores": True, "seconds": 1.0}
        outcomes.append(PredictionAttackOutcome(attack=name, batch=0, records=len(truth), **said))
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


# scikit-learn brings it along: 64 columns, 10 classes.
_STANDARD = "digits"
_PASSIVE = 30
_AUXILIARY = 100
# With fewer passive columns than classes, exact scores leave these no choice but the truth.
_SOLVERS = ("clamped_ls", "cls", "half_star", "ls", "rcc1", "rcc2")
_DETERMINED = 5
_EXACT = 1e-6


@dataclass(frozen=True)
class AttacksAsked:
    """What is measured.

    Attributes:
        records: attacked predictions.
        names: of attacks; empty for all that are installed.
        judged: made-up runs that are judged.
        repetitions: in turns.
    """

    records: int = 1_000
    names: tuple[str, ...] = ()
    judged: tuple[MadeRun, ...] = (MadeRun(8_000, 12, 14), MadeRun(8_000, 100, 14), MadeRun(8_000, 0, 14))
    repetitions: int = 3

    def with_judged(self, records: int) -> "AttacksAsked":
        """The same with runs of so many records."""
        return replace(self, judged=tuple(replace(one, records=records) for one in self.judged))


def measure_attacks(asked: AttacksAsked, progress: Progress = silent) -> Result:
    """Time attacks and the judge.

    Raises WrongResult for a solver that doesn't find the only solution, and for an attack or a judge that says
    something else the second time; ValueError for an unknown attack.
    """
    names = asked.names or tuple(one for one in REGISTRY.usable() if _is_on_predictions(one))
    model = train(_STANDARD, None)
    _check_solvers(names)
    tables = [_attack_table(asked, names, model, progress), _judge_table(asked, progress)]
    usual = AttacksAsked.judged[0].records
    judged = [f"--judged {one.records}" for one in asked.judged[:1] if one.records != usual]
    command = command_of("attacks", asked, ("records", "repetitions"), more=" ".join((*asked.names, *judged)))
    return Result("attacks", command, tuple(table for table in tables if table.rows))


def _is_on_predictions(name: str) -> bool:
    with suppress(ValueError, ImportError):
        return attacks.spec_of(name).phase == "prediction"
    return False


def standard_view(model: TrainedModel, passive: int, records: int) -> tuple[PredictionView, FloatArray]:
    """Everything that an active party may have in white box, and the truth; records repeat where there are too few."""
    many = replace(model, features=np.resize(model.features, (records, model.features.shape[1])))
    columns = range(passive)
    view, truth = many.view(columns, records)
    known = model.features_train[:_AUXILIARY]
    scores = replace(model, features=known).scores
    passive_train = model.features_train[:, :passive]
    return (
        replace(
            view,
            labels=model.labels_train,
            features_train=model.features_train[:, passive:],
            auxiliary=AuxiliaryRows(known[:, passive:], known[:, :passive], scores, model.labels_train[:_AUXILIARY]),
            moments=PassiveMoments(passive_train.mean(axis=0), passive_train.var(axis=0), np.cov(passive_train.T)),
        ),
        truth,
    )


def _check_solvers(names: tuple[str, ...]) -> None:
    draw = np.random.default_rng(7)
    features, weights = draw.random((50, 8)), draw.normal(size=(_DETERMINED + 2, 8))
    own, truth = features[:, _DETERMINED:], features[:, :_DETERMINED]
    view = PredictionView(
        features_active=own,
        scores=confidence_scores(features @ weights.T),
        weights_active=weights[:, _DETERMINED:],
        weights_passive=weights[:, :_DETERMINED],
        bias=np.zeros(len(weights)),
    )
    for name in set(names) & set(_SOLVERS):
        error = np.abs(attacks.load(name).reconstruct(view) - truth).max()
        if error > _EXACT:
            raise WrongResult(f"{name} is off by {error:.1e} where there is but one solution: its time means nothing.")


def _attack_table(asked: AttacksAsked, names: tuple[str, ...], model: TrainedModel, progress: Progress) -> ResultTable:
    view, _ = standard_view(model, _PASSIVE, asked.records)
    reasons = {name: reason for name in names if (reason := _why_not(name, view))}
    variants = {name: _attack(name, view, progress) for name in names if name not in reasons}
    rows = [_attack_row(name, runs, asked.records) for name, runs in in_turns(variants, asked.repetitions).items()]
    rows.sort(key=lambda row: -row["seconds"].median if isinstance(row["seconds"], Spread) else 0.0)
    skipped = [f"{name}: skipped, {reason}" for name, reason in reasons.items()]
    return ResultTable(
        "attacks",
        f"Attacks on {asked.records:,} predictions of {_STANDARD}: {_PASSIVE} passive columns, {model.classes} classes",
        columns_of(attack="attack", seconds="CPU, s", rate="records/s"),
        tuple(rows),
        ("Seconds of process CPU, in turns, each after a first run on ten records.", *skipped),
    )


def _why_not(name: str, view: PredictionView) -> str:
    """Why an attack doesn't apply to the standard table; empty where it does. Runs it on ten records."""
    scores = None if view.scores is None else view.scores[:10]
    few = replace(view, features_active=view.features_active[:10], scores=scores)
    try:
        attacks.load(name).reconstruct(few)
    except (ViewError, ImportError) as error:
        return str(error)
    return ""


def _attack(name: str, view: PredictionView, progress: Progress) -> Callable[[], tuple[float, FloatArray]]:
    def run() -> tuple[float, FloatArray]:
        progress(name)
        return timed(lambda: attacks.load(name).reconstruct(view))

    return run


def _attack_row(name: str, runs: list[tuple[float, FloatArray]], records: int) -> dict[str, Cell]:
    first = runs[0][1]
    if not np.isfinite(first).all() or any(not np.array_equal(first, other) for _, other in runs[1:]):
        raise WrongResult(f"{name} estimates no numbers, or others the second time: its time means nothing.")
    seconds = [one for one, _ in runs]
    return {"attack": name, "seconds": Spread.of(seconds), "rate": Spread.of([records / one for one in seconds])}


def _judge_table(asked: AttacksAsked, progress: Progress) -> ResultTable:
    rows = list[dict[str, Cell]]()
    for made in asked.judged:
        with tempfile.TemporaryDirectory(prefix="plumbline-bench-") as folder:
            run = write_made_run(made, Path(folder))
            found = []
            for _ in range(asked.repetitions):
                progress(f"judging {made.words}")
                found.append(timed(lambda run=run: read_prediction_findings(run, ["passive"])))  # type: ignore[misc]
        # Words, since what isn't there is NaN, which equals nothing.
        if len({repr(findings) for _, findings in found}) != 1:
            raise WrongResult("The judge says something else the second time: its time means nothing.")
        seconds = Spread.of([one for one, _ in found])
        rows.append({"records": made.records, "columns": made.words, "attacks": made.attacks, "seconds": seconds})
    return ResultTable(
        "judge",
        "Judging a made-up run",
        columns_of(records="records", columns="columns", attacks="attacks", seconds="CPU, s"),
        tuple(rows),
        ("Seconds of process CPU of everything that a report says of predictions.",),
    )
