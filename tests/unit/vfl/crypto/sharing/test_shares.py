"""Lifting, rounding and a learner's arithmetic on shares, against the numbers that they share."""

import secrets
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto import PackingImpossible
from vfl.crypto.sharing.share_formats import ShareFormats
from vfl.crypto.sharing.shares import Integers, Shares, as_bytes, lifted, of_bytes, rounded


def split(values: Integers, ring: int) -> tuple[Integers, Integers]:
    """Residues of two parties."""
    mine = np.vectorize(lambda _: secrets.randbits(ring), otypes=[object])(values)
    return mine, (values - mine) % (1 << ring)


def lost(value: int, ring: int, tries: int) -> int:
    values = np.full(tries, value, dtype=np.object_)
    first, second = split(values, ring)
    return int((lifted(first, ring, first=True) + lifted(second, ring, first=False) != values).sum())


@pytest.mark.parametrize("value", [0, 1, -1, 2**50 - 1, -(2**50) + 1])
def test_a_lift_restores_values_of_either_sign(value: int) -> None:
    assert lost(value, 50 + 48, 200) == 0


def test_a_lift_fails_as_often_as_is_derived() -> None:
    """|x| / 2^ring, without an offset: an x of 0 hardly ever, and eight times as large ones eight times as often."""
    tries = 20_000
    assert lost(0, 20, tries) <= 3
    for value in (2**12, -(2**12), 2**15, -(2**15)):
        expected = tries * abs(value) / 2**20
        assert abs(lost(value, 20, tries) - expected) <= 6 * expected**0.5


def test_three_residues_are_not_lifted() -> None:
    """Why each pair's z is lifted before pairs are added."""
    values = np.zeros(1000, dtype=np.object_)
    first, rest = split(values, 60)
    second, third = split(rest, 60)
    joined = lifted(first, 60, first=True) + lifted(second, 60, first=False) + lifted(third, 60, first=False)
    assert (joined != values).sum() > 300


def test_rounding_has_no_bias() -> None:
    values = np.array([secrets.randbits(40) for _ in range(20_000)], dtype=np.object_)
    first, second = split(values, 99)
    errors = (rounded(first, 16) + rounded(second - (first + second - values), 16)) - values / 2.0**16
    assert abs(float(errors.mean())) < 5 * 0.41 / len(values) ** 0.5
    assert max(abs(errors)) <= 1


@given(st.integers(-(2**70), 2**70), st.integers(0, 40))
def test_rounding_is_to_the_nearest(value: int, bits: int) -> None:
    assert -Fraction(1, 2) < rounded(value, bits) - Fraction(value, 2**bits) <= Fraction(1, 2)


def test_a_learner_computes_with_shares_as_with_arrays() -> None:
    generator = np.random.default_rng(1)
    z, weights = generator.normal(size=(7, 3)), generator.normal(size=(7, 3))
    penalty = np.array([[0.25]] * 6 + [[0.0]])
    noise = np.array([[secrets.randbits(100) - 2**99 for _ in range(3)] for _ in range(7)], dtype=np.object_)

    def learned(z: Any, weights: Any, label_term: float) -> Any:
        centred = z - z.mean(axis=1, keepdims=True) + label_term - 2.0 * label_term
        return weights - 0.5 * (0.125 * centred + penalty * weights)

    own = learned(Shares.of(z, 48) + Shares(noise, 48), Shares.of(weights, 48) - Shares(noise, 48), 1.0)
    others = learned(Shares(-noise, 48), Shares(noise, 48), 0.0)
    joined = (own + others).integers.astype(float) / 2.0**48
    assert np.abs(joined - learned(z, weights, 1.0)).max() < 2.0**-45


def test_units_are_kept_apart() -> None:
    one = Shares.of([1.0, -2.5], 8)
    with pytest.raises(ValueError, match="units"):
        one + Shares.of([1.0], 9)
    assert (one.rescaled(16) - Shares.of([1.0, -2.5], 16)).integers.tolist() == [0, 0]
    assert one.rescaled(0).integers.tolist() == [1, -2]
    assert (3 - one).integers.tolist() == [512, 1408]
    assert "256" not in repr(one)


def test_formats_follow_from_public_numbers() -> None:
    formats = ShareFormats(2048, 256, 12, 1, 1, 10_000)
    assert (formats.sigma, formats.ring, formats.forward.count) == (48, 103, 16)
    assert ShareFormats(2048, 256, 12, 1, 1, 2**30).sigma == 52
    assert ShareFormats(2048, 256, 12, 1, 3, 10_000).residual_bits == formats.residual_bits + 1
    with pytest.raises(PackingImpossible, match="longer key"):
        ShareFormats(128, 256, 12, 1, 1, 10_000)


@given(
    bits=st.integers(24, 512).map(lambda eighths: 8 * eighths),
    rows=st.integers(1, 4096),
    columns=st.integers(1, 1000),
    signed=st.booleans(),
    outputs=st.integers(1, 20),
    pairs=st.integers(1, 8),
)
def test_slots_hold_the_largest_products(
    bits: int, rows: int, columns: int, signed: bool, outputs: int, pairs: int
) -> None:
    try:
        formats = ShareFormats(bits, rows, columns, outputs, pairs, 10**6, features_signed=signed)
    except PackingImpossible:
        return
    for layout, most in (
        (formats.forward, columns * ((1 << formats.ring) - 1)),
        (formats.backward, rows * ((1 << formats.residual_bits) - 1)),
    ):
        largest = most << formats.feature_fraction_bits
        assert largest + layout.offset < 1 << layout.bits
        assert not signed or layout.offset >= largest
        # Above the highest slot, 64 bits below any modulus of this length.
        assert layout.bits * layout.count + 64 <= bits - 2
    assert formats.backward.bits >= formats.gradient_ring
    # A lifted share of z, cut, less a mean of k, and the label's term, is an exponent.
    share = formats.pairs * (1 << formats.ring - formats.feature_fraction_bits) * (2 if outputs > 1 else 1)
    assert share + (outputs + 1 << formats.fraction_bits) < 1 << formats.residual_bits - 1


@given(st.lists(st.integers(-(2**200), 2**200), max_size=6))
def test_integers_of_any_size_are_read_as_they_were_written(values: list[int]) -> None:
    integers = np.array([*values, 0], dtype=np.object_).reshape(-1, 1)
    again = of_bytes(as_bytes(integers))
    assert again.shape == integers.shape
    assert again.ravel().tolist() == [*values, 0]
