"""How many labels sums can hold: against counting on small tables, and as a bound that nothing measured passes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.theory.label_sums import binary_entropy, log2_other_labels, most_labels_told


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32))
def test_no_table_tells_more_labels_than_the_bound(sums: int, bits: int, seed: int) -> None:
    """Where the bound is below 12, some of the 2^12 choices of twelve labels have the same sums."""
    matrix = np.random.default_rng(seed).integers(0, 2**bits, (12, sums), endpoint=True)
    told = min(most_labels_told(sums, bits), 12)
    choices = np.array(list(itertools.product([0, 1], repeat=12)))
    assert len(np.unique(choices @ matrix, axis=0)) < 2**12 or told == 12


@given(st.lists(st.sampled_from([1, 3, 255, 2**16]), min_size=1, max_size=4), st.integers(0, 2**32))
def test_columns_of_several_widths_count_by_their_mean(bounds: list[int], seed: int) -> None:
    matrix = np.random.default_rng(seed).integers(0, bounds, (12, len(bounds)), endpoint=True)
    told = min(most_labels_told(len(bounds), sum(math.log2(bound) for bound in bounds) / len(bounds)), 12)
    choices = np.array(list(itertools.product([0, 1], repeat=12)))
    assert len(np.unique(choices @ matrix, axis=0)) < 2**12 or told == 12


def test_sums_of_zeros_and_ones_tell_few_labels() -> None:
    """Fifteen 0/1 columns: 59 labels at most, where as many bytes tell 192 and real ones 318."""
    assert [most_labels_told(15, bits) for bits in (0, math.log2(255), 16)] == [59, 192, 318]


def test_rare_labels_of_more_rows_are_told_than_even_ones() -> None:
    """Six yes/no columns: all different rows, and the sums of any one of them are the row itself."""
    matrix = np.array(list(itertools.product([0, 1], repeat=6)))
    assert len(np.unique(np.eye(64, dtype=np.int64) @ matrix, axis=0)) == 64 > most_labels_told(6, 0)
    # By volumes too: 1000 rows of which five differ hold fewer bits than 15 sums, even ones far more.
    entropy = 15 * math.log2(2 * math.pi * math.e * (1000 * 0.005 * 0.995 + 1 / 12)) / 2
    assert 1000 * binary_entropy(0.005) < entropy < most_labels_told(15, 0) < 1000 * binary_entropy(0.5)


def test_powers_of_two_reach_all_but_a_few_bits_of_it() -> None:
    """One sum of 1, 2, 4, ..., 2^16 tells 17 labels."""
    assert 17 <= most_labels_told(1, 16) <= 22
    assert most_labels_told(15, 16) == 318
    assert most_labels_told(0, 16) == 0
    # Each class has its own sums but the last, and a label of four classes holds two bits.
    assert most_labels_told(15, 16, 4) == pytest.approx(1.5 * 318, rel=0.03)


def test_the_bound_is_the_fixed_point_of_its_own_entropy() -> None:
    for sums, bits in ((1, 1), (5, 8), (13, 15), (100, 24)):
        rows = most_labels_told(sums, bits)

        def entropy(count: int, sums: int = sums, bits: int = bits) -> float:
            return sums * (bits + math.log2(2 * math.pi * math.e * (count / 4 + 1 / 12)) / 2)

        assert entropy(rows - 1) >= rows - 1
        assert entropy(rows + 2) < rows + 2


def test_other_labels_halve_with_each_bit_of_volume_and_grow_with_the_rows() -> None:
    base = log2_other_labels(50, 5, 60.0, 0.5)
    assert log2_other_labels(50, 5, 61.0, 0.5) == pytest.approx(base - 1)
    assert log2_other_labels(51, 5, 60.0, 0.5) == pytest.approx(base + 1)
    assert log2_other_labels(50, 5, 60.0, 0.1) < base
    assert binary_entropy(0.5) == 1.0
