"""The generative regression network, the baseline of gradient inversion (Luo et al. 2021; Jiang, section 4.2.2).

Needs torch (the `lab` extra).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.prediction.gradient_inversion import disclosed_model
from attacks.views import PredictionView
from vfl.arrays import FloatArray
from vfl.learning.torch_training import Layers, as_tensor, initial_layers, torch_layers, torch_partial_scores

if TYPE_CHECKING:
    import torch
else:
    from vfl.learning import lazy_torch as torch


@dataclass(frozen=True)
class GenerativeRegression:
    """Trains a network that makes passive features of active features and noise, until the model's scores match.

    Records share one generator: unlike gradient inversion, a record's estimate depends on the others in the view, and
        few records train it badly (Jiang, figure 8). The loss is the batch's summed squared score error plus a penalty.

    Attributes:
        hidden: units of the generator's hidden layers, each normalised and followed by a ReLU; its output is a sigmoid,
            so that estimates lie in [0, 1] (Luo et al.'s published generator: 600, 200, 100).
        variance_weight: of the penalty, the sum over features of the generated values' variance in a batch (published:
            0.25).
        epochs: of Adam. This and the next two are the published ones, meant for thousands of predictions; with a
            hundred the generator has barely started and stays near one half.
        batch_size: of Adam.
        learning_rate: of Adam.
        seed: of the generator's weights, the batches and the noise; a seed repeats bit for bit.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "grn"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="white_box",
        needs=("scores",),
        source="Luo et al. 2021; Jiang 4.2.2",
        summary="trains a generator of passive features until the model's scores match",
        cost="seconds, with torch",
        seconds=lambda extent: 1.0 + extent.records * (0.005 + 2e-5 * extent.features),
    )

    hidden: tuple[int, ...] = (600, 200, 100)
    variance_weight: float = 0.25
    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 0.0001
    seed: int = 0

    def __post_init__(self) -> None:
        # From JSON, hidden comes as a list.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"Expected hidden layers of at least one unit, got {self.hidden}.")
        if self.epochs < 1 or self.batch_size < 1 or not self.learning_rate > 0 or not self.variance_weight >= 0:
            raise ValueError("grn needs epochs, batch_size >= 1, learning_rate > 0 and variance_weight >= 0.")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without scores or a disclosed model, or when they don't fit.
        """
        require(self, view)
        network = disclosed_model(self.name, view)
        scores, features = as_tensor(np.asarray(view.scores)), as_tensor(view.features_active)
        own_logits = as_tensor(network.active.partial_scores(view.features_active))
        layers, activation = torch_layers(network.passive), network.passive.activation
        d = network.passive.inputs
        random = torch.Generator().manual_seed(self.seed)
        generator = initial_layers([features.shape[1] + d, *self.hidden, d], random)
        parameters = [tensor.requires_grad_() for layer in generator for tensor in layer]
        optimiser = torch.optim.Adam(parameters, lr=self.learning_rate)

        def generate(inputs: torch.Tensor) -> torch.Tensor:
            noise = torch.randn((len(inputs), d), generator=random, dtype=torch.float64)
            return _generate(generator, torch.hstack([inputs, noise]))

        for _ in range(self.epochs):
            for batch in torch.split(torch.randperm(view.n, generator=random), self.batch_size):
                generated = generate(features[batch])
                logits = own_logits[batch] + torch_partial_scores(layers, activation, generated)
                mismatch = (torch.softmax(logits, dim=1) - scores[batch]).square().sum()
                # The population variance: one record alone has none, where the sample variance would be NaN.
                loss = mismatch + self.variance_weight * generated.var(dim=0, correction=0).sum()
                for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                    parameter.grad = gradient
                optimiser.step()
        with torch.no_grad():
            result: FloatArray = generate(features).numpy()
        return result


def _generate(layers: Layers, values: torch.Tensor) -> torch.Tensor:
    for weight, bias in layers[:-1]:
        values = torch.relu(torch.nn.functional.layer_norm(torch.addmm(bias, values, weight), bias.shape))
    weight, bias = layers[-1]
    return torch.sigmoid(torch.addmm(bias, values, weight))
