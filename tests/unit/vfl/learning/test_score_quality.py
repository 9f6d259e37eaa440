"""Accuracy and area under the curve: known answers, scores that are no distribution, and classes without a record."""

import math

import numpy as np
import pytest

from vfl.learning.score_quality import ScoreQuality, accuracy, area_under_curve


def test_two_classes_by_hand() -> None:
    scores = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]])
    labels = np.array([0, 0, 1, 1])
    assert accuracy(scores, labels) == 0.5
    # Of the four pairs of a record of each class, three stand in the right order.
    assert area_under_curve(scores, labels) == 0.75
    assert ScoreQuality.of(scores, labels) == ScoreQuality(4, 0.5, 0.75)


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
    assert of_one_class == ScoreQuality(1, 1.0, None)
