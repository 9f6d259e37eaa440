"""What training found, as arrays: how models are kept and travel, without code as in a pickle of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from studies.simulation.linear_models import TrainedModel
from studies.simulation.network_models import TrainedNetwork
from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import DenseNetwork, VerticalNetwork

Parameters: TypeAlias = Mapping[str, NDArray[Any]]
_PARTS = ("active", "passive")


def parameters_of(model: TrainedModel | TrainedNetwork) -> Parameters:
    """List what training found."""
    if isinstance(model, TrainedModel):
        return {"weights": model.weights, "bias": model.bias}
    parts = {part: getattr(model.network, part).arrays() for part in _PARTS}
    return {f"{part}_{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


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
        parts = ({name.removeprefix(f"{part}_"): array for name, array in self.parameters.items()} for part in _PARTS)
        return VerticalNetwork(*map(DenseNetwork.of, parts))
