"""Encrypted sums over bins are those of plain numbers, and tell no more than they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.keys import KeyPair
from vfl.arrays import IntArray
from vfl.crypto import Engine, PackingImpossible
from vfl.crypto.bin_sums import SumLayout, bin_products, encrypt_pairs, pack_sums, prefix_products
from vfl.learning.trees.tree_gradients import bin_sums


def sums_through_ciphertexts(keys: KeyPair, bins: IntArray, values: IntArray, layout: SumLayout, used: int) -> IntArray:
    public_key, private_key = keys
    engine = Engine()
    encrypted = encrypt_pairs(private_key, values, layout, engine)
    products = bin_products(encrypted, bins, used + 1, public_key.n_squared, engine)
    prefixes = prefix_products(products, used + 1, used, public_key.n_squared)
    rows = np.full(len(prefixes), len(bins))
    packed = pack_sums(prefixes, rows, layout, public_key, engine)
    assert len(packed) == layout.ciphertexts_for(len(prefixes))
    return layout.read(engine.decrypt(private_key, packed), rows)


@settings(max_examples=10, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 4), used=st.integers(2, 5), seed=st.integers(0, 99))
def test_sums_are_exact_at_both_ends_of_the_range(
    small_keys: KeyPair, rows: int, columns: int, used: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    layout = SumLayout(key_bits=512, rows=rows, unit=1 << 10)
    bins = generator.integers(0, used + 1, (rows, columns))
    first = generator.choice([-layout.unit, 0, layout.unit], rows)
    values = np.column_stack([first, generator.choice([1, layout.unit // 4], rows)])
    found = sums_through_ciphertexts(small_keys, bins, values, layout, used)
    np.testing.assert_array_equal(found, bin_sums(bins, values, used).reshape(-1, 2))


def test_long_bins_and_a_2048_bit_key(secure_keys: KeyPair) -> None:
    """One bin with nearly all rows is multiplied in pieces."""
    generator = np.random.default_rng(1)
    layout = SumLayout(key_bits=2048, rows=400, unit=1 << 18)
    bins = np.where(generator.random((400, 2)) < 0.9, 1, generator.integers(0, 4, (400, 2)))
    values = np.column_stack([generator.integers(-layout.unit, layout.unit + 1, 400), np.ones(400, dtype=np.int64)])
    found = sums_through_ciphertexts(secure_keys, bins, values, layout, 3)
    np.testing.assert_array_equal(found, bin_sums(bins, values, 3).reshape(-1, 2))


def test_the_same_sums_are_never_the_same_ciphertexts(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    layout = SumLayout(key_bits=512, rows=3, unit=16)
    engine = Engine()
    encrypted = encrypt_pairs(private_key, np.array([[1, 2], [3, 4], [5, 4]]), layout, engine)
    once, again = (pack_sums(encrypted, np.array([3, 3, 3]), layout, public_key, engine) for _ in range(2))
    assert set(once).isdisjoint(again)
    # Empty sums too: a ciphertext 1 would say that nobody is in the bin.
    (empty,) = pack_sums([1], np.array([3]), layout, public_key, engine)
    assert empty != pow(1 + public_key.n, layout.lift(3), public_key.n_squared)


def test_what_no_honest_party_sends_is_read_without_a_word() -> None:
    layout = SumLayout(key_bits=512, rows=3, unit=16)
    assert layout.read([(1 << 510) - 1], np.array([3])).shape == (1, 2)


def test_a_key_without_room_for_one_sum_is_refused() -> None:
    with pytest.raises(PackingImpossible, match="larger key"):
        SumLayout(key_bits=64, rows=1 << 20, unit=1 << 30)
