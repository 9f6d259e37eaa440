"""Distorts disclosed parameters by an agreed amount, so that half* errs most with them (Varasteh V-B)."""

import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np

from defences.base import DefenceError
from defences.distortion_search import TargetDistortion, free_binary, free_single, rotated
from vfl.arrays import FloatArray
from vfl.theory.distortion import disclosed_errors, interpretability
from vfl.theory.prediction import equations, moments, row_space

Case = Literal["i", "ii", "iii", "iv"]


@dataclass(frozen=True, eq=False)
class Distortion:
    """Parameters to disclose, and what they do.

    Attributes:
        weights: (k, d) class rows.
        case: the paper's.
        epsilon: the distortion g that was aimed at.
        capped: whether the cap is less than what was asked.
        interpretability: the g reached, within 1e-9 of the mean squared parameter of epsilon. Both are 0 where
            parameters are too small for float64 to hold their squares.
        error: MSE per feature of half* (for d < k that of ls, too) on the features that the distortion was fitted to.
    """

    weights: FloatArray
    case: Case
    epsilon: float
    capped: bool
    interpretability: float
    error: float


def distort(
    weights: FloatArray,
    features: FloatArray,
    epsilon: float | None,
    *,
    relative: bool = False,
    case: Case | None = None,
    share: float = 1.0,
) -> Distortion:
    """Find the W_n with g = epsilon that half* errs most with. It is deterministic; nothing in it is secret.

    Class rows that don't differ tell nothing and come back as they are.

    Args:
        weights: (k, d) class rows.
        features: the party's own, (n, d) in [0, 1].
        epsilon: g of eq. 33; None for the cap.
        relative: whether epsilon is a multiple of the mean squared parameter.
        case: of the paper; by (k, d) when None. Two classes and d > 1 can take "i" in place of "iv" (Varasteh, Figure
            9).
        share: of epsilon, or of the cap where that is less, to aim at.

    Raises:
        DefenceError: for arguments that don't fit each other, features outside [0, 1], an epsilon below 0, and
            parameters that are not finite, all subnormal, or too large for float64 to hold their squares.
    """
    k, d = _checked_shape(weights, features)
    natural: Case = "iii" if d == 1 else "iv" if k == 2 else "i" if d >= k else "ii"
    method_case = natural if case is None else case
    if method_case != natural and (natural, method_case) != ("iv", "i"):
        raise DefenceError(
            f"Case {method_case} is not for {k} classes and {d} features: leave the case to their numbers."
        )
    target_epsilon = np.inf if epsilon is None else epsilon
    if not (target_epsilon >= 0 and 0 <= share <= 1):
        raise DefenceError(f"Expected epsilon to be 0 or more and share between 0 and 1, got {epsilon} and {share}.")
    try:
        own_moments = moments(features)
    except ValueError as error:
        raise DefenceError(f"parameter_rotation works against attacks that assume [0, 1]. {error}") from None
    # In units of the parameters, so that what the searches call small doesn't depend on how large these are.
    unit = _root_mean_square(weights) or 1.0
    # Factor by factor: the square of a small unit is 0 long before the parameters are.
    target = TargetDistortion(target_epsilon if relative else target_epsilon / unit / unit, share)
    scaled = weights / unit
    method = {"i": rotated, "ii": rotated, "iii": free_single, "iv": free_binary}[method_case]
    differ = row_space(equations(scaled)).rank > 0
    distorted, most = method(scaled, own_moments, target) if differ else (scaled, 0.0)
    if target.within(most) == 0:
        distorted = scaled
    wanted, cap = (target_epsilon * unit * unit if relative else target_epsilon), most * unit * unit
    return Distortion(
        weights=weights.copy() if distorted is scaled else unit * distorted,
        case=method_case,
        epsilon=share * min(wanted, cap),
        capped=cap < wanted,
        interpretability=interpretability(scaled, distorted) * unit * unit,
        error=disclosed_errors(equations(scaled), equations(distorted), own_moments).half_star,
    )


def _root_mean_square(weights: FloatArray) -> float:
    """Compute it for (k, d) parameters without a square. Raises DefenceError where g, or the result, has no number."""
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0:
        return 0.0
    root = largest * float(np.sqrt(np.mean((weights / largest) ** 2)))
    # g is at most 4 mean squares.
    if not np.isfinite(4 * root * root):
        raise DefenceError(
            f"The parameters are up to {largest:.3g} large, and their squares exceed every float64: lower the learning "
            "rate and train again."
        )
    if largest < sys.float_info.min:
        raise DefenceError(
            f"The parameters are at most {largest:.3g}, too small to be distorted: raise the learning rate or lower "
            "l2, and train again."
        )
    return root


def _checked_shape(weights: FloatArray, features: FloatArray) -> tuple[int, int]:
    if weights.ndim != 2 or len(weights) < 2 or features.ndim != 2 or features.shape[1:] != weights.shape[1:]:
        raise DefenceError(
            f"Expected class rows (k, d), k at least 2, and features (n, d), got shapes {weights.shape} and "
            f"{features.shape}: parameter_rotation is for linear models."
        )
    if not np.isfinite(weights).all():
        raise DefenceError("The parameters contain NaN or infinity: lower the learning rate and train again.")
    return weights.shape[0], weights.shape[1]
