"""Mean squares of shared numbers against plain integers, and what each of the two parties sees of them."""

import secrets
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.crypto import Engine, PackingImpossible, keygen
from vfl.crypto.sharing.shared_squares import WORD_BITS, Hidden, SquareFormats, cross, hide, show
from vfl.crypto.sharing.shares import Integers, Shares
from vfl.learning import ResidualScheme

KEY = keygen(512, insecure=True)[1]
ENGINE = Engine()


def shared(values: list[int], far: int) -> tuple[Integers, Integers]:
    """Shares of any size, of either sign."""
    first = np.array([secrets.randbelow(2 * far) - far for _ in values], dtype=np.object_)
    return first, np.array(values, dtype=np.object_) - first


def mean_square(first: Integers, second: Integers, formats: SquareFormats) -> float:
    hidden = hide(second, formats, KEY, ENGINE, secrets.randbelow)
    crossed = cross(first, hidden.pads, hidden.differences, formats, KEY.public_key, ENGINE, secrets.randbelow)
    word = show(hidden.own, crossed.ciphertext, formats, KEY, ENGINE)
    assert 0 <= word < 2**WORD_BITS
    return formats.joined((formats.word(crossed.share), word))


@given(
    records=st.integers(1, 40),
    outputs=st.integers(1, 4),
    fraction_bits=st.integers(8, 32),
    far=st.sampled_from([1, 2**20, 2**90]),
    seed=st.integers(0, 2**32),
)
def test_means_are_those_of_integers(records: int, outputs: int, fraction_bits: int, far: int, seed: int) -> None:
    formats = SquareFormats(512, records, outputs, fraction_bits, mean_bits=5)
    # Below the mean's limit, however many outputs share it.
    largest = int((29 / outputs) ** 0.5 * 2**fraction_bits)
    values = np.random.default_rng(seed).integers(-largest, largest + 1, records * outputs).tolist()
    expected = sum(value * value for value in values) / 4**fraction_bits / records
    unit = 2.0 ** (formats.ring - WORD_BITS - 2 * fraction_bits) / records
    assert abs(mean_square(*shared(values, far), formats) - expected) <= 1.01 * unit
    assert unit <= 2 * 2**5 / 2**WORD_BITS


@given(
    classes=st.integers(2, 5),
    records=st.integers(1, 40),
    cut=st.integers(0, 24),
    scale=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_a_loss_of_shares_is_that_of_float64(classes: int, records: int, cut: int, scale: float, seed: int) -> None:
    """The label party's share of residuals, of any z, and the other's: the loss written out record by record."""
    generator, scheme, bits = np.random.default_rng(seed), ResidualScheme(classes), 32
    z = generator.normal(0.0, scale, (records, scheme.columns))
    other = generator.normal(0.0, 2.0**cut, z.shape)
    labels = generator.integers(0, classes, records)
    shares = (Shares.of(values, bits) for values in (z - other, other))
    first, second = scheme.active_share(next(shares), labels), scheme.passive_share(next(shares))  # type: ignore[arg-type]
    formats = SquareFormats(512, records, scheme.columns, bits, mean_bits=3 + (classes**2 - 1).bit_length())
    found = scheme.quadratic_loss(mean_square(first.integers, second.integers, formats))  # type: ignore[attr-defined]
    if classes == 2:
        losses = np.log(2) + z[:, 0] ** 2 / 8 - (labels - 0.5) * z[:, 0]
    else:
        centred = z - z.mean(axis=1, keepdims=True)
        losses = np.log(classes) + (centred**2).sum(axis=1) / (2 * classes) - centred[np.arange(records), labels]
    unit = 2.0 ** (formats.ring - WORD_BITS - 2 * bits) / records
    # Numbers as large as the other's share are rounded to 2^-32, and float64 has 53 bits of them.
    assert abs(found - losses.mean()) <= scheme.gradient_scale(1) / 2 * 1.01 * unit + 2.0 ** (cut - 48)


def test_nothing_and_a_hair_are_not_the_largest() -> None:
    formats = SquareFormats(512, 3, 1, 32, mean_bits=5)
    for values in ([0, 0, 0], [1, -1, 2], [5, 0, 0]):
        for _ in range(20):
            assert abs(mean_square(*shared(values, 2**80), formats)) < 1e-3


def test_other_shares_of_the_label_party_show_the_other_the_same_number_to_the_bit() -> None:
    """Labels are in the first party's shares alone: with masks coupled what is decrypted stays as it is."""
    formats, n = SquareFormats(512, 4, 1, 32, mean_bits=5), KEY.public_key.n
    first, second = shared([2**32, 5, -7, 2**33], 2**80)
    other = first + np.array([4 << 32, -4 << 32, 4 << 32, -4 << 32], dtype=np.object_)
    pads: list[int] = []

    def drawn(below: int) -> int:
        pads.append(secrets.randbelow(below))
        return pads[-1]

    hidden = hide(second, formats, KEY, ENGINE, drawn)
    ring, r = 1 << formats.ring, secrets.randbelow(n)
    totals = [sum(p * (a % ring) for p, a in zip(pads, shares, strict=True)) for shares in (first, other)]
    read = [
        ENGINE.decrypt(KEY, [_crossed(shares, hidden, formats, mask)])
        for shares, mask in ((first, r), (other, (r + totals[0] - totals[1]) % n))
    ]
    assert read[0] == read[1] == [(totals[0] + r) % n]


def _crossed(shares: Integers, hidden: Hidden, formats: SquareFormats, mask: int) -> int:
    return cross(shares, hidden.pads, hidden.differences, formats, KEY.public_key, ENGINE, lambda _: mask).ciphertext


def test_differences_and_pads_are_drawn_together_and_pads_alone_are_encrypted() -> None:
    formats = SquareFormats(512, 50, 1, 32, mean_bits=5)
    shares: Any = np.array([7] * 50, dtype=np.object_)
    hidden = hide(shares, formats, KEY, ENGINE, secrets.randbelow)
    pads, ring = ENGINE.decrypt(KEY, hidden.pads), 1 << formats.ring
    assert all((pad + difference) % ring == 7 for pad, difference in zip(pads, hidden.differences, strict=True))
    assert len({*pads, *hidden.differences}) == 100
    assert all(0 <= one < ring for one in (*pads, *hidden.differences))
    # Pads and differences are each other's complement, but for the share: either alone shows what isn't even.
    bits = np.array([[int(bit) for bit in f"{one:0{formats.ring}b}"] for one in hidden.differences])
    # 1e-6 of a fair coin, and of the highest bits alone.
    for found in (bits, bits[:, :8]):
        assert abs(found.mean() - 0.5) < 4.9 * 0.5 / found.size**0.5


@pytest.mark.parametrize("hostile", ["huge", "zero", "random"])
def test_what_the_second_decrypts_is_uniform_whatever_it_hid(hostile: str) -> None:
    """A mask of a slot's length would show the first party's shares to who hides 2^400 in place of a pad."""
    formats, key = SquareFormats(512, 2, 1, 32, mean_bits=5), KEY.public_key
    draws = {"huge": lambda: [1 << 400] * 2, "zero": lambda: [0, 0], "random": lambda: [secrets.randbelow(key.n)] * 2}
    shares: Any = np.array([2**70 + 12345, -(2**69)], dtype=np.object_)
    read = []
    for _ in range(250):
        pads = ENGINE.encrypt(KEY, draws[hostile]())
        crossed = cross(shares, pads, (1 << 200, 7), formats, key, ENGINE, secrets.randbelow)
        read += ENGINE.decrypt(KEY, [crossed.ciphertext])
    bits = np.array([[int(bit) for bit in f"{n % 2**500:0500b}"] for n in read])
    # 1e-6 of a fair coin, of all and of the highest.
    for found in (bits, bits[:, :100]):
        assert abs(found.mean() - 0.5) < 4.9 * 0.5 / found.size**0.5
    assert len(set(read)) == len(read)


def test_who_chooses_what_it_multiplies_reads_a_word_of_the_other_and_no_more() -> None:
    """The lowest bits of one share, put where the honest sum has its highest: as many as are counted."""
    formats, key = SquareFormats(512, 3, 1, 32, mean_bits=5), KEY.public_key
    second: Any = np.array([secrets.randbelow(2**60) for _ in range(3)], dtype=np.object_)
    hidden = hide(second, formats, KEY, ENGINE, secrets.randbelow)
    lifted = pow(hidden.pads[0], 1 << formats.ring - WORD_BITS - 1, key.n_squared)
    word = show(0, lifted, formats, KEY, ENGINE)
    assert 0 <= word < 2**WORD_BITS
    assert (word + hidden.differences[0] - second[0]) % 2**WORD_BITS == 0


def test_any_ciphertext_gives_a_word() -> None:
    formats = SquareFormats(512, 4, 1, 32, mean_bits=5)
    for ciphertext in (1, KEY.public_key.n + 1, secrets.randbelow(KEY.public_key.n_squared - 2) + 2):
        assert 0 <= show(0, ciphertext, formats, KEY, ENGINE) < 2**WORD_BITS


def test_a_key_without_room_is_refused() -> None:
    with pytest.raises(PackingImpossible, match="choose a longer key"):
        SquareFormats(128, 4, 1, 32, mean_bits=5)
