"""Passive columns of predicted records from the leaves that they reach, where passive parties disclose thresholds.

Each split on a record's way says on which side of a disclosed threshold one of its columns lies. No record need be
known, and new records are told as much of as those that were trained on.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from attacks.base import NEEDS, AttackSpec, require
from attacks.training.bin_values import quantiles
from attacks.views import PredictionView, ViewError
from vfl.adversary_words import Level
from vfl.arrays import FloatArray

Prior = Literal["nothing", "marginals"]
# Levels at which a column's quantiles stand for all its values.
_LEVELS = (np.arange(999) + 0.5) / 999


@dataclass(frozen=True)
class DisclosedThresholds:
    """Estimates each column by what lies between the thresholds that bound it.

    Attributes:
        prior: What is known beforehand, besides public ranges. nothing: the middle is taken. marginals: what is between
            on average, by means, variances and frequencies.
    """

    prior: Prior = "nothing"

    name: ClassVar[str] = "disclosed_thresholds"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="white_box",
        needs=("low", "high"),
        source="ours",
        learners=("boosted_trees",),
        summary="bounds passive columns by the leaves that records reach and the thresholds that are disclosed",
        cost="seconds",
        at_level={level: {"prior": level} for level in get_args(Prior)},
    )

    def __post_init__(self) -> None:
        if self.prior not in get_args(Prior):
            raise ValueError(f"Expected prior to be one of {', '.join(get_args(Prior))}; got {self.prior!r}.")

    @property
    def level(self) -> Level:
        """What its adversary knows beforehand."""
        return self.prior

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1]. Raises ViewError without bounds, and without what the prior knows."""
        require(self, view)
        low, high = np.asarray(view.low), np.asarray(view.high)
        middle: FloatArray = (low + high) / 2
        if self.prior == "nothing":
            return middle
        moments = view.moments
        if moments is None:
            raise ViewError(f"disclosed_thresholds(prior=marginals) needs moments: {NEEDS['prediction']['moments']}.")
        estimate = middle.copy()
        for column in range(view.d):
            values = np.sort(quantiles(moments, column, _LEVELS, in_unit=True))
            sums = np.concatenate([[0.0], np.cumsum(values)])
            first, last = (np.searchsorted(values, end[:, column], side="right") for end in (low, high))
            inside = last > first
            estimate[inside, column] = ((sums[last] - sums[first]) / np.maximum(last - first, 1))[inside]
        return np.clip(estimate, 0.0, 1.0)
