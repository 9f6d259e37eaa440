"""Which records are one person: known answers, parity with comparing all pairs, what summing keeps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.clusters import Clusters
from vfl.arrays import BoolArray, FloatArray, IntArray

STEP = 2.0**-16


def clusters(cells: list[list[float]], *roundings: float) -> list[int]:
    return list(map(int, Clusters.of(np.array(cells), np.array(roundings)).numbers))


def test_equal_records_are_one_person_whatever_their_places() -> None:
    assert clusters([[0.5, 1.0], [0.25, 1.0], [0.5, 1.0], [0.5, 0.0]], 0.0, 0.0) == [0, 1, 0, 2]


def test_what_one_rounding_parts_is_one_person_and_what_two_part_are_two() -> None:
    assert clusters([[0.5, 1], [0.5 + STEP, 1], [0.25, 1], [0.25 + 2 * STEP, 1]], STEP, 0.0) == [0, 0, 1, 2]


def test_a_column_on_a_grid_of_its_own_tells_neighbours_apart() -> None:
    assert clusters([[0.5, 30 / 100], [0.5, 31 / 100]], STEP, 0.0) == [0, 1]


def test_nearness_is_handed_on() -> None:
    assert clusters([[2 * STEP], [0.0], [STEP], [0.5]], STEP) == [0, 0, 0, 1]


def by_all_pairs(cells: FloatArray, roundings: FloatArray) -> IntArray:
    numbers = np.arange(len(cells))
    apart = np.abs(cells[:, None] - cells) / np.where(roundings > 0, roundings, 1.0)
    near: BoolArray = np.all(apart <= np.where(roundings > 0, 1.5, 0.0), axis=2)
    for _ in cells:
        numbers = np.array([numbers[row].min() for row in near])
    return np.unique(numbers, return_inverse=True)[1]


@given(st.integers(0, 10_000))
def test_persons_are_those_that_comparing_all_pairs_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    cells = generator.integers(0, 4, (generator.integers(1, 40), 3)) * [1.0, STEP, STEP]
    roundings = np.array([0.0, STEP, STEP])[generator.permutation(3)]
    cells = cells[:, generator.permutation(3)]
    np.testing.assert_array_equal(Clusters.of(cells, roundings).numbers, by_all_pairs(cells, roundings))


@given(st.integers(0, 10_000))
def test_sums_of_persons_keep_the_mean_over_records(seed: int) -> None:
    generator = np.random.default_rng(seed)
    found = Clusters.of(generator.integers(0, 5, (30, 1)).astype(float), np.zeros(1))
    losses = generator.random((30, 2))
    sums = found.summed(losses)
    assert sums.shape == (found.count, 2)
    assert sums.mean(axis=0) == pytest.approx(losses.mean(axis=0))
    first = losses[found.numbers == 0].sum(axis=0) * found.count / 30
    assert sums[0] == pytest.approx(first)
    assert Clusters.alone(30).summed(losses) is losses


def test_of_no_records_there_is_no_person() -> None:
    assert Clusters.of(np.empty((0, 2)), np.array([0.0, 0.1])).count == 0
