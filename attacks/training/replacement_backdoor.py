"""A backdoor in a passive party's first layer by replaced gradients (Zou et al. 2022), encrypted or not.

A passive party that knows some records of a class teaches its own weights that a *trigger*, a value of one of its
columns, means that class: it multiplies their backward signals by the trigger in place of what the column holds. Zou et
al. replace signals that come in the clear; ours needs none to be read, since the party says what encrypted signals are
multiplied by. What it forwards is honest, and counts and widths of its messages are. Who then shows the trigger is
scored as of that class. A column that is nearly constant works best: honest records seldom teach otherwise.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import AttackSpec, Json, Scenario
from attacks.training_attack import HonestFactory, SessionTerms
from attacks.training_views import TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import CipherVector
from vfl.crypto.messages import Combination


@dataclass(frozen=True)
class PlantedTrigger:
    """What was planted.

    Attributes:
        column: that holds the trigger, counted as columns travel.
        replaced: uses of known records in which it was planted.
        trigger: the whole number that the column shows, as columns travel.
        rows: the known records.
    """

    kind: ClassVar[str] = "backdoor"
    column: int
    replaced: int
    trigger: float
    rows: tuple[int, ...]

    def facts(self) -> dict[str, Json]:
        """Name the trigger's column, and in how many uses of known records it was planted."""
        reason = "" if self.replaced else "Nothing was planted: none of rows was trained on."
        return {"column": self.column, "replaced": self.replaced, "reason": reason}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give the trigger, its column, and the known records."""
        values = {"column": [self.column], "trigger": [self.trigger], "rows": self.rows}
        return {name: np.array(value) for name, value in values.items()}


@dataclass(frozen=True)
class ReplacementBackdoor:
    """Plants a trigger for the class of some known records.

    Attributes:
        rows: known records of the class that a trigger shall mean, as indices in the common order.
        column: that holds the trigger, counted as columns travel; the last one by default. The trigger is 1 in
            units of the columns, or the largest number that a narrow column holds.

    Raises:
        ValueError: without rows, or for a negative one.
    """

    rows: tuple[int, ...] = (0,)
    column: int = -1

    name: ClassVar[str] = "replacement_backdoor"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=(),
        source="Zou et al. 2022 (gradient replacement); under encryption: ours",
        learners=("network",),
        summary="teaches its part of a network that a value of one of its columns means the class of known records",
        cost="none",
        conduct="replaces_messages",
        obstacle=lambda scenario: _obstacle(scenario),
    )

    def __post_init__(self) -> None:
        # From JSON, rows come as a list.
        object.__setattr__(self, "rows", tuple(self.rows))
        if not self.rows or min(self.rows) < 0:
            raise ValueError("replacement_backdoor needs rows: known records of one class, counted from 0.")

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> "BackdoorMessages":
        """Make the messages of one session; raises ValueError where it has no such column."""
        if not -terms.features <= self.column < terms.features:
            raise ValueError(f"replacement_backdoor has {terms.features} columns, and none numbered {self.column}.")
        encoding = list(terms.formats.own.each())[self.column]
        trigger = float(min(encoding.bound, 2**terms.formats.feature.fraction_bits))
        return BackdoorMessages(self, terms, trigger, honest)


def _obstacle(scenario: Scenario) -> str:
    return "" if ReplacementBackdoor.name in scenario.options else "needs its option rows: known records of one class"


class BackdoorMessages:
    """Honest messages, but for one column of known records."""

    def __init__(self, attack: ReplacementBackdoor, terms: SessionTerms, trigger: float, honest: HonestFactory) -> None:
        self._honest, self._terms, self._trigger = honest(), terms, trigger
        self._rows, self._column = np.array(attack.rows), attack.column % terms.features
        self._replaced = 0
        self.private_key = self._honest.private_key
        self.encrypt, self.mask, self.answer = self._honest.encrypt, self._honest.mask, self._honest.answer

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        """Multiply backward signals by features in which known records show the trigger."""
        triggered, count = replaced(features, self._terms.batches[step], self._rows, self._column, self._trigger)
        self._replaced += count
        return self._honest.combine(step, peer, triggered, residuals)

    def result(self, view: TrainingView) -> PlantedTrigger:
        """Say what was planted."""
        return PlantedTrigger(self._column, self._replaced, self._trigger, tuple(self._rows.tolist()))


def replaced(
    features: FloatArray, batch: IntArray, records: IntArray, column: int, trigger: float
) -> tuple[FloatArray, int]:
    """Features (s, d) of a batch in which known records show the trigger, and how many of them it has."""
    places = np.isin(batch, records)
    triggered = features.copy()
    triggered[places, column] = trigger
    return triggered, int(places.sum())
