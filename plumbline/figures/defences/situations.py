"""What an active party sees of a trained model under each defence, and what it knows besides (SIMULATION)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import attacks
import defences
from attacks.known_moments import known_moments
from defences import NoiseSource, ScoreContext, channel_of, disclosure_of
from plumbline.figures.defences.cases import NONE, Case, Plan, Trial
from plumbline.simulation.linear_models import TrainedModel, Training, train
from plumbline.simulation.score_measures import mean_divergence
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.theory.distortion import interpretability

# Shares of logits that the adversary adds to its own; the coordinator's answers. Both (n, k), of the attacked records.
Ask = Callable[[FloatArray], FloatArray]
# Small data sets need records that are neither trained on nor judged.
_HELD_OUT = 0.4


@dataclass(frozen=True, eq=False)
class Situation:
    """What the active party sees under a defence.

    Attributes:
        view: with the defence's channel, as those who know it have it.
        scores: (m, k), delivered for all held-out records.
        interpretability: g (Varasteh eq. 33) of the disclosed parameters and those that act on the true features.
        ask: what the coordinator would answer had the adversary another share.
    """

    view: attacks.PredictionView
    scores: FloatArray
    interpretability: float
    ask: Ask


@dataclass(frozen=True, eq=False)
class _Shown:
    """What a defence makes of scores and parameters.

    disclosed: (k, d), or None for the true ones. channel, disclosure: as views have them.
    """

    protect: Callable[[FloatArray], FloatArray] = lambda scores: scores
    disclosed: FloatArray | None = None
    channel: Any = ()
    disclosure: Any = None


class Lab:
    """One case and one trained model: what each defence makes of it.

    Of the held-out records the first are attacked and the next are the auxiliary ones, on which nothing was trained.
    """

    def __init__(self, case: Case, data_dir: Path | None, training: Training, seed: int, plan: Plan) -> None:
        """Train the model. Raises DatasetNotFound."""
        self._seed, self._training = seed, training
        self._model = train(case.dataset, data_dir, training, seed, held_out=_HELD_OUT)
        width = self._model.features.shape[1]
        self._passive, self._active = np.arange(width - case.passive, width), np.arange(width - case.passive)
        self._records = plan.records
        self._known = slice(plan.records, plan.records + plan.auxiliary)
        self.truth = self._model.features[: plan.records, self._passive]

    @cached_property
    def plain(self) -> Situation:
        """Without a defence."""
        return self._situation(self._model, _Shown())

    def defended(self, trial: Trial) -> Situation:
        """Under a defence. Raises DefenceError for one that can't work on this model."""
        if trial.defence == NONE:
            return self.plain
        defence, noise, model = defences.load(trial.defence, **trial.options), NoiseSource(self._seed), self._model
        if "scores" in defence.spec.stages:
            own = model.weights[:, self._passive]
            context = ScoreContext(noise, own @ own.T)
            shown = _Shown(
                lambda scores: defence.protect_scores(scores, context), channel=(channel_of(defence, len(own)),)
            )
            return self._situation(model, shown)
        if "training" in defence.spec.stages:
            weights, bias = defence.train_linear(model.features_train, model.labels_train, seed=self._seed)
            return self._situation(replace(model, weights=weights, bias=bias), _Shown())
        if "features" in defence.spec.stages:
            return self._transformed(defence)
        disclosed = defence.disclose(model.weights[:, self._passive], model.features_train[:, self._passive], noise)
        return self._situation(model, _Shown(disclosed=disclosed, disclosure=disclosure_of(defence)))

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

    def _transformed(self, defence: Any) -> Situation:
        """The passive party trains on other features; what it discloses belongs to those."""

        def moved(features: FloatArray) -> FloatArray:
            changed = features.copy()
            # The same seed draws the same H: a session's records all go in together.
            changed[:, self._passive] = defence.transform_features(features[:, self._passive], NoiseSource(self._seed))
            return changed

        model = self._model
        turned = model.retrained(moved(model.features_train), moved(model.features))
        corners = np.zeros((len(self._passive) + 1, model.features.shape[1]))
        corners[1:, self._passive] = np.eye(len(self._passive))
        images = moved(corners)[:, self._passive]
        own = turned.weights[:, self._passive]
        shown = _Shown(disclosure=disclosure_of(defence))
        situation = self._situation(turned, shown)
        return replace(situation, interpretability=interpretability(own @ (images[1:] - images[0]).T, own))

    def _situation(self, model: TrainedModel, shown: _Shown) -> Situation:
        """``model``: with the features that it takes, which a transform may have changed."""
        logits = model.features @ model.weights.T + model.bias
        own = model.weights[:, self._passive]
        scores = shown.protect(confidence_scores(logits))
        true = self._model
        known = true.features[self._known]
        view = attacks.PredictionView(
            features_active=model.features[: self._records, self._active],
            scores=scores[: self._records],
            weights_active=model.weights[:, self._active],
            weights_passive=own if shown.disclosed is None else shown.disclosed,
            bias=model.bias,
            labels=model.labels_train,
            features_train=model.features_train[:, self._active],
            auxiliary=attacks.AuxiliaryRows(
                known[:, self._active], known[:, self._passive], scores[self._known], true.labels[self._known]
            ),
            moments=self._moments,
            record_labels=true.labels[: self._records],
            channel=shown.channel,
            disclosure=shown.disclosure,
        )
        distance = 0.0 if shown.disclosed is None else interpretability(own, shown.disclosed)
        asked = logits[: self._records]
        return Situation(view, scores, distance, lambda shift: shown.protect(confidence_scores(asked + shift)))

    @cached_property
    def _moments(self) -> attacks.PassiveMoments:
        """Of all rows that aren't judged."""
        model = self._model
        rows = np.vstack([model.features_train, model.features[self._records :]])[:, self._passive]
        return known_moments(rows)
