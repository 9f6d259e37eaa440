"""What a defence of the scores does to those who use them."""

import numpy as np

from vfl.arrays import FloatArray, IntArray


def mean_divergence(scores: FloatArray, delivered: FloatArray) -> float:
    """Average D(c || c~) over (n, k) rows, in nats; delivered rows are normalised, infinite where one has a lost 0."""
    sums = delivered.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        logarithms = np.log(np.where(sums > 0, delivered / np.where(sums > 0, sums, 1.0), 1 / delivered.shape[1]))
    present = scores > 0
    ratios = np.log(np.where(present, scores, 1.0)) - np.where(present, logarithms, 0.0)
    # Rounding takes equal rows a little below 0.
    return max(float((scores * ratios).sum(axis=1).mean()), 0.0)


def score_utility(delivered: FloatArray, scores: FloatArray, labels: IntArray) -> dict[str, float]:
    """Measure decisions of delivered (n, k) scores: their accuracy, and the share that is as without the defence."""
    decisions = delivered.argmax(axis=1)
    return {
        "model_accuracy": float((decisions == labels).mean()),
        "decisions_kept": float((decisions == scores.argmax(axis=1)).mean()),
    }
