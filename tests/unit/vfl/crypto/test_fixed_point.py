"""Fixed-point formats: what they hold, what they refuse, and how they say so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto import RESIDUAL, FixedPoint, FixedPointOverflow
from vfl.crypto.fixed_point import decode, feature_format_of

UNIT = FixedPoint(16, 0, signed=False)


def test_formats_follow_the_convention_of_phe() -> None:
    assert (RESIDUAL.exponent, RESIDUAL.bound) == (-8, 2**39)
    assert (UNIT.exponent, UNIT.bound, UNIT.offset, UNIT.digits) == (-4, 2**16, 0, 17)
    signed = FixedPoint(16, 0)
    assert (signed.bound, signed.offset, signed.digits) == (2**16, 2**16, 18)


@pytest.mark.parametrize(("fraction_bits", "integer_bits"), [(15, 0), (-4, 8), (16, -1), (32, 21)])
def test_impossible_formats_are_refused(fraction_bits: int, integer_bits: int) -> None:
    with pytest.raises(ValueError, match="Expected"):
        FixedPoint(fraction_bits, integer_bits)


def test_known_values() -> None:
    assert RESIDUAL.encode([0.5, -1.0, 2.0**-33, 3 * 2.0**-33]).tolist() == [2**31, -(2**32), 0, 2]
    assert decode([2**31, -(2**32), 3], -8).tolist() == [0.5, -1.0, 3 * 2.0**-32]


@given(st.floats(-127.999, 127.999))
def test_encoding_is_exact_to_half_a_step(value: float) -> None:
    (back,) = decode(RESIDUAL.encode([value]).tolist(), RESIDUAL.exponent)
    assert abs(back - value) <= 2.0**-33


@given(st.integers(-(2**200), 2**200))
def test_decoding_rounds_once(integer: int) -> None:
    assert decode([integer], -12).tolist() == [integer / 2**48]


def test_bounds_are_inclusive_for_features_and_exclusive_for_residuals() -> None:
    assert UNIT.encode([0.0, 1.0]).tolist() == [0, 2**16]
    assert FixedPoint(16, 0).encode([-1.0, 1.0]).tolist() == [-(2**16), 2**16]
    below = np.nextafter(128.0, 0) - 2.0**-32
    assert RESIDUAL.encode([below, -below], inclusive=False).tolist() == [2**39 - 1, 1 - 2**39]
    for value in (128.0, -128.0):
        with pytest.raises(FixedPointOverflow, match="integer_bits"):
            RESIDUAL.encode([value], inclusive=False)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_is_refused_by_index(value: float) -> None:
    for refuse in (UNIT.encode, feature_format_of):
        with pytest.raises(FixedPointOverflow, match=r"index \(1, 2\).*impute"):
            refuse(np.array([[0.0, 0.5, 1.0], [0.0, 0.5, value]]))


@pytest.mark.parametrize("value", [1.1, 1e300, 1.7e308])
def test_too_large_is_refused_without_showing_the_value(value: float) -> None:
    with pytest.raises(FixedPointOverflow, match="scale the values") as caught:
        UNIT.encode([0.0, value])
    assert repr(value) not in str(caught.value)


def test_negative_is_refused_by_an_unsigned_format_unless_it_rounds_to_zero() -> None:
    assert UNIT.encode([-1e-17]).tolist() == [0]
    with pytest.raises(FixedPointOverflow, match="signed=True"):
        UNIT.encode([-0.1])


@pytest.mark.parametrize(
    ("largest", "integer_bits"), [(0.0, 0), (0.3, 0), (1.0, 0), (1.001, 1), (2.0, 1), (2.1, 2), (4.0, 2)]
)
def test_feature_format_is_the_narrowest(largest: float, integer_bits: int) -> None:
    assert feature_format_of(np.array([[0.0, largest]])) == FixedPoint(16, integer_bits, signed=False)
    if largest:
        assert feature_format_of(np.array([[0.0, -largest]])) == FixedPoint(16, integer_bits, signed=True)


def test_features_beyond_any_format_are_refused() -> None:
    with pytest.raises(FixedPointOverflow, match="scale"):
        feature_format_of(np.array([[1e12]]))
