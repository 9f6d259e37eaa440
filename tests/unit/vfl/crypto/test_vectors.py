"""Encrypted vectors against the same arithmetic in the clear: encrypt, multiply, mask, decrypt, unmask."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.arrays import FloatArray
from vfl.crypto import (
    RESIDUAL,
    CipherVector,
    FixedPoint,
    FixedPointOverflow,
    InvalidAnswer,
    InvalidCiphertext,
    KeyMismatch,
    LayoutMismatch,
    PackingLayout,
    PrivateKey,
    PublicKey,
    ciphertext_count,
    decrypt_integers,
    decrypt_vector,
    encrypt_vector,
    keygen,
    mask_vector,
    matvec,
    unmask,
)

pytestmark = pytest.mark.usefixtures("engine")

KeyPair = tuple[PublicKey, PrivateKey]

UNIT = FixedPoint(16, 0, signed=False)
COARSE = FixedPoint(8, 2)


def exact_product(X: FloatArray, g: FloatArray, residual: FixedPoint, features: FixedPoint) -> FloatArray:
    """X.T @ g of the fixed-point values, each entry rounded to float64 once, at the end."""
    integers: Any = features.encode(X).astype(object).T @ residual.encode(g).astype(object)
    scale = 2 ** (residual.fraction_bits + features.fraction_bits)
    return np.array([int(v) / scale for v in integers.ravel()]).reshape(integers.shape)


def random_problem(
    seed: int, rows: int, columns: int, classes: int, features: FixedPoint, residual: FixedPoint
) -> tuple[FloatArray, FloatArray]:
    """X and g that reach their bounds: a quarter of the entries lies there."""
    rng = np.random.default_rng(seed)
    low = -1.0 if features.signed else 0.0
    X = rng.uniform(low, 1, size=(rows, columns))
    g = rng.uniform(-1, 1, size=(rows, classes))
    X = np.where(rng.random(X.shape) < 0.25, np.where(X < 0, low, 1.0), X) * 2.0**features.integer_bits
    largest = 2.0**residual.integer_bits - 2.0**-residual.fraction_bits
    g = np.where(rng.random(g.shape) < 0.25, np.sign(g), g) * largest
    return X, g


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 15),
    columns=st.integers(1, 7),
    classes=st.integers(1, 3),
    t=st.integers(1, 4),
    m=st.integers(1, 3),
    signed=st.booleans(),
    integer_bits=st.integers(0, 2),
)
def test_packed_unpacked_and_plain_products_agree(
    small_keys: KeyPair,
    seed: int,
    rows: int,
    columns: int,
    classes: int,
    t: int,
    m: int,
    signed: bool,
    integer_bits: int,
) -> None:
    features = FixedPoint(4, integer_bits, signed=signed)
    layout = PackingLayout(16, classes, t, m, COARSE, features)
    X, g = random_problem(seed, rows, columns, classes, features, COARSE)
    expected = exact_product(X, g, COARSE, features)
    for chosen in (None, layout if layout.fits(512) else None):
        c = encrypt_vector(small_keys[1], g, layout=chosen, fixed_point=COARSE)
        product = matvec(X, c, features=features)
        masked, mask = mask_vector(product)
        assert product.shape == (columns, classes)
        assert len(product.ciphertexts) == ciphertext_count(product.shape, chosen, is_product=True)
        assert np.array_equal(decrypt_vector(small_keys[1], c), COARSE.encode(g) / 2**8)
        assert np.array_equal(decrypt_vector(small_keys[1], product), expected)
        assert np.array_equal(unmask(mask, decrypt_integers(small_keys[1], masked)), expected)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("t", "m", "k"), [(1, 1, 1), (2, 3, 1), (3, 1, 2), (1, 2, 3), (3, 2, 1)])
def test_all_values_at_their_bounds(small_keys: KeyPair, t: int, m: int, k: int, signed: bool) -> None:
    rows, features = 8, FixedPoint(16, 0, signed=signed)
    layout = PackingLayout(rows, k, t, m, RESIDUAL, features)
    assert layout.fits(512)
    largest = 128.0 - 2.0**-32
    for g_value, x_value in itertools.product((largest, -largest), (1.0, -1.0 if signed else 0.0)):
        g, X = np.full((rows, k), g_value), np.full((rows, 5), x_value)
        product = matvec(X, encrypt_vector(small_keys[1], g, layout=layout))
        assert np.array_equal(decrypt_vector(small_keys[1], product), np.full((5, k), rows * g_value * x_value))


@pytest.mark.parametrize("owner", [True, False])
def test_one_dimensional_vectors_stay_one_dimensional(small_keys: KeyPair, owner: bool) -> None:
    g, X = np.array([0.5, -0.25, 100.0]), np.array([[1.0, -2.0], [0.5, 0.0], [3.0, 4.0]])
    c = encrypt_vector(small_keys[1] if owner else small_keys[0], g)
    assert (c.shape, c.exponent, len(c.ciphertexts)) == ((3,), -8, 3)
    assert all(type(ciphertext) is int for ciphertext in c.ciphertexts)
    product = matvec(X, c)
    assert (product.shape, product.exponent, len(product.ciphertexts)) == ((2,), -12, 2)
    assert np.array_equal(decrypt_vector(small_keys[1], c), g)
    assert np.array_equal(decrypt_vector(small_keys[1], product), X.T @ g)


def test_at_2048_bits_packed_and_unpacked(secure_keys: KeyPair) -> None:
    X, g = random_problem(3, 40, 5, 1, UNIT, RESIDUAL)
    expected = exact_product(X, g, RESIDUAL, UNIT)
    for layout in (None, PackingLayout(256, 1, 4, 6, RESIDUAL, UNIT)):
        c = encrypt_vector(secure_keys[1], g, layout=layout)
        masked, mask = mask_vector(matvec(X, c, features=UNIT))
        assert np.array_equal(unmask(mask, decrypt_integers(secure_keys[1], masked)), expected)


def test_a_ciphertext_without_inverse_stops_a_signed_product(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    c = CipherVector(public_key, (private_key.p,), -8, (1,))
    with pytest.raises(InvalidCiphertext, match="shares a factor"):
        matvec([[-1.0]], c)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 128.0, -128.0, 1e300])
def test_values_out_of_the_window_are_refused_before_encryption(bad: float) -> None:
    key = object()  # nothing that could encrypt
    with pytest.raises(FixedPointOverflow, match=r"index \(1,\)"):
        encrypt_vector(key, [0.0, bad])  # type: ignore[arg-type]


def test_features_out_of_the_agreed_format_are_refused(small_keys: KeyPair) -> None:
    c = encrypt_vector(small_keys[1], [1.0])
    for bad in (1.5, -0.5, np.nan):
        with pytest.raises(FixedPointOverflow, match=r"index \(0, 1\)"):
            matvec([[0.5, bad]], c, features=UNIT)


def test_shapes_and_formats_that_do_not_agree_are_refused(small_keys: KeyPair) -> None:
    private_key = small_keys[1]
    layout = PackingLayout(4, 2, 1, 1, RESIDUAL, UNIT)
    c = encrypt_vector(private_key, np.zeros((3, 2)), layout=layout)
    product = matvec(np.zeros((3, 1)), c)
    for shape in ((), (0,), (2, 2, 2)):
        with pytest.raises(LayoutMismatch):
            encrypt_vector(private_key, np.zeros(shape))
    for X in (np.zeros(3), np.zeros((2, 1)), np.zeros((3, 0))):
        with pytest.raises(LayoutMismatch):
            matvec(X, c)
    with pytest.raises(LayoutMismatch):
        matvec(np.zeros((1, 1)), product)
    with pytest.raises(LayoutMismatch, match="features"):
        matvec(np.zeros((3, 1)), c, features=FixedPoint(16, 1))
    with pytest.raises(LayoutMismatch, match="4 rows"):
        encrypt_vector(private_key, np.zeros((5, 2)), layout=layout)
    with pytest.raises(LayoutMismatch, match="2 classes"):
        encrypt_vector(private_key, np.zeros(3), layout=layout)
    with pytest.raises(LayoutMismatch, match="residuals"):
        encrypt_vector(private_key, np.zeros((3, 2)), layout=layout, fixed_point=COARSE)
    with pytest.raises(LayoutMismatch, match="512-bit"):
        encrypt_vector(private_key, np.zeros((3, 2)), layout=dataclasses.replace(layout, columns_per_answer=5))
    with pytest.raises(InvalidCiphertext, match="Expected 3"):
        dataclasses.replace(c, ciphertexts=c.ciphertexts[1:])


def test_another_key_is_refused(small_keys: KeyPair) -> None:
    _, other = keygen(256, insecure=True)
    with pytest.raises(KeyMismatch, match=other.public_key.key_id):
        decrypt_vector(other, encrypt_vector(small_keys[1], [1.0]))


def test_dishonest_answers_are_refused(small_keys: KeyPair, secure_keys: KeyPair) -> None:
    n = small_keys[0].n
    layout = PackingLayout(4, 1, 2, 2, RESIDUAL, UNIT)
    masked, mask = mask_vector(matvec(np.ones((2, 4)), encrypt_vector(small_keys[1], [1.0, 2.0], layout=layout)))
    honest = decrypt_integers(small_keys[1], masked)
    assert np.array_equal(unmask(mask, honest), [3.0] * 4)
    for answer in (honest[1:], (*honest, 0), (honest[0], n), (honest[0], -1), (honest[0], (honest[1] + n // 3) % n)):
        with pytest.raises(InvalidAnswer):
            unmask(mask, answer)
    secure_n = secure_keys[0].n
    _, mask = mask_vector(encrypt_vector(secure_keys[1], [1.0]))
    with pytest.raises(InvalidAnswer, match="float64"):
        unmask(mask, [(mask.summands[0] + secure_n // 3) % secure_n])


def test_masks_hide_their_summands(small_keys: KeyPair) -> None:
    masked, mask = mask_vector(encrypt_vector(small_keys[1], [1.0, 2.0]))
    for text in (repr(mask), str([mask])):
        assert not any(str(summand) in text for summand in mask.summands)
    assert not any(str(ciphertext) in repr(masked) for ciphertext in masked.ciphertexts)
