"""Encoders: ranges, idempotence, edge cases, and the grid of fixed point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vfl.data import (
    ENCODER_KINDS,
    EncoderError,
    EncoderKind,
    fit_encoder,
    is_signed,
    magnitude_bits,
    snap_to_grid,
)
from vfl.data.tables import Features

matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
    elements=st.floats(-1e12, 1e12),
)


@given(matrices)
def test_minmax_fills_the_unit_interval_and_is_idempotent(features: Features) -> None:
    encoded = fit_encoder("minmax", features).transform(features)
    varies = features.min(axis=0) < features.max(axis=0)
    assert (encoded.min(axis=0) == 0).all()
    np.testing.assert_array_equal(encoded.max(axis=0), np.where(varies, 1.0, 0.0))
    np.testing.assert_array_equal(fit_encoder("minmax", encoded).transform(encoded), encoded)


def test_minmax_clips_what_it_has_not_seen_and_constants_are_zero() -> None:
    encoder = fit_encoder("minmax", np.array([[0.0, 5.0], [10.0, 5.0]]))
    np.testing.assert_array_equal(
        encoder.transform(np.array([[-1.0, 6.0], [20.0, 5.0], [5.0, 4.0]])), [[0, 0], [1, 0], [0.5, 0]]
    )


def test_standardise() -> None:
    features = np.random.default_rng(0).normal(7, 3, (200, 4))
    features[:, 2] = 0.1
    encoded = fit_encoder("standardise", features).transform(features)
    np.testing.assert_allclose(encoded.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(encoded.std(axis=0), [1, 1, 0, 1], atol=1e-12)
    np.testing.assert_allclose(fit_encoder("standardise", encoded).transform(encoded), encoded, atol=1e-12)


@given(matrices)
def test_unit_norm_rows(features: Features) -> None:
    encoded = fit_encoder("unit_norm", features).transform(features)
    zero = (features == 0).all(axis=1)
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), np.where(zero, 0.0, 1.0), atol=1e-12)
    np.testing.assert_allclose(fit_encoder("unit_norm", encoded).transform(encoded), encoded, atol=1e-12)


def test_unit_norm_survives_extreme_rows() -> None:
    extremes = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]])
    encoded = fit_encoder("unit_norm", extremes).transform(extremes)
    np.testing.assert_allclose(encoded, np.array([[0.6, 0.8], [0.6, 0.8], [0, 0]]))


def test_none_returns_a_copy() -> None:
    features = np.array([[1.0, -2.0]])
    encoded = fit_encoder("none", features).transform(features)
    np.testing.assert_array_equal(encoded, features)
    assert encoded is not features


@pytest.mark.parametrize("kind", ENCODER_KINDS)
@given(features=matrices)
@example(features=-1e11 + np.array([[0.0], [2.0**-16], [2.0**-15], [3 * 2.0**-16], [2.0**-14]]))
def test_encoders_depend_on_values_not_on_the_order_of_rows(kind: EncoderKind, features: Features) -> None:
    forward = fit_encoder(kind, features).transform(features)
    backward = fit_encoder(kind, features[::-1]).transform(features)
    # Only the order of summation may differ.
    np.testing.assert_allclose(forward, backward, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["minmax", "standardise"])
@pytest.mark.parametrize("largest", [1.7e308, 1e300])
def test_ranges_that_overflow_are_refused_and_so_are_those_whose_squares_do(kind: EncoderKind, largest: float) -> None:
    with pytest.raises(EncoderError, match="too large"):
        fit_encoder(kind, np.array([[-largest], [largest]]))


def test_bad_features_are_refused() -> None:
    encoder = fit_encoder("minmax", np.ones((2, 3)))
    with pytest.raises(EncoderError, match="fitted on 3 columns, got 2"):
        encoder.transform(np.ones((2, 2)))
    for bad in (np.ones(3), np.ones((0, 3)), np.full((2, 3), np.nan), np.full((2, 3), np.inf)):
        with pytest.raises(EncoderError):
            encoder.transform(bad)
        with pytest.raises(EncoderError):
            fit_encoder("minmax", bad)
    with pytest.raises(EncoderError, match="choose one of minmax"):
        fit_encoder("robust", np.ones((2, 3)))  # type: ignore[arg-type]


@given(matrices, st.integers(0, 52))
def test_grid(features: Features, bits: int) -> None:
    snapped = snap_to_grid(features, bits)
    integers = snapped * 2.0**bits
    np.testing.assert_array_equal(integers, np.rint(integers))
    assert (np.abs(snapped - features) <= 2.0 ** -(bits + 1)).all()
    np.testing.assert_array_equal(snap_to_grid(snapped, bits), snapped)


def test_grid_default_and_range() -> None:
    np.testing.assert_array_equal(snap_to_grid(np.array([[2.0**-16, 2.0**-18, 0.1]])), [[2.0**-16, 0, 6554 / 65536]])
    for bits in (-1, 53):
        with pytest.raises(EncoderError, match="from 0 to 52"):
            snap_to_grid(np.ones((1, 1)), bits)


@pytest.mark.parametrize(
    ("largest", "bits"), [(0.0, 0), (0.3, 0), (1.0, 0), (1.0000001, 1), (2.0, 1), (-2.1, 2), (1024.0, 10)]
)
def test_magnitude_bits(largest: float, bits: int) -> None:
    assert magnitude_bits(np.array([[0.1, largest], [0.0, 0.1]])) == bits


@given(matrices)
def test_magnitude_bits_is_the_smallest(features: Features) -> None:
    bits = magnitude_bits(features)
    largest = np.abs(features).max()
    assert largest <= math.ldexp(1, bits)
    assert bits == 0 or largest > math.ldexp(1, bits - 1)


def test_is_signed() -> None:
    assert is_signed(np.array([[0.0, -1e-300]]))
    assert not is_signed(np.array([[0.0, -0.0, 3.0]]))
