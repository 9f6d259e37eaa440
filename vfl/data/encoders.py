"""Scaling of a party's own columns before training, and rounding to a grid that fixed point holds exactly.

An encoder is fitted on one party's columns and nothing else. What it learned (minima, means) describes that party's
people, so it stays with the party.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from vfl.data.tables import Features

EncoderKind = Literal["minmax", "standardise", "unit_norm", "none"]
ENCODER_KINDS: tuple[EncoderKind, ...] = get_args(EncoderKind)
# Squares of what is larger overflow, so that no auditor could tell how far off a guess is.
_LARGEST = 1e150


class EncoderError(ValueError):
    """Features cannot be encoded; the message says why and what to do.

    Examples:
        >>> fit_encoder("minmax", np.array([[10.0], [np.nan]]))
        Traceback (most recent call last):
            ...
        vfl.data.encoders.EncoderError: Features contain NaN or infinite values: clean the table first.
    """


@dataclass(frozen=True)
class Encoder:
    """A fitted encoding of one party's columns.

    - minmax: (x - offset) / scale, clipped to [0, 1]. Values outside the range seen when fitting are clipped, because
      the protocol's fixed point and the attacks assume that range.
    - standardise: (x - offset) / scale, with mean 0 and standard deviation 1 on the data it was fitted on; unbounded.
    - unit_norm: each row of this party's block divided by its own 2-norm; rows of zeros stay zeros. Nothing is learned.
    - none: unchanged.

    Attributes:
        kind: one of these four.
        columns: how many it was fitted on.
        offset: one number per column, or empty.
        scale: one number per column, or empty; 0 marks a constant column, which is encoded as 0 throughout.

    Examples:
        >>> fit_encoder("minmax", np.array([[10.0], [30.0]])).transform(np.array([[15.0], [40.0]]))
        array([[0.25],
               [1.  ]])
    """

    kind: EncoderKind
    columns: int
    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    def transform(self, features: Features) -> Features:
        """Encode features (n, columns) into a new float64 array of the same shape.

        Raises:
            EncoderError: for another number of columns or values that are not finite.
        """
        _check_matrix(features)
        if features.shape[1] != self.columns:
            raise EncoderError(
                f"The encoder was fitted on {self.columns} columns, got {features.shape[1]}: "
                "give the same columns in the same order."
            )
        if self.kind == "none":
            return features.copy()
        if self.kind == "unit_norm":
            return rows_to_unit_norm(features)
        scale = np.array(self.scale)
        varies = scale > 0
        encoded = np.where(varies, (features - np.array(self.offset)) / np.where(varies, scale, 1.0), 0.0)
        return np.clip(encoded, 0.0, 1.0) if self.kind == "minmax" else encoded


def fit_encoder(kind: EncoderKind, features: Features) -> Encoder:
    """Fit an encoder of the given kind to the rows of features (n, d).

    Raises:
        EncoderError: for an unknown kind, no rows or columns, and values not finite or so large that a range overflows.

    Examples:
        >>> fit_encoder("minmax", np.array([[10.0], [30.0]]))
        Encoder(kind='minmax', columns=1, offset=(10.0,), scale=(20.0,))
    """
    if kind not in ENCODER_KINDS:
        raise EncoderError(f"Unknown encoder {kind!r}: choose one of {', '.join(ENCODER_KINDS)}.")
    _check_matrix(features)
    if kind in ("unit_norm", "none"):
        return Encoder(kind, features.shape[1])
    low, high = features.min(axis=0), features.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        # From the smallest on: values that differ in their last digits alone have a mean that depends on no order.
        above = features - low
        offset, scale = (low, high - low) if kind == "minmax" else (low + above.mean(axis=0), above.std(axis=0))
    if not (np.abs([offset, scale]) <= _LARGEST).all():
        raise EncoderError("A column's values are too large to scale: divide the column by a constant first.")
    # The deviation of a constant column can come out as a rounding error instead of 0.
    scale = np.where(low == high, 0.0, scale)
    return Encoder(kind, features.shape[1], tuple(offset.tolist()), tuple(scale.tolist()))


def rows_to_unit_norm(features: Features) -> Features:
    """Divide each row of features (n, d) by its 2-norm; rows of zeros stay zeros.

    Examples:
        >>> rows_to_unit_norm(np.array([[3.0, 4.0], [0.0, 0.0]]))
        array([[0.6, 0.8],
               [0. , 0. ]])
    """
    # Dividing by the largest entry first keeps the squares from overflowing or vanishing.
    largest = np.abs(features).max(axis=1, keepdims=True)
    scaled = np.divide(features, largest, out=np.zeros_like(features), where=largest > 0)
    norm = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    unit: Features = np.divide(scaled, norm, out=scaled, where=norm > 0)
    return unit


def snap_to_grid(features: Features, fraction_bits: int = 16) -> Features:
    """Round to the nearest multiples of 2**-fraction_bits (0 to 52), halves to even.

    Fixed point with at least that many fraction bits then holds every feature exactly. The encrypted run and the plain
    run see identical features, so any difference between them comes from the protocol.

    Examples:
        >>> snap_to_grid(np.array([0.3, 0.9]), fraction_bits=2)
        array([0.25, 1.  ])
    """
    if not 0 <= fraction_bits <= 52:
        raise EncoderError(f"Expected fraction_bits from 0 to 52, got {fraction_bits}.")
    snapped: Features = features * 2.0**fraction_bits
    np.rint(snapped, out=snapped)
    snapped /= 2.0**fraction_bits
    return snapped


def magnitude_bits(features: Features) -> int:
    """Find the smallest b >= 0 with max |x| <= 2**b: the integer bits that fixed point must provide, sign apart.

    Raises:
        EncoderError: when features is empty or not finite.

    Examples:
        >>> magnitude_bits(np.array([[1.0, -5.0]]))
        3
    """
    _check_matrix(features)
    mantissa, exponent = math.frexp(float(np.abs(features).max()))
    return max(0, exponent - 1 if mantissa == 0.5 else exponent)


def is_signed(features: Features) -> bool:
    """Tell whether any value is negative.

    Examples:
        >>> is_signed(np.array([[1.0, -5.0]]))
        True
    """
    return bool((features < 0).any())


def _check_matrix(features: Features) -> None:
    if features.ndim != 2 or features.size == 0:
        raise EncoderError(f"Expected features of shape (rows, columns), got {features.shape}: give at least one row.")
    if not np.isfinite(features).all():
        raise EncoderError("Features contain NaN or infinite values: clean the table first.")
