"""Training of whole models in one place with torch, as the papers do before they attack them (Jiang 5.1, Varasteh III).

It sees every party's features at once, so it exists for experiments only. Nothing that serves a federation imports
torch: import this module by its own name, `vfl.learning` doesn't offer it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import Activation, DenseNetwork, VerticalNetwork, activation_named

if TYPE_CHECKING:
    import torch
else:
    from vfl.learning import lazy_torch as torch

Layers: TypeAlias = "list[tuple[torch.Tensor, torch.Tensor]]"

_VALIDATION_FRACTION = 0.2


def as_tensor(values: FloatArray | IntArray) -> torch.Tensor:
    """Copy an array to a tensor of the same type, so that neither changes with the other."""
    return torch.from_numpy(np.array(values))


def torch_layers(part: DenseNetwork) -> Layers:
    """List the (inputs, outputs) weights and (outputs,) biases of every layer of a party's part, in float64."""
    return [(as_tensor(weight), as_tensor(bias)) for weight, bias in zip(part.weights, part.biases, strict=True)]


def dense_network(layers: Layers, activation: Activation) -> DenseNetwork:
    """Turn what `torch_layers` gave back into a party's part."""
    weights, biases = zip(*[(weight.detach().numpy(), bias.detach().numpy()) for weight, bias in layers], strict=True)
    return DenseNetwork(weights, biases, activation)


def torch_partial_scores(layers: Layers, activation: Activation, features: torch.Tensor) -> torch.Tensor:
    """Compute `DenseNetwork.partial_scores` in torch, differentiable: (n, inputs) in, (n, k) logits out."""
    activate = getattr(torch, activation)
    values = features
    for weight, bias in layers[:-1]:
        values = activate(torch.addmm(bias, values, weight))
    weight, bias = layers[-1]
    return torch.addmm(bias, values, weight)


def initial_layers(sizes: Sequence[int], generator: torch.Generator) -> Layers:
    """Draw layers of the given sizes (inputs first, outputs last), uniform on +-1/sqrt(inputs of the layer)."""
    layers: Layers = []
    for inputs, outputs in pairwise(sizes):
        bound = 1.0 / math.sqrt(inputs)
        uniform = torch.rand((inputs + 1, outputs), generator=generator, dtype=torch.float64) * 2 * bound - bound
        layers.append((uniform[:-1].clone(), uniform[-1].clone()))
    return layers


@dataclass(frozen=True)
class AdamTraining:
    """Trains the lab's models with Adam on the mean log loss, without a penalty.

    Attributes:
        epochs: the most epochs.
        patience: epochs without a better log loss on a held-out fifth of the rows, after which training stops and goes
            back to the best epoch. None trains on all rows for all epochs.
        batch_size: rows per step.
        learning_rate: Adam's step size.

    Raises:
        ValueError: for an option out of range.
    """

    epochs: int = 200
    patience: int | None = 10
    batch_size: int = 256
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Expected {name} > 0, got {getattr(self, name)}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"Expected patience >= 1 or None, got {self.patience}.")

    def train_linear(
        self, features: FloatArray, labels: IntArray, *, classes: int | None = None, seed: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Train a softmax regression c = softmax(W x + b) (Jiang eq. 1, 3).

        Args:
            features: (n, d), of all parties together.
            labels: (n,) class indices.
            classes: k; by default the largest label + 1.
            seed: the same seed gives the same model bit for bit.

        Returns:
            Weights (k, d) and bias (k,).

        Raises:
            ValueError: for fewer than two rows or classes, or a label out of range.
        """
        k = _classes(labels, classes, len(features))
        generator = torch.Generator().manual_seed(seed)
        parts = [initial_layers([features.shape[1], k], generator)]
        _train(parts, "sigmoid", [features], labels, self, generator)
        weight, bias = parts[0][0]
        return weight.detach().numpy().T.copy(), bias.detach().numpy()

    def train_network(
        self,
        features_active: FloatArray,
        features_passive: FloatArray,
        labels: IntArray,
        *,
        hidden: Sequence[int] = (8,),
        activation: Activation = "sigmoid",
        classes: int | None = None,
        seed: int = 0,
    ) -> VerticalNetwork:
        """Train a network per party, whose outputs are added before softmax (Jiang 5.1, eq. 9).

        Args:
            features_active: (n, d_a).
            features_passive: (n, d), the same records.
            labels: (n,) class indices.
            hidden: units of each part's hidden layers; none makes a linear model.
            activation: of the hidden layers; output layers have none.
            classes: k; by default the largest label + 1.
            seed: the same seed gives the same model bit for bit.

        Raises:
            ValueError: as `train_linear`, and for rows that differ in number or an impossible structure.
        """
        k = _classes(labels, classes, len(features_active))
        check_structure(hidden, activation)
        if len(features_active) != len(features_passive):
            raise ValueError(f"Expected as many passive rows as active ones, got {len(features_passive)}.")
        generator = torch.Generator().manual_seed(seed)
        blocks = [features_active, features_passive]
        parts = [initial_layers([block.shape[1], *hidden, k], generator) for block in blocks]
        _train(parts, activation, blocks, labels, self, generator)
        active, passive = (dense_network(part, activation) for part in parts)
        return VerticalNetwork(active, passive)


def check_structure(hidden: Sequence[int], activation: str) -> None:
    """Accept hidden layers and an activation only if a network can have them.

    Raises:
        ValueError: for hidden layers without units or an unknown activation.
    """
    if any(units < 1 for units in hidden):
        raise ValueError(f"Expected hidden layers of at least one unit, got {tuple(hidden)}.")
    activation_named(activation)


def _classes(labels: IntArray, classes: int | None, rows: int) -> int:
    if labels.shape != (rows,) or rows < 2:
        raise ValueError(f"Expected at least two rows and one label per row, got {labels.shape} labels, {rows} rows.")
    k = int(labels.max()) + 1 if classes is None else classes
    if k < 2 or labels.min() < 0 or labels.max() >= k:
        raise ValueError(f"Expected labels from 0 to below {k} in at least 2 classes.")
    return k


def _train(
    parts: list[Layers],
    activation: Activation,
    blocks: Sequence[FloatArray],
    labels: IntArray,
    plan: AdamTraining,
    generator: torch.Generator,
) -> None:
    """Minimises the mean log loss of softmax(sum of the parts' shares) with Adam, in place."""
    features, targets = [as_tensor(block) for block in blocks], as_tensor(labels)
    parameters = [tensor.requires_grad_() for part in parts for layer in part for tensor in layer]
    order = torch.randperm(len(labels), generator=generator)
    held_out = 0 if plan.patience is None else max(1, round(len(labels) * _VALIDATION_FRACTION))
    validation, training = order[:held_out], order[held_out:]

    def loss(rows: torch.Tensor) -> torch.Tensor:
        shares = [
            torch_partial_scores(part, activation, block[rows]) for part, block in zip(parts, features, strict=True)
        ]
        return torch.nn.functional.cross_entropy(torch.stack(shares).sum(dim=0), targets[rows])

    optimiser = torch.optim.Adam(parameters, lr=plan.learning_rate)
    best, best_loss, stale = [parameter.detach().clone() for parameter in parameters], math.inf, 0
    for _ in range(plan.epochs):
        shuffled = training[torch.randperm(len(training), generator=generator)]
        for batch in torch.split(shuffled, plan.batch_size):
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss(batch), parameters), strict=True):
                parameter.grad = gradient
            optimiser.step()
        if plan.patience is None:
            continue
        with torch.no_grad():
            current = float(loss(validation))
        if current < best_loss:
            best, best_loss, stale = [parameter.detach().clone() for parameter in parameters], current, 0
        else:
            stale += 1
            if stale == plan.patience:
                break
    if plan.patience is not None:
        with torch.no_grad():
            for parameter, value in zip(parameters, best, strict=True):
                parameter.copy_(value)
