"""Products of encrypted features and shares against plain integers, at every shape and at the edges of exponents."""

import math
import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto import Engine, keygen
from vfl.crypto.sharing.masked_products import Masked, kept, mask, multiply, pack_blocks, pack_rows
from vfl.crypto.sharing.share_formats import ShareFormats, SlotLayout
from vfl.crypto.sharing.shares import Integers

ENGINE = Engine()
PUBLIC, PRIVATE = keygen(512, insecure=True)


def integers(shape: tuple[int, ...], low: int, high: int, seed: int = 0) -> Integers:
    """Uniform integers of any length in [low, high)."""
    generator = np.random.default_rng(seed)
    draws = [low + int.from_bytes(generator.bytes(40), "big") % (high - low) for _ in range(int(np.prod(shape)))]
    return np.array(draws, dtype=np.object_).reshape(shape)


def grouped(plaintexts: list[int], size: int) -> list[list[int]]:
    ciphertexts = ENGINE.encrypt(PRIVATE, plaintexts)
    return [ciphertexts[at : at + size] for at in range(0, len(ciphertexts), size)]


def answered(groups: list[list[int]], exponents: Integers, bits: int, layout: SlotLayout, sizes: list[int]) -> Masked:
    products = multiply(groups, exponents, bits, PUBLIC, ENGINE)
    return mask(products, layout, sizes, PUBLIC, ENGINE, secrets.randbelow)


def carries(masked: Masked, layout: SlotLayout, sizes: list[int], expected: Integers) -> set[int]:
    """By how much both parties' residues miss plain integers, modulo a slot."""
    missed = kept(masked.ciphertexts, layout, sizes, PRIVATE, ENGINE) + masked.residues - expected
    return set((missed % (1 << layout.bits)).ravel().tolist())


@pytest.mark.parametrize("signed", [False, True])
@given(rows=st.integers(1, 40), columns=st.integers(1, 40), outputs=st.integers(1, 3), seed=st.integers(0, 999))
def test_both_residues_add_up_to_the_products(signed: bool, rows: int, columns: int, outputs: int, seed: int) -> None:
    formats = ShareFormats(512, rows, columns, outputs, 1, 100, features_signed=signed)
    X = integers((rows, columns), -(2**16) if signed else 0, 2**16 + 1, seed)

    v = integers((columns, outputs), 0, 1 << formats.ring, seed)
    blocks = [X[at : at + formats.forward.count] for at in range(0, rows, formats.forward.count)]
    sizes = [len(block) for block in blocks]
    groups = grouped(pack_blocks(blocks, formats.forward), columns)
    masked = answered(groups, v, formats.ring, formats.forward, sizes)
    assert carries(masked, formats.forward, sizes, X @ v) <= {0, 1}

    e = integers((rows, outputs), 0, 1 << formats.residual_bits, seed)
    count = formats.backward.count
    sizes = [min(count, columns - at) for at in range(0, columns, count)]
    groups = grouped(pack_rows(X, formats.backward), rows)
    masked = answered(groups, e, formats.residual_bits, formats.backward, sizes)
    assert carries(masked, formats.backward, sizes, X.T @ e) <= {0, 1}


@pytest.mark.parametrize("feature", [2**16, -(2**16)])
def test_exponents_at_the_edges_of_their_limbs_reach_every_slot(feature: int) -> None:
    """The largest values that the formats allow, beside each other, and zeros among them."""
    formats = ShareFormats(512, 4, 6, 1, 1, 100, features_signed=True)
    bits, layout = formats.ring, formats.forward
    edges = [0, 1, (1 << bits) - 1, (1 << 60) - 1, 1 << 60, 1 << bits - 1]
    v = np.array(edges, dtype=np.object_)[:, None]
    X = np.full((layout.count, len(edges)), feature, dtype=np.object_)
    masked = answered(grouped(pack_blocks([X], layout), len(edges)), v, bits, layout, [layout.count])
    assert carries(masked, layout, [layout.count], X @ v) <= {0, 1}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_kernels_and_cores_multiply_alike(engine: Engine, count: int) -> None:
    groups = [[secrets.randbelow(PUBLIC.n_squared) for _ in range(5)] for _ in range(count)]
    exponents = integers((5, 2), 0, 1 << 103)
    expected = [
        math.prod(pow(base, int(e), PUBLIC.n_squared) for base, e in zip(group, column, strict=True)) % PUBLIC.n_squared
        for group in groups
        for column in exponents.T
    ]
    assert multiply(groups, exponents, 103, PUBLIC, engine) == expected


def test_nothing_is_reached_by_zero_exponents_but_the_mask() -> None:
    """Weights that start at zero: the answer is as uniform as any other, and never the same twice."""
    formats = ShareFormats(512, 4, 3, 1, 1, 100)
    groups = grouped(pack_blocks([integers((1, 3), 0, 9)], formats.forward), 3)
    zeros = np.zeros((3, 1), dtype=np.object_)
    several = [answered(groups, zeros, formats.ring, formats.forward, [1]).ciphertexts for _ in range(40)]
    assert len(set(several)) == 40
    plain = [ENGINE.decrypt(PRIVATE, one)[0] for one in several]
    assert sum(2 * value > PUBLIC.n for value in plain) in range(4, 37)


@pytest.mark.parametrize("content", [0, 1 << 200, -1, 1 << 505])
def test_what_the_keeper_decrypts_is_the_mask_whatever_it_encrypts(content: int) -> None:
    """An honest mask is uniform in Z_n; so is what is decrypted, to the bit of which mask was drawn."""
    formats = ShareFormats(512, 4, 3, 1, 1, 100)
    v = integers((3, 1), 0, 1 << formats.ring)
    groups = [ENGINE.encrypt(PRIVATE, [content] * 3)]
    products = multiply(groups, v, formats.ring, PUBLIC, ENGINE)
    drawn: list[int] = []

    def draw(n: int) -> int:
        drawn.append(secrets.randbelow(n))
        return drawn[-1]

    masked = mask(products, formats.forward, [1], PUBLIC, ENGINE, draw)
    sent = content * int(v.sum()) + formats.forward.lift
    assert ENGINE.decrypt(PRIVATE, masked.ciphertexts) == [(sent + drawn[0]) % PUBLIC.n]
    assert kept(masked.ciphertexts, formats.forward, [1], PRIVATE, ENGINE).shape == (1, 1)


def test_every_answer_has_a_mask_of_its_own_and_fresh_randomness() -> None:
    """Without rho**n an answer's randomness would be a product of powers of the keeper's own, which it can read."""
    formats = ShareFormats(512, 4, 3, 2, 1, 100)
    blocks = [integers((2, 3), 0, 9), integers((1, 3), 0, 9)]
    groups = grouped(pack_blocks(blocks, formats.forward), 3)
    products = multiply(groups, integers((3, 2), 0, 1 << formats.ring), formats.ring, PUBLIC, ENGINE)
    assert len(products) == 4
    drawn = iter(range(1, 100))
    first, second = (
        mask(products, formats.forward, [2, 1], PUBLIC, ENGINE, lambda n: next(drawn)).ciphertexts for _ in range(2)
    )
    assert next(drawn) == 9
    plain = [ENGINE.decrypt(PRIVATE, one) for one in (first, second)]
    assert [after - before for before, after in zip(*plain, strict=True)] == [4] * 4
    # The randomness of a ciphertext is what it is modulo n.
    assert len({one % PUBLIC.n for one in (*first, *second, *products)}) == 12
