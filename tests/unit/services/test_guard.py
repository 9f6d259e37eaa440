"""The batch guard: equations of every answer counted before one is given, and what the sentence promises."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.errors import OutOfOrder
from services.party.formats import CipherFormats
from services.party.guard import Channel, Mode, channels_of, guard
from vfl.crypto import PackingImpossible
from vfl.learning import BatchSchedule

UNPACKED = TrainingPlan(packing=False, batch_size=64)


def agreed(
    plan: TrainingPlan = UNPACKED,
    *,
    features: tuple[int, ...] = (16, 15),
    truncating: tuple[str, ...] = (),
    classes: int = 2,
    signed: bool = False,
) -> Agreement:
    names = ["active", *(["passive"] if len(features) == 2 else [f"passive-{i}" for i in range(1, len(features))])]
    parties = tuple(
        PartyDescription(name, count, 0, signed, 400, name in truncating)
        for name, count in zip(names, features, strict=True)
    )
    return Agreement("session", plan, classes, parties)


def channel(agreement: Agreement, key_holder: str = "active", rows: int = 64) -> Channel:
    (found,) = channels_of(agreement, key_holder, rows)
    return found


# -- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch_size", "bits"),
    # 39 bits of residual, 16 of a feature, log2 s for the sum, two for the bound itself and the sign.
    [(1, 57), (64, 63), (65, 63), (128, 64), (256, 65), (512, 66), (1024, 67)],
)
def test_unpacked_answers_of_2048_bits_hold_51_residuals_each_whatever_a_sum_takes(batch_size: int, bits: int) -> None:
    found = channel(agreed(replace(UNPACKED, batch_size=batch_size)))
    assert (found.capacity.sum_bits, found.capacity.residual_bits) == (bits, 40)
    assert (len(found.capacity.answer_bits), found.capacity.equations) == (15, 15 * 51)
    assert found.capacity.spare_bits == 15 * (2047 - bits)
    assert found.capacity.spare_equations == 15 * 50


def test_the_peers_own_features_count_and_every_column_of_the_residual() -> None:
    agreement = agreed(features=(16, 15), classes=4)
    towards_active, towards_passive = channel(agreement, "passive"), channel(agreement, "active")
    assert (towards_active.peer, towards_active.capacity.sums) == ("active", 16 * 4)
    assert (towards_passive.peer, towards_passive.capacity.sums) == ("passive", 15 * 4)


def test_packed_answers_hold_what_their_plaintext_does_and_truncated_ones_what_their_slots_do() -> None:
    # 2046 bits hold 32 slots of 63: the widest party's 16 columns take one answer.
    plan = replace(UNPACKED, packing=True)
    found = channel(agreed(plan))
    assert (found.capacity.answer_bits, found.capacity.equations) == ((2047,), 51)
    # The 945 bits of 15 sums also hold 23 residuals.
    truncated = channel(agreed(plan, truncating=("active",)))
    assert (truncated.capacity.answer_bits, truncated.capacity.equations) == ((15 * 63,), 23)


def test_unpacked_and_truncated_there_is_room_for_the_honest_sums_and_not_a_bit_more() -> None:
    found = channel(agreed(truncating=("active",)))
    assert (found.capacity.equations, found.capacity.spare_bits, found.capacity.spare_equations) == (15, 0, 0)


def test_a_peer_that_truncates_does_not_narrow_ones_own_answers() -> None:
    found = channel(agreed(truncating=("passive",)))
    assert found.capacity.equations == 15 * 51


def test_every_peer_has_its_channel() -> None:
    found = channels_of(agreed(features=(16, 4, 9)), "passive-1", 64)
    assert [(one.key_holder, one.peer, one.capacity.sums) for one in found] == [
        ("passive-1", "active", 16),
        ("passive-1", "passive-2", 9),
    ]


def test_nothing_is_counted_where_nothing_is_encrypted_or_trained() -> None:
    assert channels_of(agreed(replace(UNPACKED, cipher="plain")), "active", 64) == ()
    assert channels_of(agreed(replace(UNPACKED, installed_model=True)), "active", 64) == ()


def test_the_record_says_it_in_numbers() -> None:
    facts = channel(agreed(), rows=60).facts()
    assert facts == {
        "key_holder": "active",
        "peer": "passive",
        "rows": 60,
        "answers": 15,
        "answer_bits": 15 * 2047,
        "sums": 15,
        "sum_bits": 63,
        "residual_bits": 40,
        "equations": 765,
        "spare_bits": 15 * (2047 - 63),
        "spare_equations": 750,
    }


# -- warning and refusing ---------------------------------------------------------------------------------------------


def test_as_many_equations_as_rows_are_too_many_and_one_fewer_is_not() -> None:
    agreement = agreed(truncating=("active",))
    assert channel(agreement, rows=15).is_solvable
    assert not channel(agreement, rows=16).is_solvable


def test_the_smallest_batch_counts_however_large_the_others_are() -> None:
    agreement = agreed(truncating=("active",), features=(16, 15))
    uneven = replace(agreement, plan=replace(UNPACKED, batch_size=30))
    assert {len(batch) for batch in BatchSchedule(np.arange(31), 30, 1).epoch(0)} == {15, 16}
    found = channel(uneven, rows=31)
    assert (found.rows, found.is_solvable) == (15, True)
    assert not channel(uneven, rows=30).is_solvable


def test_warn_says_it_refuse_stops_and_off_is_silent() -> None:
    agreement = agreed()
    channels = [channel(agreement), channel(agreed(truncating=("active",)))]
    assert [one.is_solvable for one in channels] == [True, False]
    assert guard(agreement, channels, "warn") == [channels[0].warning]
    with pytest.raises(OutOfOrder, match=r"Hu, section 5\.2.*\(PLUMBLINE_GUARD=refuse\)"):
        guard(agreement, channels, "refuse")
    assert guard(agreement, channels, "off") == []
    modes: tuple[Mode, ...] = ("warn", "refuse", "off")
    for mode in modes:
        assert guard(agreement, channels[1:], mode) == []
        assert guard(agreement, [], mode) == []


def test_zero_weights_are_warned_of_by_the_party_whose_labels_they_show() -> None:
    plan = replace(UNPACKED, initialisation="zero")
    agreement = agreed(plan, truncating=("active", "passive"))
    (warning,) = guard(agreement, channels_of(agreement, "active", 64), "warn")
    assert "choose initialisation=xavier" in warning
    assert guard(agreement, channels_of(agreement, "passive", 64), "warn") == []
    with pytest.raises(OutOfOrder, match=r"Theorem 4\.1"):
        guard(agreement, channels_of(agreement, "active", 64), "refuse")


def test_the_sentence_has_both_numbers_both_names_and_both_remedies() -> None:
    warning = channel(agreed(), rows=1599).warning
    assert "passive can put 765 equations into the answers of one step, a batch has 63 rows" in warning
    assert "solve for the residuals of active" in warning
    assert "choose a batch_size of 800, or" in warning
    assert "response_truncation at active (15 equations)" in warning


@pytest.mark.parametrize("rows", [14, 15])
def test_truncation_is_no_remedy_where_the_honest_sums_are_enough(rows: int) -> None:
    found = channel(agreed(replace(UNPACKED, batch_size=rows)), rows=rows)
    assert found.is_solvable
    assert "response_truncation" not in found.warning
    assert "It takes more records to prevent." in found.warning


def test_truncation_is_not_offered_to_who_truncates_already() -> None:
    found = channel(agreed(truncating=("active",)), rows=15)
    assert found.is_solvable
    assert "response_truncation" not in found.warning


@st.composite
def agreements(draw: st.DrawFn) -> Agreement:
    plan = TrainingPlan(
        batch_size=draw(st.integers(1, 300)),
        packing=draw(st.booleans()),
        key_bits=draw(st.sampled_from([512, 1024, 2048])),
    )
    return agreed(
        plan,
        features=(draw(st.integers(1, 40)), draw(st.integers(1, 40))),
        classes=draw(st.integers(2, 4)),
        signed=draw(st.booleans()),
    )


def with_truncation(agreement: Agreement, name: str) -> Agreement:
    parties = tuple(replace(party, truncates_answers=party.name == name) for party in agreement.parties)
    return replace(agreement, parties=parties)


@given(agreements())
def test_truncation_leaves_the_honest_slots_and_nothing_more(agreement: Agreement) -> None:
    """Unpacked, and packed row by row for two classes, not a bit to spare."""
    truncating = with_truncation(agreement, "active")
    try:
        capacity, layout = channel(truncating).capacity, CipherFormats(truncating).layout
    except PackingImpossible:
        assume(False)
        raise
    if layout is None or (layout.rows_per_ciphertext == 1 and agreement.classes == 2):
        assert capacity.spare_bits == 0
    elif layout.rows_per_ciphertext == 1:
        # A last answer with fewer columns keeps the classes where they are: the gaps between them are room.
        gaps = -capacity.sums // agreement.residual_columns % layout.columns_per_answer
        assert capacity.spare_bits == gaps * (agreement.residual_columns - 1) * capacity.sum_bits
    if layout is None:
        assert capacity.equations == capacity.sums


def test_a_narrow_peer_of_a_wide_party_gets_its_own_sums_only() -> None:
    agreement = agreed(TrainingPlan(batch_size=32), features=(31, 3), truncating=("active",))
    assert channel(agreement).capacity.answer_bits == (3 * 62,)


def test_a_session_that_fits_its_keys_just_so_is_counted_all_the_same() -> None:
    """Eight classes take the eight slots of 512 bits; with 64 bits reserved there are seven."""
    agreement = agreed(TrainingPlan(batch_size=64, key_bits=512), classes=8)
    assert CipherFormats(agreement).layout is not None
    found = channel(agreement, rows=300)
    assert found.is_solvable
    assert "response_truncation" not in found.warning


@given(agreements())
def test_truncation_holds_what_the_sentence_promises(agreement: Agreement) -> None:
    """The layout with bits reserved for truncation is another one than the session's without."""
    try:
        found, truncated = channel(agreement, rows=300), channel(with_truncation(agreement, "active"), rows=300)
    except PackingImpossible:
        assume(False)
        raise
    promised = re.search(r"response_truncation at active \((\d+) equations\)", found.warning)
    assert (promised is not None) == (found.is_solvable and not truncated.is_solvable)
    assert promised is None or int(promised[1]) == truncated.capacity.equations


@pytest.mark.parametrize(
    ("plan", "training_rows", "helps"),
    [
        (TrainingPlan(batch_size=16, key_bits=512), 280, True),
        (TrainingPlan(batch_size=32), 280, True),
        # More equations than there are rows: no batch_size works.
        (UNPACKED, 398, False),
    ],
)
def test_the_batch_size_that_the_sentence_names_is_large_enough(
    plan: TrainingPlan, training_rows: int, helps: bool
) -> None:
    found = channel(agreed(plan), rows=training_rows)
    assert found.is_solvable, "this test needs a warning"
    named = re.search(r"batch_size of (\d+)", found.warning)
    assert (named is not None) == helps
    if named is not None:
        larger = replace(plan, batch_size=int(named[1]))
        assert not channel(agreed(larger), rows=training_rows).is_solvable
