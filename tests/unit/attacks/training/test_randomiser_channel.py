"""The randomiser channel: everything is read without a fresh rho**n, nothing with it, whatever the batch and format."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import replace

import gmpy2
import numpy as np
import pytest
from gmpy2 import invert, mpz, powmod
from hypothesis import given
from hypothesis import strategies as st

from attacks.solving.smooth_keys import SmoothKey
from attacks.training.randomiser_channel import AnswerReading, KeyHolder, RandomiserChannel
from vfl.arrays import FloatArray
from vfl.crypto import (
    RESIDUAL,
    CipherVector,
    FixedPoint,
    PublicKey,
    check_ciphertexts,
    decrypt_vector,
    encrypt_vector,
    mask_vector,
    matvec,
)
from vfl.crypto.modulus_proof import PROOF_ROOTS, MalformedModulus, check_modulus, prove_modulus

UNIT = FixedPoint(16, 0, signed=False)
SIGNED = FixedPoint(16, 0)
WIDE = FixedPoint(16, 3)
FORMATS = pytest.mark.parametrize("features", [UNIT, SIGNED, WIDE], ids=["unit", "signed", "wide"])


@pytest.fixture(scope="module")
def key() -> SmoothKey:
    return SmoothKey.generate(512)


def encrypted(holder: KeyHolder, residual: FloatArray, rows: Sequence[int]) -> CipherVector:
    ciphertexts = holder.encrypt(RESIDUAL.encode(residual).tolist(), rows)
    return CipherVector(holder.private_key.public_key, ciphertexts, RESIDUAL.exponent, residual.shape)


def masked_in_the_plaintext_only(product: CipherVector) -> CipherVector:
    """What `ciphertext + scalar` of phe does to an answer."""
    n, n_squared = product.public_key.n, product.public_key.n_squared
    return replace(
        product, ciphertexts=tuple(c * (1 + secrets.randbelow(n) * n) % n_squared for c in product.ciphertexts)
    )


def random_features(features: FixedPoint, rows: int, columns: int, seed: int = 0) -> FloatArray:
    """Uniform in the format's range, with both of its bounds in the first rows."""
    rng = np.random.default_rng(seed)
    largest = float(2**features.integer_bits)
    X = rng.uniform(-largest if features.signed else 0.0, largest, size=(rows, columns))
    X[0], X[1], X[2] = largest, -largest if features.signed else 0.0, 0.0
    return X


def residual_of(rows: int) -> FloatArray:
    return np.random.default_rng(1).uniform(-1, 1, rows)


def read_step(holder: KeyHolder, X: FloatArray, features: FixedPoint, rows: Sequence[int]) -> AnswerReading:
    product = matvec(X, encrypted(holder, residual_of(len(X)), rows), features=features)
    return holder.read(masked_in_the_plaintext_only(product).ciphertexts, rows)


@FORMATS
def test_a_whole_batch_is_read_exactly_without_a_fresh_power(key: SmoothKey, features: FixedPoint) -> None:
    holder = KeyHolder(key, features)
    rows = range(holder.capacity)
    X = random_features(features, holder.capacity, 5)
    reading = read_step(holder, X, features, rows)
    np.testing.assert_array_equal(reading.integers, features.encode(X))
    assert reading.credible.all()


@given(data=st.data())
def test_any_column_of_any_rows_is_read(key: SmoothKey, data: st.DataObject) -> None:
    """Against plain powers of the ciphertexts, in every position and at the bounds of every format."""
    features = data.draw(st.sampled_from([UNIT, SIGNED, WIDE]))
    entries = st.integers(-features.offset, features.bound) | st.sampled_from([-features.offset, 0, features.bound])
    column = data.draw(st.lists(entries, min_size=1, max_size=30))
    holder = KeyHolder(key, features)
    rows = data.draw(st.permutations(range(len(column))))[: holder.capacity]
    n_squared = key.private_key.public_key.n_squared
    answer = mpz(1)
    for ciphertext, entry in zip(holder.encrypt([3] * len(column), rows), column, strict=True):
        answer = answer * powmod(ciphertext, entry, n_squared) % n_squared
    reading = holder.read([int(answer)], rows)
    assert reading.credible.all()
    assert reading.integers[:, 0].tolist() == [column[row] for row in rows]


@FORMATS
def test_a_fresh_power_leaves_chance(key: SmoothKey, features: FixedPoint) -> None:
    holder = KeyHolder(key, features)
    rows = range(holder.capacity)
    X = random_features(features, holder.capacity, -(-1000 // holder.capacity))
    masked, _ = mask_vector(matvec(X, encrypted(holder, residual_of(len(X)), rows), features=features))
    reading = holder.read(masked.ciphertexts, rows)
    assert reading.integers.size >= 1000
    assert (reading.integers == features.encode(X)).sum() <= 3  # 65,537 values or more: .015 expected
    assert not reading.credible.any()
    assert reading.integers.min() >= -features.offset
    assert reading.integers.max() <= features.bound


def test_a_generator_that_the_key_holder_supplied_does_not_close_it(key: SmoothKey) -> None:
    """Rerandomised with h**a, a uniform: an h without a smooth part is as good to the reader as none."""
    holder = KeyHolder(key, UNIT)
    rows = range(holder.capacity)
    X = random_features(UNIT, holder.capacity, 3)
    n, n_squared = holder.private_key.public_key.n, holder.private_key.public_key.n_squared
    h = powmod(3, 2 * n * math.prod(key.p.factors) * math.prod(key.q.factors), n_squared)
    product = masked_in_the_plaintext_only(matvec(X, encrypted(holder, residual_of(len(X)), rows), features=UNIT))
    answers = [int(c * powmod(h, secrets.randbelow(n), n_squared) % n_squared) for c in product.ciphertexts]
    reading = holder.read(answers, rows)
    np.testing.assert_array_equal(reading.integers, UNIT.encode(X))
    assert reading.credible.all()


def test_at_2048_bits_one_step_reads_a_hundred_rows_and_a_fresh_power_ends_it() -> None:
    holder = RandomiserChannel().key_holder(2048, UNIT)
    public_key = holder.private_key.public_key
    assert public_key.bits == 2048
    assert holder.capacity >= 100
    rows = range(holder.capacity)
    X = random_features(UNIT, holder.capacity, 10)
    product = matvec(X, encrypted(holder, residual_of(len(X)), rows), features=UNIT)
    reading = holder.read(masked_in_the_plaintext_only(product).ciphertexts, rows)
    np.testing.assert_array_equal(reading.integers, UNIT.encode(X))
    assert reading.credible.all()
    guess = holder.read(mask_vector(product)[0].ciphertexts, rows)
    assert guess.integers.size >= 1000
    assert (guess.integers == UNIT.encode(X)).sum() <= 3
    assert not guess.credible.any()


@FORMATS
def test_batches_beyond_the_capacity_take_several_steps(key: SmoothKey, features: FixedPoint) -> None:
    holder = KeyHolder(key, features)
    batch, columns = 2 * holder.capacity + 3, 4
    X = random_features(features, batch, columns)
    records = np.random.default_rng(2).permutation(1000)[:batch].tolist()
    known: dict[int, list[int]] = {}
    steps = 0
    while rows := holder.choose_rows(records, known):
        reading = read_step(holder, X, features, rows)
        assert reading.credible.all()
        known |= {records[row]: reading.integers[i].tolist() for i, row in enumerate(rows)}
        steps += 1
    assert steps == 3
    assert [known[record] for record in records] == features.encode(X).tolist()


def test_rows_may_be_read_in_any_order_and_number(key: SmoothKey) -> None:
    holder = KeyHolder(key, SIGNED)
    X = random_features(SIGNED, 9, 3)
    for rows in ((7, 1, 4), (0,), ()):
        reading = read_step(holder, X, SIGNED, rows)
        np.testing.assert_array_equal(reading.integers, SIGNED.encode(X)[list(rows)])
        assert reading.credible.all()


def test_rows_that_cannot_be_read_are_refused(key: SmoothKey) -> None:
    holder = KeyHolder(key, UNIT)
    too_many = range(holder.capacity + 1)
    with pytest.raises(ValueError, match="use choose_rows"):
        holder.encrypt([0] * 100, too_many)
    with pytest.raises(ValueError, match="use choose_rows"):
        holder.read([1], too_many)
    with pytest.raises(ValueError, match="twice"):
        holder.encrypt([0] * 4, (1, 1))
    for row in (-1, 4):
        with pytest.raises(ValueError, match="batch of 4"):
            holder.encrypt([0] * 4, (row,))


def test_answers_outside_the_ciphertext_group_are_refused(key: SmoothKey) -> None:
    with pytest.raises(ValueError, match="shares a factor"):
        KeyHolder(key, UNIT).read([key.p.prime], (0,))


@pytest.mark.parametrize("bits", [256, 258, 512, 1024])
def test_smooth_keys_are_well_formed_and_have_a_modulus_proof(bits: int) -> None:
    for _ in range(3):
        smooth = SmoothKey.generate(bits)
        public_key = smooth.private_key.public_key
        for part in (smooth.p, smooth.q):
            assert part.prime == 1 + 2 * part.hiding * math.prod(part.factors)
            assert all(gmpy2.is_prime(factor) for factor in (part.hiding, *part.factors))
        factors = [*smooth.p.factors, *smooth.q.factors, smooth.p.hiding, smooth.q.hiding]
        assert len(set(factors)) == len(factors)
        check_modulus(public_key, bits, b"session", prove_modulus(smooth.private_key, b"session"))


@pytest.mark.parametrize("bits", [128, 254, 513])
def test_key_sizes_that_cannot_be_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="even number, at least 256"):
        RandomiserChannel().key_holder(bits, UNIT)


def test_the_smallest_key_reads_the_widest_format() -> None:
    features = FixedPoint(48, 4)
    holder = RandomiserChannel().key_holder(256, features)
    assert holder.capacity >= 3
    X = random_features(features, 5, 2)
    reading = read_step(holder, X, features, (4, 1, 2))
    np.testing.assert_array_equal(reading.integers, features.encode(X)[[4, 1, 2]])


def test_secrets_stay_out_of_representations(key: SmoothKey) -> None:
    shown = repr(key)
    for secret in (key.p.prime, key.q.prime, key.p.hiding, key.p.factors[0]):
        assert str(secret) not in shown


def test_ciphertexts_look_honest(key: SmoothKey) -> None:
    holder = KeyHolder(key, UNIT)
    public_key = holder.private_key.public_key
    n, n_squared = public_key.n, public_key.n_squared
    residual = residual_of(40)
    residual[10:20] = residual[10]
    c = encrypted(holder, residual, range(holder.capacity))
    check_ciphertexts(public_key, c.ciphertexts, 40)
    np.testing.assert_array_equal(
        decrypt_vector(holder.private_key, c), decrypt_vector(holder.private_key, encrypt_vector(public_key, residual))
    )
    assert len({value % n for value in c.ciphertexts}) == 40  # equal randomness would show here, and 1 the plaintext
    # Without noise, this ratio would be an encryption with randomness 1.
    ratio = c.ciphertexts[1] * int(invert(int(powmod(c.ciphertexts[0], UNIT.bound + 1, n_squared)), n_squared))
    assert ratio % n != 1
    again = encrypted(holder, residual, range(holder.capacity))
    assert not set(c.ciphertexts) & set(again.ciphertexts)


def test_jacobi_symbols_are_those_of_an_honest_owner(key: SmoothKey) -> None:
    n = key.private_key.public_key.n
    for _ in range(20):  # each holder draws its own generator
        ciphertexts = KeyHolder(key, UNIT).encrypt([7] * 4, (0, 1))
        assert {gmpy2.jacobi(value, n) for value in ciphertexts} == {1}


def test_pollards_method_does_not_find_the_factors(key: SmoothKey) -> None:
    """Every small factor of p-1 and q-1 is in the exponent, at once; only the hiding primes are missing."""
    n = key.private_key.public_key.n
    exponent = 2 * math.prod(key.p.factors) * math.prod(key.q.factors)
    assert math.gcd(int(powmod(3, exponent, n)) - 1, n) == 1
    assert math.gcd(int(powmod(3, exponent * key.p.hiding, n)) - 1, n) == key.p.prime


def test_a_malformed_modulus_reopens_the_channel_behind_the_mask_and_is_refused() -> None:
    """n = r p q with r | p-1: n-th powers have no component of order r modulo p, where two features fit."""
    r = int(gmpy2.next_prime(2**35))
    while True:
        p = 2 * r * int(gmpy2.next_prime(secrets.randbits(200))) + 1
        if gmpy2.is_prime(p):
            break
    q = int(gmpy2.next_prime(secrets.randbits(237)))
    n, n_squared = r * p * q, (r * p * q) ** 2
    order_r = powmod(secrets.randbelow(p), p * (p - 1) // r, p**2)
    others = (r * q) ** 2
    channel = (1 + (order_r - 1) * others * invert(others, p**2)) % n_squared  # order r modulo p**2, 1 modulo the rest
    public_key = PublicKey(n)
    base = UNIT.bound + 1
    ciphertexts = tuple(
        int(public_key.raw_encrypt(5, secrets.randbelow(n)) * powmod(channel, base**i, n_squared) % n_squared)
        for i in range(2)
    )
    X = np.random.default_rng(3).random((2, 3))
    masked, _ = mask_vector(matvec(X, CipherVector(public_key, ciphertexts, -8, (2,)), features=UNIT))
    small, width = powmod(channel, (p - 1) // r, p), 2**18
    baby_steps = {}
    power = mpz(1)
    for j in range(width):
        baby_steps[power] = j
        power = power * small % p
    giant_step = invert(power, p)
    for answer, column in zip(masked.ciphertexts, UNIT.encode(X).T.tolist(), strict=True):
        element = powmod(answer, (p - 1) // r, p)
        start = 0
        while element not in baby_steps:
            element, start = element * giant_step % p, start + width
        assert list(divmod(start + baby_steps[element], base))[::-1] == column

    guesses = [secrets.randbelow(n - 1) + 1 for _ in range(PROOF_ROOTS)]
    with pytest.raises(MalformedModulus, match="Root 0"):
        check_modulus(n, n.bit_length(), b"session", guesses)
