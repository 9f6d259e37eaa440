"""What the coordinator's refusal of a second answer is worth: an adversary that it would let ask on (SIMULATION).

Where all classes are as likely no answer is saturated, noise and rounding treat all of them alike, and a bare label is
a fair coin. Who moves its own share of the logits until answers are even on average knows the others' share.
"""

from dataclasses import replace

import numpy as np

import attacks
from studies.simulation.situations import Ask
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

STEERED_QUERIES = 300
_JITTER = 0.2
_LEAST_SCORE = 1e-3


def steered(view: attacks.PredictionView, ask: Ask, *, seed: int = 0) -> attacks.PredictionView:
    """The view of who asks about each record 300 times, with scores as the answers to them make it believe.

    Stochastic approximation (Robbins and Monro); the last half of the steps averaged.
    """
    generator = np.random.default_rng(seed)
    scores = np.asarray(view.scores)
    classes = scores.shape[1]
    shift = -np.log(np.maximum(scores, _LEAST_SCORE))
    total: FloatArray = np.zeros_like(shift)
    for query in range(STEERED_QUERIES):
        answer = ask(shift + _JITTER * generator.standard_normal(shift.shape))
        sums = answer.sum(axis=1, keepdims=True)
        even = np.where(sums > 0, answer / np.where(sums > 0, sums, 1.0), 1 / classes)
        shift = shift - classes * (1 + query) ** -0.7 * (even - 1 / classes)
        if query >= STEERED_QUERIES // 2:
            total += shift
    last = STEERED_QUERIES - STEERED_QUERIES // 2
    return replace(view, scores=confidence_scores(-total / last), channel=())
