"""Packing layouts: the arithmetic of slots, without encryption."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.layouts import choose_layout
from vfl.arrays import IntArray
from vfl.crypto import (
    BINARY,
    RESIDUAL,
    WRAP_BITS,
    ColumnFormats,
    EntryFormat,
    FixedPoint,
    InvalidAnswer,
    PackingImpossible,
    PackingLayout,
    layouts_for,
)
from vfl.crypto.packing import slot_bits

UNIT = FixedPoint(16, 0, signed=False)


def plain_product(layout: PackingLayout, X: IntArray, g: IntArray) -> list[int]:
    """What the plaintexts of the answers are, by plain integer arithmetic."""
    packed = layout.pack_residual(g)
    virtual = layout.virtual_matrix(X).tolist()
    width = layout.class_stride
    return [
        sum(
            plaintext * sum(x << layout.slot_bits * slot for slot, x in enumerate(row[start : start + width]))
            for plaintext, row in zip(packed, virtual, strict=True)
        )
        for start in range(0, len(virtual[0]), width)
    ]


@st.composite
def layouts(draw: st.DrawFn) -> PackingLayout:
    return PackingLayout(
        batch_size=draw(st.integers(1, 12)),
        classes=draw(st.integers(1, 4)),
        rows_per_ciphertext=draw(st.integers(1, 6)),
        columns_per_answer=draw(st.integers(1, 5)),
        residual=FixedPoint(draw(st.sampled_from([0, 4, 32])), draw(st.integers(0, 7))),
        features=FixedPoint(draw(st.sampled_from([0, 8, 16])), draw(st.integers(0, 3)), signed=draw(st.booleans())),
    )


@given(layouts(), st.data())
def test_products_come_back_exactly_extremes_included(layout: PackingLayout, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, layout.batch_size))
    columns = data.draw(st.integers(1, 9))
    g_bound, x_bound = layout.residual.bound, layout.features.bound
    x_low = -x_bound if layout.features.signed else 0
    g_values = st.sampled_from([-g_bound, g_bound]) | st.integers(-g_bound, g_bound)
    x_values = st.sampled_from([x_low, x_bound]) | st.integers(x_low, x_bound)
    count = rows * layout.classes
    g = np.array(data.draw(st.lists(g_values, min_size=count, max_size=count))).reshape(rows, -1)
    X = np.array(data.draw(st.lists(x_values, min_size=rows * columns, max_size=rows * columns)))
    X = X.reshape(rows, columns)
    answers = plain_product(layout, X, g)
    assert len(answers) == layout.answers_for(columns)
    assert all(abs(answer) < 2 ** (layout.slot_bits * layout.slots - 1) for answer in answers)
    assert layout.unpack_product(answers, columns) == (X.astype(object).T @ g.astype(object)).ravel().tolist()
    assert layout.unpack_residual(layout.pack_residual(g), rows) == g.ravel().tolist()


@pytest.mark.parametrize(("t", "m", "k"), list(itertools.product([1, 2, 3, 5], [1, 2, 4], [1, 3])))
@pytest.mark.parametrize("rows", [1, 4, 15, 16])
def test_all_at_the_bound(t: int, m: int, k: int, rows: int) -> None:
    layout = PackingLayout(16, k, t, m, RESIDUAL, FixedPoint(16, 0))
    for g_sign, x_sign in itertools.product((1, -1), repeat=2):
        g = np.full((rows, k), g_sign * RESIDUAL.bound)
        X = np.full((rows, 7), x_sign * 2**16)
        expected = rows * g_sign * x_sign * RESIDUAL.bound * 2**16
        assert layout.unpack_product(plain_product(layout, X, g), 7) == [expected] * (7 * k)


@pytest.mark.parametrize(("t", "m", "k"), list(itertools.product([1, 2, 3, 7], [1, 2, 4], [1, 2, 3])))
def test_junk_needs_no_more_room_than_results(t: int, m: int, k: int) -> None:
    """The bound proved in the module, on the polynomials themselves: coefficients of sum_u G_u X_u for ones."""
    for rows in range(1, 3 * t + 1):
        total = np.zeros(k * m * t + t - 1)
        for first in range(0, rows, t):
            places = range(min(t, rows - first))
            G, X = np.zeros((k - 1) * m * t + t), np.zeros(m * t)
            for r, c in itertools.product(places, range(k)):
                G[r + c * m * t] = 1
            for r, j in itertools.product(places, range(m)):
                X[t * j + t - 1 - r] = 1
            total += np.convolve(G, X)
        assert total.max() == rows
        assert (total[t - 1 :: t] == rows).all()


def test_answer_that_no_product_can_be_is_refused() -> None:
    layout = PackingLayout(4, 1, 2, 2, RESIDUAL, UNIT)
    largest = 2 ** (layout.slot_bits * layout.slots)
    for answer in (largest, -largest):
        with pytest.raises(InvalidAnswer, match="layout"):
            layout.unpack_product([answer], 2)


@given(layouts())
def test_a_slot_has_not_a_bit_more_than_the_largest_sum_and_its_sign(layout: PackingLayout) -> None:
    largest = layout.batch_size * layout.residual.bound * layout.features.bound
    assert 2 ** (layout.slot_bits - 2) <= largest < 2 ** (layout.slot_bits - 1)


@given(layouts())
def test_a_key_two_bits_longer_than_all_slots_holds_them_and_none_shorter(layout: PackingLayout) -> None:
    bits = layout.slots * layout.slot_bits
    assert layout.fits(bits + 2)
    assert not layout.fits(bits + 1)


@given(layouts(), st.sampled_from([0, WRAP_BITS]))
def test_layouts_take_a_key_to_its_last_bit_and_none_that_is_a_bit_shorter(
    layout: PackingLayout, reserved_bits: int
) -> None:
    """One column of one row, whose slots the key's length leaves exactly room for."""

    def listed(key_bits: int) -> list[PackingLayout]:
        return layouts_for(
            [ColumnFormats(((EntryFormat(layout.features.bound), 1),))],
            batch_size=1,
            classes=layout.classes,
            residual_format=layout.residual,
            key_bits=key_bits,
            reserved_bits=reserved_bits,
        )

    needed = layout.classes * slot_bits(1, layout.residual, layout.features) + 2 + reserved_bits
    assert [one.slots for one in listed(needed)] == [layout.classes]
    with pytest.raises(PackingImpossible):
        listed(needed - 1)


@given(layouts(), st.integers(1, 9))
def test_answers_are_read_up_to_the_last_value_that_their_slots_hold(layout: PackingLayout, columns: int) -> None:
    half, lifts = 1 << layout.slot_bits - 1, layout._lifts(columns)
    lowest, highest = [-lift for _, lift in lifts], [(1 << bits) - 1 - lift for bits, lift in lifts]
    assert layout.unpack_product(lowest, columns) == [-half] * (columns * layout.classes)
    assert layout.unpack_product(highest, columns) == [half - 1] * (columns * layout.classes)
    for beyond in ([lowest[0] - 1, *lowest[1:]], [*highest[:-1], highest[-1] + 1]):
        with pytest.raises(InvalidAnswer):
            layout.unpack_product(beyond, columns)


@given(layouts(), st.data())
def test_residuals_are_read_up_to_the_last_value_that_their_slots_hold(
    layout: PackingLayout, data: st.DataObject
) -> None:
    rows = data.draw(st.integers(1, layout.rows_per_ciphertext))
    half, lowest = 1 << layout.slot_bits - 1, -layout._lift(layout.slots)
    highest = lowest + (1 << layout.slot_bits * layout.slots) - 1
    assert layout.unpack_residual([lowest], rows) == [-half] * (rows * layout.classes)
    assert layout.unpack_residual([highest], rows) == [half - 1] * (rows * layout.classes)
    for beyond in (lowest - 1, highest + 1):
        with pytest.raises(InvalidAnswer):
            layout.unpack_residual([beyond], rows)


@pytest.mark.parametrize("classes", [1, 3])
def test_narrow_columns_at_their_bounds_and_a_bit_beyond(classes: int) -> None:
    """With a row to a ciphertext a narrow column has its own, narrower slot, which its largest sums fill."""
    layout = PackingLayout(8, classes, 1, 3, RESIDUAL, UNIT.entries)
    columns = ColumnFormats(((BINARY, 2), (UNIT.entries, 2)))
    narrow, wide = slot_bits(8, RESIDUAL, BINARY), layout.slot_bits
    # Two narrow columns and two wide ones in the room of three wide ones, where the narrow ones leave room for it.
    assert [place.bits for place in layout.places(columns)] == [narrow, narrow, wide, wide]
    matrix = np.array([[1, 1, UNIT.bound, UNIT.bound]] * 8)
    for sign in (1, -1):
        g = np.full((8, classes), sign * RESIDUAL.bound)
        answers = [0] * layout.answers_for(columns)
        for j, place in enumerate(layout.places(columns)):
            for c in range(classes):
                total = int((matrix[:, j].astype(object) * g[:, c].astype(object)).sum())
                answers[place.answer] += total << c * layout.class_stride * wide + place.shift
        expected = [8 * sign * RESIDUAL.bound * bound for bound in (1, 1, UNIT.bound, UNIT.bound)]
        assert layout.unpack_product(answers, columns) == [value for value in expected for _ in range(classes)]
    lifts = layout._lifts(columns)
    layout.unpack_product([-lift for _, lift in lifts], columns)
    for number, (bits, lift) in enumerate(lifts):
        for beyond in (-lift - 1, (1 << bits) - lift):
            answers = [-lift for _, lift in lifts]
            answers[number] = beyond
            with pytest.raises(InvalidAnswer):
                layout.unpack_product(answers, columns)


def chosen(
    features: int, classes: int = 1, key_bits: int = 2048, batch_size: int = 256, reserved_bits: int = 0
) -> PackingLayout:
    return choose_layout(
        batch_size=batch_size,
        features=features,
        classes=classes,
        residual_format=RESIDUAL,
        feature_format=UNIT,
        key_bits=key_bits,
        reserved_bits=reserved_bits,
    )


@pytest.mark.parametrize("key_bits", [512, 2048, 3072])
@pytest.mark.parametrize("classes", [1, 3, 7])
@pytest.mark.parametrize("features", [1, 12, 392])
def test_chosen_layouts_fit_and_are_the_same_for_everyone(features: int, classes: int, key_bits: int) -> None:
    layout = chosen(features, classes, key_bits)
    assert layout.fits(key_bits)
    assert layout == chosen(features, classes, key_bits)
    assert layout.classes == classes
    assert layout.batch_size == 256


def test_chosen_layout_packs_rows_when_columns_are_few_and_columns_when_they_are_many() -> None:
    few, many = chosen(12), chosen(392)
    assert few.rows_per_ciphertext >= 4
    assert many.columns_per_answer >= 14
    assert chosen(1, batch_size=1).rows_per_ciphertext == 1


@given(
    features=st.integers(1, 120),
    classes=st.integers(1, 4),
    key_bits=st.sampled_from([512, 1024, 2048]),
    batch_size=st.integers(1, 600),
    reserved_bits=st.sampled_from([0, WRAP_BITS]),
)
def test_rows_share_a_ciphertext_only_where_all_slots_are_at_most_half_the_batch(
    features: int, classes: int, key_bits: int, batch_size: int, reserved_bits: int
) -> None:
    layout = chosen(features, classes, key_bits, batch_size, reserved_bits)
    assert layout.slots * layout.slot_bits <= key_bits - 2 - reserved_bits
    if layout.rows_per_ciphertext > 1:
        # For every party: one with fewer features has fewer answers.
        assert 2 * layout.slots * layout.answers_for(features) <= batch_size


@pytest.mark.parametrize(("batch_size", "rows"), [(61, 1), (62, 2)])
def test_at_exactly_half_the_batch_rows_share(batch_size: int, rows: int) -> None:
    """Fifteen columns of two rows each take 31 slots, one of which overlaps."""
    layout = chosen(15, batch_size=batch_size)
    assert layout.rows_per_ciphertext == rows
    assert (layout.slots, layout.answers_for(15)) == (15 if rows == 1 else 31, 1)


def test_slots_between_the_wanted_ones_tell_sums_over_neighbouring_rows() -> None:
    """Why they are counted: with two rows to a ciphertext, one overlap is a sum with neighbours' features."""
    layout = PackingLayout(4, 1, 2, 1, RESIDUAL, UNIT)
    g, x = np.array([[3], [5], [7], [11]]), np.array([[2], [13], [17], [19]])
    (answer,) = plain_product(layout, x, g)
    lower, wanted, upper = layout._read_slots(answer)
    assert wanted == int((g * x).sum())
    assert (lower, upper) == (3 * 13 + 7 * 19, 5 * 2 + 11 * 17)


@pytest.mark.parametrize("reserved_bits", [0, WRAP_BITS, 500])
def test_reserved_bits_stay_free_and_cost_no_more_answers_than_they_must(reserved_bits: int) -> None:
    layout = chosen(392, reserved_bits=reserved_bits)
    assert layout.slots * layout.slot_bits <= 2048 - 2 - reserved_bits
    assert layout.answers_for(392) == -(-392 // ((2048 - 2 - reserved_bits) // layout.slot_bits))


def test_reserved_bits_may_leave_no_room_for_the_classes() -> None:
    assert chosen(4, classes=31).classes == 31
    with pytest.raises(PackingImpossible, match=r"31 values .* need 31 slots, a 2048-bit key has 30"):
        chosen(4, classes=31, reserved_bits=WRAP_BITS)


def test_one_slot_more_would_not_fit() -> None:
    layout = chosen(392)
    wider = dataclasses.replace(layout, columns_per_answer=layout.columns_per_answer + 1)
    assert not wider.fits(2048)


def test_too_many_classes_are_refused_with_the_remedy() -> None:
    assert chosen(12, classes=31).classes == 31
    with pytest.raises(PackingImpossible, match="larger key or packing=off, or fewer hidden units"):
        chosen(12, classes=32)
