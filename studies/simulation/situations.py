"""What the active party sees of a model trained in one place: without defences, or with several in their order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

import attacks
from attacks.prediction.known_moments import known_moments
from attacks.registry import FROM_RECORDS
from defences import Defence, DefenceError, NoiseSource, ScoreContext, channel_of, disclosure_of
from plumbline.judge.measures import LikewiseLabelled
from services.adversary.declared import least_known
from studies.simulation.linear_models import TrainedModel
from studies.simulation.network_models import TrainedNetwork
from vfl.arrays import FloatArray
from vfl.channels import ParameterChannel, ScoreChannel
from vfl.learning import confidence_scores
from vfl.theory.distortion import interpretability

LabModel: TypeAlias = TrainedModel | TrainedNetwork
# Shares of logits that the adversary adds to its own; the coordinator's answers. Both (n, k), of the attacked records.
Ask: TypeAlias = Callable[[FloatArray], FloatArray]
# What a defence of each of these stages acts on, which models trained in one place don't have.
_ONLY_IN_FEDERATIONS = ("labels", "residuals", "labelled_residuals", "hidden", "updates", "answers")


@dataclass(frozen=True)
class Setting:
    """Who has which columns, which records are attacked, and what the active party has besides.

    Attributes:
        passive: the passive party's columns, in its order.
        records: how many are attacked: the first held-out rows.
        complete: held-out rows that it knows in full, with their scores and labels; empty for none.
        delivered: held-out rows of which it was sent the scores only; empty for none.
        moments: whether it knows the passive columns' moments, of all rows that aren't attacked.
        white_box: whether parameters are disclosed.
    """

    passive: tuple[int, ...]
    records: int
    complete: tuple[int, ...] = ()
    delivered: tuple[int, ...] = ()
    moments: bool = False
    white_box: bool = True


@dataclass(frozen=True, eq=False)
class Situation:
    """What the active party sees.

    Attributes:
        model: without defences.
        setting: who has which columns.
        view: with the defences' channels, as those who know them have it.
        scores: (m, k), delivered for all held-out records.
        interpretability: g (Varasteh eq. 33) of the disclosed parameters and those that act on the true features.
        ask: what the coordinator would answer had the adversary another share.
    """

    model: LabModel
    setting: Setting
    view: attacks.PredictionView
    scores: FloatArray
    interpretability: float
    ask: Ask

    @cached_property
    def plain_scores(self) -> FloatArray:
        """The model's scores of all held-out records without defences, (m, k)."""
        return self.model.scores

    @cached_property
    def truth(self) -> FloatArray:
        """The passive columns of the attacked records, (n, d)."""
        return self.model.features[: self.setting.records, list(self.setting.passive)]

    @cached_property
    def judge(self) -> LikewiseLabelled:
        """The classifier of attack accuracy (Jiang eq. 24), trained on held-out rows that aren't attacked."""
        unattacked = slice(self.setting.records, None)
        held_out = self.model.features[unattacked, list(self.setting.passive)]
        return LikewiseLabelled(self.truth, held_out=held_out, held_out_labels=self.model.labels[unattacked])

    @cached_property
    def imputed(self) -> FloatArray:
        """What complete records predict of the attacked ones without scores, (n, d). Raises ViewError without any."""
        return attacks.load_prediction(FROM_RECORDS).reconstruct(self.view)


@dataclass(frozen=True, eq=False)
class _Acting:
    """The model that answers under the defences.

    model: with the features that it takes, which a transform may have changed. rows: (k, d), what acts on the true
    passive features; disclosed: (k, d) in its place. Both None for a network.
    """

    model: LabModel
    rows: FloatArray | None = None
    disclosed: FloatArray | None = None
    disclosure: ParameterChannel | None = None


def situation_of(model: LabModel, setting: Setting, defences: Sequence[Defence] = (), *, seed: int = 0) -> Situation:
    """Show a model to the active party, under defences in their order.

    Features are changed first, then the model is trained again where that or a defence of training asks for it, then
    parameters are disclosed and scores delivered. The adversary's complete records keep their true features.

    Args:
        model: without defences.
        setting: who has which columns.
        defences: the defences.
        seed: of their noise, also in training.

    Raises:
        DefenceError: for a defence that can't work on this model.
    """
    for defence in defences:
        _refuse_elsewhere(defence, model, setting)
    acting = _disclosing(_trained_again(model, setting, defences, seed), setting, defences, seed)
    protect = _protection(acting.model, setting, defences, seed)
    logits = acting.model.logits(acting.model.features)
    scores = protect(confidence_scores(logits))
    attacked_logits = logits[: setting.records]
    view = attacks.PredictionView(
        **_owned(model, acting.model, setting),
        **_told(acting, setting),
        scores=scores[: setting.records],
        auxiliary=_auxiliary(model, setting, scores),
        channel=_channels(defences, model.classes),
        disclosure=acting.disclosure if setting.white_box else None,
    )
    distance = 0.0 if acting.rows is None else interpretability(acting.rows, np.asarray(acting.disclosed))
    return Situation(
        model, setting, view, scores, distance, lambda shift: protect(confidence_scores(attacked_logits + shift))
    )


def _of_stage(defences: Sequence[Defence], stage: str) -> list[Any]:
    return [defence for defence in defences if stage in defence.spec.stages]


def _refuse_elsewhere(defence: Defence, model: LabModel, setting: Setting) -> None:
    stages = defence.spec.stages
    if set(stages) <= set(_ONLY_IN_FEDERATIONS):
        raise DefenceError(
            f"{defence.name} works on the {', '.join(stages)} of a federation's training: "
            "a model that is trained in one place has none."
        )
    if "parameters" in stages and isinstance(model, TrainedNetwork):
        raise DefenceError(f"{defence.name} changes class rows, which a network doesn't have.")
    if "parameters" in stages and not setting.white_box:
        raise DefenceError(f"{defence.name} changes what is disclosed of parameters: in black box nothing is.")


# --- features and training ----------------------------------------------------------------------------------------


def _trained_again(model: LabModel, setting: Setting, defences: Sequence[Defence], seed: int) -> _Acting:
    """Train the model again, after defences of features and of training."""
    trainers, transforms = _of_stage(defences, "training"), _of_stage(defences, "features")
    if len(trainers) > 1:
        raise DefenceError(f"{' and '.join(one.name for one in trainers)} both train the model: choose one of them.")
    acting: Any = model
    passive = list(setting.passive)

    def moved(features: FloatArray) -> FloatArray:
        changed = features.copy()
        for defence in transforms:
            # The same seed draws the same H: a session's records all go in together.
            changed[:, passive] = defence.transform_features(changed[:, passive], NoiseSource(seed))
        return changed

    recipe: Any = replace(model.recipe, trainer=trainers[0], seed=seed) if trainers else model.recipe
    if transforms:
        acting = acting.retrained(moved(model.features_train), moved(model.features), recipe)
    elif trainers:
        acting = _trained_by(model, recipe)
    if not isinstance(acting, TrainedModel):
        return _Acting(acting)
    weights = acting.weights[:, passive]
    if not transforms:
        return _Acting(acting, weights, weights)
    corners = np.zeros((len(passive) + 1, model.features.shape[1]))
    corners[1:, passive] = np.eye(len(passive))
    images = moved(corners)[:, passive]
    return _Acting(acting, weights @ (images[1:] - images[0]).T, weights)


@lru_cache(maxsize=2)
def _trained_by(model: Any, recipe: Any) -> Any:
    """Train it for every split of the columns."""
    return model.retrained(model.features_train, model.features, recipe)


# --- parameters ---------------------------------------------------------------------------------------------------


def _disclosing(acting: _Acting, setting: Setting, defences: Sequence[Defence], seed: int) -> _Acting:
    """Say what is disclosed of the parameters, and how that is to be read."""
    disclosed = acting.disclosed
    for defence in _of_stage(defences, "parameters"):
        features = acting.model.features_train[:, list(setting.passive)]
        disclosed = defence.disclose(np.asarray(disclosed), features, NoiseSource(seed))
    channels = [one for one in map(disclosure_of, defences) if one is not None]
    return replace(acting, disclosed=disclosed, disclosure=least_known(channels))


def _told(acting: _Acting, setting: Setting) -> dict[str, Any]:
    """Take the pieces of the model that the active party has."""
    pieces = acting.model.own_pieces(setting.passive)
    if setting.white_box:
        pieces |= acting.model.disclosed_pieces(setting.passive)
        if acting.disclosed is not None:
            pieces["weights_passive"] = acting.disclosed
    return pieces


# --- scores -------------------------------------------------------------------------------------------------------


def _protection(
    acting: LabModel, setting: Setting, defences: Sequence[Defence], seed: int
) -> Callable[[FloatArray], FloatArray]:
    """Say what the coordinator makes of scores."""
    gram: FloatArray | None = None
    if isinstance(acting, TrainedModel):
        weights = acting.weights[:, list(setting.passive)]
        gram = weights @ weights.T
    steps = [(defence, ScoreContext(NoiseSource(seed), gram)) for defence in _of_stage(defences, "scores")]

    def protect(scores: FloatArray) -> FloatArray:
        for defence, context in steps:
            scores = defence.protect_scores(scores, context)
        return scores

    return protect


def _channels(defences: Sequence[Defence], classes: int) -> tuple[ScoreChannel, ...]:
    return tuple(channel_of(defence, classes) for defence in _of_stage(defences, "scores"))


# --- what the active party has besides ----------------------------------------------------------------------------


def _owned(model: LabModel, acting: LabModel, setting: Setting) -> Mapping[str, Any]:
    """Take its own columns and labels, and what it knows of the passive columns beforehand."""
    passive = list(setting.passive)
    active = np.setdiff1d(np.arange(model.features.shape[1]), passive)
    return {
        "features_active": acting.features[: setting.records, active],
        "labels": model.labels_train,
        "features_train": acting.features_train[:, active],
        "record_labels": model.labels[: setting.records],
        # Of all rows that aren't judged.
        "moments": known_moments(np.vstack([model.features_train, model.features[setting.records :]])[:, passive])
        if setting.moments
        else None,
    }


def _auxiliary(model: LabModel, setting: Setting, scores: FloatArray) -> attacks.AuxiliaryRows | None:
    """Complete records; or delivered ones, which are the same without the passive columns."""
    passive = list(setting.passive)
    active = np.setdiff1d(np.arange(model.features.shape[1]), passive)
    rows = list(setting.complete or setting.delivered)
    if not rows:
        return None
    features = model.features[rows]
    theirs = features[:, passive] if setting.complete else np.empty((len(rows), 0))
    return attacks.AuxiliaryRows(features[:, active], theirs, scores[rows], model.labels[rows])
