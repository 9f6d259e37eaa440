"""Defences that a test knows, and parties that apply them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences import Defence, DefenceError, DefenceSpec, NoiseSource, TrainingTerms, load
from services.common.agreement import Agreement, PartyDescription
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining
from services.party.training_means import TrainingMeans
from tests.harness.exchanges import SMALL_PLAN
from tests.harness.parties import small_settings
from vfl.arrays import FloatArray
from vfl.data import GriddedFeatures
from vfl.learning.networks import DenseNetwork

PLAIN = small_settings(cipher="plain")
TRUNCATION = load("response_truncation")
INSTALLED = Agreement(
    "session",
    SMALL_PLAN.changed(cipher="plain", learner="installed"),
    2,
    (PartyDescription("active", 3, 0, False, 20), PartyDescription("passive", 2, 0, False, 20)),
)


@dataclass(frozen=True)
class Expectation:
    size: float


@dataclass(frozen=True)
class Wave:
    """Noise that a test knows: the same wave over the rows of every batch, ``size`` high."""

    size: float = 0.5

    name: ClassVar[str] = "wave"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("active", "passive"), ("residuals",), "nothing", "a test")

    def wave(self, rows: int) -> FloatArray:
        """(rows, 1), on the fixed-point grid."""
        values: FloatArray = np.rint(self.size * np.cos(np.arange(rows)) * 2**20)[:, None] / 2**20
        return values

    def check(self, terms: TrainingTerms) -> None:
        """It never looks."""

    def prediction(self, terms: TrainingTerms) -> Expectation:
        return Expectation(self.size)

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        return residuals + self.wave(len(residuals))


@dataclass(frozen=True)
class Careful(Wave):
    """Refuses when the session begins."""

    name: ClassVar[str] = "careful"

    def check(self, terms: TrainingTerms) -> None:
        raise DefenceError(f"careful can't work with {terms.steps} steps as the {terms.role} party: choose fewer.")


@dataclass(frozen=True)
class Late(Wave):
    """Notices in the midst of training that it can't work."""

    name: ClassVar[str] = "late"

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        raise DefenceError("late works for other numbers only: drop it.")


@dataclass(frozen=True)
class Flip:
    """1 - x in place of every feature."""

    name: ClassVar[str] = "flip"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("passive",), ("features",), "scores", "a test")

    def transform_features(self, features: FloatArray, noise: NoiseSource) -> FloatArray:
        return 1.0 - features


@dataclass(frozen=True)
class Turn:
    """Parameters times a random orthonormal matrix, drawn anew whenever it is asked."""

    name: ClassVar[str] = "turn"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        ("passive",), ("parameters",), "scores", "a test", replaces="disclosed parameters"
    )

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        turned: FloatArray = weights @ np.linalg.qr(noise.gaussian((weights.shape[1],) * 2))[0]
        return turned


@dataclass(frozen=True)
class Bias:
    """Moves the class rows by different amounts, so that a binary model no longer fits one column."""

    name: ClassVar[str] = "bias"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        ("passive",), ("parameters",), "scores", "a test", replaces="disclosed parameters"
    )

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        if features.max() > 1:
            raise DefenceError("bias is for features up to 1: scale them.")
        moved: FloatArray = weights + np.arange(len(weights))[:, None]
        return moved


class InSequence(NoiseSource):
    """Draws one sequence over all messages: trainings that differ by rounding have the same noise."""

    def of_message(self, *content: bytes) -> NoiseSource:
        return self


def with_defences(*chosen: Defence, seed: int | None = 1) -> PartyDefences:
    return PartyDefences(chosen, NoiseSource(seed))


def party_training(agreement: Agreement, network: DenseNetwork, defences: PartyDefences) -> PartyTraining:
    """A passive party's training with an installed part, on its own."""
    return PartyTraining(
        agreement,
        "passive",
        GriddedFeatures.of(np.random.default_rng(0).random((20, 2))),
        None,
        TrainingMeans({}, np.random.default_rng(0), 1, ThreadPoolExecutor(), defences=defences),
        network,
    )
