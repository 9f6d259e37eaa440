"""Intervals and tests of means: parity with scipy's and with counting, Holm's steps by hand, what has no interval."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_rel

from plumbline.judge.chance import ALPHA, holm, mean_ends, p_values, part_ends

RNG = np.random.default_rng(4)
GUESS = RNG.exponential(1.0, (80, 3))
ATTACK = RNG.exponential(0.8, (80, 3))


SIGNS = np.array(list(product([-1, 1], repeat=12)))


@pytest.mark.parametrize("power", [0, 1, 3])
def test_chances_are_those_of_all_choices_of_signs(power: int) -> None:
    """Of even sizes, of normal ones and where one record carries most of the loss."""
    for shift in (0.1, 0.5, 0.9, 5.0):
        differences = RNG.normal(shift, 1, 12)
        differences = np.sign(differences) * np.abs(differences) ** power
        guess = np.maximum(differences, 0.0)
        exact = (SIGNS @ differences >= differences.sum() - 1e-9).mean()
        (found,) = p_values(guess[:, None], (guess - differences)[:, None])
        assert found == pytest.approx(exact, rel=0.35, abs=0.002) if differences.sum() > 0 else found == 1.0


def test_many_even_records_are_students_test() -> None:
    expected = ttest_rel(GUESS, ATTACK, alternative="greater").pvalue
    better = GUESS.mean(axis=0) > ATTACK.mean(axis=0)
    assert p_values(GUESS, ATTACK) == pytest.approx(np.where(better, expected, 1.0), rel=0.2)


def test_a_share_off_every_records_loss_is_no_chance_though_few_carry_most() -> None:
    """Student's test of the difference says 4 %, for one loss is half of the sum."""
    guess = np.exp(np.linspace(0, 8, 60))[:, None] ** 1.5
    assert ttest_rel(guess, 0.6 * guess, alternative="greater").pvalue[0] > 0.0005
    assert p_values(guess, 0.6 * guess)[0] < 1e-12


def test_intervals_of_means_are_students() -> None:
    one = student.interval(0.95, 79, GUESS.mean(axis=0), GUESS.std(axis=0, ddof=1) / np.sqrt(80))
    assert mean_ends(GUESS) == pytest.approx(np.array(one))


def test_a_part_of_a_fixed_guess_has_the_interval_of_its_error() -> None:
    found, ends = part_ends(np.full((80, 3), 2.0), ATTACK), mean_ends(ATTACK)
    assert found == pytest.approx(1 - ends[::-1] / 2.0)


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([])).shape == (0,)


def test_holm_rarely_errs_at_all_where_there_is_nothing() -> None:
    wrong = [(holm(RNG.random(50)) <= ALPHA).any() for _ in range(2_000)]
    assert 0.03 < np.mean(wrong) < 0.07


@given(st.integers(1, 60), st.integers(0, 1_000))
def test_a_part_is_beyond_chance_by_its_interval_just_where_it_is_by_its_test(records: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    guess, attack = generator.exponential(1.0, (records, 4)), generator.exponential(0.5, (records, 4))
    low, high = part_ends(guess, attack)
    assert (low[p_values(guess, attack) > 0.025] == 0).all()
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()


def test_one_record_and_a_guess_that_is_right_say_nothing() -> None:
    for guess in (np.ones((1, 2)), np.zeros((60, 2))):
        attack = np.zeros_like(guess)
        assert part_ends(guess, attack).tolist() == [[0.0, 0.0], [1.0, 1.0]]
        assert p_values(guess, attack).tolist() == [1.0, 1.0]
