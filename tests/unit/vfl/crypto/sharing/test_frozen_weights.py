"""Scores of weights that stay shared, against whole numbers; shares are joined here and nowhere else."""

import secrets
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.shared_sessions import keys_of
from vfl.arrays import IntArray
from vfl.crypto import Engine
from vfl.crypto.sharing.frozen_weights import Residues, ScoreFormats, residues_of
from vfl.crypto.sharing.masked_products import kept, mask
from vfl.crypto.sharing.shares import Integers, Shares

BITS = 512
(KEY,) = keys_of(1, BITS)


def halves(
    formats: ScoreFormats, features: IntArray, u: Integers, v: Integers, draw: Callable[[int], int] = secrets.randbelow
) -> tuple[Residues, Residues]:
    """What the owner of the features and the holder of V have for whoever adds up."""
    engine, sizes = Engine(), formats.sizes(len(features))
    own, frozen = formats.weights(Shares(u, 16)), formats.weights(Shares(v, 16))
    encrypted = [engine.encrypt(KEY, column.tolist()) for column in frozen.T]
    products = formats.masked_products(features, encrypted, KEY.public_key, engine)
    masked = mask(products, formats.layout, sizes, KEY.public_key, engine, draw)
    held = residues_of(kept(masked.ciphertexts, formats.layout, sizes, KEY, engine))
    return formats.own_products(features, own) + residues_of(masked.residues), held


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.booleans(), st.integers(0, 4), st.data())
def test_sums_are_those_of_whole_numbers(
    n: int, d: int, k: int, signed: bool, integer_bits: int, data: st.DataObject
) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    largest = 1 << 16 + integer_bits
    features = generator.integers(-largest if signed else 0, largest, (n, d), endpoint=True)
    weights = generator.integers(-(2**20), 2**20, (d, k)).astype(object)
    v = np.array([[secrets.randbelow(1 << 200) for _ in range(k)] for _ in range(d)], dtype=object)
    formats = ScoreFormats(BITS, d, 2, 16, feature_integer_bits=integer_bits, features_signed=signed)
    expected = (features.astype(object) @ weights).astype(float) / 2.0**32
    assert np.array_equal(formats.sums(halves(formats, features, weights - v, v)), expected)


@pytest.mark.parametrize("value", [0, 1 << 16, -(1 << 16)])
def test_the_ends_of_the_range_and_every_mask_give_the_same(value: int) -> None:
    """The mask that carries out of every slot as well: ones, as far as a mask doesn't pass n."""
    features, weights = np.full((7, 3), value), np.array([[-(2**22)], [2**22], [1]], dtype=object)
    formats = ScoreFormats(BITS, 3, 2, 16, features_signed=True)
    for v in (0, (1 << 64) - 1, -1):
        share = np.full((3, 1), v, dtype=object)
        for draw in (lambda n: 0, lambda n: (1 << n.bit_length() - 70) - 1, secrets.randbelow):
            found = formats.sums(halves(formats, features, weights - share, share, draw))
            assert np.array_equal(found, np.full((7, 1), value / 2**32))


def test_carries_of_masks_tell_who_adds_up_nothing() -> None:
    """Below a score's own units there is a carry or none; of the largest products as of none, none."""
    formats = ScoreFormats(BITS, 5, 2, 16)
    weights, largest = np.zeros((5, 1), dtype=object), np.full((5, 1), (1 << 62) - 1, dtype=object)
    for features in (np.zeros((400, 5), dtype=np.int64), np.full((400, 5), 1 << 16)):
        one, other = halves(formats, features, weights - largest, largest)
        assert not np.any((one + other) % 4)
    signed = ScoreFormats(BITS, 5, 2, 16, features_signed=True)
    for value in (-(1 << 16), 1 << 16):
        one, other = halves(signed, np.full((400, 5), value), weights - largest, largest)
        carries = (one + other) % 4
        # The first slot of each ciphertext gets none. Even, at 1e-6.
        later = carries.ravel()[np.arange(400) % signed.layout.count > 0]
        assert abs(later.mean() - 0.5) < 4.9 * 0.5 / np.sqrt(len(later))


def test_neither_half_tells_of_weights_or_records() -> None:
    """Bits of both halves are even, of records that are all 0 as of others, and no half comes twice."""
    formats = ScoreFormats(BITS, 2, 2, 16)
    weights = np.array([[3 << 16], [-(5 << 16)]], dtype=object)
    for features in (np.zeros((500, 2), dtype=np.int64), np.full((500, 2), 1 << 15)):
        for half in halves(formats, features, weights, np.zeros_like(weights)):
            bits = np.unpackbits(half.view(np.uint8)).reshape(500, 64).mean(axis=0)
            # 64 bits of two halves of two tables, at 1e-6.
            assert np.abs(bits - 0.5).max() < 6.2 * 0.5 / np.sqrt(500)
            assert len(np.unique(half)) == 500
