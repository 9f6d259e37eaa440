"""The batch guard: equations of every answer counted before one is given, and what the sentence promises."""

import re
from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from services.ciphers.channels import Channel, exposure
from services.ciphers.default_plan import with_open_terms
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import OutOfOrder
from services.common.exposure import Mode
from services.protocols.hu.guard import channels_of, guard
from tests.harness.agreements import UNPACKED, agreed, channel, trained_on, warnings, with_truncation
from vfl.crypto import PackingImpossible
from vfl.learning import BatchSchedule

# -- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch_size", "bits"),
    # 39 bits of residual, 16 of a feature, log2 s for the sum, two for the bound itself and the sign.
    [(1, 57), (64, 63), (65, 63), (128, 64), (256, 65), (512, 66), (1024, 67)],
)
def test_unpacked_answers_of_2048_bits_tell_of_61_residuals_each_whatever_a_sum_takes(
    batch_size: int, bits: int
) -> None:
    found = channel(agreed(replace(UNPACKED, batch_size=batch_size)))
    assert (found.capacity.sum_bits, found.capacity.residual_bits) == (bits, 34)
    assert (len(found.capacity.answer_bits), found.capacity.equations) == (15, 15 * 61)
    assert found.capacity.spare_bits == 15 * (2047 - bits)
    assert found.capacity.spare_equations == 15 * 60


def test_the_peers_own_features_count_and_every_column_of_the_residual() -> None:
    agreement = agreed(features=(16, 15), classes=4)
    towards_active, towards_passive = channel(agreement, "passive"), channel(agreement, "active")
    assert (towards_active.peer, towards_active.capacity.sums) == ("active", 16 * 4)
    assert (towards_passive.peer, towards_passive.capacity.sums) == ("passive", 15 * 4)


def test_packed_answers_hold_what_their_plaintext_does_and_truncated_ones_what_their_slots_do() -> None:
    # 2046 bits hold 32 slots of 63: the widest party's 16 columns take one answer.
    plan = replace(UNPACKED, packing=True)
    found = channel(agreed(plan))
    assert (found.capacity.answer_bits, found.capacity.equations) == ((2047,), 61)
    # The 945 bits of 15 sums also hold 27 residuals and a part of one.
    truncated = channel(agreed(plan, truncating=("active",)))
    assert (truncated.capacity.answer_bits, truncated.capacity.equations) == ((15 * 63,), 28)


def test_unpacked_and_truncated_there_is_not_a_bit_to_spare_and_each_sum_has_the_room_of_a_residual_and_a_part() -> (
    None
):
    found = channel(agreed(truncating=("active",)))
    assert (found.capacity.equations, found.capacity.spare_bits, found.capacity.spare_equations) == (30, 0, 15)


def test_a_peer_that_truncates_does_not_narrow_ones_own_answers() -> None:
    found = channel(agreed(truncating=("passive",)))
    assert found.capacity.equations == 15 * 61


def test_every_peer_has_its_channel() -> None:
    found = channels_of(agreed(features=(16, 4, 9)), "passive-1")
    assert [(one.key_holder, one.peer, one.capacity.sums) for one in found] == [
        ("passive-1", "active", 16),
        ("passive-1", "passive-2", 9),
    ]


def test_nothing_is_counted_where_nothing_is_encrypted_or_trained() -> None:
    assert channels_of(agreed(replace(UNPACKED, cipher="plain")), "active") == ()
    assert channels_of(agreed(UNPACKED.changed(learner="installed")), "active") == ()


def test_the_record_says_it_in_numbers() -> None:
    facts = channel(agreed(), rows=60).facts()
    assert asdict(facts) == {
        "key_holder": "active",
        "peer": "passive",
        "rows": 60,
        "answers": 15,
        "answer_bits": 15 * 2047,
        "sums": 15,
        "sum_bits": 63,
        "residual_bits": 34,
        "equations": 915,
        "spare_bits": 15 * (2047 - 63),
        "spare_equations": 900,
    }


# -- warning and refusing ---------------------------------------------------------------------------------------------


def test_as_many_equations_as_rows_are_too_many_and_one_fewer_is_not() -> None:
    agreement = agreed(truncating=("passive",))
    at, above = (channel(agreement, "passive", rows) for rows in (32, 33))
    assert (at.capacity.equations, at.is_solvable, at.is_telling) == (32, True, True)
    assert (above.is_solvable, above.is_telling) == (False, False)


def test_labels_take_a_quarter_of_the_equations_and_the_sentence_says_which_of_the_two_it_is() -> None:
    """30 equations for 15 sums: to be solved for up to 30 rows, labels up to 120."""
    agreement = agreed(replace(UNPACKED, batch_size=200), truncating=("active",))
    found = {rows: channel(agreement, rows=rows) for rows in (30, 31, 120, 121)}
    assert [(one.is_solvable, one.is_telling) for one in found.values()] == [
        (True, True),
        (False, True),
        (False, True),
        (False, False),
    ]
    for rows, numbers in ((121, None), (120, "too few to solve"), (31, "too few to solve"), (30, "enough to solve")):
        smaller = replace(agreement, plan=replace(agreement.plan, batch_size=rows))
        said = warnings(smaller, rows=rows * 9)
        if numbers is None:
            assert said == []
            continue
        assert said[0].startswith("passive could learn labels of active's records from the answers of one step. ")
        assert f"a batch has {rows} records: {numbers} for active's residuals" in said[0]
        assert ("labels follow from fewer equations than records" in said[0]) == (rows > 30)
        assert ("up to 4 from each" in said[0]) == (rows > 30)
        assert ("dp_noise at active" in said[0]) == (rows > 30)
    # Only the label party's residuals tell labels.
    assert not channel(agreed(replace(UNPACKED, batch_size=200), truncating=("passive",)), "passive", 33).is_telling


def test_the_smallest_batch_counts_however_large_the_others_are() -> None:
    agreement = agreed(truncating=("passive",), features=(7, 15))
    uneven = replace(agreement, plan=replace(UNPACKED, batch_size=28))
    assert {len(batch) for batch in BatchSchedule(np.arange(29), 28, 1).epoch(0)} == {14, 15}
    found = channel(uneven, "passive", rows=29)
    assert (found.rows, found.is_telling) == (14, True)
    assert not channel(uneven, "passive", rows=28).is_telling


def test_warn_says_it_refuse_stops_and_off_is_silent() -> None:
    agreement = trained_on(agreed(replace(UNPACKED, batch_size=121)), 121)
    channels = [channel(agreement, rows=121), channel(with_truncation(agreement, "active"), rows=121)]
    assert [one.is_telling for one in channels] == [True, False]
    assert guard(agreement, channels, "warn") == guard(agreement, channels[:1], "warn") != []
    with pytest.raises(OutOfOrder, match=r"Hu, section 5\.2.*\(PLUMBLINE_GUARD=refuse\)"):
        guard(agreement, channels, "refuse")
    assert guard(agreement, channels, "off") == []
    modes: tuple[Mode, ...] = ("warn", "refuse", "off")
    for mode in modes:
        assert guard(agreement, channels[1:], mode) == []
        assert guard(agreement, [], mode) == []


def test_zero_weights_are_warned_of_by_the_party_whose_labels_they_show() -> None:
    plan = UNPACKED.changed(batch_size=121, initialisation="zero")
    agreement = trained_on(agreed(plan, truncating=("active", "passive")), 121)
    (warning,) = guard(agreement, channels_of(agreement, "active"), "warn")
    assert warning.startswith("Every other party could learn labels of active's records from the answers of the first")
    assert "labels alone, and these follow from far fewer equations than there are records" in warning
    # 15 sums of 16 bits and some five for as many records; 15 answers of 63 bits.
    assert (
        "passive's 15 honest sums can hold the labels of 318 records, those that it chooses for itself of 945, "
        "both of more where a label is rare" in warning
    )
    assert "and a batch has 121." in warning
    assert "choose initialisation=xavier" in warning
    assert guard(agreement, channels_of(agreement, "passive"), "warn") == []
    with pytest.raises(OutOfOrder, match=r"Theorem 4\.1"):
        guard(agreement, channels_of(agreement, "active"), "refuse")


def test_the_sentence_has_both_numbers_both_names_and_both_remedies() -> None:
    (warning,) = warnings(agreed(), "passive", rows=1999)
    assert warning.startswith("active could learn passive's part of each record's score from the answers of one step. ")
    assert "It can put 976 equations into them, and a batch has 62 records: enough to solve" in warning
    assert "To prevent it, choose a batch_size of 1000, or" in warning
    assert "set truncate_answers=true at passive (32 equations)" in warning


def test_where_neither_a_batch_nor_truncation_is_enough_both_together_may_be() -> None:
    """All of breast_cancer unpacked: 398 training rows, 915 equations or 30."""
    (warning,) = warnings(agreed(), rows=398)
    assert "To prevent it, set truncate_answers=true at active with a batch_size of 133." in warning
    larger = agreed(replace(UNPACKED, batch_size=133), truncating=("active",))
    assert not channel(larger, rows=398).is_telling
    smaller = agreed(replace(UNPACKED, batch_size=132), truncating=("active",))
    assert channel(smaller, rows=398).is_telling
    # With truncation on already, noise is the other way to keep labels; the larger batch is named first.
    (truncating,) = warnings(agreed(truncating=("active",)), rows=398)
    assert "choose a batch_size of 133, or turn on dp_noise at active" in truncating


@pytest.mark.parametrize(("rows", "needed"), [(14, 33), (30, 33)])
def test_a_table_too_small_for_any_batch_gets_one_sentence(rows: int, needed: int) -> None:
    """The honest sums are enough: 16 columns of the active party, two equations each."""
    (warning,) = warnings(agreed(replace(UNPACKED, batch_size=rows)), "passive", rows=rows)
    assert warning == (
        "active could learn passive's part of each record's score from the answers of one step, whatever the batch "
        f"size: train on {needed} records or more, where there are {rows} now, or turn on dp_noise at passive (this "
        "count then stays)."
    )
    assert warnings(agreed(replace(UNPACKED, batch_size=needed), truncating=("passive",)), "passive", needed) == []
    fewer = agreed(replace(UNPACKED, batch_size=needed - 1), truncating=("passive",))
    assert len(warnings(fewer, "passive", needed - 1)) == 1


def test_several_peers_of_a_small_table_share_the_sentence() -> None:
    agreement = agreed(replace(UNPACKED, batch_size=9), features=(4, 3, 5), truncating=("active",))
    (warning,) = warnings(agreement, rows=9)
    assert warning.startswith("passive-1 and passive-2 could learn labels of active's records from the answers of one")
    assert "train on 41 records or more, where there are 9 now" in warning


def test_truncation_is_not_offered_to_who_truncates_already() -> None:
    (warning,) = warnings(agreed(truncating=("active",)), rows=15)
    assert "truncate_answers" not in warning


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


@given(agreements())
def test_truncation_leaves_the_honest_slots_and_nothing_more(agreement: Agreement) -> None:
    """Unpacked, and packed row by row for two classes, not a bit to spare."""
    truncating = trained_on(with_truncation(agreement, "active"), 64)
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
        # 57 bits of a single row at least, 65 of 300 rows with signed features at most; a residual takes 34.
        assert capacity.equations == 2 * capacity.sums


def test_a_narrow_peer_of_a_wide_party_gets_its_own_sums_only() -> None:
    agreement = agreed(TrainingPlan(batch_size=32), features=(31, 3), truncating=("active",))
    assert channel(agreement).capacity.answer_bits == (3 * 62,)


def test_a_session_that_fits_its_keys_just_so_is_counted_all_the_same() -> None:
    """Eight classes take the eight slots of 512 bits; with 64 bits reserved there are seven."""
    agreement = agreed(TrainingPlan(batch_size=64, key_bits=512), classes=8)
    assert CipherFormats(agreement).layout is not None
    assert channel(agreement, rows=300).is_telling
    assert not any("truncate_answers" in text for text in warnings(agreement, rows=300))


@given(agreements(), st.sampled_from(["active", "passive"]))
def test_truncation_holds_what_the_sentence_promises(agreement: Agreement, who: str) -> None:
    """The layout with bits reserved for truncation is another one than the session's without."""
    try:
        found = channel(agreement, who, rows=300)
        truncated = channel(with_truncation(agreement, who), who, rows=300)
    except PackingImpossible:
        assume(False)
        raise
    promised = re.search(rf"truncate_answers=true at {who} \((\d+) equations\)", " ".join(said(agreement, who, 300)))
    assert (promised is not None) == (is_open(found) and not is_open(truncated))
    assert promised is None or int(promised[1]) == truncated.capacity.equations


def is_open(one: Channel) -> bool:
    return one.is_telling or one.is_heard


def said(agreement: Agreement, who: str, rows: int) -> list[str]:
    """What the guard says of one step's answers."""
    return [text for text in warnings(agreement, who, rows) if "answers of one step" in text]


@given(
    agreements(),
    st.sampled_from(["active", "passive"]),
    st.integers(300, 3000),
    st.sampled_from([0.5, 0.3, 0.1, 0.01, 1e-6]),
)
def test_what_the_sentence_names_is_silent(agreement: Agreement, who: str, rows: int, learning_rate: float) -> None:
    """Batch sizes and truncation, with the learning rate that they need: applied whole, nothing is said."""
    agreement = replace(agreement, plan=agreement.plan.changed(learning_rate=learning_rate))
    try:
        found = channel(agreement, who, rows)
    except PackingImpossible:
        assume(False)
        raise
    text = " ".join(said(agreement, who, rows))
    assert bool(text) == found.is_telling
    rate = r"(?: and a learning_rate of ([\d.e-]+) or more)?"
    batch = r"(truncate_answers=true at \S+ with|choose) a batch_size of (\d+)"
    for words, batch_size, needed in re.findall(batch + rate, text):
        changed = agreement if words == "choose" else with_truncation(agreement, who)
        plan = agreement.plan.changed(batch_size=int(batch_size), learning_rate=float(needed or learning_rate))
        assert warnings(replace(changed, plan=plan), who, rows) == []
    if named := re.search(rf"truncate_answers=true at {who} \(\d+ equations\){rate}", text):
        plan = agreement.plan.changed(learning_rate=float(named[1] or learning_rate))
        assert warnings(replace(with_truncation(agreement, who), plan=plan), who, rows) == []
    if named := re.search(r"train on (\d+) records or more, where there are (\d+) now", text):
        assert int(named[1]) > int(named[2]) == rows
        enough = with_truncation(agreement, who)
        enough = replace(enough, plan=agreement.plan.changed(batch_size=int(named[1]), learning_rate=0.5))
        with suppress(PackingImpossible):
            assert warnings(enough, who, int(named[1])) == []


def test_a_remedy_at_a_small_learning_rate_names_the_one_that_it_needs() -> None:
    """Found: who did as told was warned of the learning rate next."""
    plan = TrainingPlan(batch_size=64, learner_options={"learning_rate": 0.1})
    (warning,) = warnings(agreed(plan, truncating=("active", "passive")), rows=383)
    assert "choose a batch_size of 128 and a learning_rate of 0.17 or more, or turn on dp_noise" in warning


@pytest.mark.parametrize(
    ("plan", "who", "training_rows", "helps"),
    [
        (TrainingPlan(batch_size=16, key_bits=512), "passive", 280, True),
        (TrainingPlan(batch_size=32), "passive", 280, True),
        (TrainingPlan(batch_size=32), "active", 2000, True),
        # More equations than there are rows, or than a quarter of them: no batch_size works.
        (UNPACKED, "passive", 398, False),
        (TrainingPlan(batch_size=32), "active", 240, False),
    ],
)
def test_a_batch_size_is_named_where_there_is_one(
    plan: TrainingPlan, who: str, training_rows: int, helps: bool
) -> None:
    (warning,) = said(agreed(plan), who, training_rows)
    assert ("choose a batch_size of" in warning) == helps


# -- peers that put their answers together ----------------------------------------------------------------------------


def test_peers_that_are_each_told_too_little_are_told_of_where_they_know_enough_together() -> None:
    plan = replace(UNPACKED, batch_size=96)
    agreement = trained_on(agreed(plan, features=(12, 8, 8), truncating=("active",)), 960)
    channels = channels_of(agreement, "active")
    each = [one.most_rows_told for one in channels]
    assert max(each) < channels[0].rows <= sum(each)
    (warning,) = guard(agreement, channels, "warn")
    assert warning.startswith(
        "passive-1 and passive-2 could learn labels of active's records from the answers of one step, if they put them "
        f"together: each is answered about the same residuals. Together they hold {sum(each) // 4} equations"
    )
    with pytest.raises(OutOfOrder, match="if they put them together"):
        guard(agreement, channels, "refuse")
    (batch_size,) = map(int, re.findall(r"choose a batch_size of (\d+)", warning))
    larger = trained_on(agreed(replace(plan, batch_size=batch_size), features=(12, 8, 8), truncating=("active",)), 960)
    assert guard(larger, channels_of(larger, "active"), "warn") == []
    # The default batch has room for all parties together.
    everybody = ("active", "passive-1", "passive-2")
    chosen = with_open_terms(
        trained_on(agreed(replace(plan, batch_size=0), features=(12, 8, 8), truncating=everybody), 960)
    )
    assert exposure(chosen, CipherFormats(chosen).layout).is_none
