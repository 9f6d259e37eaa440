"""Protocol 1 by python-paillier's own objects: message by message the numbers that ours gives, in either direction."""

from dataclasses import replace
from itertools import product

import numpy as np
import phe
import pytest

from services.ciphers.formats import CipherFormats
from tests.harness.exchanges import SMALL_PLAN, random_problem
from tests.harness.keys import KeyPair
from vfl.arrays import FloatArray
from vfl.crypto import (
    CipherVector,
    FixedPointOverflow,
    InsecureKey,
    LayoutMismatch,
    PrivateKey,
    check_modulus,
    modulus_context,
    prove_modulus,
)
from vfl.crypto.messages import HonestMessages, MessageFormats, Messages
from vfl.crypto.reference_messages import ReferenceMessages, reference_key

UNPACKED = replace(SMALL_PLAN, packing=False)
STEP = 0
KINDS = (HonestMessages, ReferenceMessages)


def formats_of(name: str, *, classes: int = 2, truncating: bool = True, rerandomise: bool = True) -> MessageFormats:
    plan = replace(UNPACKED, rerandomise=rerandomise)
    return CipherFormats(random_problem(classes=classes).agreement(plan, truncating)).messages_of(name)


def residual_of(formats: MessageFormats, rows: int) -> FloatArray:
    """Residuals of every kind: zero, the smallest step, both ends of the range."""
    residual = np.random.default_rng(7).uniform(-4, 4, size=(rows, formats.columns))
    residual[:4, 0] = (0, 2.0**-formats.residual.fraction_bits, 127.999, -127.999)
    return residual


def randomness_of(key: PrivateKey, ciphertext: int) -> int:
    """What the holder of a key finds beside the plaintext: rho of (1 + n)**m rho**n."""
    n = key.public_key.n
    return pow(ciphertext, pow(n, -1, (key.p - 1) * (key.q - 1)), n)


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return reference_key(512, insecure=True)


@pytest.mark.parametrize("kinds", list(product(KINDS, KINDS)), ids=lambda pair: f"{pair[0].__name__[:9]} holds the key")
@pytest.mark.parametrize(("classes", "truncating"), [(2, True), (3, True), (2, False)])
def test_whoever_sends_and_whoever_reads_the_sums_are_the_same(
    kinds: tuple[type[HonestMessages], type[ReferenceMessages]],
    classes: int,
    truncating: bool,
    key: PrivateKey,
    small_keys: KeyPair,
) -> None:
    theirs, own = (formats_of(name, classes=classes, truncating=truncating) for name in ("active", "passive"))
    holder, asker = kinds[0](theirs, key), kinds[1](own, small_keys[1])
    features = random_problem(classes=classes).blocks["passive"][:8] * 2**16
    residual = residual_of(theirs, len(features))
    combination = asker.combine(STEP, "active", features, holder.encrypt(STEP, residual))
    question = asker.mask(STEP, "active", combination)
    sums = question.read(holder.answer(STEP, "passive", question.masked))
    exact = features.T @ (np.rint(residual * 2.0**32) / 2.0**32)
    np.testing.assert_allclose(sums, exact, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_product_is_the_same_integers(classes: int, key: PrivateKey) -> None:
    """Not only the plaintexts: the ciphertexts, digit by digit. Negative features and zeros are among them."""
    formats = formats_of("passive", classes=classes)
    formats = replace(formats, feature=replace(formats.feature, signed=True))
    residuals = HonestMessages(formats, key).encrypt(STEP, residual_of(formats, 8))
    features = np.random.default_rng(2).integers(-(2**16), 2**16, size=(8, 3)).astype(np.float64)
    features[0], features[:, 1] = 0.0, 2**16
    ours, theirs = (kind(formats, key).combine(STEP, "active", features, residuals).encrypted for kind in KINDS)
    assert ours == theirs


def test_both_decrypt_a_question_to_the_same_residues(key: PrivateKey) -> None:
    formats = formats_of("active")
    asker = formats_of("passive")
    residuals = ReferenceMessages(formats, key).encrypt(STEP, residual_of(formats, 8))
    features = random_problem().blocks["passive"][:8] * 2**16
    for kind in KINDS:
        asking: Messages = kind(asker, key)
        masked = asking.mask(STEP, "active", asking.combine(STEP, "active", features, residuals)).masked
        ours, theirs = (one(formats, key).answer(STEP, "passive", masked) for one in KINDS)
        assert ours == theirs
        assert all(residue < 1 << bits for residue, bits in zip(ours, formats.given_bits["passive"] or (), strict=True))


def test_phe_reads_every_value_with_one_exponent_whatever_its_size(key: PrivateKey) -> None:
    formats = formats_of("active")
    residual = residual_of(formats, 8)
    vector = ReferenceMessages(formats, key).encrypt(STEP, residual)
    public_key = phe.PaillierPublicKey(key.public_key.n)
    private_key = phe.PaillierPrivateKey(public_key, key.p, key.q)
    numbers = [phe.EncryptedNumber(public_key, one, vector.exponent) for one in vector.ciphertexts]
    assert [private_key.decrypt(one) for one in numbers] == (np.rint(residual.ravel() * 2.0**32) / 2.0**32).tolist()
    # What the library does of itself, and why this module doesn't let it.
    assert len({public_key.encrypt(float(one)).exponent for one in residual.ravel()}) > 1


@pytest.mark.parametrize("rerandomise", [True, False])
def test_the_key_holder_finds_its_own_randomness_only_where_a_session_leaves_rho_out(
    rerandomise: bool, key: PrivateKey
) -> None:
    messages = ReferenceMessages(formats_of("passive", rerandomise=rerandomise), key)
    features = random_problem().blocks["passive"][:8] * 2**16
    residuals = messages.encrypt(STEP, residual_of(messages.formats, 8))
    combination = messages.combine(STEP, "active", features, residuals)
    kept = [randomness_of(key, one) for one in combination.encrypted.ciphertexts]
    again: list[list[int]] = []
    for _ in range(2):
        masked = messages.mask(STEP, "active", combination).masked
        assert len(set(masked.ciphertexts) - set(combination.encrypted.ciphertexts)) == len(kept)
        again.append([randomness_of(key, one) for one in masked.ciphertexts])
    if rerandomise:
        assert len({*kept, *again[0], *again[1]}) == 3 * len(kept)
    else:
        assert again == [kept, kept]


def test_a_key_of_phe_is_one_that_peers_accept(key: PrivateKey) -> None:
    context = modulus_context("session", "active")
    check_modulus(key.public_key, 512, context, prove_modulus(key, context))
    with pytest.raises(InsecureKey, match="protects nothing"):
        reference_key(1024)
    with pytest.raises(ValueError, match="multiple of 8"):
        reference_key(515, insecure=True)


def test_what_it_cannot_do_is_refused(key: PrivateKey, small_keys: KeyPair) -> None:
    packed = CipherFormats(random_problem().agreement(SMALL_PLAN)).messages_of("active")
    with pytest.raises(LayoutMismatch, match="switch packing off"):
        ReferenceMessages(packed, key)
    messages = ReferenceMessages(formats_of("active"), key)
    with pytest.raises(FixedPointOverflow):
        messages.encrypt(STEP, np.array([[128.0]]))
    strange = CipherVector(small_keys[0], (small_keys[1].raw_encrypt(1),), 0, (1, 1), is_product=True)
    with pytest.raises(ValueError, match="different key"):
        messages.answer(STEP, "passive", strange)
    assert str(key.p) not in repr(messages)
