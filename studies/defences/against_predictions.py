"""Every attack on predictions against every defence, on several models trained in one place (SIMULATION)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import attacks
import defences
from defences import Defence, DefenceError
from studies.defences.adversaries import PUBLISHED, Adversaries, Estimate
from studies.defences.cases import NONE, UNCHANGED, Case, Plan, Trial, available
from studies.defences.remaining import HALVES
from studies.measurements import Choice, DataChoice, ModelChoice, TaskMeasurement
from studies.measurements.descriptions import Options, frozen_options
from studies.simulation.linear_models import TrainedModel, Training
from studies.simulation.score_measures import mean_divergence
from studies.simulation.situations import Setting, Situation, situation_of
from studies.study import StudyRun
from vfl.arrays import FloatArray

_Row = dict[str, Any]
# What a trial costs.
QUALITY = ("model_accuracy", "model_accuracy_undefended", "kl", "interpretability")
_OF_ESTIMATE = ("attack", "level", "awareness", "status", "reason", "mse", *HALVES)
# Small data sets need records that are neither trained on nor judged.
HELD_OUT = 0.4


@dataclass(frozen=True)
class _Asked:
    """One case, trained model and trial: a measurement."""

    case: Case
    training: Training
    seed: int
    trial: Trial

    def measurement(self, plan: Plan) -> TaskMeasurement:
        model = ModelChoice(DataChoice(self.case.dataset), trainer=self.training, seed=self.seed, held_out=HELD_OUT)
        return TaskMeasurement.of(
            f"{__name__}:trial_estimates",
            model,
            passive=self.case.passive,
            seed=self.seed,
            defence=self.trial.defence,
            options=frozen_options(self.trial.options),
            brought=tuple((one.name, one.options) for one in plan.brought),
            records=plan.records,
            auxiliary=plan.auxiliary,
            rounds=plan.rounds,
            draws=plan.draws,
        )


def prediction_rows(run: StudyRun, plan: Plan) -> tuple[pd.DataFrame, list[str]]:
    """Measure one row per case, model, trial and adversary; and say what there is about missing data sets.

    Raises:
        ValueError: for an attack or a defence that a user brings and that doesn't take its options, and where an
            undefended model couldn't be attacked.
    """
    for one in plan.brought:
        attacks.load_prediction(one.name, **dict(one.options))
    for trial in plan.trials:
        _mounted(trial.defence, trial.options)
    cases, said = available(plan, run.data_dir)
    asked = [
        _Asked(case, training, run.seed + number, trial)
        for case in cases
        for training in plan.trainings
        for number in range(plan.seeds)
        for trial in plan.trials
        # It has an optimiser of its own.
        if trial.defence != "dp_sgd" or training == plan.trainings[0]
    ]
    frame = run.measure([one.measurement(plan) for one in asked])
    for model, status, reason in zip(asked, frame["status"], frame["reason"], strict=True):
        if model.trial.defence == NONE and status != "done":
            raise ValueError(
                f"{model.case.title}, {model.training}, seed {model.seed} failed without a defence, which all "
                f"others are compared with: {reason} The same command tries it again."
            )
    rows = [
        row
        for one, measured in zip(asked, frame.to_dict("records"), strict=True)
        if measured["status"] == "done"
        for row in _rows_of(one, measured)
    ]
    # What nothing needs to be measured of, and why.
    for case, (defence, reason), (label, *_) in product(cases, UNCHANGED.items(), PUBLISHED):
        same = {"defence": defence, "options": "defaults", "trial": defence, "status": "unchanged", "reason": reason}
        rows.append(_words_of(case) | same | {"attack": label, "awareness": "knows nothing of it"})
    return pd.DataFrame(rows), said


def _rows_of(asked: _Asked, measured: Mapping[Any, Any]) -> Iterator[_Row]:
    trial = asked.trial
    shared = _words_of(asked.case) | {"optimiser": asked.training, "seed": asked.seed}
    shared |= {"defence": trial.defence, "options": trial.words, "trial": trial.title}
    if measured["refused"]:
        refused = {"status": "not applicable", "reason": measured["refused"], "awareness": "knows nothing of it"}
        yield from (shared | refused | {"attack": label} for label, *_ in PUBLISHED)
        return
    shared |= {name: measured[name] for name in QUALITY}
    for estimate in measured["estimates"]:
        yield shared | dict(zip(_OF_ESTIMATE, estimate, strict=True))


def _words_of(case: Case) -> _Row:
    return {"phase": "prediction", "dataset": case.dataset, "case": case.title}


# --- a measurement ------------------------------------------------------------------------------------------------


def trial_estimates(model: TrainedModel, *, defence: str, options: Options, **terms: Any) -> Mapping[str, Any]:
    """Attack a model's predictions under one defence by all adversaries (a task of `studies.measurements`).

    Args:
        model: trained in one place.
        defence: its name, or "none".
        options: of the defence.
        terms: of `_prepared`.

    Returns:
        ``refused``, why the defence can't work on this model, else empty; what it costs (`Lab.quality`); and
        ``estimates``, a list per adversary: its attack, level, awareness, status, reason, and mean squared errors over
        all attacked records and over both halves of them (NaN for none).
    """
    lab, adversaries, expected, guesses = _prepared(model, **terms)
    try:
        situation = lab.defended(Trial(defence, dict(options)))
    except DefenceError as error:
        return {"refused": str(error)}
    estimates = [*guesses, *adversaries.attack(situation.view, situation.ask, expected)]
    estimates += adversaries.refused(situation.view, situation.ask)
    judged = [_judged(estimate, lab.truth) for estimate in estimates]
    return {"refused": "", **lab.quality(situation), "estimates": judged}


class _Prepared(NamedTuple):
    """What the measurements of one model and case share: adversaries with what they know before they see a score."""

    lab: "Lab"
    adversaries: Adversaries
    expected: Mapping[str, FloatArray]
    guesses: list[Estimate]


# Measurements of one model and case come one after the other.
@lru_cache(maxsize=1)
def _prepared(
    model: TrainedModel, *, brought: tuple[tuple[str, Options], ...], rounds: int, draws: int, **terms: Any
) -> _Prepared:
    lab = Lab(model, **terms)
    adversaries = Adversaries(rounds=rounds, draws=draws, brought=[Choice(*one) for one in brought])
    expected = adversaries.expected(lab.plain.view)
    return _Prepared(lab, adversaries, expected, list(adversaries.guesses(lab.plain.view, expected)))


def _judged(estimate: Estimate, truth: FloatArray) -> list[Any]:
    errors = (
        np.full(len(truth), np.nan) if estimate.features is None else ((estimate.features - truth) ** 2).mean(axis=1)
    )
    halves = [float(part.mean()) for part in np.split(errors, [len(errors) // 2])]
    who = [estimate.attack, estimate.level, estimate.awareness, estimate.status, estimate.reason]
    return [*who, float(errors.mean()), *halves]


def _mounted(defence: str, options: Mapping[str, Any]) -> list[Defence]:
    return [] if defence == NONE else [defences.load(defence, **options)]


class Lab:
    """One case and one trained model: what each defence makes of it.

    Of the held-out records the first are attacked and the next are the auxiliary ones, on which nothing was trained.
    """

    def __init__(self, model: TrainedModel, *, passive: int, records: int, auxiliary: int, seed: int) -> None:
        """Give its last ``passive`` columns to the passive party.

        Args:
            model: trained in one place.
            passive: number of the passive party's columns.
            records: attacked ones.
            auxiliary: most complete records that an adversary of the highest level has.
            seed: of the defences' noise.
        """
        self._seed = seed
        self._model = model
        held_out, width = model.features.shape
        known = tuple(range(records, min(records + auxiliary, held_out)))
        self._setting = Setting(tuple(range(width - passive, width)), records, known, moments=True)

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
        return situation_of(self._model, self._setting, _mounted(trial.defence, trial.options), seed=self._seed)

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
