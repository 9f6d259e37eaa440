"""Gradient inversion (Jiang, section 4.3.1, Algorithm 1): search for passive features that explain the scores.

Needs torch (the `lab` extra).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from attacks.base import AttackSpec, require
from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray
from vfl.learning.networks import DenseNetwork, VerticalNetwork
from vfl.learning.torch_training import as_tensor, torch_layers, torch_partial_scores

if TYPE_CHECKING:
    import torch
else:
    from vfl.learning import lazy_torch as torch

Distance = Literal["mse", "kld"]


@dataclass(frozen=True)
class GradientInversion:
    """Moves x_hat by Adam until softmax(f(x_act) + f(x_hat)) comes close to the delivered scores (Jiang eq. 16-20).

    It works on linear models and networks. Each record's search is its own: a record comes out the same alone or in a
    batch (but for `init="random"`). The mse distance is flat where scores are saturated, so it moves such records
    little; kld doesn't stall. For kld, scores that a defence pushed off the simplex are clipped at 0 and normalised.

    Attributes:
        distance: "mse" (eq. 18) or "kld" (eq. 19 with its sign put right: sum c log(c / c_hat) is what shrinks to 0).
        init: where x_hat starts: all "zero" (Algorithm 1), all "half", or "random", uniform on [0, 1] from `seed`.
        clamp: "each_step" keeps x_hat in the feature space [0, 1] throughout, as eq. 16 asks; "straight_through", which
            the authors' code does, scores the clamped x_hat but moves the free one by its gradient, so that a value
            that went out comes back only after as many steps; "at_end" searches freely and clamps the result.
        steps: most rounds T. All records are returned as they are after the last round: a record that did not converge
            is never dropped.
        learning_rate: lambda of Adam. Jiang uses 0.001 without telling T; 0.01 needs a tenth of the rounds. Far above,
            Adam's first steps (as long as the rate in every coordinate) throw away a good start.
        tolerance: a record whose distance falls to it keeps its estimate. Without one, Adam leaves an exact answer
            again and comes back: the last round may be off by some 1e-4 in a score.
        seed: of init="random".

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "gia"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="white_box",
        needs=("scores",),
        source="Jiang Algorithm 1, eq. 16-20",
        summary="moves a guess by Adam until the model's scores come close to those delivered",
        cost="seconds per 1,000 records, with torch",
        seconds=lambda extent: 2.5 + extent.records * (0.001 + 1e-4 * extent.features),
    )

    distance: Distance = "mse"
    init: Literal["zero", "half", "random"] = "zero"
    clamp: Literal["each_step", "straight_through", "at_end"] = "each_step"
    steps: int = 5000
    learning_rate: float = 0.01
    tolerance: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.learning_rate > 0 or not self.tolerance >= 0:
            raise ValueError("gia needs steps >= 1, learning_rate > 0 and tolerance >= 0.")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without scores or a disclosed model, or when they don't fit.
        """
        require(self, view)
        network = disclosed_model(self.name, view)
        distances = distance_to(np.asarray(view.scores), self.distance)
        layers, activation = torch_layers(network.passive), network.passive.activation
        own_logits = as_tensor(network.active.partial_scores(view.features_active))
        estimate = self._start(view.n, network.passive.inputs).requires_grad_()
        optimiser = torch.optim.Adam([estimate], lr=self.learning_rate)
        for _ in range(self.steps):
            # The sum over records: each record's gradient is what it would be alone.
            scored = self._scored(estimate)
            remaining = distances(own_logits + torch_partial_scores(layers, activation, scored))
            (estimate.grad,) = torch.autograd.grad(remaining.sum(), [scored])
            with torch.no_grad():
                done = remaining <= self.tolerance
                if bool(done.all()):
                    break
                before = estimate.detach().clone()
                optimiser.step()
                if self.clamp == "each_step":
                    estimate.clamp_(0.0, 1.0)
                estimate[done] = before[done]
        return estimate.detach().clamp(0.0, 1.0).numpy()

    def _scored(self, estimate: torch.Tensor) -> torch.Tensor:
        """Choose the point whose distance is measured, and whose gradient moves the estimate."""
        if self.clamp != "straight_through":
            return estimate
        return estimate.detach().clamp(0.0, 1.0).requires_grad_()

    def _start(self, n: int, d: int) -> torch.Tensor:
        if self.init == "random":
            generator = torch.Generator().manual_seed(self.seed)
            return torch.rand((n, d), generator=generator, dtype=torch.float64)
        return torch.full((n, d), 0.0 if self.init == "zero" else 0.5, dtype=torch.float64)


def distance_to(scores: FloatArray, kind: Distance) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make the function that measures how far softmax of (n, k) logits is from delivered scores, per record: (n,).

    It is finite, and 0 at best. Scores off the simplex (a defence may add noise or round) are clipped at 0 and
    normalised first for "kld"; rows without a positive score count as uniform.

    Args:
        scores: (n, k), delivered.
        kind: "mse", Jiang eq. 18, or "kld", sum c log(c / c_hat), eq. 19 with its sign put right.
    """
    delivered = as_tensor(scores)
    if kind == "mse":
        return lambda logits: (delivered - torch.softmax(logits, dim=1)).square().mean(dim=1)
    positive = delivered.clamp(min=0.0)
    positive[positive.sum(dim=1) == 0] = 1.0
    target = positive / positive.sum(dim=1, keepdim=True)
    # x log x is 0 at 0, and log_softmax is finite: saturated scores give neither NaN nor infinity.
    entropy = torch.xlogy(target, target).sum(dim=1)
    return lambda logits: entropy - (target * torch.log_softmax(logits, dim=1)).sum(dim=1)


def disclosed_model(attack: str, view: PredictionView) -> VerticalNetwork:
    """Find the model in the view, a linear one as a network without hidden layers.

    Raises:
        ViewError: names the attack, when the view holds neither a network nor all of weights_active, weights_passive
            and bias, or when the network doesn't fit the view's features and classes.
    """
    if view.network is None:
        if view.weights_active is None or view.weights_passive is None or view.bias is None:
            raise ViewError(
                f"{attack} needs a disclosed model, which this view lacks: the passive party must disclose its "
                "parameters (weights_active, weights_passive and bias) or its network."
            )
        return VerticalNetwork(
            linear_part(view.weights_active, view.bias),
            linear_part(view.weights_passive, np.zeros(view.classes)),
        )
    network = view.network
    expected = (view.features_active.shape[1], view.classes)
    if (network.active.inputs, network.active.outputs) != expected:
        raise ViewError(
            f"{attack} got a network whose active part has {network.active.inputs} inputs and {network.active.outputs} "
            f"outputs; with the view's features and scores they must be {expected[0]} and {expected[1]}."
        )
    return network


def linear_part(weights: FloatArray, bias: FloatArray) -> DenseNetwork:
    """Make a network of one layer, without hidden ones, of class rows (k, d) and a bias (k,)."""
    return DenseNetwork((weights.T,), (bias,))
