"""What training found, as arrays: how models are kept and travel, without code as in a pickle of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from studies.simulation.linear_models import TrainedModel
from studies.simulation.network_models import TrainedNetwork
from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import Activation, DenseNetwork, VerticalNetwork

Parameters: TypeAlias = Mapping[str, NDArray[Any]]
_PARTS = ("active", "passive")


def parameters_of(model: TrainedModel | TrainedNetwork) -> Parameters:
    """List what training found."""
    if isinstance(model, TrainedModel):
        return {"weights": model.weights, "bias": model.bias}
    parts = [(name, getattr(model.network, name)) for name in _PARTS]
    layers = {
        f"{name}_{kind}_{layer}": array
        for name, part in parts
        for kind, arrays in (("weights", part.weights), ("biases", part.biases))
        for layer, array in enumerate(arrays)
    }
    return layers | {f"{name}_activation": np.array(part.activation) for name, part in parts}


@dataclass(frozen=True, eq=False)
class KeptTrainer:
    """Trains nothing: it has the parameters from an earlier training (``parameters_of``)."""

    parameters: Parameters

    def train_linear(
        self, features: FloatArray, labels: IntArray, *, classes: int | None = None, seed: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Give the (k, D) weights and (k,) bias."""
        return self.parameters["weights"], self.parameters["bias"]

    def train_network(
        self, features_active: FloatArray, features_passive: FloatArray, labels: IntArray, **_: Any
    ) -> VerticalNetwork:
        """Give the parties' parts."""
        return VerticalNetwork(self._part("active"), self._part("passive"))

    def _part(self, name: str) -> DenseNetwork:
        activation: Activation = str(self.parameters[f"{name}_activation"])  # type: ignore[assignment]
        return DenseNetwork(self._layers(f"{name}_weights_"), self._layers(f"{name}_biases_"), activation)

    def _layers(self, prefix: str) -> tuple[FloatArray, ...]:
        count = sum(name.startswith(prefix) for name in self.parameters)
        return tuple(self.parameters[f"{prefix}{layer}"] for layer in range(count))
