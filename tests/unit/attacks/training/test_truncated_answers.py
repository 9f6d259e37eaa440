"""Single residuals in truncated answers: where they go, and what comes back of real ciphertexts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.training.auxiliary_ciphertext import AuxiliaryCiphertext
from attacks.training.feature_order import RecoveredFeatures
from attacks.training.truncated_answers import CutMessages, CutPlan, placement, reading_schedule
from attacks.training_attack import SessionTerms
from attacks.training_views import simulated_view
from tests.harness.keys import KeyPair
from vfl.arrays import FloatArray
from vfl.crypto import (
    RESIDUAL,
    ColumnFormats,
    ColumnWidths,
    FixedPoint,
    InvalidAnswer,
    PackingLayout,
    StepProduct,
    answer_capacity,
    decrypt_integers,
    encrypt_vector,
    honest_answer_bits,
    keygen,
    matvec,
    truncate,
)
from vfl.crypto.messages import HonestMessages, MessageFormats
from vfl.crypto.widths import EntryFormat
from vfl.learning import BatchSchedule, GradientDescent, VerticalData
from vfl.theory.training import OracleRun, simulate_oracle

UNIT = FixedPoint(16, 0, signed=False)
B, OPEN = 35, 30


@pytest.fixture(scope="module")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


@pytest.mark.parametrize(
    ("width", "whole", "part"),
    [
        (63, 1, 28),
        (57, 1, 22),
        (35, 1, 0),
        (34, 0, 34),
        # Four bits leave too much open for a label to follow.
        (39, 1, 0),
        (40, 1, 5),
        (945, 27, 0),
        (960, 27, 15),
    ],
)
def test_an_answer_holds_whole_residuals_and_the_leading_bits_of_one(width: int, whole: int, part: int) -> None:
    placed = placement(width, B, [0], OPEN)
    assert (placed.shifts, placed.part) == (tuple(range(0, B * whole, B)), part)


def test_packed_residuals_lie_between_each_other() -> None:
    # Two classes, 130 bits apart: three more rows fit between, the fourth would touch the first one's second class.
    assert placement(260, B, [0, 130], OPEN).shifts == (0, 35, 70)
    # Two rows, 63 bits apart: nothing fits between, the next begins behind.
    assert placement(200, B, [0, 63], OPEN).shifts == (0, 98)


@given(rows=st.integers(1, 600), features=st.integers(1, 40), packed=st.booleans())
def test_the_guard_counts_all_that_is_read(rows: int, features: int, packed: bool) -> None:
    layout = PackingLayout(rows, 1, 1, min(features, 20), RESIDUAL, UNIT) if packed else None
    product = StepProduct(rows, UNIT.columns(features), 1, layout, RESIDUAL)
    told = sum(placement(w, B, [0], OPEN).ciphertexts for w in honest_answer_bits(product))
    counted = answer_capacity(product, capacity=2047, truncated=True).equations
    assert counted / 2 <= told <= counted


# -- through real ciphertexts -----------------------------------------------------------------------------------------


def plan_of(rows: int, features: int, columns: int, layout: PackingLayout | None) -> CutPlan:
    widths = honest_answer_bits(StepProduct(rows, UNIT.columns(features), columns, layout, RESIDUAL))
    if layout is None:
        return CutPlan(tuple(placement(w, B, [0], OPEN) for w in widths[::columns]), 1, 1, columns, 32)
    t, k = layout.rows_per_ciphertext, layout.classes
    offsets = [layout.slot_bits * (r + c * layout.class_stride) for r in range(t) for c in range(k)]
    return CutPlan(tuple(placement(w, B, offsets, OPEN) for w in widths), t, k, columns, 32)


@given(
    rows=st.integers(1, 16),
    features=st.integers(1, 3),
    columns=st.integers(1, 3),
    rows_per_ciphertext=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_what_is_read_is_what_was_encrypted(
    small_keys: KeyPair, rows: int, features: int, columns: int, rows_per_ciphertext: int, seed: int
) -> None:
    """Unpacked and packed, several classes and rows per ciphertext, the largest residuals included."""
    _, private = small_keys
    layout = None
    if rows_per_ciphertext:
        layout = PackingLayout(rows, columns, rows_per_ciphertext, 1, RESIDUAL, UNIT)
        if not layout.slots * layout.slot_bits <= 512 - 2 - 64:
            return
    generator = np.random.default_rng(seed)
    shares = generator.choice([generator.uniform(-3.99, 3.99, (rows, columns)), np.full((rows, columns), -4 + 2**-32)])
    shares = np.rint(shares * 2**32) / 2**32
    matrix = generator.integers(0, 2**16, (rows, features), endpoint=True).astype(np.float64)
    residual = encrypt_vector(private, shares, layout=layout)
    honest = matvec(matrix, residual, columns=UNIT.columns(features))
    plan = plan_of(rows, features, columns, layout)
    messages = CutMessages(plan, [np.arange(rows)], rerandomise=True)
    combination = messages.combine(0, matrix, residual, UNIT.columns(features))
    question = messages.mask(0, combination)
    # The key holder sees the header of an honest message.
    for name in ("exponent", "shape", "layout", "is_product", "public_key", "columns"):
        assert getattr(question.masked, name) == getattr(honest, name)
    assert len(question.masked.ciphertexts) == len(honest.ciphertexts)
    bits = honest_answer_bits(StepProduct(rows, UNIT.columns(features), columns, layout, RESIDUAL))
    short = truncate(decrypt_integers(private, question.masked), bits)
    read = messages.rows(0)
    assert len(read) == min(rows, plan.rows) or layout is not None
    sums = question.read(short)
    np.testing.assert_allclose(sums[features:], shares[read], rtol=0, atol=plan.share_step / 4)
    if not any(one.part for one in plan.placements):
        np.testing.assert_array_equal(sums[features:], shares[read])
    # The rows read stand for the batch; all of them are the batch.
    stood_for = rows / len(read) * matrix[read].T @ sums[features:]
    np.testing.assert_allclose(sums[:features], stood_for, rtol=1e-12, atol=1e-12)
    units = np.abs(combination.matrix).max(axis=0, initial=1.0)[:, None]
    np.testing.assert_allclose(combination.matrix.T @ shares / units, sums / units, atol=8 * rows * plan.share_step)


def test_the_leading_bits_are_as_good_as_their_number_says(small_keys: KeyPair) -> None:
    _, private = small_keys
    shares = np.rint(np.random.default_rng(0).uniform(-4, 4, (40, 1)) * 2**32) / 2**32
    plan = plan_of(40, 20, 1, None)
    # 62 bits: 27 of 35 are read, so 8 are open.
    assert {one.part for one in plan.placements} == {27}
    messages = CutMessages(plan, [np.arange(40)], rerandomise=False)
    matrix = np.ones((40, 20))
    question = messages.mask(
        0, messages.combine(0, matrix, encrypt_vector(private, shares), ColumnFormats(((EntryFormat(1), 20),)))
    )
    bits = [one.width for one in plan.placements]
    error = np.abs(question.read(truncate(decrypt_integers(private, question.masked), bits))[20:] - shares)
    assert (error[:20] == 0).all()
    assert 0 < error[20:].max() <= 2.0 ** (8 - 1 - 32)


def test_answers_that_cant_be_are_refused(small_keys: KeyPair) -> None:
    _, private = small_keys
    plan = plan_of(2, 1, 1, None)
    messages = CutMessages(plan, [np.arange(2)], rerandomise=True)
    question = messages.mask(
        0,
        messages.combine(
            0, np.ones((2, 1)), encrypt_vector(private, np.ones((2, 1))), ColumnFormats(((EntryFormat(1), 1),))
        ),
    )
    with pytest.raises(InvalidAnswer, match="Expected 1 residues, got 2"):
        question.read([0, 0])
    with pytest.raises(InvalidAnswer, match=r"in \[0, 2\^58\)"):
        question.read([1 << 58])


# -- which rows -------------------------------------------------------------------------------------------------------


def test_rows_that_nobody_read_come_first_and_then_messages_are_honest() -> None:
    one = placement(63, B, [0], OPEN)
    plan = CutPlan((one, one), 1, 1, 1, 32)
    batches = [np.array(rows) for rows in ([0, 1, 2, 3, 4, 5], [6, 7, 8], [5, 4, 3, 2, 1, 0], [3, 2, 1, 0, 4, 5])]
    schedule = reading_schedule(batches, plan)
    assert [None if one is None else one.tolist() for one in schedule] == [[0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3], None]
    # 4 and 5 were new, at places 1 and 0; two others fill the room.
    messages = CutMessages(plan, batches, rerandomise=True)
    assert batches[2][messages.rows(2)].tolist() == [5, 4, 3, 2]
    assert [messages.reads(step) for step in range(4)] == [True, True, True, False]


def test_ciphertexts_of_several_rows_are_chosen_as_a_whole() -> None:
    plan = replace(plan_of(7, 1, 1, PackingLayout(7, 1, 2, 1, RESIDUAL, UNIT)), classes=1)
    assert (plan.rows_per_ciphertext, plan.ciphertexts, plan.rows) == (2, 1, 2)
    batches = [np.arange(7), np.arange(7)[::-1].copy(), np.arange(7), np.arange(7), np.arange(7)]
    messages = CutMessages(plan, batches, rerandomise=True)
    rows = [batches[step][messages.rows(step)].tolist() for step in range(4)]
    assert rows == [[0, 1], [6, 5], [2, 3], [4, 5]]
    assert not messages.reads(4)


# -- the attack on the products of a single feature -------------------------------------------------------------------


def terms_of(run: OracleRun, batch_size: int) -> SessionTerms:
    """The active party's terms of a session that the run is one of; its peer cuts answers."""
    batches = tuple(step.rows for step in run.steps)
    width = run.blocks[0].shape[1]
    bits = honest_answer_bits(StepProduct(batch_size, UNIT.columns(width), 1, None, RESIDUAL))
    answer_bits = {"party-1": bits}, {"party-1": None}
    formats = MessageFormats(
        1, RESIDUAL, UNIT, ColumnWidths(full=width), {"party-1": ColumnWidths(full=1)}, None, True, *answer_bits
    )
    return SessionTerms("active", "active", width, {"party-1": 1}, None, batches, batch_size, 512, formats)


def attacked(run: OracleRun, batch_size: int, keys: KeyPair) -> tuple[RecoveredFeatures, FloatArray]:
    """What the active party finds through truncated answers of real ciphertexts, and its own sums of the first step."""
    _, private = keys
    terms = terms_of(run, batch_size)
    bits = terms.formats.asked_bits["party-1"]
    assert bits is not None
    messages = AuxiliaryCiphertext().messages(terms, lambda _=None: HonestMessages(terms.formats, private))
    view = simulated_view(run, 0, initialisation="zero", label_party_bias=True, share_step=2.0**-32)
    equations = []
    for one in view.equations:
        residual = encrypt_vector(private, run.steps[one.step].shares[1])
        combination = messages.combine(one.step, "party-1", one.matrix * 2**16, residual)
        question = messages.mask(one.step, "party-1", combination)
        sums = question.read(truncate(decrypt_integers(private, question.masked), bits))
        units = np.repeat([2.0**16, 1.0], [terms.features, len(sums) - terms.features])
        equations.append(replace(one, matrix=combination.matrix / units, sums=sums / units[:, None]))
    found = messages.result(replace(view, equations=tuple(equations)))
    assert isinstance(found, RecoveredFeatures)
    return found, equations[0].sums[: terms.features]


def trained(batch_size: int) -> OracleRun:
    """Six epochs over 32 rows: three features, a bias and the labels at one party, one feature at the other."""
    generator = np.random.default_rng(0)
    features = np.rint(generator.random((32, 4)) * 2**16) / 2**16
    blocks = [np.hstack([features[:, :3], np.ones((32, 1))]), features[:, 3:]]
    return simulate_oracle(
        VerticalData(blocks, generator.integers(0, 2, 32)),
        [np.zeros((4, 1)), np.zeros((1, 1))],
        GradientDescent(BatchSchedule(np.arange(32), batch_size, 0), epochs=6, learning_rate=0.5),
        share_step=2.0**-32,
    )


def test_the_label_party_reads_a_single_feature_where_answers_tell_whole_batches(small_keys: KeyPair) -> None:
    """Four answers tell eight shares. Half of them are read to 25 of 34 bits, so that values are good to 1e-4."""
    run = trained(8)
    found, _ = attacked(run, 8, small_keys)
    feature, truth = found.features["party-1"], run.blocks[1][:, 0]
    assert feature.exact
    assert min(np.abs(feature.values - sign * truth).max() for sign in (1, -1)) < 1e-4


def test_the_label_party_sends_honest_messages_where_answers_tell_a_part_of_a_batch(small_keys: KeyPair) -> None:
    run = trained(16)
    found, sums = attacked(run, 16, small_keys)
    assert found.reason == (
        "Not possible: party-1 cuts its answers to their honest width, which tells the shares of 8 rows, and a batch "
        "has 16: a peer's feature follows from whole batches. Set truncate_answers=false at party-1 (INSECURE) to "
        "study it."
    )
    first = run.steps[0]
    np.testing.assert_array_equal(sums, run.blocks[0][first.rows].T @ first.shares[1])


def test_a_share_that_is_assumed_to_stay_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Expected largest_share > 0, got 0\.0"):
        AuxiliaryCiphertext(largest_share=0.0).messages(terms_of(trained(16), 16), lambda _=None: HonestMessages)  # type: ignore[arg-type]
