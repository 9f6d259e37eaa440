"""Guesses that ignore the scores; every other attack is measured against them (Rassouli, sections V and VIII)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec
from attacks.views import PredictionView
from vfl.arrays import FloatArray


def _blind(source: str, summary: str) -> AttackSpec:
    return AttackSpec(
        adversary="active",
        phase="prediction",
        needs=(),
        source=source,
        summary=summary,
        cost="none",
        sees_scores=False,
    )


@dataclass(frozen=True)
class Zero:
    """Guesses 0 for every feature: good where features are sparse or skewed, MSE E[x^2] (Rassouli VIII-A)."""

    name: ClassVar[str] = "zero"
    spec: ClassVar[AttackSpec] = _blind("Rassouli VIII-A", "guesses the lower end of every range: a baseline")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Guess zeros, (n, d)."""
        return np.zeros((view.n, view.d))


@dataclass(frozen=True)
class HalfGuess:
    """Guesses 1/2 for every feature, the box's Chebyshev centre.

    No other blind guess has a smaller largest error (Rassouli eq. 20).
    """

    name: ClassVar[str] = "half"
    spec: ClassVar[AttackSpec] = _blind("Rassouli V, eq. 19-20", "guesses the middle of every range: a baseline")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Guess halves, (n, d)."""
        return np.full((view.n, view.d), 0.5)


@dataclass(frozen=True)
class RandomGuess:
    """Guesses uniformly on [0, 1]. By Lemma 1 its MSE is half's plus the uniform variance 1/12: no fair yardstick.

    Attributes:
        seed: any non-negative integer; equal seeds and shapes give equal guesses.
    """

    name: ClassVar[str] = "random_guess"
    spec: ClassVar[AttackSpec] = _blind("Rassouli VIII-A, Lemma 1", "guesses at random: worse than any baseline")
    seed: int = 0

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Guess independently and uniformly, (n, d)."""
        return np.random.default_rng(self.seed).random((view.n, view.d))
