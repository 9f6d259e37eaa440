"""Linear models trained in one place, as the papers do before they attack, and what an active party sees of them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import attacks
from vfl.arrays import FloatArray, IntArray
from vfl.data import encode_labels, fit_encoder, load_dataset
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
    """

    name: str
    features: FloatArray
    labels: IntArray
    weights: FloatArray
    bias: FloatArray
    features_train: FloatArray
    labels_train: IntArray

    @property
    def scores(self) -> FloatArray:
        """Compute confidence scores of the held-out records, (m, k)."""
        return confidence_scores(self.features @ self.weights.T + self.bias)

    def view(self, passive: Sequence[int], records: int) -> tuple[attacks.PredictionView, FloatArray]:
        """Show what the active party sees of the first ``records`` when some columns are passive; and those columns."""
        rows = self.features[:records]
        active = np.setdiff1d(np.arange(rows.shape[1]), passive)
        view = attacks.PredictionView(
            features_active=rows[:, active],
            scores=confidence_scores(rows @ self.weights.T + self.bias),
            weights_active=self.weights[:, active],
            weights_passive=self.weights[:, list(passive)],
            bias=self.bias,
        )
        return view, rows[:, list(passive)]


def train(
    name: str, data_dir: Path | None, training: Training = "lbfgs", seed: int = 0, *, held_out: float = 0.2
) -> TrainedModel:
    """Train a logistic regression without regularisation on 80 % of a data set (Rassouli VIII).

    Features are scaled to [0, 1] over all rows, as in the paper.

    Args:
        name: of a registered data set, or ``synthetic``: 50,000 records of scikit-learn's make_classification, 10
            features, 2 classes.
        data_dir: of the raw files.
        training: of ``fit_parameters``.
        seed: of the split and of Adam.
        held_out: the share of records that the model isn't trained on, in (0, 1).

    Raises:
        DatasetNotFound: when the raw files are missing.
    """
    if name == "synthetic":
        raw, labels = make_classification(n_samples=50_000, n_features=10, n_classes=2, random_state=seed)
    else:
        table = load_dataset(name, data_dir)
        raw, labels = table.features, encode_labels(table.labels)[0]
    features = fit_encoder("minmax", raw).transform(raw)
    kept, others, kept_labels, other_labels = train_test_split(features, labels, test_size=held_out, random_state=seed)
    weights, bias = fit_parameters(kept, kept_labels, training, seed)
    return TrainedModel(name, others, other_labels, weights, bias, kept, kept_labels)


def fit_parameters(
    features: FloatArray, labels: IntArray, training: Training, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Fit a logistic regression without regularisation: (k, D) class rows and a (k,) bias.

    Args:
        features: (n, D).
        labels: (n,) class indices.
        training: "adam" stops early, as in the paper, and needs torch; "lbfgs" goes on for up to 200 iterations of
            scikit-learn's, to larger weights. What attacks find depends on it.
        seed: of Adam.
    """
    if training == "adam":
        weights, bias = (
            import_module("vfl.learning.torch_training").AdamTraining().train_linear(features, labels, seed=seed)
        )
        return weights.astype(np.float64), bias.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=np.inf, max_iter=200).fit(features, labels)
    weights, bias = model.coef_, model.intercept_
    if len(weights) == 1:
        weights, bias = np.vstack([-weights / 2, weights / 2]), np.concatenate([-bias / 2, bias / 2])
    return weights, bias
