"""Columns of few values: as statistics tell them, as records show them, and as a classifier predicts them."""

import numpy as np
import pytest

from attacks.bayes import categories
from attacks.bayes.categories import CategoryPrior, classify, published_categories, seen_categories
from attacks.views import PassiveMoments


def test_statistics_tell_groups_and_supports() -> None:
    """Column 0 is a number, column 1 takes two values, columns 2 to 4 are a one-hot group with a value never seen."""
    moments = PassiveMoments(
        mean=np.array([0.4, 0.25, 0.7, 0.3, 0.0]),
        variance=np.full(5, 0.1),
        supports=(None, np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0])),
        frequencies=(None, np.array([0.75, 0.25]), np.array([0.3, 0.7]), np.array([0.7, 0.3]), np.array([1.0])),
        groups=(np.array([2, 3, 4]),),
    )
    group, pair = published_categories(moments)
    assert group.columns.tolist() == [2, 3, 4]
    np.testing.assert_array_equal(group.values, np.eye(3))
    np.testing.assert_allclose(group.frequencies, [0.7, 0.3, 0.0], atol=1e-5)
    assert (group.frequencies > 0).all()
    assert pair.columns.tolist() == [1]
    np.testing.assert_allclose(pair.mean, [0.25])
    assert published_categories(None) == ()


def test_records_show_columns_of_few_values_only_where_there_are_records_enough() -> None:
    rows = np.column_stack([np.linspace(0, 1, 12), np.tile([0.0, 0.5, 1.0], 4), np.ones(12)])
    (found,) = seen_categories(rows)
    assert found.columns.tolist() == [1]
    np.testing.assert_allclose(found.frequencies, [1 / 3] * 3)
    assert seen_categories(rows[:8]) == ()


def test_what_is_told_counts_even_for_values_that_no_record_has() -> None:
    told = CategoryPrior(np.array([0]), np.array([[0.0], [0.5], [1.0]]), np.array([0.2, 0.3, 0.5]))
    (found,) = seen_categories(np.array([[0.0], [1.0], [1.0]]), (told,))
    np.testing.assert_allclose(found.frequencies, np.array([1.5, 0.5, 2.5]) / 4.5)


def test_a_classifier_is_trusted_where_it_predicts_records_left_out() -> None:
    """A threshold, which a logistic regression finds; the other indicators say nothing."""
    rng = np.random.default_rng(0)
    known, asked = rng.random((120, 1)), rng.random((300, 1))
    rows, truth = (known > 0.5).astype(np.float64), asked[:, 0] > 0.5
    (category,) = seen_categories(rows)
    blind = (np.full((120, 2), 0.5), np.full((300, 2), 0.5))
    found, left_out = classify(category, rows, (known, asked), blind)
    assert ((found.mean[:, 0] > 0.5) == truth).mean() > 0.95
    np.testing.assert_allclose(found.frequencies.sum(axis=1), 1)
    np.testing.assert_allclose(left_out.sum(axis=1), 1)
    assert (found.frequencies > 0).all()


def test_a_classifier_of_the_first_records_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(categories, "_MOST_RECORDS", 60)
    rng = np.random.default_rng(2)
    known, asked = rng.random((200, 1)), rng.random((300, 1))
    rows = (known > 0.5).astype(np.float64)
    (category,) = seen_categories(rows)
    found, left_out = classify(category, rows, (known, asked), (np.full((200, 2), 0.5), np.full((300, 2), 0.5)))
    assert ((found.mean[:, 0] > 0.5) == (asked[:, 0] > 0.5)).mean() > 0.95
    assert (left_out.argmax(axis=1) == rows[:, 0]).mean() > 0.9


def test_indicators_of_the_ridge_regressions_are_trusted_where_they_know_better() -> None:
    rng = np.random.default_rng(1)
    known, asked = rng.random((100, 2)), rng.random((50, 2))
    rows, truth = rng.integers(0, 2, (100, 1)).astype(np.float64), rng.integers(0, 2, 50)
    (category,) = seen_categories(rows)
    oracle = (category.indicators(rows), np.eye(2)[truth])
    found, _ = classify(category, rows, (known, asked), oracle)
    assert (found.frequencies.argmax(axis=1) == truth).all()
