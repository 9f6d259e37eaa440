"""Networks whose first layer is split by party: z = sum of X_party W_party, and all above it at the label party.

delta_i is the gradient of record i's own loss by z_i, (h,). A party's gradient is X^T delta / s: split learning with
one layer at each passive party (Gupta and Raskar 2018; Vepakomma et al. 2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.learner import (
    Ask,
    EquationLeakage,
    Forward,
    Learner,
    LearnerError,
    LearnerSpec,
    OwnData,
    Send,
    Step,
)
from vfl.learning.linear.initialisation import initial_weights
from vfl.learning.network.optimisers import OptimiserName, optimiser_named
from vfl.learning.network.part import NetworkPart
from vfl.learning.networks import DenseNetwork

if TYPE_CHECKING:
    from vfl.learning.network.top import Top

Backward = Literal["plain", "paillier", "shared"]

MOST_UNITS = 1024
# What a rung of the ladder needs of the session.
_TERMS: Mapping[Backward, Mapping[str, str]] = MappingProxyType(
    {
        "plain": {"protocol": "hu", "cipher": "plain"},
        "paillier": {"protocol": "hu", "cipher": "paillier"},
        "shared": {"protocol": "shared", "cipher": "paillier"},
    }
)
# Of what a half carries: of its upper layers.
_TOP = "top_"
# Beyond it every training diverges in its first step, whatever the data.
_LARGEST = 1e9


@dataclass(frozen=True)
class Network(Learner):
    """A network of one hidden layer, or two, whose first layer is split by party.

    Attributes:
        hidden: Units of the first layer, of all parties together.
        upper: Units of one more layer of the label party's; 0 for none.
        activation: Of both.
        learning_rate: Step size.
        optimiser: momentum (0.9), adam or sgd; each owner of weights applies it to its own.
        backward: How the backward signal reaches the others. plain: INSECURE, in the clear. paillier: encrypted, each
            reads its own gradient. shared: nobody reads one.
    """

    hidden: int = 16
    upper: int = 0
    activation: Literal["tanh", "relu"] = "tanh"
    learning_rate: float = 0.1
    optimiser: OptimiserName = "momentum"
    backward: Backward = "paillier"

    name: ClassVar[str] = "network"
    spec: ClassVar[LearnerSpec] = LearnerSpec(
        senders="active", part=NetworkPart, forwards=True, source="Vepakomma et al. 2018", resumes=True
    )

    def __post_init__(self) -> None:
        if not 1 <= self.hidden <= MOST_UNITS:
            raise ValueError(f"Expected hidden to be from 1 to {MOST_UNITS} units, got {self.hidden!r}.")
        if not 0 <= self.upper <= MOST_UNITS:
            raise ValueError(f"Expected upper to be from 0 to {MOST_UNITS} units, got {self.upper!r}.")
        if not 0 < self.learning_rate <= _LARGEST:
            raise ValueError(
                f"Expected learning_rate to be a positive number up to {_LARGEST:g}, got {self.learning_rate!r}."
            )
        if self.backward == "shared" and self.optimiser == "adam":
            raise ValueError(
                "optimiser=adam divides by gradients, which nobody knows where backward=shared: choose "
                "optimiser=momentum or sgd."
            )

    def check_label_party(self) -> None:
        """Raise LearnerError without torch."""
        _top_class()

    def terms(self) -> Mapping[str, str]:
        """Name the protocol and the cipher that carry the backward signal as its option says."""
        return _TERMS.get(self.backward, {})

    def columns(self, classes: int) -> int:
        """Count one per unit of the first layer."""
        return self.hidden

    def tells(self) -> EquationLeakage:
        """Say as many labels in an equation as were measured of any learner; the step size is the owner's."""
        return EquationLeakage(remedy="backward=shared", step_size=self.learning_rate)

    def begin(self, own: OwnData) -> "NetworkHalf":
        """Make a party's half; its weights are drawn. Raises LearnerError at a label party without torch."""
        return NetworkHalf(self, own)

    def first_layers(self, classes: int, generator: np.random.Generator) -> DenseNetwork:
        """Draw the label party's upper layers: uniform as Glorot and Bengio say, biases 0."""
        sizes = [self.hidden, *([self.upper] if self.upper else []), classes]
        weights = [
            initial_weights("xavier", inputs, outputs, total_features=inputs, generator=generator)
            for inputs, outputs in pairwise(sizes)
        ]
        return DenseNetwork(tuple(weights), tuple(np.zeros(weight.shape[1]) for weight in weights), self.activation)


class NetworkHalf:
    """One party's half of the training.

    Attributes:
        weights: (d, h) of the first layer, as they stand.
    """

    def __init__(self, learner: Network, own: OwnData) -> None:
        self.weights = initial_weights(
            "xavier", own.features, learner.hidden, total_features=own.total_features, generator=own.generator
        )
        self._labels = own.labels
        self._optimiser = optimiser_named(learner.optimiser, learner.learning_rate)
        self._top = None if own.labels is None else _top(learner, own)

    def step(self, batch: IntArray) -> Step:
        """Send the backward signal, at the label party, and move against the gradient of the sums."""
        hidden = yield Forward(self.weights)
        if self._top is not None and self._labels is not None:
            yield Send(self._top.backward(hidden, self._labels[batch]))
        sums: FloatArray = yield Ask()
        self.weights = self.weights - self._optimiser.change((1 / len(batch)) * sums)

    @property
    def carried(self) -> Mapping[str, Any]:
        """What the optimiser remembers; at the label party the upper layers, and what theirs does."""
        top = {} if self._top is None else {f"{_TOP}{name}": array for name, array in self._top.state.items()}
        return {**self._optimiser.state, **top}

    @carried.setter
    def carried(self, kept: Mapping[str, Any]) -> None:
        """Take up what a half of these options carried."""
        self._optimiser.state = {name: values for name, values in kept.items() if not name.startswith(_TOP)}
        if self._top is not None:
            self._top.state = {name.removeprefix(_TOP): array for name, array in kept.items() if name.startswith(_TOP)}

    def part(self) -> NetworkPart:
        """Give the weights, and the upper layers at the label party, to answer with."""
        return NetworkPart(self.weights, None if self._top is None else self._top.network())


def _top(learner: Network, own: OwnData) -> "Top":
    return _top_class()(learner.first_layers(own.classes, own.generator), learner.optimiser, learner.learning_rate)


def _top_class() -> type["Top"]:
    try:
        from vfl.learning.network.top import Top
    except ImportError as error:
        raise LearnerError("the label party trains a network with torch: pip install 'plumbline[lab]'") from error
    return Top
