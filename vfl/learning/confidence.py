"""Weights as rows of classes, confidence scores of what parties' shares add up to, and how good they are."""

import numpy as np

from vfl.arrays import FloatArray, IntArray


def class_rows(weights: FloatArray) -> FloatArray:
    """Turn (d, columns) weights into (k, d) class rows; a binary theta becomes (-theta/2, theta/2): the same scores.

    Examples:
        >>> class_rows(np.array([[2.0], [0.5]]))
        array([[-1.  , -0.25],
               [ 1.  ,  0.25]])
    """
    return np.vstack([-weights.T / 2, weights.T / 2]) if weights.shape[1] == 1 else weights.T


def unit_rows(weights: FloatArray) -> FloatArray:
    """Turn a first layer's (d, h) weights into (h + 1, d) class rows, whose differences are the units; the last is 0.

    To who is told a layer's sums, z of a record, they are what a linear model's logits are: see ``unit_scores``.
    """
    return np.vstack([weights.T, np.zeros(len(weights))])


def unit_scores(sums: FloatArray) -> FloatArray:
    """Turn a first layer's sums, (n, h), into scores of h + 1 classes whose log ratios they are; rows sum to 1."""
    return confidence_scores(np.hstack([sums, np.zeros((len(sums), 1))]))


def confidence_scores(products: FloatArray) -> FloatArray:
    """Turn summed partial products into confidence scores: (n, 1) or (n, k) in, (n, 2) or (n, k) out; rows sum to 1.

    A binary product z stands for the logits (-z/2, z/2), whose softmax is (1 - sigmoid(z), sigmoid(z)).

    Examples:
        >>> confidence_scores(np.array([[0.0], [2.0]])).round(2)
        array([[0.5 , 0.5 ],
               [0.12, 0.88]])
    """
    logits = np.hstack([-products / 2, products / 2]) if products.shape[1] == 1 else products
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores: FloatArray = exponentials / exponentials.sum(axis=1, keepdims=True)
    return scores


def log_loss(scores: FloatArray, labels: IntArray) -> float:
    """Average the negative log-likelihood of (n, k) scores and (n,) class indices, in nats; scores floored at 1e-15.

    Examples:
        >>> round(log_loss(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1])), 3)
        0.458
    """
    return float(-np.log(np.maximum(scores[np.arange(len(labels)), labels], 1e-15)).mean())
