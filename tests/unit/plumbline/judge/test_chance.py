"""Intervals and tests of means: parity with scipy's and with counting, Holm's steps by hand, what has no interval."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_rel

from plumbline.judge.chance import ALPHA, ROUNDING, corrected_student, holm, mean_ends, p_values, part_ends, sign_test

DRAWN = np.random.default_rng(4).exponential(1.0, (2, 80, 3))
GUESS, ATTACK = DRAWN[0], 0.8 * DRAWN[1]
SIGNS = np.array(list(product([-1, 1], repeat=12)))


@pytest.mark.parametrize("power", [0, 1, 3])
def test_chances_are_those_of_all_choices_of_signs(power: int) -> None:
    """Of even sizes, of normal ones and where one record carries most of the loss."""
    generator = np.random.default_rng(power)
    for shift in (0.1, 0.5, 0.9, 5.0):
        differences = generator.normal(shift, 1, 12)
        differences = np.sign(differences) * np.abs(differences) ** power
        exact = (SIGNS @ differences >= differences.sum() - 1e-9).mean()
        (found,) = sign_test(differences[:, None])
        assert found == pytest.approx(exact, rel=0.35, abs=0.002) if differences.sum() > 0 else found == 1.0


def test_many_even_records_are_students_test() -> None:
    expected = ttest_rel(GUESS, ATTACK, alternative="greater").pvalue
    better = GUESS.mean(axis=0) > ATTACK.mean(axis=0)
    assert sign_test(GUESS - ATTACK) == pytest.approx(np.where(better, expected, 1.0), rel=0.2)


def test_without_skewness_the_corrected_test_is_students() -> None:
    half = np.random.default_rng(0).normal(0, 1, (30, 4))
    removed = np.array([0.0, 0.1, 0.2, -0.3]) + np.concatenate([half, -half])
    assert corrected_student(removed) == pytest.approx(ttest_1samp(removed, 0.0, alternative="greater").pvalue)


def test_the_corrected_test_by_hand() -> None:
    """Differences 0, 0, 0, 4: mean 1, deviation 2, third moment 6 of 8: t = 1, and Hall's g_2 is 1.187."""
    size, skewness, count = 1 / 2, 6 / 8, 4
    corrected = size + skewness * size**2 / 3 + skewness**2 * size**3 / 27 + skewness / (6 * count)
    (found,) = corrected_student(np.array([[0.0], [0.0], [0.0], [4.0]]))
    assert found == pytest.approx(student.sf(2 * corrected, 3))
    assert 2 * corrected == pytest.approx(1.193, abs=0.001)


def test_the_corrected_test_keeps_its_level_where_differences_are_skewed_and_students_does_not() -> None:
    """Means of 0 with a long tail below: by Student's, 1 in 12 looks beyond chance at 5 %."""
    removed = 1 - np.random.default_rng(0).exponential(1.0, (60, 20_000))
    assert (ttest_1samp(removed, 0.0, alternative="greater").pvalue <= ALPHA).mean() > 0.075
    assert (corrected_student(removed) <= ALPHA).mean() < 0.062


def test_differences_that_are_all_equal_are_beyond_chance_and_one_alone_is_not() -> None:
    assert corrected_student(np.array([[2.0, 0.0, -1.0]] * 5)).tolist() == [0.0, 1.0, 1.0]
    assert corrected_student(np.array([[2.0]])).tolist() == [1.0]


@given(st.integers(0, 1_000))
def test_a_chance_is_the_larger_of_two_tests_whatever_losses_are_counted_in(seed: int) -> None:
    generator = np.random.default_rng(seed)
    guess, attack = generator.exponential(1.0, (40, 3)), generator.exponential(0.8, (40, 3))
    found, removed = p_values(guess, attack), guess - attack
    better = removed.mean(axis=0) > ROUNDING * guess.mean(axis=0)
    larger = np.maximum(sign_test(removed), corrected_student(removed))
    assert found == pytest.approx(np.where(better, larger, 1.0))
    assert p_values(1e-6 * guess, 1e-6 * attack) == pytest.approx(found)


def test_a_share_off_every_records_loss_is_no_chance_though_few_carry_most() -> None:
    """Student's test of the difference says 4 %, for one loss is half of the sum."""
    guess = np.exp(np.linspace(0, 8, 60))[:, None] ** 1.5
    assert ttest_rel(guess, 0.6 * guess, alternative="greater").pvalue[0] > 0.0005
    assert sign_test(0.4 * guess)[0] < 1e-12


def test_intervals_of_means_are_students() -> None:
    one = student.interval(0.95, 79, GUESS.mean(axis=0), GUESS.std(axis=0, ddof=1) / np.sqrt(80))
    assert mean_ends(GUESS) == pytest.approx(np.array(one))


def test_a_part_of_a_fixed_guess_has_the_interval_of_its_error() -> None:
    guess = np.full((80, 3), 2.0)
    found, ends = part_ends(guess, ATTACK, p_values(guess, ATTACK)), mean_ends(ATTACK)
    assert found == pytest.approx(1 - ends[::-1] / 2.0)


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([])).shape == (0,)


def test_holm_rarely_errs_at_all_where_there_is_nothing() -> None:
    generator = np.random.default_rng(0)
    wrong = [(holm(generator.random(50)) <= ALPHA).any() for _ in range(2_000)]
    assert 0.03 < np.mean(wrong) < 0.07


@given(st.integers(1, 60), st.integers(0, 1_000))
def test_a_part_is_beyond_chance_by_its_interval_just_where_it_is_by_its_test(records: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    guess, attack = generator.exponential(1.0, (records, 4)), generator.exponential(0.5, (records, 4))
    chance = p_values(guess, attack)
    low, high = part_ends(guess, attack, chance)
    assert (low[chance > 0.025] == 0).all()
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()


def test_one_record_and_a_guess_that_is_right_say_nothing() -> None:
    for guess in (np.ones((1, 2)), np.zeros((60, 2))):
        attack = np.zeros_like(guess)
        assert p_values(guess, attack).tolist() == [1.0, 1.0]
        assert part_ends(guess, attack, np.ones(2)).tolist() == [[0.0, 0.0], [1.0, 1.0]]
