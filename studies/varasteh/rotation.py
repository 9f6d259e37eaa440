"""Disclosed parameters that were moved against half* (Varasteh V-B), and adversaries who know that they were.

Scores are exact, as in the paper's "genie-aided" evaluation. Secrets are seeded.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import attacks
from defences import NoiseSource
from defences.distortion import Case, distort
from defences.parameter_rotation import ParameterRotation, Secret
from plumbline.judge.measures import mse_per_feature
from studies.simulation.informed import CAUTIOUS, half_where_nothing_fits, informed_errors, with_records
from studies.simulation.linear_models import TrainedModel
from vfl.arrays import FloatArray

# Columns of the measurements: adversaries who take the parameters at their word, and those who don't.
PREDICTED, NAIVE, CLAMPED = "half*, predicted", "half*", "half*, clamped"
LEAST_SQUARES, IN_BOX, HALF = "ls, clamped", "rcc2", "1/2"
AS_DISCLOSED, REPEATS, RESCALES = "takes the parameters at their word", "repeats the optimisation", "rescales to [0, 1]"
AVERAGES, MEAN_OF_BOTH = "averages both signs", "mean of both signs' errors"


def distorted_errors(
    model: TrainedModel,
    *,
    passive: tuple[int, ...],
    epsilon: float,
    records: int,
    case: Case | None = None,
    informed: bool = False,
) -> dict[str, Any]:
    """Distort the passive party's parameters by epsilon mean squared parameters, and let everybody attack the result.

    The distortion is fitted to training records, the attacks are on held-out ones. Class rows are taken without their
    mean, which no score depends on: two become (-theta/2, theta/2).

    Measures: ``case`` (the paper's), ``classes``, ``reached`` (epsilon, of what was disclosed), ``capped`` (whether
    less was possible than was asked), ``mean_square`` (of the parameters); MSE per feature of ``PREDICTED`` (the closed
    forms, on the training records), ``NAIVE``, ``CLAMPED``, ``LEAST_SQUARES``, ``IN_BOX``, ``CAUTIOUS`` and ``HALF``,
    and where ``informed`` of those of ``informed_errors``; ``second_moment`` (of the passive columns, per feature).
    """
    centred = without_common_row(model)
    view, truth = centred.view(passive, records)
    weights, own = centred.weights[:, list(passive)], centred.features_train[:, list(passive)]
    mean_square = float(np.mean(weights**2))
    found = distort(weights, own, epsilon * mean_square, case=case)
    distorted = replace(view, weights_passive=found.weights)
    measures: dict[str, Any] = {
        "case": found.case,
        "classes": len(weights),
        "reached": found.interpretability / mean_square,
        "capped": found.capped,
        "mean_square": mean_square,
        "second_moment": float(np.mean(own**2)),
        PREDICTED: found.error,
        **_naive_errors(distorted, truth),
    }
    if informed:
        known = with_records(distorted, centred, list(passive), own)
        measures |= dict(informed_errors(ParameterRotation(), known, truth))
    return measures


def _naive_errors(view: attacks.PredictionView, truth: FloatArray) -> Mapping[str, float]:
    """Errors of those who take the parameters at their word; the last one where they make sense at all."""
    naive, ls, rcc2 = (attacks.load_prediction(name).reconstruct(view) for name in ("half_star", "ls", "rcc2"))
    estimates = {
        NAIVE: naive,
        CLAMPED: naive.clip(0, 1),
        LEAST_SQUARES: ls.clip(0, 1),
        IN_BOX: rcc2,
        CAUTIOUS: half_where_nothing_fits(view, rcc2),
        HALF: np.full_like(truth, 0.5),
    }
    return {adversary: mse_per_feature(truth, estimate) for adversary, estimate in estimates.items()}


def without_common_row(model: TrainedModel) -> TrainedModel:
    """The same scores with class rows that sum to zero."""
    return replace(model, weights=model.weights - model.weights.mean(axis=0), bias=model.bias - model.bias.mean())


def secret_errors(
    model: TrainedModel, *, passive: int, epsilon: float, secret: Secret, draws: int, seed: int
) -> dict[str, Any]:
    """Measure Remark 10's secrets for one passive feature of all held-out records: means over draws of the secret.

    With two classes A_n is A (1 - sqrt(epsilon)): ``REPEATS`` undoes that, taking epsilon for all it may be. ls on one
    feature gives q x for some q, whatever was disclosed: ``RESCALES`` knows that features were scaled to [0, 1], and
    divides by the extreme one of all records. ``AVERAGES`` takes the mean of the estimates with W and with -W
    (Remark 10), ``MEAN_OF_BOTH`` is the mean of their errors.
    """
    centred = without_common_row(model)
    weights, own = centred.weights[:, [passive]], centred.features_train[:, [passive]]
    view, truth = centred.view([passive], len(centred.features))
    defence = ParameterRotation(epsilon=epsilon, secret=secret)
    errors: dict[str, list[float]] = {}
    for draw in range(draws):
        disclosed = defence.disclose(weights, own, NoiseSource(seed * draws + draw))
        estimate = attacks.load_prediction("ls").reconstruct(replace(view, weights_passive=disclosed))
        for adversary, guess in _guesses(estimate, epsilon).items():
            errors.setdefault(adversary, []).append(mse_per_feature(truth, guess))
        errors.setdefault(HALF, []).append(mse_per_feature(truth, np.full_like(truth, 0.5)))
    true = attacks.load_prediction("ls").reconstruct(view)
    signs = [mse_per_feature(truth, sign * true) for sign in (1, -1)]
    return {
        "classes": len(weights),
        **{adversary: float(np.mean(values)) for adversary, values in errors.items()},
        AVERAGES: mse_per_feature(truth, 0 * true),
        MEAN_OF_BOTH: float(np.mean(signs)),
    }


def _guesses(estimate: FloatArray, epsilon: float) -> Mapping[str, FloatArray]:
    extreme = float(estimate.flat[np.abs(estimate).argmax()])
    return {
        AS_DISCLOSED: estimate.clip(0, 1),
        REPEATS: (estimate * (1 - np.sqrt(epsilon))).clip(0, 1),
        RESCALES: estimate / extreme if extreme else estimate,
    }
