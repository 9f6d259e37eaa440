"""Where the guard's thresholds lie: labels from fewer equations than rows, weights that stand still."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.listening import Case, measured
from services.ciphers.default_plan import with_open_terms
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import OutOfOrder
from services.exchange.vectors import DecryptedVector
from services.protocols.hu.guard import STANDSTILL, channels_of, guard, steps_until_told
from tests.harness.agreements import UNPACKED, agreed, channel, trained_on, warnings, with_truncation
from tests.harness.exchanges import Problem, run_together, wired
from tests.harness.thresholds import (
    SUMS,
    error_of_stillness,
    first_shares,
    labels_right,
    labels_told,
)
from vfl.arrays import FloatArray
from vfl.crypto import (
    decrypt_integers,
    encrypt_vector,
    keygen,
    mask_vector,
    matvec,
    truncate,
    unmask,
)
from vfl.data import load_dataset, snap_to_grid
from vfl.learning.linear.regression import LABELS_PER_EQUATION, LABELS_PER_EQUATION_NEAR_ZERO

# -- labels from fewer equations than rows ----------------------------------------------------------------------------


def test_private_random_weights_hide_the_labels_of_no_more_rows_than_the_guard_warns_of() -> None:
    """60 rows of breast_cancer, 15 packed and truncated sums as an honest peer asks for: no more than it is sent.

    Xavier weights of the label party, 15 columns and a bias. The larger class has 63 % of the records.
    """
    rows, sums = SUMS * LABELS_PER_EQUATION, SUMS
    agreement = agreed(replace(UNPACKED, batch_size=rows, key_bits=512), truncating=("active",))
    formats = CipherFormats(agreement)
    bits = formats.answer_bits("active", "passive")
    assert bits is not None
    _, private = keygen(512, insecure=True)
    # Column j asks for rows 4 j to 4 j + 3: features like any others.
    matrix = np.kron(np.eye(sums), 2.0 ** -np.arange(LABELS_PER_EQUATION)[:, None])
    right = []
    for seed in range(8):
        shares, labels = first_shares(rows, seed)
        masked, mask = mask_vector(matvec(matrix, encrypt_vector(private, shares), features=formats.feature))
        answers = unmask(mask, truncate(decrypt_integers(private, masked), bits), bits=bits)
        right.append((labels_told(answers[:, 0], LABELS_PER_EQUATION) == labels).mean())
    assert np.mean(right) > 0.75
    (warning,) = warnings(agreement, rows=5 * rows)
    assert "a batch has 60 records" in warning
    assert "labels follow from fewer equations than records" in warning


def test_five_rows_per_equation_tell_little_more_than_the_larger_class() -> None:
    assert labels_right(2) > 0.9
    assert labels_right(LABELS_PER_EQUATION) > 0.75
    assert labels_right(LABELS_PER_EQUATION + 1) < 0.75


def test_weights_that_start_all_but_at_zero_let_an_equation_tell_more_labels() -> None:
    assert labels_right(LABELS_PER_EQUATION_NEAR_ZERO, seeds=8, initialisation="normal") > 0.75
    agreement = agreed(replace(UNPACKED, batch_size=300), truncating=("active",))
    near_zero = replace(agreement, plan=agreement.plan.changed(initialisation="normal"))
    # Fifteen answers of 63 bits, 30 equations.
    assert [channel(one, rows=300).most_rows_told for one in (agreement, near_zero)] == [4 * 30, 7 * 30]


# -- weights that stand still -----------------------------------------------------------------------------------------


def standing(learning_rate: float, epochs: int = 6) -> Agreement:
    """200 training rows in 4 steps of 50; 20 equations of a truncating party per step reach them in 3 epochs."""
    plan = UNPACKED.changed(batch_size=50, key_bits=512, epochs=epochs, learning_rate=learning_rate)
    return trained_on(agreed(plan, features=(10, 5), truncating=("passive",)), 200)


def standstill_warnings(agreement: Agreement) -> list[str]:
    return guard(agreement, channels_of(agreement, "passive"), "warn")


def test_weights_stand_still_below_a_learning_rate_of_one_over_the_steps_that_tell_of_every_row() -> None:
    found = channel(standing(0.5), "passive", 200)
    assert (found.rows, found.capacity.equations, found.is_telling) == (50, 20, False)
    assert steps_until_told(standing(0.5), found) == 12
    assert standstill_warnings(standing(1 / 12)) == []
    # Three epochs are enough for the peer.
    assert len(standstill_warnings(standing(1 / 12 - 1e-6, epochs=3))) == 1
    (warning,) = standstill_warnings(standing(1 / 12 - 1e-6))
    assert warning.startswith("active could learn passive's part of each record's score from the answers of 12 steps ")
    assert "leaves weights almost where they are for so many, of 24 in this session" in warning
    assert "the same residuals of passive" in warning
    with pytest.raises(OutOfOrder, match=r"learning_rate=1e-09 .*PLUMBLINE_GUARD=refuse"):
        guard(standing(1e-9), channels_of(standing(1e-9), "passive"), "refuse")


@pytest.mark.parametrize("learning_rate", [1e-9, 0.01, 1 / 12 - 1e-6])
def test_both_remedies_against_standing_still_work(learning_rate: float) -> None:
    (warning,) = standstill_warnings(standing(learning_rate))
    named = re.search(r"choose a learning_rate of (\S+) or more, or fewer than (\d+) epochs", warning)
    assert named is not None
    assert (named[1], named[2]) == ("0.084", "3")
    assert standstill_warnings(standing(float(named[1]))) == []
    assert standstill_warnings(standing(learning_rate, epochs=int(named[2]) - 1)) == []


def test_labels_reach_the_peer_in_a_quarter_of_the_steps() -> None:
    agreement = replace(standing(1e-3), parties=agreed(features=(10, 5), truncating=("active",), rows=200).parties)
    found = channel(agreement, rows=200)
    # Ten equations tell of forty rows.
    assert (found.capacity.equations, found.is_telling) == (10, False)
    assert steps_until_told(agreement, found) == 2 * 4
    (warning,) = guard(agreement, [found], "warn")
    assert warning.startswith("passive could learn labels of active's records from the answers of 8 steps together.")


@pytest.mark.thorough
@given(
    st.integers(2, 100_000),
    st.integers(1, 512),
    st.integers(1, 60),
    st.booleans(),
)
def test_the_default_learning_rate_never_stands_still(rows: int, batch_size: int, features: int, packing: bool) -> None:
    agreement = agreed(TrainingPlan(batch_size=batch_size, packing=packing), features=(features, features))
    for who in ("active", "passive"):
        assert not any("learning_rate" in text for text in warnings(agreement, who, rows))


def test_what_a_standing_model_sums_up_to_is_every_row_of_the_other_party() -> None:
    """Honest messages of seven epochs: 220 independent equations, by ten in each step, for the 200 rows."""
    generator = np.random.default_rng(0)
    blocks = {
        "active": snap_to_grid(np.hstack([generator.uniform(size=(200, 9)), np.ones((200, 1))])),
        "passive": snap_to_grid(generator.uniform(size=(200, 5))),
    }
    problem = Problem(blocks, np.arange(200) % 2, 2)
    plan = standing(1e-9, epochs=7).plan.changed(batches="reshuffled")
    answers: list[FloatArray] = []
    with wired(problem, plan) as trainings:
        active, passive = trainings["active"], trainings["passive"]
        gradient_share = active.exchange.gradient_share

        def keeping(peer: str, answer: DecryptedVector, _: object) -> FloatArray:
            answers.append(gradient_share(peer, answer))
            return answers[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(active.exchange, "gradient_share", keeping)
            hidden = passive.half.weights.copy()
            run_together(trainings, plan.epochs)
        batches = [batch for epoch in range(plan.epochs) for batch in active.schedule.epoch(epoch)]
    equations = np.zeros((10 * len(batches), 200))
    for step, batch in enumerate(batches):
        equations[10 * step : 10 * step + 10, batch] = active.gridded.integers_of(blocks["active"][batch]).T
    recovered = np.linalg.lstsq(equations, np.vstack(answers), rcond=None)[0]
    np.testing.assert_allclose(recovered, blocks["passive"] @ hidden, atol=1e-6)
    # With truncation, which changes no gradient, the count of one step lets such a session through.
    agreement = with_truncation(problem.agreement(plan), "passive")
    assert not channel(agreement, "passive", 200).is_telling
    with pytest.raises(OutOfOrder, match=r"learning_rate=1e-09 leaves weights almost where they are"):
        guard(agreement, channels_of(agreement, "passive"), "refuse")


def test_from_the_threshold_on_taking_weights_for_still_is_hardly_better_than_guessing() -> None:
    assert error_of_stillness(STANDSTILL / 100) < 0.1
    assert error_of_stillness(STANDSTILL) > 0.75


# -- listening over epochs --------------------------------------------------------------------------------------------


def heard(
    epochs: int, batches: str = "reshuffled", batch_size: int = 133, who: str = "active", **options: Any
) -> list[str]:
    """Of 398 training rows in three steps, about which 15 honest sums tell too little each."""
    plan = UNPACKED.changed(batch_size=batch_size, epochs=epochs, batches=batches, **options)
    agreement = trained_on(agreed(plan, truncating=("active", "passive")), 398)
    return guard(agreement, channels_of(agreement, who), "warn")


def test_reshuffled_batches_are_warned_of_once_epochs_have_told_a_sum_for_every_four_records() -> None:
    """15 sums of the whole table, and 30 new ones an epoch: 45, 75, 105 of the 100."""
    assert heard(2) == []
    (warning,) = heard(3)
    assert warning == (
        "passive could learn labels of active's records by listening alone, from the answers of 3 epochs together. "
        "What is summed of a record changes little from step to step, every epoch has other batches, and so its sums "
        "are further equations about the same records: 105 about 398 by then. To prevent it, set batches=fixed, or "
        "train for fewer than 3 epochs."
    )
    assert heard(60) == [warning]
    # Seven labels follow from a sum near zero weights.
    assert "answers of 2 epochs" in heard(2, initialisation="normal")[-1]


def test_products_take_a_sum_for_every_record() -> None:
    """16 sums of the label party's columns: 16 + 32 e of 398, which e = 12 reach."""
    assert heard(11, who="passive") == []
    (warning,) = heard(12, who="passive")
    assert warning.startswith("active could learn passive's part of each record's score by listening alone, from the")
    assert "answers of 12 epochs together" in warning
    assert "400 about 398" in warning
    assert heard(60, who="passive", batches="fixed") == []


def test_what_the_sentence_names_and_full_batches_are_silent() -> None:
    assert heard(60, batches="fixed") == []
    assert heard(60, batch_size=398) == []
    plan = UNPACKED.changed(batches="reshuffled", batch_size=133)
    agreement = trained_on(agreed(plan, truncating=("active",)), 398)
    with pytest.raises(OutOfOrder, match=r"listening alone.*PLUMBLINE_GUARD=refuse"):
        guard(agreement, channels_of(agreement, "active"), "refuse")
    assert guard(agreement, channels_of(agreement, "active"), "refuse", noisy=True) != []


def test_every_peer_that_hears_enough_is_named() -> None:
    plan = UNPACKED.changed(batches="reshuffled", batch_size=133, epochs=5)
    agreement = trained_on(agreed(plan, features=(16, 15, 10, 1), truncating=("active",)), 398)
    *_, warning = guard(agreement, channels_of(agreement, "active"), "warn")
    assert warning.startswith("passive-1 and passive-2 could learn labels of active's records by listening alone")


@pytest.mark.parametrize(("epochs", "least", "most"), [(1, 0.5, 0.74), (2, 0.74, 0.85), (15, 0.97, 1.0)])
def test_labels_no_model_could_know_are_read_from_where_the_guard_warns(epochs: int, least: float, most: float) -> None:
    """Labels and rows shuffled at random, so that messages alone tell them; area under the curve."""
    case = Case("reshuffled", True, rows=0, epochs=epochs, sums=0, batch=128, seed=0)
    found = measured(load_dataset("breast_cancer", None), case, attacked=True)
    assert least <= found["area"] <= most


def test_the_same_batches_in_every_epoch_tell_no_more_than_one_epoch() -> None:
    table = load_dataset("breast_cancer", None)
    one, many = (
        measured(table, Case("fixed", True, rows=0, epochs=epochs, sums=0, batch=128, seed=0), attacked=True)
        for epochs in (1, 40)
    )
    assert abs(one["area"] - many["area"]) < 0.02


# -- sums that no weight moves -----------------------------------------------------------------------------------------


def test_few_columns_are_told_of_and_the_default_batch_is_one_of_which_nothing_is_heard() -> None:
    plan = TrainingPlan(batch_size=128)
    few = trained_on(agreed(plan, features=(3, 15), truncating=("active", "passive")), 4000)
    (warning,) = guard(few, channels_of(few, "active"), "warn")
    assert warning == (
        "passive could learn labels of active's records by listening alone, from the answers about one batch. active "
        "has 3 columns, its bias included: as many of passive's 15 sums of a batch move with its weights, and what "
        "doesn't move is sums of labels alone. They can hold those of 252 records, and a batch has 125. To prevent it, "
        "choose a batch_size of 267, or turn on dp_noise at active, which hides residuals whatever is asked (this "
        "count then stays)."
    )
    sized = with_open_terms(replace(few, plan=replace(few.plan, batch_size=0)))
    assert sized.plan.batch_size == 267
    assert guard(sized, channels_of(sized, "active"), "warn") == []
    with pytest.raises(OutOfOrder, match="by listening alone"):
        guard(few, channels_of(few, "active"), "refuse")


def settling(steps: str, epochs: int) -> list[str]:
    agreement = standing(0.5, epochs=epochs)
    agreement = replace(agreement, plan=agreement.plan.changed(steps=steps))
    return guard(agreement, [channel(agreement, "passive", 200)], "warn")


def test_weights_that_have_settled_are_asked_about_as_those_that_stand_still() -> None:
    """Steps by own moments end after 4 of 2 / learning_rate; twelve more tell of every row."""
    assert settling("plain", 60) == settling("own_moments", 3) == []
    (warning,) = settling("own_moments", 60)
    assert warning.startswith("active could learn passive's part of each record's score from the answers of 12 steps ")
    assert "may be where they end after 4 of 240 steps" in warning
    named = re.search(r"set epochs to (\d+) or less", warning)
    assert named is not None
    assert settling("own_moments", int(named[1])) == []
    assert len(settling("own_moments", int(named[1]) + 1)) == 1
