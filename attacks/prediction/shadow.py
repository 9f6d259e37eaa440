"""The shadow model (Jiang, section 4.3.2, Algorithm 2): imitate an undisclosed passive part, then invert the imitation.

Needs torch (the `lab` extra).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from attacks.base import AttackSpec, require
from attacks.prediction.gradient_inversion import Distance, GradientInversion, distance_to, linear_part
from attacks.views import AuxiliaryRows, PredictionView, ViewError
from vfl.arrays import FloatArray
from vfl.learning.networks import Activation, DenseNetwork, VerticalNetwork
from vfl.learning.torch_training import as_tensor, check_structure, dense_network, initial_layers, torch_partial_scores

if TYPE_CHECKING:
    import torch
else:
    from vfl.learning import lazy_torch as torch


@dataclass(frozen=True)
class ShadowModel:
    """Trains a passive part on auxiliary records until it gives their scores, then inverts it (Algorithm 1).

    The active party knows its own part: weights_active and bias, or the active part of a network. The passive part of a
        disclosed network isn't looked at. `vfl.theory.inversion.auxiliary_threshold` tells how many auxiliary rows it
        takes; with fewer the attack still runs. A linear shadow starts at 0 and, where the bias is known, has none of
        its own: directions that no auxiliary row shows stay 0.

    Attributes:
        hidden: units of the hidden layers that the adversary guesses for the passive part; none: a linear part.
        activation: that it guesses.
        distance: of scores, "mse" or "kld", for the shadow and for the inversion (Jiang eq. 18, 19).
        shadow_steps: rounds T of Adam for the shadow, on all auxiliary rows at once.
        shadow_learning_rate: lambda of the same.
        init: of the inversion, as in `gia`.
        steps: of the inversion.
        learning_rate: of the inversion.
        seed: of the shadow's first weights and of init="random"; a seed repeats bit for bit.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "shadow"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="black_box",
        needs=("scores", "auxiliary"),
        source="Jiang Algorithm 2, eq. 21-22",
        summary="trains a copy of the passive part on complete records, then inverts it",
        cost="seconds, with torch",
        level="records",
        seconds=lambda _: 5.0,
    )

    hidden: tuple[int, ...] = ()
    activation: Activation = "sigmoid"
    distance: Distance = "mse"
    shadow_steps: int = 5000
    shadow_learning_rate: float = 0.01
    init: Literal["zero", "half", "random"] = "zero"
    steps: int = 5000
    learning_rate: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        # From JSON, hidden comes as a list.
        object.__setattr__(self, "hidden", tuple(self.hidden))
        check_structure(self.hidden, self.activation)
        if self.shadow_steps < 1 or not self.shadow_learning_rate > 0:
            raise ValueError("shadow needs shadow_steps >= 1 and shadow_learning_rate > 0.")
        self._inversion()

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without scores, auxiliary rows or the active party's own part, or when they don't fit.
        """
        network = VerticalNetwork(self._active_part(view), self.shadow_part(view))
        bare = replace(view, network=network, weights_passive=None, passive_features=network.passive.inputs)
        return self._inversion().reconstruct(bare)

    def shadow_part(self, view: PredictionView) -> DenseNetwork:
        """Train the passive part that the auxiliary rows suggest (Algorithm 2).

        Raises:
            ViewError: as `reconstruct`.
        """
        require(self, view)
        active = self._active_part(view)
        rows = self._auxiliary(view)
        own_logits = as_tensor(active.partial_scores(rows.features_active))
        features = as_tensor(rows.features_passive)
        distances = distance_to(rows.scores, self.distance)
        layers = initial_layers(
            [features.shape[1], *self.hidden, view.classes], torch.Generator().manual_seed(self.seed)
        )
        learned = [tensor for layer in layers for tensor in layer]
        if not self.hidden:
            for tensor in learned:
                tensor.zero_()
            # The active part's bias is the linear model's only one; the shadow's would be one unknown too many.
            learned = learned[:1]
        for tensor in learned:
            tensor.requires_grad_()
        optimiser = torch.optim.Adam(learned, lr=self.shadow_learning_rate)
        for _ in range(self.shadow_steps):
            loss = distances(own_logits + torch_partial_scores(layers, self.activation, features)).mean()
            for tensor, gradient in zip(learned, torch.autograd.grad(loss, learned), strict=True):
                tensor.grad = gradient
            optimiser.step()
        return dense_network(layers, self.activation)

    def _inversion(self) -> GradientInversion:
        return GradientInversion(
            distance=self.distance, init=self.init, steps=self.steps, learning_rate=self.learning_rate, seed=self.seed
        )

    def _active_part(self, view: PredictionView) -> DenseNetwork:
        if view.network_active is not None:
            return view.network_active
        if view.network is not None:
            return view.network.active
        if view.weights_active is None or view.bias is None:
            raise ViewError(
                f"{self.name} needs the active party's own part, which this view lacks: give weights_active and bias, "
                "or a network."
            )
        return linear_part(view.weights_active, view.bias)

    def _auxiliary(self, view: PredictionView) -> AuxiliaryRows:
        rows = view.auxiliary
        d_active = view.features_active.shape[1]
        if rows is None or not len(rows.scores):
            raise ViewError(f"{self.name} needs auxiliary, which this view lacks: give complete auxiliary records.")
        t = len(rows.scores)
        fits = rows.features_active.shape == (t, d_active) and rows.scores.shape == (t, view.classes)
        width = view.passive_features if view.weights_passive is None else view.d
        if not fits or len(rows.features_passive) != t or width not in (None, rows.features_passive.shape[1]):
            raise ViewError(
                f"{self.name} got auxiliary rows that don't fit the view: they must be (t, {d_active}) active "
                f"features, (t, d) passive features and (t, {view.classes}) scores."
            )
        return rows
