"""Models, and what attacks make of them when their parameters are distorted."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

import attacks
import defences
from defences.distortion import Case
from defences.parameter_rotation import ParameterRotation
from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.prediction import mean_squared_error

SEEDS = st.integers(0, 2**32 - 1)
CASES: list[tuple[Case, int, int]] = [("i", 3, 3), ("i", 4, 9), ("ii", 5, 2), ("ii", 4, 3), ("iii", 2, 1)]
CASES += [("iii", 6, 1), ("iv", 2, 2), ("iv", 2, 7)]


def model(seed: int, k: int, d: int, n: int = 40) -> tuple[FloatArray, FloatArray]:
    """(k, d) class rows, antisymmetric for k = 2, and (n, d) features."""
    rng = np.random.default_rng(seed)
    weights, features = rng.standard_normal((k, d)), rng.random((n, d)) ** rng.uniform(0.3, 4, d)
    return (np.vstack([-weights[0], weights[0]]) if k == 2 else weights), features


def rotations(seed: int, d: int, count: int) -> FloatArray:
    """Orthonormal matrices from both components of O(d), (count, d, d)."""
    matrices: FloatArray = np.linalg.qr(np.random.default_rng(seed).standard_normal((count, d, d)))[0]
    return matrices


def attacked(attack: str, weights: FloatArray, disclosed: FloatArray, features: FloatArray) -> float:
    """The error of an attack with exact scores that was given the disclosed parameters."""
    view = attacks.PredictionView(
        features_active=np.ones((len(features), 1)),
        scores=confidence_scores(features @ weights.T),
        weights_active=np.zeros((len(weights), 1)),
        weights_passive=disclosed,
        bias=np.zeros(len(weights)),
    )
    return mean_squared_error(features, attacks.load(attack).reconstruct(view))


def rotation(secret: str, **options: Any) -> ParameterRotation:
    """The defence with one of Remark 10's secrets."""
    defence: ParameterRotation = defences.load("parameter_rotation", **{"secret": secret, **options})
    return defence
