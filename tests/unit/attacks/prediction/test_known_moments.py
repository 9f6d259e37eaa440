"""Statistics of columns: known answers, which columns take few values, and which are one-hot encoded."""

import numpy as np
import pytest

from attacks.prediction.known_moments import known_moments, one_hot_groups

GENERATOR = np.random.default_rng(4)
COLOURS = np.eye(3)[GENERATOR.integers(0, 3, 200)]


def test_moments_are_those_of_the_records() -> None:
    features = GENERATOR.random((200, 4)) @ GENERATOR.random((4, 4)) / 4
    found = known_moments(features)
    np.testing.assert_allclose(found.mean, features.mean(axis=0))
    assert found.covariance is not None
    np.testing.assert_allclose(found.covariance, np.cov(features.T, bias=True))
    np.testing.assert_allclose(found.variance, np.diag(found.covariance))
    assert found.supports == found.frequencies == (None,) * 4
    assert found.groups == ()


def test_columns_of_few_values_have_a_support() -> None:
    grades = GENERATOR.choice([0.0, 0.25, 1.0], size=200, p=[0.5, 0.3, 0.2])
    found = known_moments(np.column_stack([grades, GENERATOR.random(200), np.full(200, 0.5)]))
    assert found.supports[1] is None
    assert found.supports[0] is not None
    assert found.frequencies[0] is not None
    np.testing.assert_array_equal(found.supports[0], [0.0, 0.25, 1.0])
    np.testing.assert_allclose(found.frequencies[0], [np.mean(grades == value) for value in (0.0, 0.25, 1.0)])
    np.testing.assert_array_equal(np.asarray(found.supports[2]), [0.5])
    # Ten values in twenty records are too few records to say that there are no others.
    assert known_moments(np.repeat(np.linspace(0, 1, 10), 2)[:, None]).supports == (None,)


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ([COLOURS], [[0, 1, 2]]),
        ([GENERATOR.random((200, 2)), COLOURS, COLOURS[:, ::-1]], [[2, 3, 4], [5, 6, 7]]),
        # One level is missing, or two levels are one record's: no group.
        ([COLOURS[:, :2]], []),
        ([np.maximum(COLOURS, np.eye(1, 3))], []),
        ([COLOURS / 2], []),
        # Constant columns are no level, and end a group.
        ([np.zeros((200, 1)), COLOURS, np.ones((200, 1))], [[1, 2, 3]]),
        ([COLOURS[:, :1], 1 - COLOURS[:, :1]], [[0, 1]]),
    ],
    ids=range(7),
)
def test_one_hot_groups(columns: list[np.ndarray], groups: list[list[int]]) -> None:
    assert [group.tolist() for group in one_hot_groups(np.hstack(columns))] == groups


def test_groups_that_are_known_needn_t_show_in_the_records() -> None:
    """A record whose category is new to the encoding has a zero in each column of it."""
    unseen = COLOURS.copy()
    unseen[3] = 0.0
    features = np.hstack([unseen, COLOURS])
    # Found by what they sum to, a column of each.
    assert [group.tolist() for group in known_moments(features).groups] == [[2, 3, 4]]
    known = known_moments(features, [np.array([0, 1, 2])])
    assert [group.tolist() for group in known.groups] == [[0, 1, 2], [3, 4, 5]]


def test_no_record_tells_nothing() -> None:
    with pytest.raises(ValueError, match="Expected features of shape"):
        known_moments(np.empty((0, 3)))
    np.testing.assert_array_equal(np.asarray(known_moments(np.ones((1, 2))).covariance), np.zeros((2, 2)))
