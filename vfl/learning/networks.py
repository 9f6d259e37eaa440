"""Small vertical networks (Jiang 5.1): one dense network per party, outputs added, softmax on top."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, read_arrays, write_arrays
from vfl.learning.confidence import class_rows

Activation = Literal["sigmoid", "tanh", "relu"]


@dataclass(frozen=True, eq=False)
class DenseNetwork:
    """One party's part of a vertical network: hidden layers with one activation, and an output layer of k values
    without.

    Attributes:
        weights: per layer, (inputs, outputs); a single layer makes a linear part.
        biases: per layer, (outputs,).
        activation: of the hidden layers.

    Raises:
        ValueError: for layers that don't fit each other.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    activation: Activation = "sigmoid"

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.biases) or not self.weights:
            raise ValueError("A network needs one bias vector per weight matrix, and at least one layer.")
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if weight.ndim != 2 or weight.shape[1:] != bias.shape:
                raise ValueError(f"A layer's weights {weight.shape} don't fit its bias {bias.shape}.")
        for before, after in zip(self.weights, self.weights[1:], strict=False):
            if before.shape[1] != after.shape[0]:
                raise ValueError(f"A layer of {before.shape[1]} outputs can't feed one of {after.shape[0]} inputs.")

    @property
    def inputs(self) -> int:
        """Number of features."""
        return int(self.weights[0].shape[0])

    @property
    def outputs(self) -> int:
        """Number of classes, k."""
        return int(self.weights[-1].shape[1])

    @property
    def is_linear(self) -> bool:
        """Whether there is no hidden layer."""
        return len(self.weights) == 1

    def partial_scores(self, features: FloatArray, *, by_record: bool = False) -> FloatArray:
        """Compute this part's share of the logits.

        Args:
            features: (n, inputs).
            by_record: whether a record's share must be the same to the last bit whatever stands beside it. A matrix
                product isn't, which is twice as fast.

        Returns:
            (n, k) logits.
        """
        product = product_by_record if by_record else np.matmul
        values = features
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = activated(product(values, weight) + bias, self.activation)
        return product(values, self.weights[-1]) + self.biases[-1]

    def shares(self, features: FloatArray) -> FloatArray:
        """Compute this part's share of the logits, (n, k), each record's to the last bit whatever stands beside it."""
        return self.partial_scores(features, by_record=True)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give the activation's name, and weights and biases by their layer."""
        layers = {f"weights_{index}": weight for index, weight in enumerate(self.weights)}
        layers |= {f"biases_{index}": bias for index, bias in enumerate(self.biases)}
        return {"activation": np.array(self.activation), **layers}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "DenseNetwork":
        """Read the part that ``arrays`` wrote; raises ValueError for anything else."""
        depth = sum(name.startswith("weights_") for name in arrays)
        try:
            return cls(
                tuple(arrays[f"weights_{index}"].astype(np.float64) for index in range(depth)),
                tuple(arrays[f"biases_{index}"].astype(np.float64) for index in range(depth)),
                activation_named(str(arrays["activation"])),
            )
        except KeyError as missing:
            raise ValueError(f"a network lacks its array {missing}") from missing

    @property
    def class_rows(self) -> FloatArray | None:
        """(k, d) class rows of a part without hidden layers; None with some."""
        return class_rows(self.weights[0]) if self.is_linear else None

    def with_class_rows(self, rows: FloatArray) -> "DenseNetwork":
        """Make the part without hidden layers that has these class rows, and the same biases."""
        return DenseNetwork((rows.T,), self.biases)


@dataclass(frozen=True, eq=False)
class VerticalNetwork:
    """The parts of all parties.

    Attributes:
        active: the active party's part.
        passive: the passive parties' part, over all their d features together.

    Raises:
        ValueError: unless both parts have an output per class.
    """

    active: DenseNetwork
    passive: DenseNetwork

    def __post_init__(self) -> None:
        if self.active.outputs != self.passive.outputs:
            raise ValueError(
                f"Both parts must give one value per class, got {self.active.outputs}, {self.passive.outputs}."
            )


def activation_named(name: str) -> Activation:
    """Check the name of an activation.

    Raises:
        ValueError: for an unknown name; it lists the known ones.
    """
    if name not in get_args(Activation):
        raise ValueError(f"Unknown activation {name!r}. Choose one of: {', '.join(get_args(Activation))}.")
    return cast(Activation, name)


def save_network(file: Path | BinaryIO, network: DenseNetwork) -> None:
    """Write a party's part as .npz, to a path or an open file. It holds no code, unlike a pickle."""
    write_arrays(file, dict(network.arrays()))


def load_network(path: Path) -> DenseNetwork:
    """Read a party's part that ``save_network`` wrote.

    Raises:
        ValueError: for a file that is missing or something else.
    """
    try:
        return DenseNetwork.of(read_arrays(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a model written by `plumbline audit --hidden`: {error}.") from error


def product_by_record(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Multiply matrices, each row of the product summed up alike, however many there are."""
    product: FloatArray = np.einsum("nd,dk->nk", values, weights)
    return product


def activated(values: FloatArray, activation: Activation) -> FloatArray:
    """Compute what units give of these values, of any shape."""
    if activation == "tanh":
        return np.tanh(values)
    if activation == "relu":
        return np.maximum(values, 0.0)
    # The sigmoid, without overflow at either end.
    return 0.5 * (1.0 + np.tanh(values / 2))
