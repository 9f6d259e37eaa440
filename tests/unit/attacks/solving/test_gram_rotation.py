"""The rotation that inner products leave open, from what is known of the columns."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.solving.gram_rotation import ColumnKnowledge, rotated
from vfl.arrays import FloatArray

# Columns whose variances are nearly equal: a covariance alone settles no turn of them.
VALUES = (np.array([0.0, 1.0]), np.array([0.0, 0.5, 1.0]), np.array([0.1, 0.9]), np.array([0.0, 0.3, 1.0]))


def columns_and_points(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Columns of few values, others of the same kind, and the columns turned anyhow."""
    generator = np.random.default_rng(seed)
    drawn = np.column_stack([generator.choice(values, 400) for values in VALUES])
    turn, _ = np.linalg.qr(generator.standard_normal((len(VALUES), len(VALUES))))
    return drawn[:200], drawn[200:], drawn[:200] @ turn


def knowledge_of(others: FloatArray, records: int) -> ColumnKnowledge:
    shape = (records, others.shape[1])
    covariance = np.cov(others.T, bias=True)
    return ColumnKnowledge(np.zeros(shape), np.ones(shape), others.mean(axis=0), covariance, supports=VALUES)


def part(found: FloatArray, columns: FloatArray) -> float:
    return float(1 - ((found - columns) ** 2).mean() / columns.var(axis=0).mean())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_marginal", [False, True])
def test_columns_of_few_values_are_found_among_turns_that_moments_leave_open(seed: int, is_marginal: bool) -> None:
    columns, others, points = columns_and_points(seed)
    knowledge = replace(knowledge_of(others, len(columns)), is_marginal=is_marginal)
    found = rotated(points, knowledge, np.random.default_rng(seed))
    assert part(found, columns) >= 0.95


def test_without_their_values_moments_leave_much_open() -> None:
    parts = []
    for seed in range(3):
        columns, others, points = columns_and_points(seed)
        knowledge = replace(knowledge_of(others, len(columns)), supports=(), is_marginal=True)
        parts.append(part(rotated(points, knowledge, np.random.default_rng(seed)), columns))
    assert min(parts) < 0.9


def test_one_column_is_settled_by_its_mean() -> None:
    column = np.random.default_rng(0).random((50, 1))
    low, high = np.zeros((50, 1)), np.ones((50, 1))
    knowledge = ColumnKnowledge(low, high, column.mean(axis=0), np.array([[float(column.var())]]))
    np.testing.assert_allclose(rotated(-column, knowledge, np.random.default_rng(0)), column)
