"""How a model's parameters come about: a trainer with its options, the seed, and a network's structure."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import Activation, VerticalNetwork, activation_named
from vfl.plugin_registry import PluginRegistry


class UnknownTrainer(ValueError):
    """No trainer has this name; the message lists those there are."""


class LinearTrainer(Protocol):
    """Trains softmax regressions on all parties' columns."""

    def train_linear(
        self, features: FloatArray, labels: IntArray, *, classes: int | None = None, seed: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Train on (n, D) features and (n,) class indices: (k, D) class rows and a (k,) bias."""


class NetworkTrainer(LinearTrainer, Protocol):
    """Trains networks as well."""

    def train_network(
        self,
        features_active: FloatArray,
        features_passive: FloatArray,
        labels: IntArray,
        *,
        hidden: tuple[int, ...],
        activation: Activation,
        classes: int | None = None,
        seed: int = 0,
    ) -> VerticalNetwork:
        """Train a part per party, whose outputs are added before softmax."""


@dataclass(frozen=True)
class Lbfgs:
    """Trains logistic regressions with scikit-learn's L-BFGS, to larger weights than early stopping does.

    Attributes:
        C: the inverse weight of an L2 penalty, as in scikit-learn; None for no penalty.
        max_iter: most iterations.

    Raises:
        ValueError: for an option out of range.
    """

    C: float | None = None
    max_iter: int = 200

    def __post_init__(self) -> None:
        if (self.C is not None and not self.C > 0) or self.max_iter < 1:
            raise ValueError(f"lbfgs: expected C > 0 and max_iter >= 1, got C={self.C}, max_iter={self.max_iter}.")

    def train_linear(
        self, features: FloatArray, labels: IntArray, *, classes: int | None = None, seed: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """Train on (n, D) features and (n,) class indices: (k, D) class rows and a (k,) bias; it draws nothing.

        Raises:
            ValueError: where training rows lack a class.
        """
        k = int(labels.max()) + 1 if classes is None else classes
        if (there := len(np.unique(labels))) != k:
            raise ValueError(f"The {len(labels)} training rows hold {there} of {k} classes: take more rows.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=np.inf if self.C is None else self.C, max_iter=self.max_iter)
            weights, bias = (fitted := model.fit(features, labels)).coef_, fitted.intercept_
        if k == 2:
            return np.vstack([-weights / 2, weights / 2]), np.concatenate([-bias / 2, bias / 2])
        return weights, bias


TRAINERS = PluginRegistry(
    "trainer",
    None,
    {"lbfgs": "studies.simulation.recipes:Lbfgs", "adam": "vfl.learning.torch_training:AdamTraining"},
    UnknownTrainer,
)


@dataclass(frozen=True)
class LinearRecipe:
    """How a linear model is trained.

    Attributes:
        trainer: with its options; a defence of training is one as well.
        seed: of initial weights, batches and noise.
    """

    trainer: LinearTrainer = field(default_factory=Lbfgs)
    seed: int = 0

    def fit(self, features: FloatArray, labels: IntArray, classes: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Train on (n, D) features and (n,) class indices: (k, D) class rows and a (k,) bias."""
        return self.trainer.train_linear(features, labels, classes=classes, seed=self.seed)


@dataclass(frozen=True)
class NetworkRecipe:
    """How a network of a part per party is trained (Jiang 5.1).

    Attributes:
        trainer: with its options; a defence of training is one as well.
        seed: of initial weights, batches and noise.
        hidden: units of each part's hidden layers; none makes a linear part.
        activation: of the hidden layers.
    """

    trainer: NetworkTrainer
    seed: int = 0
    hidden: tuple[int, ...] = (8,)
    activation: Activation = "sigmoid"

    def fit(
        self, features_active: FloatArray, features_passive: FloatArray, labels: IntArray, classes: int | None = None
    ) -> VerticalNetwork:
        """Train on the parties' (n, d_a) and (n, d) features and (n,) class indices."""
        structure: dict[str, Any] = {"hidden": self.hidden, "activation": self.activation}
        return self.trainer.train_network(
            features_active, features_passive, labels, classes=classes, seed=self.seed, **structure
        )


def linear_recipe(trainer: str, options: Mapping[str, Any], seed: int) -> LinearRecipe:
    """Make a recipe by the trainer's name: ``lbfgs`` (``Lbfgs``) or ``adam`` (``AdamTraining``, needs torch).

    Raises:
        ValueError: for an unknown trainer, or options that it doesn't take.
    """
    return LinearRecipe(TRAINERS.load(trainer, **options), seed)


def network_recipe(trainer: str, options: Mapping[str, Any], seed: int) -> NetworkRecipe:
    """Make a network's recipe: options are ``hidden``, ``activation`` and the trainer's.

    Raises:
        ValueError: for a trainer that trains no networks, an impossible structure, or options that it doesn't take.
    """
    trainer_options = dict(options)
    hidden, activation = trainer_options.pop("hidden", (8,)), trainer_options.pop("activation", "sigmoid")
    loaded = TRAINERS.load(trainer, **trainer_options)
    if not callable(getattr(loaded, "train_network", None)):
        raise ValueError(f"{trainer} trains linear models only: networks take adam.")
    if not isinstance(hidden, tuple | list) or not all(type(units) is int and units > 0 for units in hidden):
        raise ValueError(f"Expected hidden to be a list of layers' units, each 1 or more, got {hidden!r}.")
    return NetworkRecipe(cast(NetworkTrainer, loaded), seed, tuple(hidden), activation_named(activation))
