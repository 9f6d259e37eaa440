"""Logistic regression for hundreds of small fits: scikit-learn's loss, solver and stopping rule, without its checks.

scikit-learn looks at its input anew for every value of the loss. Fits here are small, and that looking took most of
their time. ``tests/unit/attacks/bayes/test_logistic.py`` compares the two.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax

from vfl.arrays import FloatArray, IntArray

# As scikit-learn's LogisticRegression(tol=1e-3, max_iter=200) stops.
_STOPPING = {"maxiter": 200, "maxls": 50, "gtol": 1e-3, "ftol": 64 * np.finfo(float).eps}

# Coefficients, flat, to the loss and its gradient.
_Loss: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]


def class_probabilities(known: FloatArray, classes: IntArray, asked: FloatArray, strength: float) -> FloatArray:
    """Fit the classes of known records, and say how likely each is for the asked ones: (n, k).

    Args:
        known: (t, p), finite.
        classes: (t,) from 0 to k - 1; at least two are there, each of them.
        asked: (n, p), finite.
        strength: C, the inverse of the penalty; the constant isn't penalised.
    """
    count = int(classes.max()) + 1
    penalty = 1.0 / (strength * len(known))
    if count == 2:
        coefficients = _minimum(_binary(known, classes, penalty), known.shape[1] + 1)
        second = expit(asked @ coefficients[:-1] + coefficients[-1])
        return np.stack([1.0 - second, second], axis=1)
    flat = _minimum(_multinomial(known, classes, penalty), count * (known.shape[1] + 1))
    table = flat.reshape(count, -1, order="F")
    probabilities: FloatArray = softmax(asked @ table[:, :-1].T + table[:, -1], axis=1)
    return probabilities


def _minimum(loss: _Loss, size: int) -> FloatArray:
    found: FloatArray = minimize(loss, np.zeros(size), method="L-BFGS-B", jac=True, options=_STOPPING).x
    return found


def _binary(known: FloatArray, classes: IntArray, penalty: float) -> _Loss:
    truth = classes.astype(np.float64)

    def loss(coefficients: FloatArray) -> tuple[float, FloatArray]:
        weights = coefficients[:-1]
        raw = known @ weights + coefficients[-1]
        value = (np.logaddexp(0.0, raw) - truth * raw).sum() / len(known) + 0.5 * penalty * weights @ weights
        off = (expit(raw) - truth) / len(known)
        return float(value), np.append(known.T @ off + penalty * weights, off.sum())

    return loss


def _multinomial(known: FloatArray, classes: IntArray, penalty: float) -> _Loss:
    count = int(classes.max()) + 1
    records, one_hot = np.arange(len(known)), np.eye(count)[classes]

    def loss(coefficients: FloatArray) -> tuple[float, FloatArray]:
        table = coefficients.reshape(count, -1, order="F")
        weights = table[:, :-1]
        raw = known @ weights.T + table[:, -1]
        raw -= raw.max(axis=1, keepdims=True)
        powers = np.exp(raw)
        sums = powers.sum(axis=1, keepdims=True)
        value = (np.log(sums[:, 0]) - raw[records, classes]).sum() / len(known)
        value += 0.5 * penalty * (weights * weights).sum()
        off = (powers / sums - one_hot) / len(known)
        gradient = np.empty_like(table)
        gradient[:, :-1] = off.T @ known + penalty * weights
        gradient[:, -1] = off.sum(axis=0)
        return float(value), gradient.ravel(order="F")

    return loss
