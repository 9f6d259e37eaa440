"""Keeps the active party's decision where a defence promised to: the class with the largest score of each row."""

import numpy as np

from vfl.arrays import FloatArray, IntArray


def decisions(scores: FloatArray) -> IntArray:
    """Find the class that each row of (n, k) scores decides for, the first one where several tie: (n,)."""
    classes: IntArray = scores.argmax(axis=1)
    return classes


def keep_decision(protected: FloatArray, decision: IntArray) -> FloatArray:
    """Restore decisions with the smallest change to the scores.

    A defence that keeps the decision in exact arithmetic may lose it to rounding: two scores become equal, or the
        softmax swaps neighbouring floats. Rows that decide right come back bit for bit. In the others the decided entry
        is raised to what the later ones have and one float above what the earlier ones have, so that a row's sum
        changes by no more than the
    decision was behind. Scores never exceed 1: where the raised one would, it is 1 and earlier entries of 1 drop to the
    float below.

    Args:
        protected: (n, k) scores in [0, 1].
        decision: (n,), the classes to decide for.
    """
    decided = np.arange(protected.shape[1]) == decision[:, None]
    earlier = np.arange(protected.shape[1]) < decision[:, None]
    needed = np.where(earlier, np.nextafter(protected, 2.0), protected)
    raised = np.where(decided, needed.max(axis=1, keepdims=True), protected)
    full = earlier & (needed > 1.0)
    return np.where(full, np.nextafter(1.0, 0.0), np.minimum(raised, 1.0))
