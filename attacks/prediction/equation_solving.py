"""Attacks that solve the scores' linear equations A x = b (Rassouli, sections III-V: eq. 5-6, 22; CLS of section IV).

They share ``linear_system`` (the equations) and ``box_projection`` (solutions in the box [0, 1]^d).

Where the paper's assumptions fail, every attack of this family does the same, and never gives NaN:

- *Scores of 0 or 1* carry no finite log ratio. Scores are floored at SCORE_FLOOR before the logarithm, so a
  saturated ratio becomes some +-690. Such a record's equations usually have no solution in the box.
- *Rank-deficient A*: the pseudoinverse of the numerical rank (`vfl.theory.prediction.row_space`).
- *Equations that contradict each other*: b is replaced by its projection onto the range of A, as A^+ does.
- *No solution in the box* (distorted scores or parameters): ls, half* and clamped_ls are what their formulas
  give, possibly far outside [0, 1] for the first two. The others return, among the points of the box with the
  smallest ||A x - b||, the one closest to their centre; the number of such records is logged.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec
from attacks.prediction.linear_system import box_solutions, linear_system, white_box
from attacks.views import PredictionView
from vfl.arrays import FloatArray


@dataclass(frozen=True)
class LeastSquares:
    """ESA: estimates the solution of minimum norm, A^+ b, unclamped (Rassouli section IV; the first term of eq. 22)."""

    name: ClassVar[str] = "ls"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli IV, eq. 5-6; Theorem 2, eq. 50",
        "solves the equations that exact scores are, by the shortest solution",
    )

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features A^+ b, (n, d), finite but possibly outside [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
        """
        return linear_system(self, view).minimum_norm


@dataclass(frozen=True)
class ClampedLeastSquares:
    """ESA, with every value outside [0, 1] replaced by the nearer end (Rassouli VIII-A); A x = b is then lost."""

    name: ClassVar[str] = "clamped_ls"
    spec: ClassVar[AttackSpec] = white_box("Rassouli VIII-A", "solves as ls does, and cuts to the range of the columns")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
        """
        return np.clip(linear_system(self, view).minimum_norm, 0.0, 1.0)


@dataclass(frozen=True)
class HalfStar:
    """Estimates the solution closest to one half, A^+ b + (I - A^+ A) 1/2, unclamped (Rassouli Prop. 1, eq. 22).

    For undistorted scores its MSE is never above half's (Theorem 1).
    """

    name: ClassVar[str] = "half_star"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli Prop. 1, eq. 21-22",
        "solves from the middle of each range: never worse than guessing the middle",
    )

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d), finite but possibly outside [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
        """
        system = linear_system(self, view)
        estimates: FloatArray = system.minimum_norm
        estimates += 0.5 * system.space.null_projector.sum(axis=1)
        return estimates


@dataclass(frozen=True)
class ConstrainedLeastSquares:
    """CLS: estimates a point of the box with the smallest ||A x - b|| (Rassouli section IV). For d >= k there are many.

    The one of minimum norm, which is unique, is taken. The paper's figures have the one where a solver happens to stop,
    whose MSE says as much about the solver as about the leak.
    """

    name: ClassVar[str] = "cls"
    spec: ClassVar[AttackSpec] = white_box(
        "Rassouli IV, after eq. 10", "the solution of least error within the range of the columns"
    )

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: when the view lacks a piece.
        """
        return box_solutions(self.name, linear_system(self, view), 0.0).points
