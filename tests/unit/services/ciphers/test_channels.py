"""Channels: what is counted one by one and all together is the same, and the layout is the safest that fits."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from services.ciphers.channels import Exposure, channel, column_formats, exposure, residual_format, tell_together
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, TrainingPlan
from tests.harness.agreements import agreed
from vfl.crypto import WRAP_BITS, PackingImpossible, PackingLayout, layouts_for


@st.composite
def sessions(draw: st.DrawFn) -> Agreement:
    names = ("active", "passive-1", "passive-2")
    batch_size = draw(st.integers(1, 600))
    return agreed(
        TrainingPlan(batch_size=batch_size, key_bits=draw(st.sampled_from([512, 1024, 2048]))),
        features=tuple(draw(st.lists(st.integers(1, 40), min_size=3, max_size=3))),
        truncating=tuple(draw(st.sets(st.sampled_from(names)))),
        classes=draw(st.integers(2, 6)),
        signed=draw(st.booleans()),
        rows=draw(st.integers(2 * batch_size, 5000)),
    )


def layouts_of(agreement: Agreement) -> list[PackingLayout]:
    parties = agreement.parties
    try:
        return layouts_for(
            [column_formats(agreement, party) for party in parties],
            batch_size=agreement.plan.batch_size,
            classes=agreement.residual_columns,
            residual_format=residual_format(agreement),
            key_bits=agreement.plan.key_bits,
            reserved_bits=WRAP_BITS if any(party.truncates_answers for party in parties) else 0,
        )
    except PackingImpossible:
        assume(False)
        raise


@given(sessions(), st.data())
def test_an_exposure_is_the_count_of_the_channels(agreement: Agreement, data: st.DataObject) -> None:
    layout = data.draw(st.sampled_from([None, *layouts_of(agreement)]))
    channels = [
        channel(agreement, layout, holder.name, peer.name)
        for holder in agreement.parties
        for peer in agreement.peers_of(holder.name)
    ]
    assert len(channels) == 6
    counted = ("is_solvable", "is_telling", "is_heard")
    of_holders = [[one for one in channels if one.key_holder == holder.name] for holder in agreement.parties]
    together = sum(map(tell_together, of_holders))
    solvable, telling, heard = (sum(getattr(one, what) for one in channels) for what in counted)
    expected = Exposure(solvable, telling, heard, together)
    assert exposure(agreement, layout) == expected


@given(sessions())
def test_no_layout_exposes_less_than_the_sessions_and_no_cheaper_one_as_little(agreement: Agreement) -> None:
    layouts = layouts_of(agreement)
    chosen = CipherFormats(agreement).layout
    assert chosen is not None
    exposures = [exposure(agreement, layout) for layout in layouts]
    assert exposure(agreement, chosen) == min(exposures)
    assert layouts.index(chosen) == exposures.index(min(exposures))


@given(sessions())
def test_packing_never_exposes_more_than_one_value_per_plaintext(agreement: Agreement) -> None:
    """Which is why the guard doesn't advise packing=off."""
    layouts_of(agreement)
    packed = exposure(agreement, CipherFormats(agreement).layout)
    assert packed <= exposure(agreement, None)


def test_what_is_solvable_counts_before_what_tells_labels() -> None:
    assert Exposure(0, 0, 0, 1) < Exposure(0, 0, 1, 0) < Exposure(0, 3, 0, 0) < Exposure(1, 1, 0, 0)
    assert Exposure(0, 0, 0, 0).is_none
    assert not Exposure(0, 1, 0, 0).is_none
    assert not Exposure(0, 0, 0, 1).is_none
    assert not Exposure(0, 0, 1, 0).is_none


def test_the_cheapest_layout_is_taken_where_none_is_silent() -> None:
    """Where nothing is silent, safety costs nothing: all rows of a column are told whatever the layout is."""
    agreement = agreed(TrainingPlan(batch_size=8), rows=40)
    layouts = layouts_of(agreement)
    assert CipherFormats(agreement).layout == layouts[0]


def test_a_silent_layout_is_taken_though_another_is_cheaper() -> None:
    """Batches of 127 or 128 rows of breast_cancer: three rows per ciphertext leave slots between the wanted ones."""
    agreement = agreed(TrainingPlan(batch_size=128), truncating=("active", "passive"), rows=547)
    layouts, chosen = layouts_of(agreement), CipherFormats(agreement).layout
    assert (layouts[0].rows_per_ciphertext, layouts[0].columns_per_answer) == (3, 8)
    assert chosen is not None
    assert (chosen.rows_per_ciphertext, chosen.columns_per_answer) == (1, 16)
    assert exposure(agreement, layouts[0]) == Exposure(0, 1, 0, 0)
    assert exposure(agreement, chosen).is_none


def test_the_layout_goes_by_every_party() -> None:
    """A third party of many columns: what is silent for two alone may not be for all."""
    two = agreed(TrainingPlan(batch_size=128), truncating=("active", "passive"), rows=547)
    wide = replace(two, parties=(*two.parties, replace(two.parties[1], name="passive-2", feature_count=40)))
    assert exposure(two, CipherFormats(two).layout).is_none
    # 40 columns have 24 sums more than the label party has weights.
    assert exposure(wide, CipherFormats(wide).layout) == Exposure(0, 1, 1, 1)
