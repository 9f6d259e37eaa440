"""How the owner of a first layer's columns moves its weights. The label party's upper layers do as torch does."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import numpy as np

from vfl.arrays import FloatArray

OptimiserName = Literal["sgd", "momentum", "adam"]

MOMENTUM = 0.9
# Kingma and Ba (2015), Algorithm 1.
_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


class Optimiser(Protocol):
    """Turns gradients, one a step, into what is subtracted from the weights.

    Attributes:
        state: all that it remembers of earlier gradients, by name.
    """

    state: Mapping[str, Any]

    def change(self, gradient: FloatArray) -> FloatArray:
        """Compute what to subtract after this gradient; both (d, h)."""


def optimiser_named(name: OptimiserName, rate: float) -> Optimiser:
    """Make a new optimiser, as torch's SGD (momentum 0.9 or none) or Adam with its defaults."""
    return Adam(rate) if name == "adam" else Descent(rate, MOMENTUM if name == "momentum" else 0.0)


class Descent:
    """Gradient descent with momentum mu: v = mu v + g, and rate v is subtracted.

    It adds, and multiplies by public numbers, so that gradients may be shares.
    """

    def __init__(self, rate: float, momentum: float) -> None:
        self._rate, self._momentum = rate, momentum
        self.state: Mapping[str, Any] = {}

    def change(self, gradient: FloatArray) -> FloatArray:
        """Compute what to subtract after this gradient; both (d, h)."""
        if self._momentum:
            if "velocity" in self.state:
                gradient = self._momentum * self.state["velocity"] + gradient
            self.state = {"velocity": gradient}
        return self._rate * gradient


class Adam:
    """Adam (Kingma and Ba 2015): each number's step is divided by the root mean square of its gradients."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.state: Mapping[str, Any] = {"steps": np.zeros(()), "mean": np.zeros(()), "square": np.zeros(())}

    def change(self, gradient: FloatArray) -> FloatArray:
        """Compute what to subtract after this gradient; both (d, h)."""
        steps = int(self.state["steps"]) + 1
        mean = _FIRST * self.state["mean"] + (1 - _FIRST) * gradient
        square = _SECOND * self.state["square"] + (1 - _SECOND) * gradient**2
        self.state = {"steps": np.array(steps), "mean": mean, "square": square}
        root = np.sqrt(square / (1 - _SECOND**steps))
        change: FloatArray = self._rate * (mean / (1 - _FIRST**steps)) / (root + _EPSILON)
        return change
