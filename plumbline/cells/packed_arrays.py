"""Tables and trained parameters as arrays in bytes: how they travel to workers, and how models are kept.

Nothing in them is code, as in a pickle.
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.simulation.linear_models import TrainedModel
from plumbline.simulation.network_models import TrainedNetwork
from plumbline.simulation.scaled_tables import ScaledTable
from vfl.arrays import FloatArray, IntArray, read_arrays, write_arrays
from vfl.learning.networks import Activation, DenseNetwork, VerticalNetwork

Content = NDArray[np.uint8]
_PARTS = ("active", "passive")


@dataclass(frozen=True, eq=False)
class KeyedArray:
    """Arrays on their way.

    Attributes:
        key: the same for the same content.
        content: bytes of an .npz file.
    """

    key: str
    content: Content


def pack(arrays: Mapping[str, NDArray[Any]]) -> Content:
    """Write arrays into bytes."""
    file = io.BytesIO()
    write_arrays(file, arrays)
    return np.frombuffer(file.getvalue(), np.uint8)


def unpack(content: Content) -> dict[str, NDArray[Any]]:
    """Read arrays that ``pack`` wrote.

    Raises:
        ValueError: for anything else.
    """
    try:
        return read_arrays(io.BytesIO(content.tobytes()))
    except Exception as error:
        # A torn file raises whatever its torn place says.
        raise ValueError(f"These are no packed arrays: {error}") from error


def pack_table(table: ScaledTable) -> KeyedArray:
    """Pack a data set; the key is a digest of it."""
    texts = {
        "name": [table.name],
        "feature_names": table.feature_names,
        "class_names": table.class_names,
        "notes": table.notes,
    }
    names = {name: np.array(value, np.str_) for name, value in texts.items()}
    # -1: none was published.
    numbers = np.array(-1 if table.train_rows is None else table.train_rows)
    content = pack({"features": table.features, "labels": table.labels, "train_rows": numbers} | names)
    return KeyedArray(hashlib.sha256(content.tobytes()).hexdigest(), content)


def unpack_table(content: Content) -> ScaledTable:
    """Read a data set that ``pack_table`` packed."""
    arrays = unpack(content)
    feature_names, class_names, notes = (
        tuple(map(str, arrays[name])) for name in ("feature_names", "class_names", "notes")
    )
    published = int(arrays["train_rows"])
    return ScaledTable(
        str(arrays["name"][0]),
        arrays["features"],
        arrays["labels"],
        feature_names,
        class_names,
        notes,
        None if published < 0 else published,
    )


def parameters_of(model: TrainedModel | TrainedNetwork) -> dict[str, NDArray[Any]]:
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

    parameters: Mapping[str, NDArray[Any]]

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
