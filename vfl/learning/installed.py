"""A model that was trained elsewhere: each party brings its part, which answers. Nothing is sent, nothing trained."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.learner import EquationLeakage, Learner, LearnerError, LearnerSpec, OwnData, Step
from vfl.learning.networks import DenseNetwork


@dataclass(frozen=True)
class Installed(Learner):
    """Each party's part of a model as its file has it (PLUMBLINE_MODEL)."""

    name: ClassVar[str] = "installed"
    spec: ClassVar[LearnerSpec] = LearnerSpec(senders="none", part=DenseNetwork, source="Jiang 5.1")

    def columns(self, classes: int) -> int:
        """Count columns though none is ever sent; a session's batch size goes by it, as by the linear learner's."""
        return 1 if classes == 2 else classes

    def tells(self) -> EquationLeakage:
        """Count as the linear learner does, for the batch size: nothing is answered."""
        return EquationLeakage(labels=4)

    def outputs(self, classes: int) -> int:
        """Count one per class, whatever their number."""
        return classes

    def begin(self, own: OwnData) -> "InstalledHalf":
        """Take the part that the party brings; raises LearnerError without one, and where it doesn't fit the table."""
        part = own.brought
        if part is None:
            raise LearnerError(
                "an installed model is answered by parts, and this party brings none: set PLUMBLINE_MODEL"
            )
        if (part.inputs, part.outputs) != (own.features, own.classes):
            raise LearnerError(
                f"the installed model takes {part.inputs} features and gives {part.outputs} classes; "
                f"the table has {own.features} features, the session {own.classes} classes."
            )
        return InstalledHalf(part)


class InstalledHalf:
    """A part as it was brought.

    Attributes:
        weights: none that training would change, (0, 0).
    """

    def __init__(self, part: DenseNetwork) -> None:
        self.weights: FloatArray = np.zeros((0, 0))
        self._part = part

    def step(self, batch: IntArray) -> Step:
        """Ask for nothing."""
        yield from ()

    def part(self) -> DenseNetwork:
        """Give the part."""
        return self._part
