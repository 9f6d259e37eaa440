"""Elements of pages: numbers as they are read."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.page.elements import number_words


@pytest.mark.parametrize(
    ("value", "digits", "words"),
    [
        (0.0, 2, "0"),
        (0.00076, 2, "0.00076"),
        (0.000999, 2, "0.0010"),
        (0.25, 1, "0.2"),
        (5.4e-05, 2, "0.000054"),
        (6.1e-14, 2, "6.1 × 10⁻¹⁴"),
        (9.96e-6, 2, "1.0 × 10⁻⁵"),
        (-3.0, 2, "-3.0"),
        (462.0, 3, "462"),
        (1.1e8, 2, "110,000,000"),
        (1.234e12, 3, "1.23 × 10¹²"),
        (np.nan, 2, ""),
        (np.inf, 2, "∞"),
        (-np.inf, 2, "-∞"),
    ],
)
def test_numbers_are_written_for_readers(value: float, digits: int, words: str) -> None:
    assert number_words(value, digits) == words


@given(st.floats(-1e300, 1e300), st.integers(2, 6))
def test_no_number_has_an_exponent_of_a_computer_and_all_keep_their_size(value: float, digits: int) -> None:
    words = number_words(value, digits)
    assert "e" not in words
    mantissa, _, power = words.replace(",", "").partition(" × 10")
    exponent = int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
    assert float(f"{mantissa}e{exponent}") == pytest.approx(value, rel=0.5 * 10.0 ** (1 - digits) * 1.001)
