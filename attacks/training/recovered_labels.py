"""What an attack on labels found, over a whole training and step by step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from attacks.base import Json
from attacks.training_views import TrainingView
from vfl.arrays import BoolArray, FloatArray, IntArray

UNRESOLVED = -1
Method = Literal["criterion_4.2", "theorem_4.1", "theorem_F.2", "lattice", "joined", "none"]
Source = Literal["f", "label_share", "none"]


@dataclass(frozen=True, eq=False)
class StepLabels:
    """What one step says.

    Attributes:
        step: counted from 0.
        rows: (s,) indices in the common order.
        labels: (s,) class indices, UNRESOLVED where the step says nothing.
        margin: (s,) by how much f would have to change for another label.
        guaranteed: (s,) whether theory promises the label.
        rank: of the step's equations.
        condition_number: of the step's equations.
        method: which statement of Hu the labels follow from; lattice and joined are ours.
        source: what they were read off: f, the label party's share alone, or nothing.
        reason: why the step says nothing; empty when it says something.
    """

    step: int
    rows: IntArray
    labels: IntArray
    margin: FloatArray
    guaranteed: BoolArray
    rank: int
    condition_number: float
    method: Method
    source: Source
    reason: str = ""

    def over(self, rows: IntArray) -> "StepLabels":
        """Spread the step over more rows, of which those are UNRESOLVED that it didn't read."""
        if len(rows) == len(self.rows):
            return self
        place = {row: i for i, row in enumerate(rows.tolist())}
        places = np.array([place[row] for row in self.rows.tolist()])
        labels, margin = np.full(len(rows), UNRESOLVED, dtype=np.int64), np.zeros(len(rows))
        guaranteed = np.zeros(len(rows), dtype=np.bool_)
        labels[places], margin[places], guaranteed[places] = self.labels, self.margin, self.guaranteed
        return replace(self, rows=rows, labels=labels, margin=margin, guaranteed=guaranteed)


@dataclass(frozen=True, eq=False)
class RecoveredLabels:
    """The labels of all rows that took part in the steps seen.

    Attributes:
        labels: (n,) class indices, or UNRESOLVED.
        guaranteed: (n,) whether theory promises the row's label.
        unresolved: indices of the rows of the attacked batches without a label.
        steps: one estimate per step.
        guaranteed_steps: T_eps, None where the approximation has no such limit.
        epsilon: the bound behind it.
        reason: why there is no label at all; empty when there is one.
        steps_per_epoch: the plan's; None where steps count as one epoch.
        noise: standard deviation of the noise on shares, as they show it; None where none shows. Then nothing is
            guaranteed, and labels are what shares tell together.
    """

    kind: ClassVar[str] = "labels"
    labels: IntArray
    guaranteed: BoolArray
    unresolved: IntArray
    steps: tuple[StepLabels, ...]
    guaranteed_steps: int | None
    epsilon: float
    reason: str = ""
    steps_per_epoch: int | None = None
    noise: float | None = None

    def facts(self) -> Mapping[str, Json]:
        """Tell how far theory promises labels, and rank and condition number of every step's equations."""
        return {
            "guaranteed_steps": self.guaranteed_steps,
            "rank": [one.rank for one in self.steps],
            "condition_number": [one.condition_number for one in self.steps],
            "unresolved": len(self.unresolved),
            "noise": self.noise,
            "reason": self.reason,
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give labels of all rows; and of every step its epoch, rows and labels, one entry per row."""
        return {
            "labels": self.labels,
            "guaranteed": self.guaranteed,
            "step_epoch": np.concatenate([np.full(len(one.rows), self._epoch_of(one.step)) for one in self.steps]),
            "step_rows": np.concatenate([one.rows for one in self.steps]),
            "step_labels": np.concatenate([one.labels for one in self.steps]),
        }

    def over(self, view: TrainingView) -> "RecoveredLabels":
        """Spread the labels over all rows of a view's steps, of which each of these steps may have read some only."""
        steps = tuple(one.over(own.rows) for one, own in zip(self.steps, view.steps, strict=True))
        rows = np.unique(np.concatenate([one.rows for one in steps]))
        return replace(self, steps=steps, unresolved=rows[self.labels[rows] == UNRESOLVED])

    def _epoch_of(self, step: int) -> int:
        return 0 if self.steps_per_epoch is None else step // self.steps_per_epoch


@dataclass(frozen=True, eq=False)
class EstimatedLabels:
    """What an attack on labels believes of every record.

    Attributes:
        probabilities: (n, k); NaN for records that no step used.
        rows: (m,) the records that steps used.
        epoch: the last.
        told: which part of what was unknown of labels (their entropy) the attack thinks it took away, in [0, 1]; NaN
            where it doesn't say.
        details: the attack's own numbers.
        reason: why there is no label at all; empty when there is one.
    """

    kind: ClassVar[str] = "labels"
    probabilities: FloatArray
    rows: IntArray
    epoch: int
    told: float
    details: Mapping[str, Json]
    reason: str = ""

    def of_first(self, rows: int) -> "EstimatedLabels":
        """Keep the first so many records."""
        return replace(self, probabilities=self.probabilities[:rows], rows=self.rows[self.rows < rows])

    @property
    def labels(self) -> IntArray:
        """The likeliest class of each record, (n,); UNRESOLVED where nothing is told."""
        labels = np.full(len(self.probabilities), UNRESOLVED, dtype=np.int64)
        if not self.reason:
            labels[self.rows] = self.probabilities[self.rows].argmax(axis=1)
        return labels

    def facts(self) -> Mapping[str, Json]:
        """Give the attack's own numbers, and why there is no label."""
        return {"told": None if math.isnan(self.told) else round(self.told, 4), **self.details, "reason": self.reason}

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give labels and probabilities of all records, and that they come with the last epoch."""
        labels = self.labels
        return {
            "labels": labels,
            "probabilities": self.probabilities,
            "step_epoch": np.full(len(self.rows), self.epoch),
            "step_rows": self.rows,
            "step_labels": labels[self.rows],
        }


def nothing_told(view: TrainingView, reason: str, told: float = math.nan) -> EstimatedLabels:
    """Say why nothing is told of the records that a view's steps used."""
    rows = np.unique(np.concatenate([own.rows for own in view.steps]))
    return EstimatedLabels(np.full((view.n, view.classes), np.nan), rows, last_epoch(view), told, {}, reason)


def last_epoch(view: TrainingView) -> int:
    """Find the epoch of a view's last step, counted from 0; 0 where steps count as one epoch."""
    return 0 if view.steps_per_epoch is None else view.steps[-1].step // view.steps_per_epoch
