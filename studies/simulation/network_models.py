"""Networks trained in one place (Jiang 5.1): a part per party, outputs added, softmax on top."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import attacks
from studies.simulation.recipes import NetworkRecipe
from studies.simulation.scaled_tables import ScaledTable
from vfl.arrays import FloatArray, IntArray
from vfl.learning import confidence_scores
from vfl.learning.networks import VerticalNetwork


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network, the records that it was trained on, and records that it was not.

    Attributes:
        name: of the data set.
        features: (m, D) in [0, 1], held out.
        labels: (m,), held out.
        network: the parties' parts.
        passive: the passive party's columns, in its order: its part takes no others.
        features_train: (n, D).
        labels_train: (n,).
        recipe: how the parameters came about.
    """

    name: str
    features: FloatArray
    labels: IntArray
    network: VerticalNetwork
    passive: tuple[int, ...]
    features_train: FloatArray
    labels_train: IntArray
    recipe: NetworkRecipe

    @property
    def classes(self) -> int:
        """Number of classes, k."""
        return self.network.active.outputs

    @property
    def scores(self) -> FloatArray:
        """Compute confidence scores of the held-out records, (m, k)."""
        return confidence_scores(self.logits(self.features))

    def logits(self, features: FloatArray) -> FloatArray:
        """Compute logits of (n, D) features, (n, k)."""
        active_columns, passive_columns = _divided(features, self.passive)
        return self.network.active.partial_scores(active_columns) + self.network.passive.partial_scores(passive_columns)

    def view(self, passive: Sequence[int], records: int) -> tuple[attacks.PredictionView, FloatArray]:
        """Show what the active party sees of the first ``records``; and the passive columns.

        Raises:
            ValueError: for other passive columns than the network's.
        """
        active_columns, passive_columns = _divided(self.features[:records], passive)
        scores = confidence_scores(self.logits(self.features[:records]))
        pieces = self.own_pieces(passive) | self.disclosed_pieces(passive)
        return attacks.PredictionView(features_active=active_columns, scores=scores, **pieces), passive_columns

    def own_pieces(self, passive: Sequence[int]) -> dict[str, Any]:
        """Take the pieces of a view that an active party has in black box as well: its own part."""
        self._check(passive)
        return {"network_active": self.network.active, "passive_features": len(self.passive)}

    def disclosed_pieces(self, passive: Sequence[int]) -> dict[str, Any]:
        """Take the pieces of a view that the passive party discloses in white box."""
        self._check(passive)
        return {"network": self.network}

    def retrained(
        self, features_train: FloatArray, features: FloatArray, recipe: NetworkRecipe | None = None
    ) -> "TrainedNetwork":
        """Train it on other features of the same records, (n, D) and held out (m, D); or by another recipe."""
        recipe = recipe or self.recipe
        network = recipe.fit(*_divided(features_train, self.passive), self.labels_train, self.classes)
        return replace(self, features=features, features_train=features_train, network=network, recipe=recipe)

    def _check(self, passive: Sequence[int]) -> None:
        if tuple(passive) != self.passive:
            raise ValueError(
                f"This network's passive part takes the columns {list(self.passive)}, not {list(passive)}: train one "
                "for each split."
            )


def train_network(
    table: ScaledTable, passive: Sequence[int], recipe: NetworkRecipe, seed: int, *, held_out: float
) -> TrainedNetwork:
    """Train a network on the rows of a table that aren't held out; ``seed`` draws the split, as for linear models."""
    features_train, features, labels, other_labels = train_test_split(
        table.features, table.labels, test_size=held_out, random_state=seed
    )
    network = recipe.fit(*_divided(features_train, passive), labels, len(table.class_names))
    return TrainedNetwork(table.name, features, other_labels, network, tuple(passive), features_train, labels, recipe)


def _divided(features: FloatArray, passive: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Divide columns into the active party's and the passive one's."""
    active = np.setdiff1d(np.arange(features.shape[1]), passive)
    return features[:, active], features[:, list(passive)]
