"""Linear models trained in one place, as the papers do before they attack, and what an active party sees of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from sklearn.model_selection import train_test_split

import attacks
from studies.simulation.recipes import LinearRecipe, linear_recipe
from studies.simulation.scaled_tables import ScaledTable, load_scaled
from vfl.arrays import FloatArray, IntArray
from vfl.learning import confidence_scores

Training = Literal["adam", "lbfgs"]
TRAININGS: tuple[Training, ...] = get_args(Training)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A linear model, the records that it was trained on, and records that it was not.

    Attributes:
        name: of the data set.
        features: (m, D) in [0, 1], held out.
        labels: (m,), held out.
        weights: (k, D) class rows; for two classes (-w/2, w/2).
        bias: (k,).
        features_train: (n, D).
        labels_train: (n,).
        recipe: how the parameters came about.
    """

    name: str
    features: FloatArray
    labels: IntArray
    weights: FloatArray
    bias: FloatArray
    features_train: FloatArray
    labels_train: IntArray
    recipe: LinearRecipe = field(default_factory=LinearRecipe)

    @property
    def classes(self) -> int:
        """Number of classes, k."""
        return len(self.weights)

    @property
    def scores(self) -> FloatArray:
        """Compute confidence scores of the held-out records, (m, k)."""
        return confidence_scores(self.logits(self.features))

    def logits(self, features: FloatArray) -> FloatArray:
        """Compute logits of (n, D) features, (n, k)."""
        return features @ self.weights.T + self.bias

    def view(self, passive: Sequence[int], records: int) -> tuple[attacks.PredictionView, FloatArray]:
        """Show what the active party sees of the first ``records`` when some columns are passive; and those columns."""
        rows = self.features[:records]
        active = np.setdiff1d(np.arange(rows.shape[1]), passive)
        view = attacks.PredictionView(
            features_active=rows[:, active],
            scores=confidence_scores(self.logits(rows)),
            **self.own_pieces(passive),
            **self.disclosed_pieces(passive),
        )
        return view, rows[:, list(passive)]

    def own_pieces(self, passive: Sequence[int]) -> dict[str, Any]:
        """Take the pieces of a view that an active party has in black box as well: its own parameters."""
        active = np.setdiff1d(np.arange(self.weights.shape[1]), passive)
        return {"weights_active": self.weights[:, active], "bias": self.bias, "passive_features": len(passive)}

    def disclosed_pieces(self, passive: Sequence[int]) -> dict[str, Any]:
        """Take the pieces of a view that the passive party discloses in white box."""
        return {"weights_passive": self.weights[:, list(passive)]}

    def retrained(
        self, features_train: FloatArray, features: FloatArray, recipe: LinearRecipe | None = None
    ) -> "TrainedModel":
        """Train it on other features of the same records, (n, D) and held out (m, D); or by another recipe."""
        recipe = recipe or self.recipe
        weights, bias = recipe.fit(features_train, self.labels_train, self.classes)
        moved = replace(self, features=features, features_train=features_train)
        return replace(moved, weights=weights, bias=bias, recipe=recipe)


def train_linear(table: ScaledTable, recipe: LinearRecipe, seed: int, *, held_out: float) -> TrainedModel:
    """Train a logistic regression on the rows of a table that aren't held out; ``seed`` draws the split."""
    features_train, features, labels_train, held_out_labels = train_test_split(
        table.features, table.labels, test_size=held_out, random_state=seed
    )
    weights, bias = recipe.fit(features_train, labels_train, len(table.class_names))
    return TrainedModel(table.name, features, held_out_labels, weights, bias, features_train, labels_train, recipe)


def train(
    name: str, data_dir: Path | None, training: Training = "lbfgs", seed: int = 0, *, held_out: float = 0.2
) -> TrainedModel:
    """Train a logistic regression without regularisation on 80 % of a data set (Rassouli VIII).

    Args:
        name: of ``load_scaled``.
        data_dir: of the raw files.
        training: "adam" stops early, as in the paper, and needs torch; "lbfgs" goes on for up to 200 iterations of
            scikit-learn's, to larger weights. What attacks find depends on it.
        seed: of the split and of Adam.
        held_out: the share of records that the model isn't trained on, in (0, 1).

    Raises:
        DatasetNotFound: when the raw files are missing.
    """
    table = load_scaled(name, data_dir, seed=seed)
    return train_linear(table, linear_recipe(training, {}, seed), seed, held_out=held_out)
