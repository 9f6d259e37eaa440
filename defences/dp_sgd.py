"""Differentially private training of models in one place (Jiang, section 6.1.2), with Opacus."""

import math
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from defences.base import DefenceSpec
from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import Activation, VerticalNetwork

if TYPE_CHECKING:
    import torch

    from vfl.learning.torch_training import Layers


_LARGEST_EPSILON = 100


@dataclass(frozen=True)
class PrivacySpent:
    """What a training costs: (epsilon, delta)-differential privacy of membership, by Opacus' PRV accountant.

    Attributes:
        epsilon: an upper bound on what is spent, at most what was asked for.
        delta: as asked for.
        noise_multiplier: standard deviation of the noise on a batch's sum of clipped gradients, in units of the
            clipping norm.
        sample_rate: with which each row enters each batch, independently.
        steps: batches of the whole training.
    """

    epsilon: float
    delta: float
    noise_multiplier: float
    sample_rate: float
    steps: int


@dataclass(frozen=True)
class DpSgd:
    """Trains softmax models with DP-SGD (Abadi et al. 2016): clips each row's gradient, adds noise to each batch's sum.

    Guarantee: (epsilon, delta)-differential privacy with respect to adding or removing one row, for who sees every step
        of the training, hence the model. It protects training rows, not the records whose scores an attack inverts
        later. Reconstruction at prediction time mostly still works.

    Features must be scaled without the training rows' help, e.g. by public ranges: scaling isn't accounted for.

    Initial weights, batches and noise come from one generator of torch (Mersenne twister). With a seed it repeats bit
    for bit; without, the operating system seeds it. Neither is Opacus' secure mode, which needs torchcsprng: who learns
    the generator's state, or looks into the last bits of the noise, is not kept out.

    Attributes:
        epsilon: the budget (Jiang: 0.1, 1, 10).
        clipping: the largest 2-norm of a row's gradient (Jiang: 1).
        delta: None stands for 1 / rows.
        epochs: of Poisson sampling.
        batch_size: rows on average.
        learning_rate: of plain SGD.

    Raises:
        ValueError: for options out of range; its methods do without opacus and torch.
    """

    name: ClassVar[str] = "dp_sgd"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("lab",),
        stages=("training",),
        keeps="nothing",
        source="Jiang 6.1.2; Abadi et al. 2016",
        summary="trains the model in the lab with noise on clipped gradients (DP-SGD)",
        cost="accuracy; a model trained in one place",
    )

    epsilon: float = 1.0
    clipping: float = 1.0
    delta: float | None = None
    epochs: int = 20
    batch_size: int = 256
    learning_rate: float = 2.0

    def __post_init__(self) -> None:
        for option in ("epsilon", "clipping", "learning_rate"):
            if not 0 < getattr(self, option) < math.inf:
                raise ValueError(f"Expected {option} to be a positive, finite number, got {getattr(self, option)}.")
        if self.epsilon > _LARGEST_EPSILON:
            raise ValueError(
                f"Expected epsilon to be at most {_LARGEST_EPSILON}, got {self.epsilon}: more is no privacy, and the "
                "accountant's numbers overflow. Train without dp_sgd instead."
            )
        for option in ("epochs", "batch_size"):
            if getattr(self, option) < 1:
                raise ValueError(f"Expected {option} to be at least 1, got {getattr(self, option)}.")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ValueError(f"Expected delta to be between 0 and 1, exclusive, got {self.delta}.")

    def spent(self, rows: int) -> PrivacySpent:
        """Compute what training on ``rows`` records costs; it depends on nothing else, so it is known before.

        Raises:
            ValueError: for fewer than two rows, a budget that no noise up to Opacus' limit (1e6) keeps, and without
                opacus and torch.
        """
        if any(find_spec(module) is None for module in ("opacus", "torch")):
            raise ValueError("dp_sgd needs opacus and torch: pip install 'plumbline[lab]'.")
        if rows < 2:
            raise ValueError(f"Expected at least two rows to train on, got {rows}.")
        batch = min(self.batch_size, rows)
        delta = 1 / rows if self.delta is None else self.delta
        return _account(self.epsilon, delta, batch / rows, math.ceil(self.epochs * rows / batch))

    def train_linear(
        self, features: FloatArray, labels: IntArray, *, classes: int | None = None, seed: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Train a private softmax regression.

        Args:
            features: (n, d), of all parties together.
            labels: (n,) class indices.
            classes: k; by default the largest label + 1.
            seed: repeats a training; None takes the operating system's randomness.

        Returns:
            Weights (k, d) and bias (k,).

        Raises:
            ValueError: for shapes or labels that don't fit.
        """
        (((weight, bias),),) = self._train([features], labels, (), "sigmoid", classes, seed)
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
        seed: int | None = None,
    ) -> VerticalNetwork:
        """Train a private network per party, whose outputs are added before softmax.

        Args:
            features_active: (n, d_a).
            features_passive: (n, d), the same records.
            labels: (n,) class indices.
            hidden: units of each part's hidden layers.
            activation: of the hidden layers.
            classes: k; by default the largest label + 1.
            seed: repeats a training; None takes the operating system's randomness.

        Raises:
            ValueError: for shapes, labels, hidden layers or an activation that don't fit.
        """
        blocks = [features_active, features_passive]
        parts = self._train(blocks, labels, hidden, activation, classes, seed)
        from vfl.learning.torch_training import dense_network

        active, passive = (dense_network(part, activation) for part in parts)
        return VerticalNetwork(active, passive)

    def _train(
        self,
        blocks: Sequence[FloatArray],
        labels: IntArray,
        hidden: Sequence[int],
        activation: Activation,
        classes: int | None,
        seed: int | None,
    ) -> list["Layers"]:
        """Train one part per block; the logits are their sum."""
        # It says so when torch is missing; importing it doesn't.
        spent = self.spent(len(labels))
        import torch
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        from vfl.learning.torch_training import as_tensor, check_structure, initial_layers

        check_structure(hidden, activation)
        k = _classes(blocks, labels, classes)
        generator = torch.Generator().manual_seed(secrets.randbits(63) if seed is None else seed)
        first_layers = [initial_layers([block.shape[1], *hidden, k], generator) for block in blocks]
        parts = [_module(layers, activation) for layers in first_layers]
        network = torch.nn.ModuleList(parts)
        # Opacus hooks onto the layers; a sum, unlike a mean, exists for an empty batch too.
        GradSampleModule(network, loss_reduction="sum")
        optimiser = DPOptimizer(
            torch.optim.SGD(network.parameters(), lr=self.learning_rate),
            noise_multiplier=spent.noise_multiplier,
            max_grad_norm=self.clipping,
            expected_batch_size=round(spent.sample_rate * len(labels)),
            generator=generator,
        )
        features, targets = [as_tensor(block) for block in blocks], as_tensor(labels)
        for _ in range(spent.steps):
            rows = torch.rand(len(labels), generator=generator) < spent.sample_rate
            logits = torch.stack([part(block[rows]) for part, block in zip(parts, features, strict=True)]).sum(dim=0)
            optimiser.zero_grad()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Full backward hook is firing")
                torch.nn.functional.cross_entropy(logits, targets[rows], reduction="sum").backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return [_layers(part) for part in parts]


def _module(layers: "Layers", activation: Activation) -> "torch.nn.Sequential":
    """Make the layers as Opacus wants them; nothing is drawn from torch's global generator."""
    import torch

    activations = {"sigmoid": torch.nn.Sigmoid, "tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}
    modules: list[torch.nn.Module] = []
    for weight, bias in layers:
        linear = torch.nn.utils.skip_init(  # type: ignore[no-untyped-call]
            torch.nn.Linear, *weight.shape, dtype=weight.dtype
        )
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        modules += [linear, activations[activation]()]
    return torch.nn.Sequential(*modules[:-1])


def _layers(part: "torch.nn.Sequential") -> "Layers":
    import torch

    return [(module.weight.T, module.bias) for module in part if isinstance(module, torch.nn.Linear)]


def _classes(blocks: Sequence[FloatArray], labels: IntArray, classes: int | None) -> int:
    rows = len(labels)
    if labels.ndim != 1 or any(block.ndim != 2 or len(block) != rows for block in blocks):
        shapes = ", ".join(str(block.shape) for block in blocks)
        raise ValueError(f"Expected one label per row of the features, got labels {labels.shape} and {shapes}.")
    if not all(np.isfinite(block).all() for block in blocks):
        raise ValueError("Expected finite features: impute what is missing first.")
    k = int(labels.max(initial=0)) + 1 if classes is None else classes
    if k < 2 or labels.min(initial=0) < 0 or labels.max(initial=0) >= k:
        raise ValueError(f"Expected labels from 0 to below {k} in at least 2 classes.")
    return k


@lru_cache(maxsize=64)
def _account(epsilon: float, delta: float, sample_rate: float, steps: int) -> PrivacySpent:
    """Find the least noise, to 1 % of epsilon, that keeps the budget."""
    from opacus.accountants import PRVAccountant
    from opacus.accountants.utils import get_noise_multiplier

    accountant = PRVAccountant()
    unreachable = (
        f"Opacus finds no noise that keeps epsilon = {epsilon} at delta = {delta:.3g} over {steps} steps: raise "
        "epsilon (the accountant itself adds up to 0.01) or delta, or train for fewer epochs."
    )
    # The PRV accountant asks the RDP one for a range to work in, however tight, and tries far too little noise on the
    # way: both warn of what doesn't reach the result, which is checked below.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.filterwarnings("ignore", message="Optimal order is the")
        try:
            multiplier = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=sample_rate,
                steps=steps,
                accountant="prv",
                epsilon_tolerance=epsilon / 100,
            )
        except ValueError as error:
            raise ValueError(unreachable) from error
        accountant.history = [(multiplier, sample_rate, steps)]
        spent = float(accountant.get_epsilon(delta=delta))
    if not spent <= epsilon:
        raise ValueError(unreachable)
    return PrivacySpent(spent, delta, float(multiplier), sample_rate, steps)
