"""What an answer has room for, and what is left of it modulo 2^w: counting, the wire's integers, and real Paillier."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from gmpy2 import powmod
from hypothesis import assume, given
from hypothesis import strategies as st

from attacks.training.auxiliary_ciphertext import AuxiliaryCiphertext, AuxiliaryPlan, compress, extend, split
from tests.harness.keys import KeyPair
from tests.harness.layouts import choose_layout
from vfl.arrays import FloatArray
from vfl.crypto import (
    RESIDUAL,
    WRAP_BITS,
    AnswerCapacity,
    FixedPoint,
    InvalidAnswer,
    Mask,
    PackingImpossible,
    PackingLayout,
    PublicKey,
    StepProduct,
    answer_capacity,
    decrypt_integers,
    encrypt_vector,
    honest_answer_bits,
    mask_vector,
    matvec,
    truncate,
    unmask,
)
from vfl.theory.training import sum_bits

pytestmark = pytest.mark.usefixtures("engine")

UNIT = FixedPoint(16, 0, signed=False)
SIGNED = FixedPoint(16, 0)


# -- counting ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """The public numbers of one direction of a session."""

    rows: int
    features: int
    columns: int
    key_bits: int
    layout: PackingLayout | None

    def capacity(self, *, truncated: bool) -> AnswerCapacity:
        product = StepProduct(self.rows, UNIT.columns(self.features), self.columns, self.layout, RESIDUAL)
        return answer_capacity(product, capacity=self.key_bits - 1, truncated=truncated)


def session(
    rows: int, features: int, *, columns: int = 1, key_bits: int = 2048, packed: bool = False, widest: int | None = None
) -> Session:
    layout = None
    if packed:
        layout = choose_layout(
            batch_size=rows,
            features=widest or features,
            classes=columns,
            residual_format=RESIDUAL,
            feature_format=UNIT,
            key_bits=key_bits,
            reserved_bits=WRAP_BITS,
        )
    return Session(rows, features, columns, key_bits, layout)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    features = draw(st.integers(1, 60))
    try:
        return session(
            draw(st.integers(1, 600)),
            features,
            columns=draw(st.integers(1, 4)),
            key_bits=draw(st.sampled_from([512, 1024, 2048])),
            packed=draw(st.booleans()),
            widest=features + draw(st.integers(0, 20)),
        )
    except PackingImpossible:
        assume(False)
        raise


@given(sessions())
def test_there_is_room_for_what_honest_peers_ask_and_truncation_never_adds_any(chosen: Session) -> None:
    open_channel, truncated = chosen.capacity(truncated=False), chosen.capacity(truncated=True)
    for capacity in (open_channel, truncated):
        assert capacity.sums == chosen.features * chosen.columns <= capacity.equations
        assert capacity.spare_equations == capacity.equations - capacity.sums
        assert capacity.spare_bits == sum(capacity.answer_bits) - capacity.sums * capacity.sum_bits >= 0
        # Nothing that fits is left out, and no answer is credited with more than a part of one residual on top.
        whole = capacity.equations * capacity.residual_bits - sum(capacity.answer_bits)
        assert 0 <= whole < len(capacity.answer_bits) * capacity.residual_bits
    assert len(truncated.answer_bits) == len(open_channel.answer_bits)
    assert all(short < long for short, long in zip(truncated.answer_bits, open_channel.answer_bits, strict=True))
    assert truncated.equations <= open_channel.equations
    layout = chosen.layout
    if layout is None:
        # 57 to 66 bits hold a residual of 34, and a part of another.
        assert (truncated.equations, truncated.spare_bits) == (2 * truncated.sums, 0)
    elif layout.rows_per_ciphertext == 1 and layout.classes == 1:
        # One slot per sum: nothing to spare either.
        assert truncated.spare_bits == 0


@pytest.mark.parametrize(
    ("chosen", "truncated", "answers", "equations"),
    [
        # A residual takes 34 bits: 2047 bits hold 60, and a part of one. A sum of 64 products takes 63, one and a part.
        (session(64, 15), False, 15, 15 * 61),
        (session(64, 15), True, 15, 15 * 2),
        (session(64, 15, columns=3), False, 45, 45 * 61),
        (session(64, 15, columns=3), True, 45, 45 * 2),
        # 2046 - 64 bits hold 31 slots: the widest party's 16 columns take one answer, cut to the peer's 15 * 63 bits.
        (session(64, 15, packed=True, widest=16), False, 1, 61),
        (session(64, 15, packed=True, widest=16), True, 1, 15 * 63 // 34 + 1),
        # At 512 bits there are 7 slots.
        (session(64, 14, key_bits=512, packed=True), False, 2, 2 * 16),
        (session(64, 14, key_bits=512, packed=True), True, 2, 2 * (7 * 63 // 34 + 1)),
        # Eight columns in answers of seven: the last one is cut to its single slot.
        (session(64, 8, key_bits=512, packed=True, widest=14), True, 2, 7 * 63 // 34 + 1 + 2),
    ],
)
def test_capacities_counted_by_hand(chosen: Session, truncated: bool, answers: int, equations: int) -> None:
    capacity = chosen.capacity(truncated=truncated)
    assert (len(capacity.answer_bits), capacity.equations) == (answers, equations)


def test_rows_that_share_a_ciphertext_are_counted_with_the_slots_between_the_wanted_ones() -> None:
    layout = PackingLayout(64, 1, 2, 3, RESIDUAL, UNIT)
    capacity = Session(64, 5, 1, 2048, layout).capacity(truncated=True)
    # Three columns of two slots and one slot of overlap; the second answer has two columns.
    assert (capacity.sums, capacity.answer_bits) == (5, (7 * 63, 5 * 63))


@pytest.mark.parametrize("key_bits", [2048, 3072])
def test_algorithm_2_gets_no_more_equations_than_are_counted(key_bits: int) -> None:
    """Not with the narrowest slots either, which are one bit narrower than B: residuals stay below their bound."""
    chosen = session(64, 15, key_bits=key_bits)
    attack = AuxiliaryCiphertext(iota=sum_bits(64, RESIDUAL.bound, UNIT.bound))
    plan = attack.plan(key_bits=key_bits, features=15, rows=64, residual_format=RESIDUAL, feature_format=UNIT)
    assert plan.equations <= chosen.capacity(truncated=False).equations


@pytest.mark.parametrize("truncated", [False, True])
def test_a_wider_format_for_noise_doesnt_make_residuals_fewer(truncated: bool) -> None:
    """residual_integer_bits is what a session allows for; its shares are no longer for it."""
    counts = [
        answer_capacity(
            StepProduct(64, UNIT.columns(15), 1, None, FixedPoint(32, integer_bits)), capacity=2047, truncated=truncated
        )
        for integer_bits in (7, 10, 14)
    ]
    assert [one.residual_bits for one in counts] == [34] * 3
    assert counts[0].equations <= counts[1].equations <= counts[2].equations


def test_an_answer_holds_as_many_single_residuals_as_are_counted(small_keys: KeyPair) -> None:
    """Powers of two in the place of features put 15 residuals of 34 bits side by side into one plaintext."""
    key, private = small_keys
    capacity = session(64, 1, key_bits=512).capacity(truncated=False)
    width, rows = capacity.residual_bits, 15
    # One of 511 bits is left, which counts.
    assert (width, capacity.equations) == (34, rows + 1)
    shares = np.random.default_rng(0).integers(-(2**33) + 1, 2**33, size=rows) * 2.0**-32
    answer = 1
    for row, ciphertext in enumerate(encrypt_vector(private, shares).ciphertexts):
        answer = answer * int(powmod(ciphertext, 1 << width * row, key.n_squared)) % key.n_squared
    lifted = (private.raw_decrypt(answer) + sum(1 << width * row + width - 1 for row in range(rows))) % key.n
    read = [(lifted >> width * row & (1 << width) - 1) - (1 << width - 1) for row in range(rows)]
    np.testing.assert_array_equal(np.array(read) * 2.0**-32, shares)


def test_a_truncated_answer_tells_one_residual_and_the_leading_bits_of_another(small_keys: KeyPair) -> None:
    """Of a multiple a = 0 mod 2^w of a residual g, only how often a g passes n is left modulo n and then 2^w.

    That is floor(a g / n), the leading bits of g, and n is public. A multiple of n mod 2^w of another residual lies
    above it. Labels of 30 rows, 15 of them read to their last bit, from 15 truncated and masked answers.
    """
    key, private = small_keys
    rows, features = 30, 15
    capacity = session(rows, features, key_bits=512).capacity(truncated=True)
    w, modulus = capacity.answer_bits[0], 1 << capacity.answer_bits[0]
    generator = np.random.default_rng(1)
    labels = generator.choice([-1, 1], rows)
    shares = np.rint((generator.uniform(-1, 1, rows) - 2 * labels) * 2**32) / 2**32
    residual = encrypt_vector(private, shares)
    # |f| < 4 takes 35 bits; the part of the other one takes what is left.
    part = w - 35
    full_factor, part_factor = (key.n << part) % modulus, round(key.n / (1 << 35 - part + w)) << w
    crafted = tuple(
        int(powmod(residual.ciphertexts[row], full_factor, key.n_squared))
        * int(powmod(residual.ciphertexts[row + features], part_factor, key.n_squared))
        % key.n_squared
        for row in range(features)
    )
    asked = replace(residual, ciphertexts=crafted, shape=(features, 1), is_product=True)
    masked, mask = mask_vector(asked)
    short = truncate(decrypt_integers(private, masked), capacity.answer_bits)
    read = np.empty(rows)
    for row, (answer, summand) in enumerate(zip(short, mask.summands, strict=True)):
        # 2^part g - q: the wraps q, to which the mask may add one, and above them a full residual.
        value = (answer - summand) * pow(key.n, -1, modulus) % modulus
        wraps = -((value + (1 << part - 1)) % (1 << part) - (1 << part - 1))
        full = (value + wraps >> part) % (1 << 35)
        read[row] = (full - (full >> 34 << 35)) * 2.0**-32
        read[row + features] = wraps * 2.0 ** (35 - part - 32)
    np.testing.assert_array_equal(read[:features], shares[:features])
    np.testing.assert_allclose(read[features:], shares[features:], atol=2.0 ** (37 - part - 32))
    np.testing.assert_array_equal(np.sign(-read), labels)
    told, whole_only = rows, sum(bits // capacity.residual_bits for bits in capacity.answer_bits)
    assert whole_only < told <= capacity.equations


def test_what_counting_equations_doesnt_see_labels_take_a_bit_each_where_weights_start_at_zero(
    small_keys: KeyPair,
) -> None:
    """Powers of two once more, a bit apart: at the first step f = -2 y, and one truncated answer holds 27 labels.

    A residual counts as an unknown of 34 bits. Where its other bits are known, as with initialisation=zero at step 0,
    the w bits of a truncated answer determine w - 34 signs, whatever the guard counts.
    """
    key, private = small_keys
    rows = 26
    (w,) = honest_answer_bits(StepProduct(rows, UNIT.columns(1), 1, None, RESIDUAL))
    assert session(rows, 1).capacity(truncated=True).equations == 2
    labels = np.random.default_rng(3).integers(0, 2, rows)
    residual = encrypt_vector(private, 2.0 - 4.0 * labels)
    answer = 1
    for row, ciphertext in enumerate(residual.ciphertexts):
        answer = answer * int(powmod(ciphertext, 1 << row, key.n_squared)) % key.n_squared
    summand = int.from_bytes(np.random.default_rng(4).bytes(60), "big")
    short = truncate([private.raw_decrypt(answer * key.raw_encrypt(summand, 3) % key.n_squared)], [w])[0]
    total = (short - summand + (1 << w - 1)) % (1 << w) - (1 << w - 1)
    # sum of 2^33 (1 - 2 y) 2^row: its distance from all zeros is the labels in binary.
    read = ((1 << rows) - 1 - (total >> 33)) >> 1
    np.testing.assert_array_equal([read >> row & 1 for row in range(rows)], labels)


# -- honest answers survive -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """Features, residual shares, and how they are encrypted."""

    matrix: FloatArray
    shares: FloatArray
    layout: PackingLayout | None
    features: FixedPoint

    @property
    def bits(self) -> tuple[int, ...]:
        rows, features = self.matrix.shape
        columns = self.shares.shape[1]
        return honest_answer_bits(StepProduct(rows, self.features.columns(features), columns, self.layout, RESIDUAL))

    @property
    def exact(self) -> FloatArray:
        """The sums in integers, as the nearest float64."""
        whole = (self.matrix * 2**16).astype(np.int64).astype(object).T @ (self.shares * 2**32).astype(np.int64).astype(
            object
        )
        return np.array([float(value) for value in whole.ravel()]).reshape(whole.shape) * 2.0**-48


@st.composite
def products(draw: st.DrawFn) -> Product:
    """Extremes of the fixed point are as likely as anything else."""
    rows, columns, classes = draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    signed = draw(st.booleans())
    features = FixedPoint(16, 0, signed=signed)
    largest = RESIDUAL.bound - 1
    low = -features.bound if signed else 0
    entry = st.sampled_from([low, 0, features.bound]) | st.integers(low, features.bound)
    share = st.sampled_from([-largest, 0, largest]) | st.integers(-largest, largest)
    matrix = draw(st.lists(entry, min_size=rows * columns, max_size=rows * columns))
    shares = draw(st.lists(share, min_size=rows * classes, max_size=rows * classes))
    layout = None
    if draw(st.booleans()):
        layout = PackingLayout(rows, classes, draw(st.integers(1, 2)), draw(st.integers(1, 2)), RESIDUAL, features)
        assume(layout.slots * layout.slot_bits <= 512 - 2 - WRAP_BITS)
    return Product(
        np.array(matrix).reshape(rows, columns) * 2.0**-16,
        np.array(shares).reshape(rows, classes) * 2.0**-32,
        layout,
        features,
    )


@given(products())
def test_honest_sums_survive_truncation_bit_for_bit(small_keys: KeyPair, product: Product) -> None:
    _, private = small_keys
    residual = encrypt_vector(private, product.shares, layout=product.layout)
    masked, mask = mask_vector(matvec(product.matrix, residual, features=product.features))
    answers = decrypt_integers(private, masked)
    short = truncate(answers, product.bits)
    assert all(0 <= answer < 1 << width for answer, width in zip(short, product.bits, strict=True))
    after = unmask(mask, short, bits=product.bits)
    assert after.tobytes() == unmask(mask, answers).tobytes()
    np.testing.assert_array_equal(after, product.exact)


@pytest.mark.parametrize("packed", [False, True], ids=["unpacked", "packed"])
@pytest.mark.parametrize(("g_sign", "x_sign"), list(itertools.product((1, -1), repeat=2)))
def test_sums_at_both_ends_of_the_range_survive_at_2048_bits(
    secure_keys: KeyPair, packed: bool, g_sign: int, x_sign: int
) -> None:
    _, private = secure_keys
    rows = 64
    layout = PackingLayout(rows, 1, 1, 2, RESIDUAL, SIGNED) if packed else None
    shares = np.full((rows, 1), g_sign * (2.0**7 - 2.0**-32))
    product = Product(np.full((rows, 3), float(x_sign)), shares, layout, SIGNED)
    masked, mask = mask_vector(matvec(product.matrix, encrypt_vector(private, shares, layout=layout), features=SIGNED))
    after = unmask(mask, truncate(decrypt_integers(private, masked), product.bits), bits=product.bits)
    np.testing.assert_array_equal(after, product.exact)


def test_w_is_one_bit_wider_than_the_largest_sums_need(small_keys: KeyPair) -> None:
    _, private = small_keys
    rows = 4
    shares = np.full((rows, 1), 2.0**7 - 2.0**-32)
    product = Product(np.ones((rows, 1)), shares, None, UNIT)
    masked, mask = mask_vector(matvec(product.matrix, encrypt_vector(private, shares), features=UNIT))
    answers = decrypt_integers(private, masked)
    # Residuals stay below their bound, so that sums never reach theirs.
    needed = sum_bits(rows, RESIDUAL.bound, UNIT.bound)
    assert product.bits == (needed + 1,)
    np.testing.assert_array_equal(unmask(mask, truncate(answers, [needed]), bits=[needed]), product.exact)
    assert (unmask(mask, truncate(answers, [needed - 1]), bits=[needed - 1]) != product.exact).all()


# -- what is gone -----------------------------------------------------------------------------------------------------


@given(st.data())
def test_what_lies_above_w_doesnt_reach_the_peer_but_for_whether_it_wrapped(
    small_keys: KeyPair, data: st.DataObject
) -> None:
    """Plaintexts that agree modulo 2^w give one truncated answer under one mask, or differ by n where one passes n.

    So it is for sums that lie in [0, n), as Algorithm 2's do. A peer that makes them pass n many times reads how often.
    """
    key, _ = small_keys
    w, n = 63, key.n
    low = data.draw(st.integers(0, 2**w - 1))
    tops = [data.draw(st.integers(0, (n >> w) - 1)) for _ in range(2)]
    summand = data.draw(st.integers(0, n - 1))
    totals = [low + (top << w) + summand for top in tops]
    first, second = (truncate([total % n], [w])[0] for total in totals)
    wraps = [total >= n for total in totals]
    assert (first - second + (int(wraps[0]) - int(wraps[1])) * n) % 2**w == 0
    if wraps[0] == wraps[1]:
        assert first == second


def test_the_extra_sums_of_algorithm_2_come_back_as_noise_and_the_honest_ones_as_they_were(small_keys: KeyPair) -> None:
    _, private = small_keys
    generator = np.random.default_rng(0)
    rows, plan = 20, AuxiliaryPlan(3, 7, 64)
    features = np.rint(generator.random((rows, 3)) * 2**16) / 2**16
    truth, without, naive = [], [], []
    for step in range(12):
        shares = np.rint(generator.normal(size=(rows, 1)) * 2**32) / 2**32
        matrix = extend(features, plan, UNIT, np.random.default_rng(step))
        product = compress(matvec(matrix, encrypt_vector(private, shares), features=UNIT), plan)
        masked, mask = mask_vector(product)
        answers = decrypt_integers(private, masked)
        bits = Product(features, shares, None, UNIT).bits
        truth.append(Product(matrix, shares, None, UNIT).exact[3:])
        without.append(split(mask, answers, plan)[3:])
        # What a peer makes of the short answer that reads its slots all the same.
        short = truncate(answers, bits)
        bare = [(answer - summand) % mask.public_key.n for answer, summand in zip(short, mask.summands, strict=True)]
        slots = [[(value >> 64 * slot & 2**64 - 1) - 2**63 for value in bare] for slot in range(1, 7)]
        naive.append(np.array(slots, dtype=np.float64).reshape(-1, 1))
    np.testing.assert_array_equal(np.vstack(without), np.vstack(truth))
    known = np.vstack(truth).ravel()
    assert np.corrcoef(known, np.vstack(without).ravel())[0, 1] > 0.999
    # 216 pairs: independent ones have a correlation beyond 0.3 once in 100,000 times.
    assert abs(np.corrcoef(known, np.vstack(naive).ravel())[0, 1]) < 0.3


# -- the wrap ---------------------------------------------------------------------------------------------------------


def unmasked_integer(n: int, x: int, summand: int, bits: int) -> int:
    """What ``unmask`` makes of the plaintext x under a mask, with the truncation in between; exponent 0."""
    mask = Mask(PublicKey(n), (summand,), 0, (1,), None)
    return int(unmask(mask, truncate([(x + summand) % n], [bits]), bits=[bits])[0])


@pytest.mark.parametrize("x", [0, 1, 5, 31, -1, -5, -32])
def test_a_wrap_is_off_by_n_and_as_many_masks_wrap_as_x_is_large(x: int) -> None:
    """All masks of a small modulus: |x| of n wrap, each result is then n modulo 2^w away, all others are exact."""
    n, bits = 10_007, 6
    wrong = 0
    for summand in range(n):
        result = unmasked_integer(n, x, summand, bits)
        wraps = not 0 <= x + summand < n
        wrong += wraps
        away = (x - n if x > 0 else x + n) if wraps else x
        assert (result - away) % 2**bits == 0
        assert -(2 ** (bits - 1)) <= result < 2 ** (bits - 1)
        assert (result == x) == (not wraps), "n is odd: a wrap always shows"
    assert wrong == abs(x)


def test_a_crafted_mask_wraps_under_a_real_key_and_one_further_away_does_not(small_keys: KeyPair) -> None:
    key, private = small_keys
    bits = 63
    for x, near, far in ((5, key.n - 5, key.n - 6), (-5, 4, 5)):
        for summand, wraps in ((near, True), (far, False)):
            mask = Mask(key, (summand,), 0, (1,), None)
            answer = private.raw_decrypt(private.raw_encrypt(x + summand))
            result = unmask(mask, truncate([answer], [bits]), bits=[bits])[0]
            assert (result == x) == (not wraps)
            # Without truncation the residue modulo n says it all.
            assert unmask(mask, [answer])[0] == x


@given(sessions())
def test_a_layout_with_reserved_bits_wraps_at_most_once_in_2_to_the_64(chosen: Session) -> None:
    assume(chosen.layout is not None)
    assert chosen.layout is not None
    bits = max(chosen.capacity(truncated=True).answer_bits)
    # |x| < 2^(w-1), n > 2^(key_bits - 1).
    assert (bits - 1) - (chosen.key_bits - 1) <= -WRAP_BITS


# -- answers that are none --------------------------------------------------------------------------------------------


def test_residues_outside_the_agreed_width_are_refused(small_keys: KeyPair) -> None:
    key, _ = small_keys
    mask = Mask(key, (7, 7), -12, (2,), None)
    assert unmask(mask, [0, 2**63 - 1], bits=[63, 63]).shape == (2,)
    for bad in (2**63, -1, key.n - 1):
        with pytest.raises(InvalidAnswer, match=r"Residue 1 is not in \[0, 2\^63\)"):
            unmask(mask, [0, bad], bits=[63, 63])
    # Each answer has its own width.
    assert unmask(mask, [2**63 - 1, 2**5 - 1], bits=[63, 5]).shape == (2,)
    with pytest.raises(InvalidAnswer, match=r"Residue 1 is not in \[0, 2\^5\)"):
        unmask(mask, [2**63 - 1, 2**5], bits=[63, 5])
    with pytest.raises(InvalidAnswer, match=r"Residue 0 is not in \[0, n\)"):
        unmask(mask, [key.n, 0])
    for residues, bits in (([0], [63, 63]), ([0, 0], [63]), ([0, 0, 0], None)):
        with pytest.raises(InvalidAnswer, match="Expected 2 residues"):
            unmask(mask, residues, bits=bits)
    with pytest.raises(ValueError, match="zip"):
        truncate([1, 2], [63])
