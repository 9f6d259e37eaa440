"""Randomised response on training labels (Warner 1965; Ghazi et al. 2021): label differential privacy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceSpec, TrainingTerms
from defences.noise import NoiseSource
from vfl.arrays import IntArray

_LARGEST_EPSILON = 20.0
# Of a draw. A class in place of the true one gets a whole number of the 2^53 there are, so that epsilon is exact.
_BITS = 53


@dataclass(frozen=True)
class RandomisedResponse:
    """What a session's training labels are worth to whoever sees all of it.

    Attributes:
        epsilon: each training record's label is epsilon-differentially private; exactly, and with a delta of 0.
        kept: how often a record keeps its label, which is also how often the best guess is right of classes that are
            equally likely beforehand.
        note: what it doesn't cover.
    """

    epsilon: float
    kept: float
    note: str


@dataclass(frozen=True)
class LabelRandomisedResponse:
    """Trains on labels of which each was replaced, with a chance that epsilon says, by one of the other classes.

    Guarantee: epsilon-label differential privacy, with a delta of 0, of each training record: all that the label party
        sends in training, and the model, follow from the replaced labels. The draw is a secret function of a record's
        id and label: it is the same in every session, and neither epochs nor sessions add up, as long as the party's
        secret is kept over restarts (PLUMBLINE_STATE_DIR). A record under two ids is two records.

    It works with every learner and on every rung. Scores are still judged by the true labels.

    What it does not stop: what features say of a label. The model predicts labels as it was meant to, those of training
        records too, where a passive party's own columns or the scores do. Of records that validation chooses an epoch
        by, the true labels count.

    Attributes:
        epsilon: of each label, above 0 and at most 20.

    Raises:
        ValueError: for another epsilon.
    """

    name: ClassVar[str] = "label_randomised_response"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active",),
        stages=("labels",),
        keeps="nothing",
        source="Warner 1965; Ghazi et al. 2021, Algorithm 1",
        summary="replaces some training labels by others at random, once for all sessions",
        cost="accuracy",
        stops=("labels",),
        tried_with={"epsilon": 1.0},
    )

    epsilon: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= _LARGEST_EPSILON:
            raise ValueError(f"Expected epsilon to be above 0 and at most {_LARGEST_EPSILON:g}, got {self.epsilon}.")

    def check(self, terms: TrainingTerms) -> None:
        """Accept every session."""

    def prediction(self, terms: TrainingTerms) -> RandomisedResponse:
        """Say what the labels of a session are worth."""
        replaced = self._draws_per_class(terms.classes)
        truthful = (1 << _BITS) - (terms.classes - 1) * replaced
        return RandomisedResponse(
            epsilon=math.log(truthful / replaced),
            kept=truthful / (1 << _BITS),
            note="Of each training record's label. Validation records choose an epoch by their true labels.",
        )

    def replace_labels(self, labels: IntArray, ids: Sequence[str], classes: int, noise: NoiseSource) -> IntArray:
        """Draw the class indices to train on, (n,), for those of the table, (n,), of k classes."""
        texts = (f"{label}/{one}" for label, one in zip(labels, ids, strict=True))
        draws = noise.integers_per_text(texts, _BITS)
        replaced = self._draws_per_class(classes)
        # The first draws are for the next class, and so on; all that is left keeps the label.
        further = np.minimum(draws // replaced + 1, classes) % classes
        replaced_labels: IntArray = (labels + further) % classes
        return replaced_labels

    def _draws_per_class(self, classes: int) -> int:
        """Count the draws of each class that isn't the true one: 2^53 / (e^epsilon + k - 1), rounded up."""
        return math.ceil((1 << _BITS) / (math.exp(self.epsilon) + classes - 1))
