"""What a training's answers may tell of single records: equations a record and records in all, over sessions."""

from dataclasses import replace

import numpy as np
import pytest

from services.common.errors import OutOfOrder
from services.common.exposure import Mode
from services.party.share_guard import SingleShares, guard_shares, rank_of, shares_of
from services.protocols.hu.guard import channels_of
from tests.harness.agreements import UNPACKED, agreed, trained_on
from vfl.arrays import FloatArray


def records(columns: int, rank: int | None = None) -> FloatArray:
    generator = np.random.default_rng(columns)
    rank = rank or columns
    return generator.normal(size=(400, rank)) @ generator.normal(size=(rank, columns)) + 5.0


def warned(
    epochs: int,
    *,
    rows: int = 400,
    columns: int = 12,
    classes: int = 2,
    rank: int | None = None,
    earlier: SingleShares | None = None,
    mode: Mode = "warn",
    noisy: bool = False,
) -> list[str]:
    """Of a passive party's answers that are cut to 31 honest sums of the label party."""
    plan = replace(UNPACKED, epochs=epochs)
    agreement = trained_on(agreed(plan, features=(31, columns), truncating=("passive",), classes=classes), rows)
    told = {} if earlier is None else {"active": earlier}
    return guard_shares(agreement, channels_of(agreement, "passive"), records(columns, rank), told, mode, noisy=noisy)


def test_every_record_tells_one_equation_an_epoch_and_answers_have_room_for_so_many_records() -> None:
    """31 sums in each of 7 steps of 16 epochs; cut, each has room for a share and a part of another."""
    agreement = trained_on(agreed(replace(UNPACKED, epochs=16), features=(31, 12), truncating=("passive",)), 400)
    (channel,) = channels_of(agreement, "passive")
    told = shares_of(agreement, channel)
    assert told == SingleShares(16, 16 * 7 * 62)
    assert [told.whole_records(rank) for rank in (12, 16, 17)] == [16 * 7 * 62 // 12, 7 * 62, 0]


def test_the_warning_says_who_what_how_many_and_what_to_do() -> None:
    assert warned(11) == []
    (warning,) = warned(16, rows=4_000)
    assert warning == (
        "active could learn whole records of passive by sending other messages than the protocol's. Who asks about "
        "single records in each step is told 1 sum of the columns of every record in an epoch, 12 in all sessions "
        "where 12 tell a whole record: all columns of at most 4000 of 4000 records fit the answers. "
        "To prevent it, train for fewer than 12 epochs with these records, choose protocol=shared, or turn on dp_noise "
        "at passive (this count then stays)."
    )


def test_few_answers_tell_few_records() -> None:
    plan = replace(UNPACKED, epochs=12, batch_size=1_000)
    agreement = trained_on(agreed(plan, features=(4, 12), truncating=("passive",)), 4_000)
    channels = channels_of(agreement, "passive")
    (warning,) = guard_shares(agreement, channels, records(12), {}, "warn")
    # 4 answers, each with room for two shares, in each of 4 steps.
    assert "all columns of at most 32 of 4000 records fit the answers" in warning


@pytest.mark.parametrize(("epochs", "classes", "rank", "is_warned"), [
    (3, 4, None, True),  # four shares of each record in an epoch
    (2, 4, None, False),
    (5, 2, 5, True),  # twelve columns that differ in five directions
    (4, 2, 5, False),
])  # fmt: skip
def test_classes_and_dependent_columns_take_fewer_epochs(
    epochs: int, classes: int, rank: int | None, is_warned: bool
) -> None:
    assert bool(warned(epochs, classes=classes, rank=rank)) == is_warned


def test_sessions_add_up() -> None:
    assert warned(6, earlier=SingleShares(5, 10_000)) == []
    (warning,) = warned(6, earlier=SingleShares(6, 10_000))
    assert "12 in all sessions where 12 tell a whole record" in warning
    assert "train for fewer than 6 epochs with these records" in warning
    (warning,) = warned(1, earlier=SingleShares(11, 10_000))
    assert "To prevent it, choose protocol=shared" in warning


def test_what_peers_could_put_together_is_added_up() -> None:
    plan = replace(UNPACKED, epochs=12, batch_size=1_000)
    agreement = trained_on(agreed(plan, features=(4, 12, 6), truncating=("passive-1",)), 4_000)
    channels = channels_of(agreement, "passive-1")
    assert [shares_of(agreement, channel).in_answers for channel in channels] == [384, 576]
    (warning,) = guard_shares(agreement, channels, records(12), {}, "warn")
    assert warning.startswith("active and passive-2 could learn whole records of passive-1")
    assert "at most 80 of 4000" in warning


def test_a_guard_that_refuses_refuses_it_unless_noise_hides_shares() -> None:
    with pytest.raises(OutOfOrder, match=r"could learn whole records of passive .* \(PLUMBLINE_GUARD=refuse\)"):
        warned(12, mode="refuse")
    assert warned(11, mode="refuse") == []
    assert warned(12, mode="refuse", noisy=True)
    assert warned(12, mode="off") == []


def test_a_rank_is_of_what_records_differ_by_whatever_the_units() -> None:
    generator = np.random.default_rng(0)
    kinds = np.eye(4)[generator.integers(0, 4, size=300)]
    columns = np.hstack([kinds, 1e9 + 1e4 * generator.normal(size=(300, 1)), np.ones((300, 2))])
    assert rank_of(columns) == 4
    assert rank_of(np.ones((5, 3))) == 1
