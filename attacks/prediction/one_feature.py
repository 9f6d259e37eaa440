"""Black-box attack on a single passive feature (Rassouli, section VI, cases 1 to 3): its extremes stand for 0 and 1."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from attacks.base import AttackSpec, require
from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray

_SCORE_FLOOR = 1e-300


@dataclass(frozen=True)
class OneFeature:
    """Estimates X_i from v_i = omega X_i + b with omega and b unknown: the extreme v_i belong to X near 0 and 1.

    v is what the active party's own share leaves of the log ratio of two classes. Records with a score of 0 in the pair
    don't count as extremes. Observations that don't differ (or are all 0 in case 1) tell nothing: one half. Never NaN,
    deterministic.

    Attributes:
        case: what the adversary knows of omega and b. 1: b = 0, eq. 64. 2: omega b > 0, section VI-B. 3: omega b < 0,
            section VI-C: where all v_i have one sign it is b's; where not, omega's sign decides between x and 1 - x.
        omega_sign: "positive" or "negative" where the adversary knows it (used in case 3 only, the others don't need
            it); "unknown" with v_i of both signs gives one half for every record, the best that section VI-C knows.
        pair: which classes' log ratio ln(c_{pair+1} / c_pair), from 0, is observed; omega and b are that row's.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "one_feature"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="black_box",
        needs=("scores", "weights_active"),
        source="Rassouli section VI, eq. 64-75",
        learners=("linear",),
        summary="reads a lone passive feature from ratios of scores, without its weights",
        cost="milliseconds",
        obstacle=lambda scenario: "is for a lone passive feature" if scenario.passive_features > 1 else "",
    )

    case: Literal[1, 2, 3] = 2
    omega_sign: Literal["unknown", "positive", "negative"] = "unknown"
    pair: int = 0

    def __post_init__(self) -> None:
        if self.pair < 0:
            raise ValueError(f"Expected pair >= 0, got {self.pair}.")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate the feature, (n, 1) in [0, 1].

        Raises:
            ViewError: without scores or weights_active, unless d = 1, or for a pair without classes.
        """
        require(self, view)
        if view.d != 1:
            raise ViewError(f"{self.name} works on one passive feature, this view has {view.d}: use shadow instead.")
        if self.pair > view.classes - 2:
            raise ViewError(f"{self.name} with pair={self.pair} needs {self.pair + 2} classes, got {view.classes}.")
        columns = [self.pair, self.pair + 1]
        scores, weights = np.asarray(view.scores)[:, columns], np.asarray(view.weights_active)[columns]
        own_logits = view.features_active @ (weights[1] - weights[0])
        observed = np.diff(np.log(np.maximum(scores, _SCORE_FLOOR)), axis=1)[:, 0] - own_logits
        usable = observed[(scores > 0).all(axis=1)]
        return self._estimate(observed, usable)[:, None]

    def _estimate(self, observed: FloatArray, usable: FloatArray) -> FloatArray:
        half = np.full_like(observed, 0.5)
        if not len(usable):
            return half
        largest, smallest = usable[np.abs(usable).argmax()], usable[np.abs(usable).argmin()]
        if self.case == 1:
            top, bottom = largest, 0.0
        elif self.case == 2:
            top, bottom = largest, smallest
        else:
            positive = self._omega_is_positive(usable)
            if positive is None:
                return half
            top, bottom = (usable.max(), usable.min()) if positive else (usable.min(), usable.max())
        if top == bottom:
            return half
        # 1 / (1 - alpha_i) of section VI-B, with X_M = 1 and X_m = 0.
        clipped: FloatArray = np.clip((observed - bottom) / (top - bottom), 0.0, 1.0)
        return clipped

    def _omega_is_positive(self, usable: FloatArray) -> bool | None:
        """Case 3: omega's sign as known, or opposite to b's, which is that of every v_i; None where they differ."""
        if self.omega_sign != "unknown":
            return self.omega_sign == "positive"
        if (usable < 0).all():
            return True
        return False if (usable > 0).all() else None
