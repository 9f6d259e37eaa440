"""Ciphertexts as bytes, and the refusal of what is no ciphertext."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto import (
    InvalidCiphertext,
    PrivateKey,
    PublicKey,
    check_ciphertexts,
    ciphertext_width,
    encrypt_vector,
    from_bytes,
    to_bytes,
)

KeyPair = tuple[PublicKey, PrivateKey]


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_bytes_round_trip_with_one_width(values: list[int]) -> None:
    data = to_bytes(values, 8)
    assert len(data) == 8 * len(values)
    assert from_bytes(data, len(values), 8) == tuple(values)


def test_bytes_are_big_endian() -> None:
    assert to_bytes([1, 258], 3) == b"\0\0\1\0\1\2"


@pytest.mark.parametrize("length", [0, 7, 15, 17, 24])
def test_wrong_lengths_are_refused(length: int) -> None:
    with pytest.raises(InvalidCiphertext, match="2 integers of 8 bytes"):
        from_bytes(bytes(length), 2, 8)


@pytest.mark.parametrize("value", [2**16, -1])
def test_values_that_do_not_fit_are_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        to_bytes([value], 2)


def test_width_holds_every_ciphertext(small_keys: KeyPair, secure_keys: KeyPair) -> None:
    assert ciphertext_width(secure_keys[0]) == 512
    width = ciphertext_width(small_keys[0])
    assert width == 128
    assert from_bytes(to_bytes([small_keys[0].n_squared - 1], width), 1, width) == (small_keys[0].n_squared - 1,)


def test_honest_ciphertexts_are_accepted(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    check_ciphertexts(public_key, encrypt_vector(private_key, [1.0, -2.0, 0.0]).ciphertexts, 3)
    check_ciphertexts(public_key, [1, public_key.n_squared - 1], 2)


def test_wrong_counts_are_refused(small_keys: KeyPair) -> None:
    for count in (1, 3):
        with pytest.raises(InvalidCiphertext, match=f"Expected {count} ciphertexts, got 2"):
            check_ciphertexts(small_keys[0], [1, 1], count)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_what_is_no_ciphertext_is_refused_by_index_without_its_value(small_keys: KeyPair, position: int) -> None:
    public_key, private_key = small_keys
    n, n_squared = public_key.n, public_key.n_squared
    bad = {
        "between": [0, -1, n_squared, n_squared + 1],
        "factor": [n, private_key.p, 5 * private_key.q, private_key.p**2],
    }
    for reason, values in bad.items():
        for value in values:
            vector = list(encrypt_vector(private_key, [1.0, 2.0, 3.0]).ciphertexts)
            vector[position] = value
            with pytest.raises(InvalidCiphertext, match=f"Ciphertext {position} .*{reason}") as caught:
                check_ciphertexts(public_key, vector, 3)
            assert str(private_key.p) not in str(caught.value)
