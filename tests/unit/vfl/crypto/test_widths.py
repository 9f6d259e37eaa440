"""Columns of several widths: slots, products, answers and their room, against whole numbers in the clear."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.harness.keys import KeyPair
from vfl.arrays import IntArray
from vfl.crypto import (
    BINARY,
    BYTE,
    RESIDUAL,
    WRAP_BITS,
    CipherVector,
    ColumnFormats,
    ColumnWidths,
    EntryFormat,
    FixedPoint,
    FixedPointOverflow,
    InvalidAnswer,
    InvalidCiphertext,
    LayoutMismatch,
    PackingLayout,
    StepProduct,
    answer_capacity,
    count_equations,
    decrypt_integers,
    decrypt_vector,
    encrypt_vector,
    honest_answer_bits,
    layouts_for,
    mask_vector,
    matvec,
    truncate,
    unmask,
)
from vfl.crypto.kernels.counts import best_group_size, group_cost
from vfl.crypto.packing import slot_bits
from vfl.crypto.vectors import product_task

FULL, SIGNED = FixedPoint(16, 0, signed=False).entries, FixedPoint(16, 0).entries
COARSE = FixedPoint(8, 2)


def entries_of(columns: ColumnFormats, rows: int, seed: int) -> IntArray:
    """(rows, d) whole numbers, a third of them at an end of their column's range."""
    rng = np.random.default_rng(seed)
    parts = []
    for entry in columns.each():
        column = rng.integers(-entry.offset, entry.bound, rows, endpoint=True)
        ends = rng.choice([-entry.offset, entry.bound], rows)
        parts.append(np.where(rng.random(rows) < 1 / 3, ends, column))
    return np.array(parts).T


def residual_of(fixed_point: FixedPoint, rows: int, classes: int, seed: int) -> IntArray:
    """(rows, classes) encoded residuals, a third of them at an end."""
    rng = np.random.default_rng(seed)
    largest = fixed_point.bound - 1
    values = rng.integers(-largest, largest, (rows, classes), endpoint=True)
    return np.where(rng.random(values.shape) < 1 / 3, np.sign(values) * largest, values)


def exact(matrix: IntArray, residual: IntArray) -> list[int]:
    return [int(value) for value in (matrix.astype(object).T @ residual.astype(object)).ravel()]


widths = st.builds(ColumnWidths, st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)).filter(lambda one: one.total)


@dataclass(frozen=True)
class Packed:
    """A layout, and columns that it may carry."""

    layout: PackingLayout
    columns: ColumnFormats


@st.composite
def packed(draw: st.DrawFn) -> Packed:
    full = draw(st.sampled_from([FULL, SIGNED, EntryFormat(1 << 12, signed=True)]))
    columns = draw(widths).formats(full)
    layout = PackingLayout(
        batch_size=draw(st.integers(1, 12)),
        classes=draw(st.integers(1, 3)),
        rows_per_ciphertext=draw(st.integers(1, 4)),
        columns_per_answer=draw(st.integers(1, 5)),
        residual=COARSE,
        features=draw(st.sampled_from([full, columns.widest])),
    )
    return Packed(layout, columns)


# -- formats ----------------------------------------------------------------------------------------------------------


def test_columns_travel_binary_ones_first_and_take_their_own_digits() -> None:
    columns = ColumnWidths(binary=2, byte=1, full=2).formats(SIGNED)
    assert list(columns.each()) == [BINARY, BINARY, BYTE, SIGNED, SIGNED]
    assert [entry.digits for entry in columns.each()] == [1, 1, 8, 18, 18]
    assert (columns.total, columns.digits, columns.widest) == (5, 46, SIGNED)
    assert ColumnWidths(byte=3).formats(SIGNED).runs == ((BYTE, 3),)
    assert FixedPoint(16, 2).columns(4) == ColumnFormats(((EntryFormat(1 << 18, signed=True), 4),))


@pytest.mark.parametrize(
    ("row", "index"), [([2, 0, 0], 0), ([0, 256, 0], 1), ([-1, 0, 0], 0), ([0, 0.5, 0], 1), ([0, 0, np.nan], 2)]
)
def test_what_is_no_whole_number_of_its_columns_width_is_refused(row: list[float], index: int) -> None:
    columns = ColumnWidths(binary=1, byte=1, full=1).formats(SIGNED)
    assert columns.encode(np.array([[1.0, 255.0, -65536.0]])).tolist() == [[1, 255, -65536]]
    with pytest.raises(FixedPointOverflow, match=rf"index \(1, {index}\)"):
        columns.encode(np.array([[0.0, 0.0, 0.0], row]))


# -- slots ------------------------------------------------------------------------------------------------------------


@given(packed())
def test_columns_stand_in_slots_of_their_own_one_behind_the_other(given_: Packed) -> None:
    layout, columns = given_.layout, given_.columns
    places = layout.places(columns)
    t, step = layout.rows_per_ciphertext, layout.slot_bits
    room = layout.class_stride * step
    assert [place.answer for place in places] == sorted(place.answer for place in places)
    for before, place, entry in zip([None, *places], places, columns.each(), strict=False):
        own = slot_bits(layout.batch_size, layout.residual, entry)
        assert place.bits == (own if t == 1 else step)
        assert place.shift + t * place.bits <= room
        if before is not None and before.answer == place.answer:
            assert place.shift == before.shift + t * before.bits
        elif before is not None:
            assert (place.answer, place.shift) == (before.answer + 1, 0)
            assert before.shift + t * (before.bits + place.bits) > room, "it wouldn't have fitted"
    fillings = [bits for bits, answers in layout.fillings(columns) for _ in range(answers)]
    ends = [max(p.shift + t * p.bits for p in places if p.answer == answer) for answer in range(places[-1].answer + 1)]
    assert fillings == ends
    assert layout.answers_for(columns) == len(ends)


@given(packed(), st.data())
def test_products_of_any_widths_come_back_exactly(given_: Packed, data: st.DataObject) -> None:
    """The task's own definition in plain integers: answers are sums over u of G_u (M_uj - offset_j) 2^shift_j."""
    layout, columns = given_.layout, given_.columns
    rows = data.draw(st.integers(1, layout.batch_size))
    seed = data.draw(st.integers(0, 2**32))
    matrix, g = entries_of(columns, rows, seed), residual_of(layout.residual, rows, layout.classes, seed)
    task = product_task(matrix, columns, layout)
    assert ((task.entries >= 0) & (task.entries < 1 << task.digits)).all()
    answers = [0] * layout.answers_for(columns)
    for j, answer in enumerate(task.answers.tolist()):
        for plaintext, entry in zip(layout.pack_residual(g), task.entries[:, j].tolist(), strict=True):
            answers[answer] += plaintext * (entry - int(task.offsets[j])) << int(task.shifts[j])
    kinds = [bits for bits, count in layout.kinds_of_answers(columns) for _ in range(count)]
    assert all(abs(answer) < 1 << bits - 1 for answer, bits in zip(answers, kinds, strict=True))
    assert layout.unpack_product(answers, columns) == exact(matrix, g)
    # A column's digits are all that is worked through.
    assert task.digits.sum() == columns.digits * layout.rows_per_ciphertext


@pytest.mark.parametrize(("t", "k"), list(itertools.product([1, 2, 3], [1, 2])))
def test_every_column_at_its_bound(t: int, k: int) -> None:
    columns = ColumnWidths(5, 3, 2).formats(SIGNED)
    layout = PackingLayout(16, k, t, 3, RESIDUAL, SIGNED)
    for g_sign, full_sign in itertools.product((1, -1), repeat=2):
        g = np.full((16, k), g_sign * RESIDUAL.bound)
        matrix = np.array([[entry.bound * (full_sign if entry.signed else 1) for entry in columns.each()]] * 16)
        task = product_task(matrix, columns, layout)
        answers = [0] * layout.answers_for(columns)
        for j, answer in enumerate(task.answers.tolist()):
            for plaintext, entry in zip(layout.pack_residual(g), task.entries[:, j].tolist(), strict=True):
                answers[answer] += plaintext * (entry - int(task.offsets[j])) << int(task.shifts[j])
        assert layout.unpack_product(answers, columns) == exact(matrix, g)


def test_answers_that_no_product_can_be_are_refused() -> None:
    layout, columns = PackingLayout(16, 1, 1, 2, RESIDUAL, FULL), ColumnWidths(binary=2).formats(FULL)
    ((bits, _),) = layout.kinds_of_answers(columns)
    for answer in (1 << bits, -(1 << bits)):
        with pytest.raises(InvalidAnswer, match="layout"):
            layout.unpack_product([answer], columns)
    with pytest.raises(InvalidAnswer, match="Expected 1 plaintexts, got 2"):
        layout.unpack_product([0, 0], columns)
    with pytest.raises(LayoutMismatch, match="features up to 255"):
        replace(layout, features=BYTE).places(ColumnWidths(full=1).formats(FULL))


# -- through ciphertexts ----------------------------------------------------------------------------------------------


@given(packed(), st.integers(0, 2**32), st.booleans())
def test_encrypted_products_of_any_widths_are_those_of_whole_numbers(
    small_keys: KeyPair, given_: Packed, seed: int, truncated: bool
) -> None:
    layout, columns = given_.layout, given_.columns
    rows = 1 + seed % layout.batch_size
    matrix, g = entries_of(columns, rows, seed), residual_of(COARSE, rows, layout.classes, seed)
    expected = np.array(exact(matrix, g)).reshape(columns.total, -1) / 2**8
    for chosen in (None, layout):
        if chosen is not None and chosen.slots * chosen.slot_bits > 512 - 2 - WRAP_BITS:
            continue
        c = encrypt_vector(small_keys[1], g / 2**8, layout=chosen, fixed_point=COARSE)
        product = matvec(matrix, c, columns=columns)
        # Whole numbers leave the residual's exponent as it is.
        assert (product.exponent, product.columns) == (c.exponent, columns)
        masked, mask = mask_vector(product)
        answers: tuple[int, ...] = decrypt_integers(small_keys[1], masked)
        bits = honest_answer_bits(StepProduct(layout.batch_size, columns, layout.classes, chosen, COARSE))
        read = unmask(mask, truncate(answers, bits), bits=bits) if truncated else unmask(mask, answers)
        np.testing.assert_array_equal(read, expected)
        np.testing.assert_array_equal(decrypt_vector(small_keys[1], product), expected)


@given(packed(), st.integers(0, 2**32))
def test_one_bit_less_than_the_honest_width_loses_the_largest_sums(given_: Packed, seed: int) -> None:
    """Answers are cut no wider than they must be: the last slot's largest sum reaches the top but one bit."""
    layout, columns = given_.layout, given_.columns
    assume(layout.rows_per_ciphertext == 1)
    entry = list(columns.each())[-1]
    largest = layout.batch_size * layout.residual.bound * entry.bound
    place = layout.places(columns)[-1]
    assert (largest << place.shift).bit_length() == place.shift + place.bits - 1
    top = (layout.classes - 1) * layout.class_stride * layout.slot_bits + place.shift + place.bits
    assert layout.kinds_of_answers(columns)[-1][0] == top


def test_gradients_of_ages_are_exact_to_one_rounding(small_keys: KeyPair) -> None:
    """Ages scaled to [0, 1] are z / 73. Fixed point rounds them to multiples of 2^-16, whole numbers don't."""
    rng = np.random.default_rng(6)
    ages, g = rng.integers(0, 73, (100, 2), endpoint=True), np.rint(rng.uniform(-2, 2, (100, 1)) * 2**32) / 2**32
    columns = ColumnWidths(byte=2).formats(FULL)
    sums = decrypt_vector(small_keys[1], matvec(ages, encrypt_vector(small_keys[1], g), columns=columns))
    integers = ages.astype(object).T @ (g * 2**32).astype(np.int64).astype(object)
    # One rounding of the sum, and one of its product with the step.
    np.testing.assert_array_equal(sums, (integers / 2**32).astype(np.float64))
    encoded = decrypt_vector(small_keys[1], matvec(ages / 73, encrypt_vector(small_keys[1], g)))
    truth = (integers / (73 * 2**32)).astype(np.float64)
    assert np.abs(sums / 73 - truth).max() <= 2 * np.spacing(np.abs(truth).max())
    assert np.abs(encoded - truth).max() > 1e-7


def test_columns_that_dont_fit_the_matrix_or_the_layout_are_refused(small_keys: KeyPair) -> None:
    c = encrypt_vector(small_keys[1], [1.0, 2.0])
    columns = ColumnWidths(binary=2).formats(FULL)
    for wrong in ({"columns": columns}, {"columns": ColumnWidths(3).formats(FULL), "features": FixedPoint(16, 0)}):
        with pytest.raises(LayoutMismatch, match="columns of whole numbers"):
            matvec(np.zeros((2, 3)), c, **wrong)
    narrow = encrypt_vector(small_keys[1], [1.0, 2.0], layout=PackingLayout(2, 1, 1, 2, RESIDUAL, BYTE))
    with pytest.raises(LayoutMismatch, match="features up to 255"):
        matvec(np.zeros((2, 1)), narrow, columns=ColumnWidths(full=1).formats(FULL))
    with pytest.raises(LayoutMismatch, match="whole numbers: say by `columns`"):
        matvec(np.zeros((2, 1)), narrow)
    with pytest.raises(FixedPointOverflow, match=r"index \(0, 1\)"):
        matvec([[1, 2], [0, 0]], c, columns=columns)


# -- widths that lie --------------------------------------------------------------------------------------------------


def test_who_calls_wide_columns_narrow_gets_their_sums_modulo_the_narrow_width(small_keys: KeyPair) -> None:
    """What a peer calls binary is cut to binary sums: of wider ones the upper digits never reach it."""
    rows, told = 64, ColumnWidths(binary=3).formats(FULL)
    wide = ColumnWidths(full=3).formats(FULL)
    matrix, g = entries_of(wide, rows, 1), residual_of(RESIDUAL, rows, 1, 2)
    c = encrypt_vector(small_keys[1], g / 2.0**32)
    masked, mask = mask_vector(matvec(matrix, c, columns=wide))
    bits = honest_answer_bits(StepProduct(rows, told, 1, None, RESIDUAL))
    answers = truncate(decrypt_integers(small_keys[1], masked), bits)
    width = bits[0]
    assert width == slot_bits(rows, RESIDUAL, BINARY) == slot_bits(rows, RESIDUAL, FULL) - 16
    for answer, summand, sum_ in zip(answers, mask.summands, exact(matrix, g), strict=True):
        assert (answer - summand - sum_) % (1 << width) == 0
        assert not -(1 << width - 1) <= sum_ < 1 << width - 1, "so it can't be told from others"


def test_who_calls_narrow_columns_wide_is_told_what_it_could_be_told_anyway() -> None:
    """The room of the described columns counts, whatever is sent."""
    layout = PackingLayout(256, 1, 1, 20, RESIDUAL, FULL)
    described = ColumnWidths(full=40), ColumnWidths(binary=40)
    wide, narrow = (StepProduct(256, one.formats(FULL), 1, layout, RESIDUAL) for one in described)
    rooms = [answer_capacity(one, capacity=2047, truncated=True) for one in (wide, narrow)]
    assert [sum(room.answer_bits) for room in rooms] == [40 * 65, 40 * 49]
    assert [room.equations for room in rooms] == [2 * 39, 39 + 20]
    assert [room.spare_bits for room in rooms] == [0, 0]


def test_counts_follow_the_described_columns(small_keys: KeyPair) -> None:
    key, _ = small_keys
    layout, columns = PackingLayout(8, 1, 1, 2, RESIDUAL, FULL), ColumnWidths(3, 0, 1).formats(FULL)
    made = CipherVector(key, (1, 1), -8, (4,), layout, is_product=True, columns=columns)
    assert len(made.ciphertexts) == layout.answers_for(columns) == 2
    for count in (1, 3):
        with pytest.raises(InvalidCiphertext, match="Expected 2"):
            replace(made, ciphertexts=(1,) * count)


# -- counting ---------------------------------------------------------------------------------------------------------


@given(packed(), st.booleans(), st.sampled_from([512, 2048]), st.booleans())
def test_capacities_are_those_counted_answer_by_answer(
    given_: Packed, truncated: bool, key_bits: int, unpacked: bool
) -> None:
    layout, columns = given_.layout, given_.columns
    product = StepProduct(layout.batch_size, columns, layout.classes, None if unpacked else layout, layout.residual)
    own = [slot_bits(layout.batch_size, layout.residual, entry) for entry in columns.each()]
    if unpacked:
        expected = [bits for bits in own for _ in range(layout.classes)]
    else:
        places, t = layout.places(columns), layout.rows_per_ciphertext
        below = ((layout.classes - 1) * layout.class_stride + t - 1) * layout.slot_bits
        expected = [
            below + max(p.shift + t * p.bits for p in places if p.answer == answer)
            for answer in range(places[-1].answer + 1)
        ]
    assert list(honest_answer_bits(product)) == expected
    room = expected if truncated else [key_bits - 1] * len(expected)
    capacity = answer_capacity(product, capacity=key_bits - 1, truncated=truncated)
    assert capacity.equations == sum(-(-bits // 10) for bits in room)  # 8 bits of fraction, and a share in (-2, 2)
    assert capacity.equations == count_equations(product, capacity=key_bits - 1, truncated=truncated)
    assert capacity.spare_bits == sum(room) - layout.classes * sum(own)


@given(
    st.lists(widths, min_size=1, max_size=3),
    st.integers(1, 400),
    st.integers(1, 3),
    st.sampled_from([512, 2048]),
)
def test_the_cheapest_layout_is_the_one_whose_busiest_party_has_the_fewest_products(
    parties: list[ColumnWidths], batch_size: int, classes: int, key_bits: int
) -> None:
    formats = [one.formats(FULL) for one in parties]
    layouts = layouts_for(
        formats,
        batch_size=batch_size,
        classes=classes,
        residual_format=RESIDUAL,
        key_bits=key_bits,
        reserved_bits=WRAP_BITS,
    )

    def products(layout: PackingLayout, columns: ColumnFormats) -> int:
        ciphertexts, answers = layout.ciphertexts_for(batch_size), layout.answers_for(columns)
        task = product_task(np.zeros((batch_size, columns.total), dtype=np.int64), columns, layout)
        digits = int(task.digits.sum())
        tops = {int(a): int(s) for a, s in zip(task.answers, task.shifts, strict=True)}
        # The last column of an answer ends a slot above where it begins.
        squarings = sum(top + layout.slot_bits for top in tops.values())
        subsets = group_cost(ciphertexts, digits, best_group_size(ciphertexts, digits))
        return ciphertexts * 105 + subsets + squarings + digits + answers * (2150 + 620)

    costs = [max(products(layout, columns) for columns in formats) for layout in layouts]
    # Within the bits of one slot per answer: narrow slots are shorter than the widest.
    slack = max(layout.answers_for(one) * layout.slot_bits for layout in layouts for one in formats)
    assert costs[0] <= min(costs) + slack
    for layout in layouts:
        assert layout.slots * layout.slot_bits <= key_bits - 2 - WRAP_BITS
        assert layout.features == ColumnFormats(tuple(run for one in formats for run in one.runs)).widest


@pytest.mark.parametrize("fold", [2, 4, 16])
def test_work_is_linear_in_rows_columns_and_digits(fold: int) -> None:
    """Counted, for one group size: from 256 x 98 bytes over a 16-fold range of each, within a fifth."""

    def products(rows: int, columns: int, digits: int) -> int:
        return min(group_cost(rows, columns * digits, size) for size in (9, 10, 11))

    base = products(256, 98, 8)
    assert products(256 * fold, 98, 8) == pytest.approx(fold * base, rel=0.2)
    assert products(256, 98 * fold, 8) == pytest.approx(products(256, 98, 8 * fold))
    assert products(256, 98 * fold, 8) <= fold * base
