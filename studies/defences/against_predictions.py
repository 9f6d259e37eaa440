"""Every attack on predictions against every defence, on several models trained in one place (SIMULATION)."""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cached_property
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import defences
from defences import DefenceError
from plumbline.simulation.linear_models import Training, train
from plumbline.simulation.rounds import Done
from plumbline.simulation.score_measures import mean_divergence
from plumbline.simulation.situations import Setting, Situation, situation_of
from studies.defences.adversaries import PUBLISHED, Adversaries, Estimate
from studies.defences.cases import NONE, UNCHANGED, Case, Plan, Trial, available
from studies.defences.remaining import HALVES
from vfl.arrays import FloatArray
from vfl.cores import available_cores

_Row = dict[str, Any]
_THREADS = "OMP_NUM_THREADS"


class _Job(NamedTuple):
    """One case and one trained model."""

    case: Case
    training: Training
    seed: int


def prediction_rows(data_dir: Path | None, plan: Plan, *, seed: int, done: Done) -> tuple[pd.DataFrame, list[str]]:
    """Measure one row per case, model, trial and adversary; and say what there is about missing data sets.

    Args:
        data_dir: of the raw files.
        plan: how much is measured.
        seed: the first one; others follow it.
        done: told which share of the work is done.
    """
    cases, said = available(plan, data_dir)
    jobs = [
        _Job(case, training, seed + number)
        for case in cases
        for training in plan.trainings
        for number in range(plan.seeds)
    ]
    found: dict[_Job, list[_Row]] = {}
    for job, rows in _measured(jobs, data_dir, plan):
        found[job] = rows
        done(len(found) / len(jobs))
    rows = [row for job in jobs for row in found[job]]
    # What nothing needs to be measured of, and why.
    for case, (defence, reason), (label, *_) in product(cases, UNCHANGED.items(), PUBLISHED):
        same = {"defence": defence, "options": "defaults", "trial": defence, "status": "unchanged", "reason": reason}
        rows.append(_words_of(case) | same | {"attack": label, "awareness": "knows nothing of it"})
    return pd.DataFrame(rows), said


def _measured(jobs: list[_Job], data_dir: Path | None, plan: Plan) -> Iterator[tuple[_Job, list[_Row]]]:
    """All jobs in the order in which they end, on all processors."""
    processors = min(available_cores(), len(jobs))
    if processors == 1:
        for job in jobs:
            yield job, _model_rows(job, data_dir, plan)
        return
    # Started anew: torch doesn't outlive a fork.
    start = get_context("spawn")
    with _single_threaded(), ProcessPoolExecutor(processors, start, _without_chatter) as pool:
        futures = {pool.submit(_model_rows, job, data_dir, plan): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()


@contextmanager
def _single_threaded() -> Iterator[None]:
    """A process a processor: in those that start meanwhile, more threads would only wait for each other."""
    before = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_THREADS]
        if before is not None:
            os.environ[_THREADS] = before


def _without_chatter() -> None:
    """Distorted equations often have no solution; that attacks then take longer is not worth a line each time."""
    logging.getLogger("attacks").setLevel(logging.ERROR)


def _model_rows(job: _Job, data_dir: Path | None, plan: Plan) -> list[_Row]:
    lab = Lab(job.case, data_dir, job.training, job.seed, plan)
    adversaries = Adversaries(rounds=plan.rounds, draws=plan.draws, brought=plan.brought)
    shared = _words_of(job.case) | {"optimiser": job.training, "seed": job.seed}
    expected = adversaries.expected(lab.plain.view)
    guesses = list(adversaries.guesses(lab.plain.view, expected))
    rows: list[_Row] = []
    for trial in plan.trials:
        # It has an optimiser of its own.
        if trial.defence == "dp_sgd" and job.training != plan.trainings[0]:
            continue
        own = shared | {"defence": trial.defence, "options": trial.words, "trial": trial.title}
        try:
            situation = lab.defended(trial)
        except DefenceError as error:
            refused = {"status": "not applicable", "reason": str(error), "awareness": "knows nothing of it"}
            rows += [own | refused | {"attack": label} for label, *_ in PUBLISHED]
            continue
        own |= lab.quality(situation)
        estimates = [*guesses, *adversaries.attack(situation.view, situation.ask, expected)]
        estimates += adversaries.refused(situation.view, situation.ask)
        rows += [own | _judged(estimate, lab.truth) for estimate in estimates]
    return rows


def _judged(estimate: Estimate, truth: FloatArray) -> _Row:
    who = {"attack": estimate.attack, "level": estimate.level, "awareness": estimate.awareness}
    who |= {"status": estimate.status, "reason": estimate.reason}
    if estimate.features is None:
        return who
    errors = ((estimate.features - truth) ** 2).mean(axis=1)
    middle = len(errors) // 2
    halves = {name: float(part.mean()) for name, part in zip(HALVES, np.split(errors, [middle]), strict=True)}
    return who | halves | {"mse": float(errors.mean())}


def _words_of(case: Case) -> _Row:
    return {"phase": "prediction", "dataset": case.dataset, "case": case.title}


# Small data sets need records that are neither trained on nor judged.
_HELD_OUT = 0.4


class Lab:
    """One case and one trained model: what each defence makes of it.

    Of the held-out records the first are attacked and the next are the auxiliary ones, on which nothing was trained.
    """

    def __init__(self, case: Case, data_dir: Path | None, training: Training, seed: int, plan: Plan) -> None:
        """Train the model. Raises DatasetNotFound."""
        self._seed = seed
        self._model = train(case.dataset, data_dir, training, seed, held_out=_HELD_OUT)
        held_out, width = self._model.features.shape
        known = tuple(range(plan.records, min(plan.records + plan.auxiliary, held_out)))
        self._setting = Setting(tuple(range(width - case.passive, width)), plan.records, known, moments=True)

    @cached_property
    def plain(self) -> Situation:
        """Without a defence."""
        return situation_of(self._model, self._setting)

    @property
    def truth(self) -> FloatArray:
        """The passive columns of the attacked records, (n, d)."""
        return self.plain.truth

    def defended(self, trial: Trial) -> Situation:
        """Under a defence. Raises DefenceError for one that can't work on this model."""
        if trial.defence == NONE:
            return self.plain
        return situation_of(
            self._model, self._setting, [defences.load(trial.defence, **trial.options)], seed=self._seed
        )

    def quality(self, situation: Situation) -> dict[str, float]:
        """Measure what a defence costs the active party: its model's accuracy and its scores, on held-out records."""
        plain = self.plain.scores
        return {
            "model_accuracy": self._accuracy(situation.scores),
            "model_accuracy_undefended": self._accuracy(plain),
            "kl": mean_divergence(plain, situation.scores),
            "interpretability": situation.interpretability,
        }

    def _accuracy(self, scores: FloatArray) -> float:
        return float((scores.argmax(axis=1) == self._model.labels).mean())
