"""What complete records teach of the passive columns: regressions on own columns, labels, scores and what is left.

No model of the federation is inverted: trees see in the records how columns depend on scores and on each other, where
no Gaussian has it (``posterior``). Regressions are stacked (Wolpert 1992): each column's estimate is the records'
mean and the non-negative combination of what they add to it that fits records left out. Which of few values a column
takes is another question: classifiers answer it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.optimize import nnls

from attacks.base import AttackSpec, Reconstruction, require
from attacks.bayes.categories import CategoryPrior, published_categories, seen_categories
from attacks.bayes.records import check_records, checked_records, one_hot_labels, predict
from attacks.views import AuxiliaryRows, PredictionView
from vfl.arrays import FloatArray
from vfl.theory.logit_schemes import logits_of

Model = Literal["trees", "boosting", "network"]
# Of each kind of model scikit-learn's, in its package, with options; those that give one target at a time say so.
_TREES: Mapping[str, Any] = {"n_estimators": 100, "max_features": 0.7}
_MODELS: Mapping[Model, tuple[tuple[str, str, Mapping[str, Any]], ...]] = {
    "trees": (
        ("ensemble", "ExtraTreesRegressor", _TREES),
        ("ensemble", "ExtraTreesRegressor", {**_TREES, "max_features": 1.0, "min_samples_leaf": 3}),
        ("ensemble", "RandomForestRegressor", {**_TREES, "min_samples_leaf": 3}),
        ("ensemble", "RandomForestRegressor", {**_TREES, "min_samples_leaf": 12}),
    ),
    "boosting": (("ensemble", "HistGradientBoostingRegressor", {"max_iter": 60, "min_samples_leaf": 5}),),
    "network": (("neural_network", "MLPRegressor", {"hidden_layer_sizes": (64, 64), "alpha": 1e-3}),),
}
# What names values of columns that take few, whatever the model; their votes are added.
_CLASSIFIERS: tuple[Mapping[str, Any], ...] = (_TREES, {**_TREES, "max_features": 1.0, "min_samples_leaf": 3})
# Parts in which records are left out; of fewer records than make them, only ridge regressions learn.
_FOLDS, _FEWEST = 4, 12
# Models learn from so many records at most, and of so many columns: of more, their leading principal components. So
# many columns or groups of few values are classified.
_MOST_RECORDS, _MOST_TARGETS = 4000, 40
# Log-odds of scores beyond are as good as sure.
_SURE = 30.0

# Fits (t, p) inputs and (t, c) targets, and predicts (n, c) for the asked (n, p).
_Learner: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True)
class LearnedRegression:
    """Estimates features by regressions that complete records teach, on own columns, labels and delivered scores.

    Of scores it sees log-odds and, where its own share of them is known, what is left without it. The same models
    without scores are ``without_scores``: a column of which scores don't tell is estimated alike by both.

    The estimate is a mean, which errs least. Where a column takes few values, or a one-hot group one of its values, the
    value that classifying trees think likeliest is the densest place: it is right more often.

    Attributes:
        model: which regressions are stacked beside ridge regressions and kernels: "trees", extremely randomised and
            in forests; "boosting", by histograms, seconds a column; "network", two hidden layers.
        records: learns from the first so many auxiliary records; None for all, up to 4,000.
        seed: of the models.

    Raises:
        ValueError: for an option out of range.
    """

    name: ClassVar[str] = "regression"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="black_box",
        needs=("scores", "auxiliary"),
        source="this project; Geurts 2006, Wolpert 1992",
        summary="learns from complete records what scores and own columns tell of the others",
        cost="seconds for 1,000 complete records",
        level="records",
        reads_channel=True,
        seconds=lambda extent: 5.0 + 0.1 * min(extent.features, _MOST_TARGETS),
    )

    model: Model = "trees"
    records: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_records(self.name, self.records)
        if self.seed < 0:
            raise ValueError(f"{self.name} can't take seed={self.seed}: seeds are 0 or more.")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1]; raises what ``reconstruct_with_notes`` does."""
        return self.reconstruct_with_notes(view).estimate

    def reconstruct_with_notes(self, view: PredictionView) -> Reconstruction:
        """Estimate features, and the densest places where columns take few values: (n, d) in [0, 1] each.

        Raises:
            ViewError: without scores or auxiliary records, or where these don't fit the view.
        """
        require(self, view)
        return self._found(view, sees_scores=True)

    def without_scores(self, view: PredictionView) -> FloatArray:
        """Learn with the same models of own columns and labels alone: (n, d) in [0, 1]. Raises ViewError."""
        return self.guess(view).estimate

    def guess(self, view: PredictionView) -> Reconstruction:
        """``without_scores`` with the densest places, which the same classifiers learn without scores as well."""
        return self._found(view, sees_scores=False)

    def _found(self, view: PredictionView, *, sees_scores: bool) -> Reconstruction:
        records = checked_records(view, min(self.records or _MOST_RECORDS, _MOST_RECORDS))
        features = (records.features_active, view.features_active)
        scores = _scores_seen(view, records) if sees_scores else ()
        inputs = tuple(np.hstack(parts) for parts in zip(features, *scores, strict=True))
        if not inputs[0].shape[1]:
            inputs = tuple(np.zeros((len(part), 1)) for part in inputs)
        labels = one_hot_labels(records.labels, view.record_labels)
        estimate = np.clip(_stacked(inputs[0], records.features_passive, inputs[1], labels, self._learners()), 0.0, 1.0)
        categories = seen_categories(records.features_passive, published_categories(view.moments))[:_MOST_TARGETS]
        if labels is not None:
            inputs = tuple(np.hstack(parts) for parts in zip(inputs, labels, strict=True))
        densest = estimate.copy()
        for category in categories:
            densest[:, category.columns] = _likeliest(
                category, records.features_passive, inputs[0], inputs[1], self.seed
            )
        return Reconstruction(estimate, densest=densest if categories else None)

    def _learners(self) -> list[_Learner]:
        return [_learner(package, name, options, self.seed) for package, name, options in _MODELS[self.model]]


def _scores_seen(view: PredictionView, records: AuxiliaryRows) -> list[tuple[FloatArray, FloatArray]]:
    """Log-odds of known and asked records' scores, (t, k - 1) and (n, k - 1), and the same without the own share."""
    delivered = (records.scores, np.asarray(view.scores))
    shift = 0.0 if view.own_shift is None else view.own_shift
    odds = [np.clip(_differences(logits_of(scores)), -_SURE, _SURE) for scores in delivered]
    odds[1] = odds[1] - _differences(np.asarray(shift)) if np.ndim(shift) else odds[1]
    inputs = [(odds[0], odds[1])]
    if view.weights_active is not None:
        shares = [own @ _differences(view.weights_active.T) for own in (records.features_active, view.features_active)]
    elif view.network_active is not None:
        network = view.network_active
        shares = [_differences(network.partial_scores(own)) for own in (records.features_active, view.features_active)]
    else:
        return inputs
    return [*inputs, (odds[0] - shares[0], odds[1] - shares[1])]


def _differences(logits: FloatArray) -> FloatArray:
    """Subtract the first of the (n, k) columns from the others: (n, k - 1)."""
    return logits[:, 1:] - logits[:, :1]


def _learner(package: str, name: str, options: Mapping[str, Any], seed: int) -> _Learner:
    make = getattr(import_module(f"sklearn.{package}"), name)

    def learn(inputs: FloatArray, targets: FloatArray, queries: FloatArray) -> FloatArray:
        if name.startswith("Hist"):  # it takes one target at a time
            columns = [make(**options, random_state=seed).fit(inputs, one).predict(queries) for one in targets.T]
            return np.column_stack(columns)
        one_or_more = targets[:, 0] if targets.shape[1] == 1 else targets
        predicted: FloatArray = make(**options, random_state=seed).fit(inputs, one_or_more).predict(queries)
        return predicted.reshape(len(queries), targets.shape[1])

    return learn


def _likeliest(
    category: CategoryPrior, rows: FloatArray, inputs: FloatArray, queries: FloatArray, seed: int
) -> FloatArray:
    """Find the likeliest of a category's values for each of the asked (n, p) records: (n, columns of it)."""
    trees = import_module("sklearn.ensemble").ExtraTreesClassifier
    present, classes = np.unique(category.indicators(rows).argmax(axis=1), return_inverse=True)
    votes = sum(
        trees(**options, random_state=seed).fit(inputs, classes).predict_proba(queries) for options in _CLASSIFIERS
    )
    likeliest: FloatArray = category.values[present[np.argmax(votes, axis=1)]]
    return likeliest


def _stacked(
    inputs: FloatArray,
    targets: FloatArray,
    queries: FloatArray,
    labels: tuple[FloatArray, FloatArray] | None,
    learners: list[_Learner],
) -> FloatArray:
    """Predict (t, c) targets of known records' (t, p) inputs for the asked records, (n, p): (n, c)."""
    mean = targets.mean(axis=0)
    basis = _leading(targets - mean)
    coordinates = (targets - mean) @ basis
    ridge = predict(inputs, coordinates, queries, labels)
    candidates = [(coordinates - ridge.residuals, ridge.values)]
    if len(inputs) >= _FEWEST:
        if labels is not None:
            inputs, queries = np.hstack([inputs, labels[0]]), np.hstack([queries, labels[1]])
        centre, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-12
        inputs, queries = (inputs - centre) / scale, (queries - centre) / scale
        candidates += [_left_out_and_asked(learn, inputs, coordinates, queries) for learn in learners]
    combined = [
        np.stack([ours[:, column] for _, ours in candidates], axis=1)
        @ nnls(np.stack([left_out[:, column] for left_out, _ in candidates], axis=1), coordinates[:, column])[0]
        for column in range(basis.shape[1])
    ]
    estimate: FloatArray = mean + np.reshape(combined, (basis.shape[1], len(queries))).T @ basis.T
    return estimate


def _leading(centred: FloatArray) -> FloatArray:
    """Find the directions of (t, c) targets that are learned: all, or the leading principal ones, (c, r)."""
    if centred.shape[1] <= _MOST_TARGETS:
        return np.eye(centred.shape[1])
    right: FloatArray = np.linalg.svd(centred, full_matrices=False)[2]
    return right[:_MOST_TARGETS].T


def _left_out_and_asked(
    learn: _Learner, inputs: FloatArray, targets: FloatArray, queries: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Predictions of known records by those of other folds, (t, c), and of the asked ones by all, (n, c)."""
    fold = np.arange(len(inputs)) % _FOLDS
    left_out = np.empty_like(targets)
    for part in range(_FOLDS):
        left_out[fold == part] = learn(inputs[fold != part], targets[fold != part], inputs[fold == part])
    return left_out, learn(inputs, targets, queries)
