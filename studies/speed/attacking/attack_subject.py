"""``plumbline bench attacks``: every attack on predictions of a standard table, and judging a run of many."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import attacks
from attacks import AuxiliaryRows, PassiveMoments, PredictionView, ViewError
from attacks.registry import REGISTRY
from plumbline.judge.predictions import read_prediction_findings
from plumbline.simulation.linear_models import TrainedModel, train
from studies.speed.attacking.judged_run import MadeRun, write_made_run
from studies.speed.repetition import WrongResult, in_turns, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

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
    few = replace(view, features_active=view.features_active[:10], scores=_first(view.scores, 10))
    try:
        attacks.load(name).reconstruct(few)
    except (ViewError, ImportError) as error:
        return str(error)
    return ""


def _first(scores: FloatArray | None, count: int) -> FloatArray | None:
    return None if scores is None else scores[:count]


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
    return ResultTable(
        "judge",
        "Judging a made-up run",
        columns_of(records="records", columns="columns", attacks="attacks", seconds="CPU, s"),
        tuple(_judge_rows(asked, progress)),
        ("Seconds of process CPU of everything that a report says of predictions.",),
    )


def _judge_rows(asked: AttacksAsked, progress: Progress) -> Iterator[dict[str, Cell]]:
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
        yield {"records": made.records, "columns": made.words, "attacks": made.attacks, "seconds": seconds}
