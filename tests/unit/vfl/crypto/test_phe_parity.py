"""`phe` reads what we encrypt and compute, and we read what `phe` encrypts: ordinary Paillier, one exponent."""

import numpy as np
import phe
import pytest

from vfl.crypto import (
    CipherVector,
    ColumnWidths,
    FixedPoint,
    PrivateKey,
    PublicKey,
    decrypt_vector,
    encrypt_vector,
    matvec,
)

pytestmark = pytest.mark.usefixtures("engine")

KeyPair = tuple[PublicKey, PrivateKey]

G = np.array([0.5, -0.25, 127.999, -127.999, 1e-9, 0.0, 0.1])
X = np.array([[0.0, 1.0, -1.0, 0.3, 3.7]]).repeat(7, axis=0) * np.linspace(-1, 1, 7)[:, None]


@pytest.fixture(params=["small_keys", "secure_keys"])
def keys(request: pytest.FixtureRequest) -> KeyPair:
    pair: KeyPair = request.getfixturevalue(request.param)
    return pair


def phe_keys(keys: KeyPair) -> tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey]:
    public_key = phe.PaillierPublicKey(keys[0].n)
    return public_key, phe.PaillierPrivateKey(public_key, keys[1].p, keys[1].q)


@pytest.mark.parametrize("owner", [True, False])
def test_phe_decrypts_our_vectors_and_products(keys: KeyPair, owner: bool) -> None:
    public_key, private_key = phe_keys(keys)
    c = encrypt_vector(keys[1] if owner else keys[0], G)
    product = matvec(X, c)
    assert (c.exponent, product.exponent) == (-8, -12)
    for vector in (c, product):
        numbers = [phe.EncryptedNumber(public_key, value, vector.exponent) for value in vector.ciphertexts]
        assert [private_key.decrypt(number) for number in numbers] == decrypt_vector(keys[1], vector).tolist()
    assert np.allclose(decrypt_vector(keys[1], product), X.T @ G, rtol=0, atol=7 * 128 * 2.0**-17)


def test_we_decrypt_and_multiply_what_phe_encrypts(keys: KeyPair) -> None:
    public_key, private_key = phe_keys(keys)
    numbers = [public_key.encrypt(phe.EncodedNumber.encode(public_key, float(v), precision=16.0**-8)) for v in G]
    assert {number.exponent for number in numbers} == {-8}
    c = CipherVector(keys[0], tuple(number.ciphertext() for number in numbers), -8, G.shape)
    assert decrypt_vector(keys[1], c).tolist() == [private_key.decrypt(number) for number in numbers]
    ours = matvec(X, encrypt_vector(keys[1], G))
    assert np.array_equal(decrypt_vector(keys[1], matvec(X, c)), decrypt_vector(keys[1], ours))


def test_our_product_is_that_of_phe(keys: KeyPair) -> None:
    public_key, private_key = phe_keys(keys)
    c = encrypt_vector(keys[1], G)
    integers = np.rint(X * 2**16).astype(int)
    numbers = [phe.EncryptedNumber(public_key, value, 0) for value in c.ciphertexts]
    for column, ciphertext in zip(integers.T.tolist(), matvec(X, c).ciphertexts, strict=True):
        combined = sum((number * x for number, x in zip(numbers, column, strict=True)), start=numbers[0] * 0)
        assert private_key.decrypt(combined) == private_key.decrypt(phe.EncryptedNumber(public_key, ciphertext, 0))


def test_phe_decrypts_sums_of_narrow_columns_and_forms_the_same(keys: KeyPair) -> None:
    """A 0/1 column, a byte and a signed full one: whole numbers, so that sums keep the residual's exponent."""
    public_key, private_key = phe_keys(keys)
    columns = ColumnWidths(binary=1, byte=1, full=1).formats(FixedPoint(16, 0).entries)
    integers = np.array([[1, 255, -65536], [0, 73, 65536], [1, 0, 1]] * 2 + [[0, 1, 7]])
    c = encrypt_vector(keys[1], G)
    product = matvec(integers, c, columns=columns)
    numbers = [phe.EncryptedNumber(public_key, value, c.exponent) for value in c.ciphertexts]
    for at, column in enumerate(integers.T.tolist()):
        ours = phe.EncryptedNumber(public_key, product.ciphertexts[at], product.exponent)
        theirs = sum((number * x for number, x in zip(numbers, column, strict=True)), start=numbers[0] * 0)
        assert private_key.decrypt(ours) == private_key.decrypt(theirs) == decrypt_vector(keys[1], product)[at]
