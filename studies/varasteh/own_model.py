"""The adversary's own model (Varasteh IV-B): how accurate it is, and what equations 13 and 21 say of its attack."""

from dataclasses import replace
from typing import Any

import numpy as np

import attacks
from attacks.agnostic import Agnostic
from plumbline.judge.measures import mse_per_feature
from plumbline.simulation.linear_models import TrainedModel
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.theory.prediction import agnostic_error, moments, score_error_correlation


def own_model_of(model: TrainedModel, *, passive: tuple[int, ...], records: int) -> dict[str, Any]:
    """Train the adversary's model on the active columns, and compare it with the federation's on held-out records.

    Measures: ``accuracy`` and ``own_accuracy`` of the two; ``error`` of the attack on the first held-out records,
    ``error_train`` on as many training records, ``half`` of 1/2 for all; ``unclamped``, its error before estimates are
    cut to [0, 1], and ``closed_form``, what equation 21 (13 where d < k) says of that.
    """
    attack = Agnostic()
    view, truth = _view(model, passive, records)
    own = attack.adversary_scores(replace(view, features_active=_active(passive, model.features), scores=None))
    estimated = own[:records]
    unclamped = attacks.load_prediction("half_star").reconstruct(replace(view, scores=estimated))
    real = confidence_scores(model.features[:records] @ model.weights.T + model.bias)
    score_error = score_error_correlation(estimated, real)
    weights = model.weights[:, list(passive)]
    trained, trained_truth = _view(replace(model, features=model.features_train), passive, records)
    return {
        "accuracy": float((model.scores.argmax(axis=1) == model.labels).mean()),
        "own_accuracy": float((own.argmax(axis=1) == model.labels).mean()),
        "error": mse_per_feature(truth, unclamped.clip(0, 1)),
        "error_train": mse_per_feature(trained_truth, attack.reconstruct(trained)),
        "half": mse_per_feature(truth, np.full_like(truth, 0.5)),
        "unclamped": mse_per_feature(truth, unclamped),
        "closed_form": agnostic_error(weights, moments(truth).about_half, score_error),
    }


def _active(passive: tuple[int, ...], rows: FloatArray) -> FloatArray:
    """The columns that aren't passive."""
    return rows[:, np.setdiff1d(np.arange(rows.shape[1]), passive)]


def _view(model: TrainedModel, passive: tuple[int, ...], records: int) -> tuple[attacks.PredictionView, FloatArray]:
    """What the active party sees of the first records, and its own training records besides."""
    view, truth = model.view(passive, records)
    own = _active(passive, model.features_train)
    return replace(view, labels=model.labels_train, features_train=own), truth
