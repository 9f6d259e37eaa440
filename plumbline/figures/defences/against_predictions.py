"""Every attack on predictions against every defence, on linear models trained in one place (SIMULATION)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

import attacks
import defences
from defences import DefenceError, NoiseSource, ScoreContext, TrainingTerms
from plumbline.figures.defences.adaptive import adaptive_adversaries
from plumbline.figures.simulation.linear_models import TrainedModel, train
from plumbline.figures.simulation.score_measures import mean_divergence
from plumbline.figures.simulation.side_by_side import ResidualNoise, Starts, train_side_by_side
from plumbline.judge.measures import attack_accuracy, mse_per_feature
from vfl.arrays import FloatArray
from vfl.data import DatasetNotFound
from vfl.learning import BatchSchedule, GradientDescent, class_rows, confidence_scores
from vfl.theory.distortion import interpretability

# Of attacks by label: their error and accuracy, or the reason why they can't be mounted.
_Outcomes = dict[str, dict[str, Any]]

PSI = "alignment by PSI"
BLIND = ("random_guess", "zero", "half")
# Few rounds at a higher rate, since some hundred situations are attacked: 500 at 0.02 err as 1,000 at 0.01 do.
_ROUNDS: Mapping[str, Any] = {"steps": 500, "learning_rate": 0.02}
PREDICTION_ATTACKS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("random_guess", "random_guess", {}),
    ("zero", "zero", {}),
    ("half", "half", {}),
    ("half_star", "half_star", {}),
    ("ls", "ls", {}),
    ("clamped_ls", "clamped_ls", {}),
    ("cls", "cls", {}),
    ("rcc1", "rcc1", {}),
    ("rcc2", "rcc2", {}),
    ("gia", "gia", _ROUNDS),
    ("gia from 1/2", "gia", {**_ROUNDS, "init": "half"}),
    ("grn", "grn", {}),
    ("shadow", "shadow", {**_ROUNDS, "shadow_steps": 500, "shadow_learning_rate": 0.02}),
    ("agnostic", "agnostic", {}),
    ("one_feature", "one_feature", {}),
)
_QUICK_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "gia": {"steps": 50},
    "grn": {"epochs": 1},
    "shadow": {"shadow_steps": 50, "steps": 50},
}
_ADAPTIVE_ATTACKS = ("half_star", "clamped_ls", "rcc2", "gia", "gia from 1/2")

RECORDS = 100
AUXILIARY = 100
_EVALUATOR_RECORDS = 1000
# Of the training that dp_noise disturbs: few epochs in large batches ask for the least noise. Of several draws of the
# noise the one with the median accuracy is attacked.
_EPOCHS, _BATCH_SIZE, _LEARNING_RATE, _DRAWS = 10, 256, 0.5, 11
# Keeps the noise apart from the public streams of the same seed.
_NOISE_STREAM = 0x4D58
_ROLES: tuple[Literal["active", "passive"], ...] = ("active", "passive")


@dataclass(frozen=True)
class Case:
    """A data set whose last ``passive`` columns are the passive party's."""

    dataset: str
    passive: int

    @property
    def title(self) -> str:
        """The case in words."""
        return f"{self.dataset}, d = {self.passive}"


@dataclass(frozen=True)
class Trial:
    """One defence with options other than its defaults."""

    defence: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The defence and its options in words."""
        return ", ".join(f"{name}={value}" for name, value in self.options.items()) or "defaults"


CASES = (Case("satellite", 18), Case("satellite", 4), Case("breast_cancer", 15), Case("breast_cancer", 1))
_STAND_INS = {"satellite": Case("digits", 32)}
TRIALS = (
    Trial(PSI),
    Trial("dp_noise"),
    Trial("response_truncation"),
    Trial("feature_transform"),
    Trial("feature_transform", {"kind": "negate"}),
    Trial("feature_transform", {"kind": "permutation"}),
    Trial("feature_transform", {"kind": "optimal"}),
    Trial("feature_transform", {"at": "training"}),
    Trial("feature_transform", {"kind": "negate", "at": "training"}),
    Trial("parameter_rotation"),
    Trial("parameter_rotation", {"secret": "none"}),
    Trial("score_rounding"),
    Trial("score_rounding", {"decimals": 1}),
    Trial("score_noise"),
    Trial("score_noise", {"sigma": 0.01}),
    Trial("score_scheme1"),
    Trial("score_scheme2"),
    Trial("score_scheme3"),
    Trial("class_label"),
    Trial("purification"),
    Trial("dp_sgd"),
    Trial("dp_sgd", {"epsilon": 0.1}),
)

_REFUSED = "refused"
_ONCE = "The coordinator answers once per record: who varies its share gets no second answer."
_UNCHANGED = {
    PSI: "It keeps apart who is in which table; the scores and parameters of those in both stay what they are.",
    "response_truncation": "It acts in training, which stays bit for bit the same: so do scores and parameters.",
}


def prediction_rows(data_dir: Path | None, *, seed: int, quick: bool) -> tuple[pd.DataFrame, list[str]]:
    """Measure one row per case, trial, adversary and attack; and say what there is about missing data sets."""
    cases, said = _available(data_dir, quick=quick)
    # Quick: each defence as its first trial has it.
    trials = list({trial.defence: trial for trial in reversed(TRIALS)}.values())[::-1] if quick else TRIALS
    rows: list[dict[str, Any]] = []
    for case in cases:
        lab = _Lab(case, data_dir, seed, quick=quick)
        shared = {"phase": "prediction", "dataset": case.dataset, "case": case.title}
        rows += [{**shared, **row} for trial in trials for row in lab.measure(trial)]
    return pd.DataFrame(rows), said


def _available(data_dir: Path | None, *, quick: bool) -> tuple[list[Case], list[str]]:
    from vfl.data import load_dataset

    if quick:
        return [Case("breast_cancer", 15)], []
    cases: list[Case] = []
    said: list[str] = []
    for case in CASES:
        try:
            load_dataset(case.dataset, data_dir)
            cases.append(case)
        except DatasetNotFound as missing:
            if (stand_in := _STAND_INS[case.dataset]) not in cases:
                cases.append(stand_in)
                said.append(f"{stand_in.dataset} takes the place of {case.dataset}. {missing}")
    return cases, said


# --- one data set -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Situation:
    """What the active party sees under a defence.

    scores: (m, k), delivered for all held-out records. interpretability: g of the disclosed parameters. ask: see
    ``defences_adaptive``.
    """

    view: attacks.PredictionView
    scores: FloatArray
    interpretability: float
    ask: Callable[[FloatArray], FloatArray]


class _Lab:
    """One case: its models, what each defence makes of them, and what each attack makes of that."""

    def __init__(self, case: Case, data_dir: Path | None, seed: int, *, quick: bool) -> None:
        self._seed = seed
        self._model = train(case.dataset, data_dir, "adam", seed)
        width = self._model.features.shape[1]
        self._passive = np.arange(width - case.passive, width)
        self._active = np.arange(width - case.passive)
        self._records = min(40 if quick else RECORDS, len(self._model.features))
        self._attacks = {
            label: attacks.load(name, **{**options, **(_QUICK_OPTIONS.get(name, {}) if quick else {})})
            for label, name, options in PREDICTION_ATTACKS
        }
        self._truth = self._model.features[: self._records, self._passive]
        self._known: dict[int, _Outcomes] = {}

    def measure(self, trial: Trial) -> list[dict[str, Any]]:
        """Rows of one trial, one for each attack and adversary."""
        shared = {"defence": trial.defence, "options": trial.words}
        if reason := _UNCHANGED.get(trial.defence, ""):
            same = {"status": "unchanged", "reason": reason}
            return [
                {**shared, **row, **same} for row in self._rows(self._plain, self._plain, self._undefended(self._plain))
            ]
        defence = defences.load(trial.defence, **trial.options)
        plain = self._first_order[0] if trial.defence == "dp_noise" and self._classes == 2 else self._plain
        try:
            situation = self._defended(defence)
        except DefenceError as error:
            refused = {**shared, "adversary": "unaware", "status": "not applicable", "reason": str(error)}
            return [{**refused, "attack": label} for label in self._attacks]
        rows = self._rows(situation, plain, self._attacked(situation.view, tuple(self._attacks)))
        # A shadow model isn't made from disclosed parameters: undoing their defence changes nothing for it.
        labels = (*_ADAPTIVE_ATTACKS, *(["shadow"] if "scores" in defence.spec.stages else []))
        for adaptive in adaptive_adversaries(defence, situation.view, situation.ask, self._seed):
            if adaptive.estimate is not None:
                outcomes = {"gia from 1/2": self._judged(adaptive.estimate)}
            else:
                outcomes = self._attacked(adaptive.view or situation.view, labels)
            made = self._rows(situation, plain, outcomes, adversary=adaptive.words)
            rows += [{**row, "status": _REFUSED, "reason": _ONCE} for row in made] if adaptive.refused else made
        return [{**shared, **row} for row in rows]

    def _rows(
        self, situation: _Situation, plain: _Situation, after: _Outcomes, *, adversary: str = "unaware"
    ) -> list[dict[str, Any]]:
        before = self._undefended(plain)
        quality = {
            "model_accuracy": self._model_accuracy(situation.scores),
            "model_accuracy_undefended": self._model_accuracy(plain.scores),
            # Rounding can leave a zero below zero.
            "kl": max(0.0, mean_divergence(plain.scores, situation.scores)),
            "interpretability": situation.interpretability,
        }
        rows = []
        for label, outcome in after.items():
            measured = {f"{name}_undefended": value for name, value in before[label].items() if name != "reason"}
            status = "not applicable" if outcome["reason"] else "measured"
            rows.append({"adversary": adversary, "attack": label, "status": status, **outcome, **measured, **quality})
        return rows

    def _undefended(self, plain: _Situation) -> _Outcomes:
        """Of all attacks without a defence, made once for each of the models."""
        if id(plain) not in self._known:
            self._known[id(plain)] = self._attacked(plain.view, tuple(self._attacks))
        return self._known[id(plain)]

    def _attacked(self, view: attacks.PredictionView, labels: tuple[str, ...]) -> _Outcomes:
        outcomes: _Outcomes = {}
        for label in labels:
            try:
                estimate = self._attacks[label].reconstruct(view)
            except attacks.ViewError as error:
                outcomes[label] = {"reason": str(error), "mse": np.nan, "attack_accuracy": np.nan}
                continue
            outcomes[label] = self._judged(estimate)
        return outcomes

    def _judged(self, estimate: FloatArray) -> dict[str, Any]:
        accuracy = attack_accuracy(
            self._truth,
            estimate,
            held_out=self._model.features_train[:_EVALUATOR_RECORDS, self._passive],
            held_out_labels=self._model.labels_train[:_EVALUATOR_RECORDS],
        )
        return {"reason": "", "mse": mse_per_feature(self._truth, estimate), "attack_accuracy": accuracy}

    def _model_accuracy(self, scores: FloatArray) -> float:
        return float((scores.argmax(axis=1) == self._model.labels).mean())

    @property
    def _classes(self) -> int:
        return len(self._model.weights)

    # -- situations ------------------------------------------------------------------------------------------------

    @cached_property
    def _plain(self) -> _Situation:
        return self._situation(self._model)

    @cached_property
    def _first_order(self) -> tuple[_Situation, _Situation]:
        """Hu's own training without and with dp_noise's defaults: first-order gradients, both parties' noise."""
        model = self._model
        features = np.hstack([model.features_train, np.ones((len(model.features_train), 1))])
        schedule = BatchSchedule(np.arange(len(features)), min(_BATCH_SIZE, len(features)), self._seed)
        defence = defences.load("dp_noise")
        sigma_active, sigma_passive = (defence.sigma_for(self._terms(role)) for role in _ROLES)
        active = ~np.isin(np.arange(features.shape[1]), self._passive)
        generator = np.random.default_rng((_NOISE_STREAM, self._seed))
        noisy = np.append(0.0, np.ones(_DRAWS))
        trained = train_side_by_side(
            features,
            model.labels_train,
            Starts(np.zeros((features.shape[1], 1 + _DRAWS)), np.zeros(1 + _DRAWS, dtype=np.int64)),
            GradientDescent(schedule, epochs=_EPOCHS, learning_rate=_LEARNING_RATE),
            test=np.arange(1),
            noise=ResidualNoise(active, noisy * sigma_active, noisy * sigma_passive, generator),
        )
        median = 1 + int(np.argsort(trained.accuracy_train[-1, 1:])[_DRAWS // 2])
        rows = [class_rows(trained.weights[:, [column]]) for column in (0, median)]
        plain, defended = (self._situation(replace(model, weights=row[:, :-1], bias=row[:, -1])) for row in rows)
        return plain, defended

    def _terms(self, role: Literal["active", "passive"]) -> TrainingTerms:
        steps = _EPOCHS * -(-len(self._model.labels_train) // _BATCH_SIZE)
        return TrainingTerms(role, _EPOCHS, steps, _BATCH_SIZE, _LEARNING_RATE, np.inf)

    def _defended(self, defence: Any) -> _Situation:
        """Raises DefenceError for a defence that can't work on this model."""
        noise, model = NoiseSource(self._seed), self._model
        if "scores" in defence.spec.stages:
            return self._situation(model, protect=self._protection(defence, noise))
        if "residuals" in defence.spec.stages:
            if self._classes > 2:
                defence.protect_residuals(np.zeros((1, self._classes)), self._terms("active"), noise)
            return self._first_order[1]
        if "training" in defence.spec.stages:
            weights, bias = defence.train_linear(model.features_train, model.labels_train, seed=self._seed)
            return self._situation(replace(model, weights=weights, bias=bias))
        if getattr(defence, "at", "") == "training":
            return self._transformed(defence)
        own = model.weights[:, self._passive]
        disclosed = defence.disclose(own, model.features_train[:, self._passive], noise)
        return self._situation(model, disclosed=disclosed)

    def _protection(self, defence: Any, noise: NoiseSource) -> Callable[[FloatArray], FloatArray]:
        own = self._model.weights[:, self._passive]
        context = ScoreContext(noise, own @ own.T)
        return lambda scores: defence.protect_scores(scores, context)

    def _transformed(self, defence: Any) -> _Situation:
        """The passive party trains on other features; what it discloses belongs to those."""

        def moved(features: FloatArray) -> FloatArray:
            changed = features.copy()
            # The same seed draws the same H: a session's records all go in together.
            changed[:, self._passive] = defence.transform_features(features[:, self._passive], NoiseSource(self._seed))
            return changed

        from vfl.learning.torch_training import AdamTraining

        model = self._model
        retrained = replace(model, features=moved(model.features), features_train=moved(model.features_train))
        weights, bias = AdamTraining().train_linear(retrained.features_train, model.labels_train, seed=self._seed)
        corners = np.zeros((len(self._passive) + 1, model.features.shape[1]))
        corners[1:, self._passive] = np.eye(len(self._passive))
        images = moved(corners)[:, self._passive]
        own = weights[:, self._passive]
        truly = own @ (images[1:] - images[0]).T
        situation = self._situation(replace(retrained, weights=weights, bias=bias))
        return replace(situation, interpretability=interpretability(truly, own))

    def _situation(
        self,
        model: TrainedModel,
        *,
        disclosed: FloatArray | None = None,
        protect: Callable[[FloatArray], FloatArray] = lambda scores: scores,
    ) -> _Situation:
        """``model``: with the features that it takes, which a transform may have changed."""
        logits = model.features @ model.weights.T + model.bias
        known = model.features_train[:AUXILIARY] @ model.weights.T + model.bias
        asked = np.vstack([logits[: self._records], known])
        original = self._model.features_train[:AUXILIARY]
        own = model.weights[:, self._passive]
        scores = protect(confidence_scores(logits))
        view = attacks.PredictionView(
            features_active=model.features[: self._records, self._active],
            scores=scores[: self._records],
            weights_active=model.weights[:, self._active],
            weights_passive=own if disclosed is None else disclosed,
            bias=model.bias,
            labels=model.labels_train,
            features_train=model.features_train[:, self._active],
            auxiliary=attacks.AuxiliaryRows(
                original[:, self._active],
                original[:, self._passive],
                protect(confidence_scores(asked[self._records :])),
            ),
        )
        return _Situation(
            view,
            scores,
            0.0 if disclosed is None else interpretability(own, disclosed),
            lambda shift: protect(confidence_scores(asked + shift)),
        )
