"""Products with numbers behind pads: against plain integers at every shape, and what either party sees of them."""

import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto import Engine, PackingImpossible, keygen
from vfl.crypto.sharing.padded_products import Padded, PaddedFormats, hide, kept, multiply
from vfl.crypto.sharing.shares import Integers, lifted

ENGINE = Engine()
PUBLIC, PRIVATE = keygen(512, insecure=True)


def integers(shape: tuple[int, int], low: int, high: int, seed: int = 0) -> Integers:
    """Uniform integers of any length in [low, high)."""
    generator = np.random.default_rng(seed)
    draws = [low + int.from_bytes(generator.bytes(40), "big") % (high - low) for _ in range(shape[0] * shape[1])]
    return np.array(draws, dtype=np.object_).reshape(shape)


def shared(X: Integers, V: Integers, formats: PaddedFormats) -> tuple[Integers, Integers]:
    """The two parties' residues of X V."""
    padded = hide(V, formats, PRIVATE, ENGINE, secrets.randbelow)
    masked = multiply(X, padded, formats, PUBLIC, ENGINE, secrets.randbelow)
    assert len(padded.pads) == formats.pads(len(V))
    assert len(masked.ciphertexts) == formats.answers(len(X))
    return kept(masked.ciphertexts, len(X), formats, PRIVATE, ENGINE), masked.residues


@given(
    rows=st.integers(1, 20),
    columns=st.integers(1, 12),
    outputs=st.integers(1, 9),
    ring=st.sampled_from([30, 56, 112, 300]),
    signed=st.booleans(),
    seed=st.integers(0, 999),
)
def test_residues_add_up_to_the_product(
    rows: int, columns: int, outputs: int, ring: int, signed: bool, seed: int
) -> None:
    """One slot in a plaintext, several outputs, several rows of several outputs, and answers that aren't full."""
    formats = PaddedFormats(512, columns, outputs, ring, 16, signed)
    X = integers((rows, columns), -(2**16) if signed else 0, 2**16 + 1, seed)
    V = integers((columns, outputs), -(1 << ring), 1 << ring + 3, seed)
    own, others = shared(X, V, formats)
    assert own.shape == others.shape == (rows, outputs)
    missed = (own + others - X @ V) % (1 << ring)
    assert set(missed.ravel().tolist()) <= {0, 1}


@pytest.mark.parametrize(("ring", "at_once", "groups"), [(30, 2, 1), (56, 1, 1), (112, 1, 2)])
def test_shapes_in_which_a_plaintext_is_filled(ring: int, at_once: int, groups: int) -> None:
    """That the property above meets all three."""
    formats = PaddedFormats(512, 12, 4, ring, 16)
    assert (formats.rows_at_once, len(formats.groups)) == (at_once, groups)


@pytest.mark.parametrize("feature", [2**16, -(2**16)])
def test_the_largest_values_reach_no_other_slot(feature: int) -> None:
    formats = PaddedFormats(512, 6, 3, 60, 16, features_signed=True)
    edges = np.array([[(1 << 60) - 1, 0, 1 << 59]] * 6, dtype=np.object_)
    X = np.full((4, 6), feature, dtype=np.object_)
    padded = hide(edges, formats, PRIVATE, ENGINE, lambda n: n - 1)
    masked = multiply(X, padded, formats, PUBLIC, ENGINE, secrets.randbelow)
    own = kept(masked.ciphertexts, 4, formats, PRIVATE, ENGINE)
    assert set(((own + masked.residues - X @ edges) % (1 << 60)).ravel().tolist()) <= {0, 1}


def test_residues_that_are_long_enough_lift_to_the_integers() -> None:
    formats = PaddedFormats(512, 20, 5, 16 + 40 + 5 + 48, 16, features_signed=True)
    X, V = integers((7, 20), -(2**16), 2**16), integers((20, 5), -(2**40), 2**40)
    own, others = shared(X, V, formats)
    total = lifted(own, formats.ring, first=True) + lifted(others, formats.ring, first=False)
    assert set((total - X @ V).ravel().tolist()) <= {0, 1}


def test_a_key_without_room_is_refused() -> None:
    with pytest.raises(PackingImpossible, match="choose a longer key"):
        PaddedFormats(512, 4, 2, 500, 16)


# --- what either party sees ---


def test_other_numbers_show_the_other_party_the_same() -> None:
    """Pads q' = q + V' - V stand one to one for q: differences are the same, and ciphertexts are of uniform pads."""
    formats = PaddedFormats(512, 3, 2, 60, 16)
    ring = 1 << 60
    one, other = integers((3, 2), 0, ring, 1), integers((3, 2), 0, ring, 2)
    pads: list[int] = []

    def drawn(n: int) -> int:
        assert n == ring
        pads.append(secrets.randbelow(n))
        return pads[-1]

    first = hide(one, formats, PRIVATE, ENGINE, drawn)
    coupled = iter(((np.array(pads, dtype=object) + (other - one).ravel()) % ring).tolist())
    second = hide(other, formats, PRIVATE, ENGINE, lambda n: next(coupled))
    assert (first.differences == second.differences).all()
    assert not set(first.pads) & set(second.pads)
    plain = formats.layout.read(ENGINE.decrypt(PRIVATE, first.pads[:1])[0])
    assert plain[:2] == pads[:2]
    assert all(value < ring for value in plain)


@pytest.mark.parametrize("content", [0, 1 << 200, -1, 1 << 505])
def test_what_the_holder_decrypts_is_the_mask_whatever_it_encrypts(content: int) -> None:
    formats = PaddedFormats(512, 3, 2, 60, 16)
    X = integers((2, 3), 0, 2**16)
    padded = Padded(tuple(ENGINE.encrypt(PRIVATE, [content] * 3)), integers((3, 2), 0, 1 << 60))
    masks: list[int] = []

    def drawn(n: int) -> int:
        masks.append(secrets.randbelow(n))
        return masks[-1]

    decrypted = ENGINE.decrypt(PRIVATE, multiply(X, padded, formats, PUBLIC, ENGINE, drawn).ciphertexts)
    assert len(masks) == len(decrypted) == formats.answers(2)
    # Rows of X that share an answer stand above each other.
    step = 1 << formats.outputs * formats.layout.bits
    sums = [int(row.sum()) for row in X]
    starts = range(0, 2, formats.rows_at_once)
    told = [
        sum(content * one * step**place for place, one in enumerate(sums[at : at + formats.rows_at_once]))
        for at in starts
    ]
    assert decrypted == [(one + mask) % PUBLIC.n for one, mask in zip(told, masks, strict=True)]


def test_the_same_numbers_again_have_other_pads_masks_and_randomness() -> None:
    formats = PaddedFormats(512, 3, 2, 60, 16)
    V, X = integers((3, 2), 0, 99), integers((2, 3), 0, 99)
    pairs = [hide(V, formats, PRIVATE, ENGINE, secrets.randbelow) for _ in range(2)]
    assert (pairs[0].differences != pairs[1].differences).all()
    answers = [multiply(X, pairs[0], formats, PUBLIC, ENGINE, lambda n: 5).ciphertexts for _ in range(2)]
    assert ENGINE.decrypt(PRIVATE, answers[0]) == ENGINE.decrypt(PRIVATE, answers[1])
    # The randomness of a ciphertext is what it is modulo n.
    assert len({one % PUBLIC.n for answer in answers for one in answer}) == sum(map(len, answers))


def test_spare_bits_make_carries_rare() -> None:
    """Without them the holder of both residues would learn of what a slot holds from the carry out of it."""
    X, V = np.array([[2**16]], dtype=object), np.array([[3, 3]], dtype=object)
    seen = {}
    for spare in (0, 20):
        formats = PaddedFormats(512, 1, 2, 60, 16, spare_bits=spare)
        # The pads of the lower slot as large as they get: the mask carries out of it nearly always, or nearly never.
        padded = hide(V, formats, PRIVATE, ENGINE, lambda n: n - 1)
        residues = [multiply(X, padded, formats, PUBLIC, ENGINE, secrets.randbelow) for _ in range(40)]
        sums = [kept(one.ciphertexts, 1, formats, PRIVATE, ENGINE) + one.residues for one in residues]
        seen[spare] = sum(int((one - X @ V)[0, 1] % (1 << 60)) for one in sums)
    assert seen[0] >= 5
    assert seen[20] == 0
