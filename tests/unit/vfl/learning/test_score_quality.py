"""Accuracy and area under the curve: known answers, scores that are no distribution, and classes without a record."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from vfl.learning.score_quality import ScoreQuality, accuracy, area_interval, area_under_curve, area_words


def test_two_classes_by_hand() -> None:
    scores = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    labels = np.array([0, 0, 1, 1])
    assert accuracy(scores, labels) == 0.5
    # Of the four pairs of a record of each class, three stand in the right order.
    assert area_under_curve(scores, labels) == 0.75
    assert ScoreQuality.of(scores, labels) == ScoreQuality(4, 0.5, 0.75, (2, 2))


def test_three_classes_whose_scores_do_not_sum_to_one() -> None:
    labels = np.array([0, 1, 2] * 4)
    sure = np.eye(3)[labels] * 0.9 + 0.05
    assert area_under_curve(np.round(sure * 0.99, 2), labels) == pytest.approx(1.0)
    assert area_under_curve(np.zeros((12, 3)), labels) == pytest.approx(0.5)


def test_without_records_or_without_one_of_a_class_there_is_nothing_to_say() -> None:
    none = np.empty((0, 2)), np.empty(0, dtype=np.int64)
    assert math.isnan(accuracy(*none))
    assert ScoreQuality.of(*none) is None
    of_one_class = ScoreQuality.of(np.array([[0.9, 0.1]]), np.array([0]))
    assert of_one_class == ScoreQuality(1, 1.0, None, (1, 0))


def test_an_area_is_said_with_the_records_that_carry_it() -> None:
    assert area_words(0.91234, (300, 100)).startswith("0.912 (95 %: 0.84 to 0.95), 100 positive records")
    assert area_words(0.005, (399, 1)) == "0.01 (95 %: 0.00 to 0.80), 1 positive record"
    assert area_words(0.8, (50, 7, 90)) == "0.80 (95 %: 0.43 to 0.95), 7 records of the rarest class"
    assert area_words(0.91234, ()) == "0.91, of how many positive records wasn't kept"
    assert area_words(None, (5, 0)) == area_words(math.nan, (5, 0)) == "not measured: a class has no test record"


@pytest.mark.parametrize("positives", [1, 3, 9, 40])
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_the_interval_holds_the_true_area_as_often_as_it_says(positives: int, shift: float) -> None:
    """Of normal scores, whose area is known: Phi(shift / sqrt 2)."""
    draw = np.random.default_rng(positives)
    true_area, held, labels = NormalDist().cdf(shift / math.sqrt(2)), 0, np.repeat([0, 1], [200, positives])
    for _ in range(200):
        likely = draw.normal(size=len(labels)) + shift * labels
        low, high = area_interval(area_under_curve(np.column_stack([-likely, likely]), labels), positives)
        held += low <= true_area <= high
    assert held >= 188
