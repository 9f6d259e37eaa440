"""Models, what attacks make of them when their parameters are distorted, and what the papers say of that."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

import attacks
import defences
from defences.distortion import Case
from defences.parameter_rotation import ParameterRotation
from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.prediction import Moments, row_space

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


# --- the papers' cases of the closed form that holds for all ------------------------------------------------------


def mean_squared_error(truth: FloatArray, estimate: FloatArray) -> float:
    """Rassouli eq. 7."""
    return float(np.mean((truth - estimate) ** 2))


def projector(matrix: FloatArray) -> FloatArray:
    """P = A^+ A."""
    basis = row_space(matrix).basis
    return np.asarray(basis @ basis.T)


def ls_error_transformed(matrix: FloatArray, second_moment: FloatArray, transform: FloatArray) -> float:
    """Of ls under an orthonormal H: (Tr((I + P) K_0) - 2 Tr(H P K_0))/d (Rassouli eq. 82)."""
    seen = projector(matrix) @ second_moment
    return float(np.trace(second_moment + seen - 2 * transform @ seen)) / len(second_moment)


def interpretability_rotated(weights: FloatArray, rotation: FloatArray) -> float:
    """g of W R: 2 Tr((I - R) W^T W)/(d k), which is linear in R (Varasteh eq. 34)."""
    gram = weights.T @ weights
    return float(2 * np.trace(gram - rotation.T @ gram)) / weights.size


def half_star_error_rotated(matrix: FloatArray, features: Moments, rotation: FloatArray) -> float:
    """Of half* given A R: (Tr(K_1/2) + Tr(P (K_0 - 2 K_0 R^T + R M R^T)))/d (Varasteh eq. 38)."""
    moment, shift = features.about_zero, np.outer(np.ones_like(features.mean), features.mean - 0.25)
    turned = moment - 2 * moment @ rotation.T + rotation @ shift @ rotation.T
    return float(np.trace(features.about_half + projector(matrix) @ turned)) / len(moment)


def ls_error_rotated(second_moment: FloatArray, rotation: FloatArray) -> float:
    """Of ls given A R where A has full column rank: 2 Tr(K_0 - R K_0)/d (Varasteh eq. 45)."""
    return float(2 * np.trace(second_moment - rotation @ second_moment)) / len(second_moment)


def single_feature_error(matrix: FloatArray, disclosed: FloatArray, second_moment: float) -> float:
    """Of ls for d = 1: E[x^2] (1 - A_n^T A / A_n^T A_n)^2 (Varasteh eq. 47); E[x^2] where A_n = 0."""
    norm = float(np.sum(disclosed**2))
    return second_moment * (1 - (float(np.sum(matrix * disclosed)) / norm if norm > 0 else 0.0)) ** 2


def binary_error(matrix: FloatArray, disclosed: FloatArray, features: Moments) -> float:
    """Of half* for two classes, A and A_n (1, d) (Varasteh eq. 51); that of half where A_n = 0."""
    d, (true,), (given,) = len(features.mean), matrix, disclosed
    half = float(np.trace(features.about_half)) / d
    correlated = features.about_zero @ true
    excess = (true - 2 * given) @ correlated + given.sum() * ((features.mean - 0.25) @ given)
    return half + float(excess) / (d * float(given @ given)) if given.any() else half
