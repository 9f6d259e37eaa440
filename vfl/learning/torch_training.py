"""The lab: models trained in one place, as the papers do before they attack them (Jiang 5.1, Varasteh III).

It sees every party's features at once, so it exists for experiments only. It needs torch, which nothing that serves a
federation imports: import this module by its own name, `vfl.learning` doesn't offer it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import get_args

import numpy as np
import torch

from vfl.arrays import FloatArray, IntArray
from vfl.learning.approximation import confidence_scores
from vfl.learning.networks import Activation, DenseNetwork, VerticalNetwork

Layers = list[tuple[torch.Tensor, torch.Tensor]]

_VALIDATION_FRACTION = 0.2
_ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}


def as_tensor(values: FloatArray | IntArray) -> torch.Tensor:
    """A copy of the array as a tensor of the same type, so that neither changes with the other."""
    return torch.from_numpy(np.array(values))


def torch_layers(part: DenseNetwork) -> Layers:
    """The (inputs, outputs) weights and (outputs,) biases of every layer of a party's part, in float64."""
    return [(as_tensor(weight), as_tensor(bias)) for weight, bias in zip(part.weights, part.biases, strict=True)]


def dense_network(layers: Layers, activation: Activation) -> DenseNetwork:
    """The numpy counterpart of `torch_layers`."""
    weights, biases = zip(*[(weight.detach().numpy(), bias.detach().numpy()) for weight, bias in layers], strict=True)
    return DenseNetwork(weights, biases, activation)


def torch_partial_scores(layers: Layers, activation: Activation, features: torch.Tensor) -> torch.Tensor:
    """`DenseNetwork.partial_scores` in torch, differentiable: (n, inputs) in, (n, k) share of the logits out."""
    activate = _ACTIVATIONS[activation]
    values = features
    for weight, bias in layers[:-1]:
        values = activate(torch.addmm(bias, values, weight))
    weight, bias = layers[-1]
    return torch.addmm(bias, values, weight)


def initial_layers(sizes: Sequence[int], generator: torch.Generator) -> Layers:
    """Layers of the given sizes (inputs first, outputs last), uniform on +-1/sqrt(inputs of the layer)."""
    layers: Layers = []
    for inputs, outputs in pairwise(sizes):
        bound = 1.0 / math.sqrt(inputs)
        drawn = torch.rand((inputs + 1, outputs), generator=generator, dtype=torch.float64) * 2 * bound - bound
        layers.append((drawn[:-1].clone(), drawn[-1].clone()))
    return layers


def scores_of(network: VerticalNetwork, features_active: FloatArray, features_passive: FloatArray) -> FloatArray:
    """Confidence scores of a network (Jiang eq. 9): (n, d_a) and (n, d) features in, (n, k) out; rows sum to 1."""
    return confidence_scores(
        network.active.partial_scores(features_active) + network.passive.partial_scores(features_passive)
    )


def train_linear(
    features: FloatArray,
    labels: IntArray,
    *,
    classes: int | None = None,
    epochs: int = 200,
    patience: int | None = 10,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """A softmax regression c = softmax(W x + b) (Jiang eq. 1, 3) trained with Adam and no penalty.

    features: (n, d) of all parties together; labels: (n,) class indices below classes (default: largest label + 1).
    patience: epochs without a better log loss on a held-out fifth of the rows before training stops and goes back to
    the best epoch; None trains on all rows for all epochs.
    Returns weights (k, d) and bias (k,). A seed repeats bit for bit. Raises ValueError for options out of range.
    """
    plan = _Plan(epochs, patience, batch_size, learning_rate, seed)
    k = _classes(labels, classes, len(features))
    generator = torch.Generator().manual_seed(seed)
    parts = [initial_layers([features.shape[1], k], generator)]
    _train(parts, "sigmoid", [features], labels, plan, generator)
    weight, bias = parts[0][0]
    return weight.detach().numpy().T.copy(), bias.detach().numpy()


def train_network(
    features_active: FloatArray,
    features_passive: FloatArray,
    labels: IntArray,
    *,
    hidden: Sequence[int] = (8,),
    activation: Activation = "sigmoid",
    classes: int | None = None,
    epochs: int = 200,
    patience: int | None = 10,
    batch_size: int = 256,
    learning_rate: float = 0.01,
    seed: int = 0,
) -> VerticalNetwork:
    """A network per party, outputs added, softmax on top (Jiang 5.1, eq. 9), trained with Adam and no penalty.

    hidden: units of the hidden layers of each part, the same for both; none makes a linear model. The output layers
    have no activation. Other arguments and errors as in `train_linear`; features (n, d_a) and (n, d).
    """
    plan = _Plan(epochs, patience, batch_size, learning_rate, seed)
    k = _classes(labels, classes, len(features_active))
    check_structure(hidden, activation)
    if len(features_active) != len(features_passive):
        raise ValueError(f"Expected as many passive rows as active ones, got {len(features_passive)}.")
    generator = torch.Generator().manual_seed(seed)
    blocks = [features_active, features_passive]
    parts = [initial_layers([block.shape[1], *hidden, k], generator) for block in blocks]
    _train(parts, activation, blocks, labels, plan, generator)
    active, passive = (dense_network(part, activation) for part in parts)
    return VerticalNetwork(active, passive)


def check_structure(hidden: Sequence[int], activation: str) -> None:
    """Raises ValueError for hidden layers without units or an unknown activation."""
    if any(units < 1 for units in hidden):
        raise ValueError(f"Expected hidden layers of at least one unit, got {tuple(hidden)}.")
    if activation not in get_args(Activation):
        raise ValueError(f"Unknown activation {activation!r}. Choose one of: {', '.join(get_args(Activation))}.")


@dataclass(frozen=True)
class _Plan:
    """Options that every training shares."""

    epochs: int
    patience: int | None
    batch_size: int
    learning_rate: float
    seed: int

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Expected {name} > 0, got {getattr(self, name)}.")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"Expected patience >= 1 or None, got {self.patience}.")


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
    plan: _Plan,
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
