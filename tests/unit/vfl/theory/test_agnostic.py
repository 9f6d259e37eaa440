"""Varasteh eq. 21 equals the empirical error of unclamped estimates, and has the values worked out by hand."""

import numpy as np
import pytest

from studies.simulation.error_theory import agnostic_error, score_error_correlation
from vfl.learning import confidence_scores


@pytest.mark.parametrize(("k", "d"), [(2, 1), (4, 2), (4, 3), (2, 5), (4, 7)])
def test_closed_forms_are_the_empirical_error(k: int, d: int) -> None:
    generator = np.random.default_rng(k * 10 + d)
    weights, features = generator.normal(size=(k, d)), generator.random((200, d))
    logits = features @ weights.T
    scores = confidence_scores(logits - logits.mean(axis=1, keepdims=True))
    estimated = confidence_scores(logits + generator.normal(size=logits.shape))
    error = score_error_correlation(estimated, scores)
    matrix = np.diff(weights, axis=0)
    inverse = np.linalg.pinv(matrix)
    solved = np.diff(np.log(estimated), axis=1) @ inverse.T
    half_star = solved + 0.5 * (np.eye(d) - inverse @ matrix).sum(axis=1)
    about_half = (features - 0.5).T @ (features - 0.5) / len(features)
    empirical = ((features - half_star) ** 2).mean()
    assert agnostic_error(weights, about_half, error) == pytest.approx(empirical, rel=1e-9)


def test_by_hand() -> None:
    weights = np.array([[0.0, 0.0], [3.0, 4.0]])
    # A = (3, 4): A^+ = A^T / 25, so score errors of mean square 50 cost 50 / 25 over two features.
    about_half = np.eye(2) / 12
    assert agnostic_error(weights, about_half, np.zeros((1, 1))) == pytest.approx(1 / 24)
    assert agnostic_error(weights, about_half, np.array([[50.0]])) == pytest.approx(1 / 24 + 1.0)


def test_refused() -> None:
    with pytest.raises(ValueError, match="don't fit"):
        agnostic_error(np.ones((2, 3)), np.eye(3), np.eye(2))
    with pytest.raises(ValueError, match="features_about_half"):
        agnostic_error(np.ones((2, 3)), np.eye(2), np.eye(1))
    with pytest.raises(ValueError, match="no log ratio"):
        score_error_correlation(np.array([[0.0, 1.0]]), np.array([[0.5, 0.5]]))
    with pytest.raises(ValueError, match="two"):
        score_error_correlation(np.full((2, 2), 0.5), np.full((1, 2), 0.5))
