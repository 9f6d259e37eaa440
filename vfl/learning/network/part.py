"""A party's part of a trained network: its columns' weights of the first layer, and at the label party what is above.

It answers without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray
from vfl.learning.confidence import confidence_scores
from vfl.learning.networks import DenseNetwork, activated, product_by_record

_TOP = "top_"


@dataclass(frozen=True, eq=False)
class NetworkPart:
    """A party's part.

    Attributes:
        weights: (d, h), of the first layer; the label party's last row is the layer's biases.
        top: the label party's layers above the first one's activation, which is theirs too; None at other parties.

    Raises:
        ValueError: for layers that don't fit each other.
    """

    weights: FloatArray
    top: DenseNetwork | None = None

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.weights.dtype.kind != "f":
            raise ValueError("a part of a network has one matrix of weights")
        if self.top is not None and self.top.inputs != self.weights.shape[1]:
            raise ValueError(
                f"layers that take {self.top.inputs} values don't fit a first one of {self.weights.shape[1]} units"
            )

    def shares(self, features: FloatArray) -> FloatArray:
        """X W of (n, d) features, (n, h): the party's share of each unit before its activation."""
        return product_by_record(features, self.weights)

    def scores(self, joined: FloatArray) -> FloatArray:
        """Score all parties' shares added up, (n, h): (n, classes); a record's to the last bit.

        Raises:
            ValueError: at a party that has no upper layers.
        """
        if self.top is None:
            raise ValueError("only the label party's part has the layers that make scores")
        return confidence_scores(self.top.partial_scores(activated(joined, self.top.activation), by_record=True))

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give the weights, and those of the upper layers."""
        top = {} if self.top is None else {f"{_TOP}{name}": array for name, array in self.top.arrays().items()}
        return {"weights": self.weights, **top}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "NetworkPart":
        """Read the part that ``arrays`` wrote; raises ValueError for anything else."""
        if "weights" not in arrays or arrays["weights"].dtype.kind != "f":
            raise ValueError("a part of a network has one matrix of weights")
        top = {name.removeprefix(_TOP): array for name, array in arrays.items() if name.startswith(_TOP)}
        return cls(arrays["weights"].astype(np.float64), DenseNetwork.of(top) if top else None)

    @property
    def class_rows(self) -> None:
        """None: outputs aren't linear in the features."""

    def with_class_rows(self, rows: FloatArray) -> "NetworkPart":
        """Never asked for: there are no class rows."""
        raise NotImplementedError("a network has no class rows")
