"""Adversaries who know a linear defence, as the sections on transforms and on rotations measure them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np

import attacks
from attacks.prediction.adaptive import undo_channel
from attacks.prediction.equation_solving import HalfStar
from attacks.prediction.linear_system import linear_system
from defences import disclosure_of
from defences.feature_transform import FeatureTransform
from defences.parameter_rotation import ParameterRotation
from plumbline.judge.measures import mse_per_feature
from studies.simulation.linear_models import TrainedModel
from vfl.arrays import FloatArray

_Piece = TypeVar("_Piece")
CAUTIOUS = "rcc2, 1/2 where nothing fits"
KNOWING, WITH_RECORDS = "knows the defence", "knows it and has 2 d + 2 complete records"
# Scores of disclosed parameters' records fit them to rounding; those that no x in the box explains are far off.
_FITS = 1e-6


def with_records(
    view: attacks.PredictionView, model: TrainedModel, passive: list[int], passive_columns: FloatArray
) -> attacks.PredictionView:
    """Give a view 2 d + 2 complete training records besides; ``passive_columns`` are as they truly are."""
    count = 2 * len(passive) + 2
    records = replace(model, features=model.features_train).view(passive, count)[0]
    auxiliary = attacks.AuxiliaryRows(records.features_active, passive_columns[:count], given(records.scores))
    return replace(view, auxiliary=auxiliary)


def informed_errors(
    defence: FeatureTransform | ParameterRotation, view: attacks.PredictionView, truth: FloatArray
) -> Iterator[tuple[str, float]]:
    """Measure those who know the defence: who they are, and how much their half*, clamped to [0, 1], errs per feature.

    view: with the records of ``with_records``.
    """
    informed = replace(view, disclosure=disclosure_of(defence))
    for label, auxiliary in ((KNOWING, None), (WITH_RECORDS, view.auxiliary)):
        undone = undo_channel(replace(informed, auxiliary=auxiliary))
        estimate = attacks.load("half_star").reconstruct(undone).clip(0, 1)
        yield label, mse_per_feature(truth, estimate)


def half_where_nothing_fits(view: attacks.PredictionView, estimate: FloatArray) -> FloatArray:
    """Take rcc2's (n, d) estimates, but 1/2 for records whose equations even they don't solve."""
    system = linear_system(HalfStar(), view)
    residuals = np.abs(estimate @ system.matrix.T - system.right_hand_sides).max(axis=1, keepdims=True)
    return np.where(residuals < _FITS, estimate, 0.5)


def given(piece: _Piece | None) -> _Piece:
    """Narrow a piece of a view that is there."""
    if piece is None:
        raise AssertionError  # all views here have it; this tells the type checker
    return piece
