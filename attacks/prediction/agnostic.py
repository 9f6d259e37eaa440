"""The agnostic attack (Varasteh, section IV): reconstruct records whose scores were never delivered.

The active party trains a model of its own (the adversary model, AM) on its features and labels. It takes the AM's
scores for the federation's and goes on as any white-box attack would. Delivered scores can refine the AM (RAM).
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from attacks.base import AttackSpec, require
from attacks.registry import attack_class, load
from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.channels.base import normalised
from vfl.learning.confidence import confidence_scores

# Below any softmax output in float64: keeps logarithms finite.
_SMALLEST = 1e-300
# Adam's early-stopped training, as in `vfl.learning.torch_training.AdamTraining`.
_EPOCHS, _PATIENCE, _BATCH_SIZE, _LEARNING_RATE, _HELD_OUT = 200, 10, 256, 0.01, 0.2
# A bound on the time, far above what the data sets of the papers need.
_MOST_ITERATIONS = 2000


@dataclass(frozen=True)
class Agnostic:
    """Estimates scores with an adversary model, then features with a white-box attack on the linear model.

    Delivered records are the view's auxiliary rows (their passive features aren't looked at), or else the view's own
    records with their scores. The view's scores serve for nothing else, so the estimates are what the adversary gets
    for records without scores. Give `features_active=features_train` to attack the training rows.

    The base serves d >= k. For d < k the estimated scores overdetermine the features, and least squares by QR (Varasteh
    eq. 10) takes its place unless A = J W_pas lacks full column rank. Rows of A are differences of adjacent classes
    (eq. 4): another combination of them would weigh the equations differently.

    S(x, y) = log^2(x / y) is summed over classes. A delivered score of 0 (rounding makes such) has no logarithm and is
    left out of the sum. Refining by scores goes to eq. 9's minimum, with the penalty. Estimates outside [0, 1] become 0
    or 1 (section IV-C, first strategy).

    Attributes:
        base: the attack that turns estimated scores into features: "half_star", "ls", "rcc2", or another white-box one.
        refine: "none" trains on the active party's labels (eq. 8); "scores" adds the scoring function over delivered
            scores, (alpha, beta) = (alpha, 0) in eq. 9; "labels" adds the classes those scores decide for, (0, 1).
        training: "adam" minimises eq. 8 as the papers do, by Adam with early stopping on a held-out fifth of the rows
            and no penalty; "converged" goes to the minimum with the penalty omega(theta) = l2 ||W_a||^2. Choose what
            resembles the federation's training, which its active party knows: the attack needs the AM's errors to be
            like the model's own.
        l2: weight of the penalty.
        delivered: at most so many delivered records refine the AM, the first ones (Varasteh: 50 or 100).
        seed: of Adam's batches and held-out rows.
        alpha: weight of the delivered scores in eq. 9 with refine="scores"; above 1 they count more than labels.

    Raises:
        ValueError: for options out of range, and for a base that isn't a white-box attack.
    """

    name: ClassVar[str] = "agnostic"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        needs=("labels", "features_train", "weights_active", "weights_passive", "bias"),
        source="Varasteh section IV, eq. 3-16",
        learners=("linear",),
        obstacle=lambda scenario: "is on scores of classes, and sums of units are told" if scenario.forwards else "",
        summary="a model of its own stands in for the scores, then solves as another attack does",
        cost="milliseconds per 1,000 records",
    )

    base: str = "half_star"
    refine: Literal["none", "scores", "labels"] = "none"
    training: Literal["adam", "converged"] = "adam"
    l2: float = 1e-5
    delivered: int = 100
    seed: int = 0
    alpha: float = 1.0

    def __post_init__(self) -> None:
        if self.delivered < 1 or not self.l2 >= 0:
            raise ValueError(f"Expected delivered >= 1 and l2 >= 0, got {self.delivered} and {self.l2}.")
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"Expected alpha to be a positive number, got {self.alpha}.")
        spec = attack_class(self.base).spec
        if spec.phase != "prediction" or spec.knowledge != "white_box":
            raise ValueError(f"base={self.base!r}: choose a white-box attack on predictions, such as half_star.")

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without labels, training features and disclosed weights, without delivered scores to refine by,
                or for a label that the model has no class for.
        """
        require(self, view)
        scores = self.adversary_scores(view)
        matrix = np.diff(np.asarray(view.weights_passive), axis=0)
        if view.d < view.classes and np.linalg.matrix_rank(matrix) == view.d:
            own_logits = view.features_active @ np.asarray(view.weights_active).T + np.asarray(view.bias)
            target = np.diff(np.log(np.maximum(scores, _SMALLEST)) - own_logits, axis=1)
            orthonormal, triangle = np.linalg.qr(matrix)
            estimate = np.linalg.solve(triangle, orthonormal.T @ target.T).T
        else:
            estimate = load(self.base).reconstruct(replace(view, scores=scores, network=None))
        return np.clip(estimate, 0.0, 1.0)

    def adversary_scores(self, view: PredictionView) -> FloatArray:
        """Compute the (refined) adversary model's scores of the attacked records: (n, k).

        Raises:
            ViewError: as `reconstruct`.
        """
        require(self, view)
        features, labels = _with_intercept(np.asarray(view.features_train)), np.asarray(view.labels)
        if not len(labels) or labels.min() < 0 or labels.max() >= view.classes:
            raise ViewError(f"{self.name} needs labels from 0 to below the model's {view.classes} classes.")
        if self.refine == "none":
            model = self._train(features, labels, view.classes)
        else:
            delivered_features, scores = self._delivered(view)
            if self.refine == "labels":
                labels = np.concatenate([labels, scores.argmax(axis=1)])
                model = self._train(np.vstack([features, delivered_features]), labels, view.classes)
            else:
                start = self._train(features, labels, view.classes)
                delivered = _DeliveredScores(delivered_features, scores, self.alpha)
                model = _minimise(start, features, labels, self.l2, delivered)
        return confidence_scores(_with_intercept(view.features_active) @ model)

    def _train(self, features: FloatArray, labels: IntArray, classes: int) -> FloatArray:
        """Train a softmax regression (d_a + 1, k) on labels alone: eq. 8, or eq. 9 with (alpha, beta) = (0, 1)."""
        if self.training == "adam":
            return _early_stopped(features, labels, classes, np.random.default_rng(self.seed))
        return _minimise(np.zeros((features.shape[1], classes)), features, labels, self.l2)

    def _delivered(self, view: PredictionView) -> tuple[FloatArray, FloatArray]:
        """Active features with an intercept, (p, d_a + 1), and scores, (p, k), of the delivered records."""
        if view.auxiliary is not None:
            features, scores = view.auxiliary.features_active, view.auxiliary.scores
        elif view.scores is not None:
            features, scores = view.features_active, view.scores
        else:
            raise ViewError(f"{self.name} with refine={self.refine!r} needs delivered scores: run predictions first.")
        d_active = view.features_active.shape[1]
        if not len(features) or features.shape[1:] != (d_active,) or scores.shape != (len(features), view.classes):
            raise ViewError(
                f"{self.name} got delivered records that don't fit the view: it needs (p, {d_active}) active features "
                f"and (p, {view.classes}) scores of at least one record."
            )
        return _with_intercept(features[: self.delivered]), scores[: self.delivered]


class _DeliveredScores(NamedTuple):
    """What refines by scores: active features with an intercept (p, d_a + 1), scores (p, k), and their weight."""

    features: FloatArray
    scores: FloatArray
    weight: float


def _with_intercept(features: FloatArray) -> FloatArray:
    return np.hstack([features, np.ones((len(features), 1))])


def _early_stopped(features: FloatArray, labels: IntArray, classes: int, generator: np.random.Generator) -> FloatArray:
    """Minimise the mean log loss from 0 by Adam (Kingma and Ba 2015, their defaults), and go back to the best epoch.

    The same recipe as `vfl.learning.torch_training.AdamTraining`, without torch, which services don't have.
    """
    order = generator.permutation(len(labels))
    held_out = order[: max(1, round(len(labels) * _HELD_OUT))]
    training = order[len(held_out) :] if len(labels) > len(held_out) else order
    one_hot = np.eye(classes)[labels]
    model = np.zeros((features.shape[1], classes))
    mean, square, step = np.zeros_like(model), np.zeros_like(model), 0
    best, best_loss, stale = model, np.inf, 0
    for _ in range(_EPOCHS):
        shuffled = generator.permutation(training)
        for batch in (shuffled[at : at + _BATCH_SIZE] for at in range(0, len(shuffled), _BATCH_SIZE)):
            rows, step = features[batch], step + 1
            gradient = rows.T @ (np.exp(normalised(rows @ model)) - one_hot[batch]) / len(batch)
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            scale = np.sqrt(square / (1 - 0.999**step)) + 1e-8
            model = model - _LEARNING_RATE * mean / (1 - 0.9**step) / scale
        loss = -(one_hot[held_out] * normalised(features[held_out] @ model)).sum()
        if loss < best_loss:
            best, best_loss, stale = model, loss, 0
        else:
            stale += 1
            if stale == _PATIENCE:
                break
    return best


def _minimise(
    start: FloatArray,
    features: FloatArray,
    labels: IntArray,
    l2: float,
    delivered: _DeliveredScores | None = None,
) -> FloatArray:
    """Minimise Varasteh eq. 8, or eq. 9 with alpha, their weight, where scores were delivered: (d_a + 1, k).

    L-BFGS from `start`. Eq. 8 is convex. Eq. 9 isn't (log^2 isn't, far from 1), so refining starts from the unrefined
    model.
    features: (n, d_a + 1), the last column an intercept that the penalty spares.
    """
    shape = start.shape
    one_hot = np.eye(shape[1])[labels]
    rows = len(labels) + (0 if delivered is None else len(delivered.features))

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        model = theta.reshape(shape)
        log_scores = normalised(features @ model)
        value = -(one_hot * log_scores).sum() / rows + l2 * (model[:-1] ** 2).sum()
        gradient = features.T @ (np.exp(log_scores) - one_hot) / rows
        gradient[:-1] += 2 * l2 * model[:-1]
        if delivered is not None:
            inputs, scores, alpha = delivered
            log_scores = normalised(inputs @ model)
            mismatch = np.where(scores > 0, log_scores - np.log(np.maximum(scores, _SMALLEST)), 0.0)
            value += alpha * (mismatch**2).sum() / len(inputs)
            pull = mismatch - np.exp(log_scores) * mismatch.sum(axis=1, keepdims=True)
            gradient += 2 * alpha * inputs.T @ pull / len(inputs)
        return float(value), gradient.ravel()

    options = {"maxiter": _MOST_ITERATIONS, "maxfun": 2 * _MOST_ITERATIONS, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-7}
    solution = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    trained: FloatArray = solution.x.reshape(shape)
    return trained
