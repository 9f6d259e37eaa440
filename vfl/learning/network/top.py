"""The label party's layers above the first one, in torch: their loss, its gradients, their training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray
from vfl.learning.network.optimisers import MOMENTUM, OptimiserName
from vfl.learning.networks import Activation, DenseNetwork
from vfl.learning.torch_training import as_tensor, dense_network, torch_layers, torch_partial_scores

_LAYER = "layer"
_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class Top:
    """Activation of the first layer, dense layers, softmax with cross-entropy; float64.

    Arguments:
        first: the layers above the first one's activation, as they begin.
        optimiser: what trains them.
        rate: its step size.
    """

    def __init__(self, first: DenseNetwork, optimiser: OptimiserName, rate: float) -> None:
        self._activation: Activation = first.activation
        self._layers = torch_layers(first)
        self._parameters = [tensor.requires_grad_() for layer in self._layers for tensor in layer]
        self._optimiser: torch.optim.Optimizer
        if optimiser == "adam":
            self._optimiser = torch.optim.Adam(self._parameters, lr=rate)
        else:
            momentum = MOMENTUM if optimiser == "momentum" else 0.0
            self._optimiser = torch.optim.SGD(self._parameters, lr=rate, momentum=momentum)

    def backward(self, hidden: FloatArray, labels: IntArray) -> FloatArray:
        """Make one step of these layers on a batch, and return what the layer below needs for its own.

        Args:
            hidden: z, (s, h), of all parties together and before the activation.
            labels: (s,) class indices.

        Returns:
            delta, (s, h): the gradient of each record's own loss by its z, before the step.
        """
        z = as_tensor(hidden).requires_grad_()
        logits = torch_partial_scores(self._layers, self._activation, _ACTIVATIONS[self._activation](z))
        loss = torch.nn.functional.cross_entropy(logits, as_tensor(labels), reduction="sum")
        delta, *gradients = torch.autograd.grad(loss, [z, *self._parameters])
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient / len(labels)
        self._optimiser.step()
        return delta.numpy()

    @property
    def state(self) -> Mapping[str, NDArray[Any]]:
        """Copies of the layers, by their number, and of all that their optimiser remembers of each."""
        layers = {f"{_LAYER}_{at}": layer.detach().numpy().copy() for at, layer in enumerate(self._parameters)}
        remembered = self._optimiser.state_dict()["state"].items()
        return layers | {
            f"{what}_{at}": values.numpy().copy()
            for at, known in remembered
            for what, values in known.items()
            if values is not None  # what descent without momentum remembers
        }

    @state.setter
    def state(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Take up copies of what such layers had."""
        remembered: dict[int, dict[str, torch.Tensor]] = {}
        with torch.no_grad():
            for index, layer in enumerate(self._parameters):
                layer.copy_(as_tensor(saved[f"{_LAYER}_{index}"]))
        for name, values in saved.items():
            what, _, number = name.rpartition("_")
            if what != _LAYER:
                remembered.setdefault(int(number), {})[what] = as_tensor(values)
        self._optimiser.load_state_dict({**self._optimiser.state_dict(), "state": remembered})

    def network(self) -> DenseNetwork:
        """Give the layers as they stand, to answer with."""
        layers = dense_network(self._layers, self._activation)
        return DenseNetwork(
            tuple(np.array(weight) for weight in layers.weights),
            tuple(np.array(bias) for bias in layers.biases),
            layers.activation,
        )
