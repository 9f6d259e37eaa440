"""Labels by listening to a whole training: shuffled ones too, by honest probabilities, and none where none is told."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from attacks.training.label_completion import completed
from attacks.training.own_part import OwnPart
from attacks.training.recovered_labels import UNRESOLVED, EstimatedLabels
from attacks.training.trajectory_labels import TrajectoryLabels
from attacks.views import ViewError
from tests.harness.listening import planted, seen, trained, view_of
from vfl.arrays import FloatArray, IntArray
from vfl.learning.score_quality import area_under_curve
from vfl.theory.training import OracleRun

ATTACK = TrajectoryLabels()


def right(found: EstimatedLabels, run: OracleRun) -> float:
    return float((found.probabilities.argmax(axis=1) == run.labels).mean())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shuffled", [True, False])
def test_who_listens_to_sixty_epochs_reads_all_labels(seed: int, shuffled: bool) -> None:
    run = trained(seed, shuffled=shuffled)
    found = ATTACK.attack(seen(run))
    assert (found.labels == run.labels).mean() >= 0.99
    assert not found.reason


@pytest.mark.parametrize(("epochs", "least"), [(4, 0.7), (8, 0.85), (15, 0.97)])
def test_probabilities_are_as_often_right_as_they_say(epochs: int, least: float) -> None:
    expected, was_right = [], []
    for seed in range(5):
        run = trained(seed, epochs=epochs)
        found = ATTACK.attack(seen(run))
        expected.append(found.probabilities.max(axis=1).mean())
        was_right.append(right(found, run))
    assert np.mean(was_right) >= least
    assert np.mean(was_right) == pytest.approx(np.mean(expected), abs=0.06)


@pytest.mark.parametrize(("batch", "reshuffled"), [(128, False), (383, True)])
def test_the_same_batches_in_every_epoch_tell_as_much_as_there_are_sums_a_record(batch: int, reshuffled: bool) -> None:
    areas, expected, was_right = [], [], []
    for seed in range(5):
        run = trained(seed, reshuffled=reshuffled, batch=batch)
        found = ATTACK.attack(seen(run))
        areas.append(area_under_curve(found.probabilities, run.labels))
        expected.append(found.probabilities.max(axis=1).mean())
        was_right.append(right(found, run))
    # 15 sums for each batch of 383 records are 0.04 a record, or 0.12.
    assert np.mean(areas) == pytest.approx({128: 0.7, 383: 0.62}[batch], abs=0.03)
    assert np.mean(was_right) == pytest.approx(np.mean(expected), abs=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_noise_tell_no_label(seed: int) -> None:
    run, generator = trained(seed), np.random.default_rng(seed)
    view = seen(run)
    noisy = tuple(
        replace(one, sums=one.matrix.T @ generator.normal(0, 2, (len(one.rows), 1))) for one in view.equations
    )
    found = ATTACK.attack(replace(view, equations=noisy))
    named = np.where(found.labels == UNRESOLVED, np.bincount(run.labels).argmax(), found.labels)
    assert (named == run.labels).mean() <= np.bincount(run.labels).max() / len(run.labels) + 0.06


def test_each_of_several_classes_is_read() -> None:
    run = planted(rows=150, batch=40, parties=(6, 7), epochs=40, classes=4, initialisation="xavier", learning_rate=0.5)
    found = ATTACK.attack(view_of(run, 1, "xavier"))
    assert (found.labels == run.labels).mean() >= 0.98
    assert found.probabilities.sum(axis=1) == pytest.approx(1.0)


def test_one_of_two_passive_parties_is_enough() -> None:
    run = planted(rows=120, batch=40, parties=(6, 9, 5), epochs=40, initialisation="xavier", learning_rate=0.5)
    assert (ATTACK.attack(view_of(run, 1, "xavier")).labels == run.labels).mean() >= 0.95


def test_sessions_about_the_same_records_tell_more_together() -> None:
    _, classes = load_breast_cancer(return_X_y=True)
    truth = np.random.default_rng(9).permutation(classes)
    rows = [np.arange(0, 380), np.arange(100, 480)]
    runs = [trained(seed, shuffled=False, epochs=5, rows=own, labels=truth) for seed, own in enumerate(rows)]
    alone = [right(ATTACK.attack(seen(run)), run) for run in runs]
    found = ATTACK.attack_sessions([seen(run) for run in runs], rows)
    in_both = np.arange(100, 380)
    together = (found.probabilities.argmax(axis=1)[in_both] == truth[in_both]).mean()
    assert together >= max(alone) + 0.03
    assert len(found.labels) == 480


def test_a_view_with_earlier_sessions_joins_them_unless_their_labels_are_others() -> None:
    _, classes = load_breast_cancer(return_X_y=True)
    truth = np.random.default_rng(9).permutation(classes)
    # The same records in another order, as ids of the own table.
    rows = [np.arange(0, 380), np.random.default_rng(1).permutation(400)]
    first, second = (trained(seed, shuffled=False, epochs=5, rows=own, labels=truth) for seed, own in enumerate(rows))
    other = trained(1, shuffled=True, epochs=5, rows=rows[1], labels=truth)
    alone = right(ATTACK.attack(seen(first)), first)
    view = replace(seen(first), records=rows[0])
    joined = ATTACK.attack(replace(view, earlier=(replace(seen(second), records=rows[1]),)))
    assert joined.details["sessions"] == 2
    assert right(joined, first) >= alone + 0.03
    assert len(joined.labels) == 380
    misled = ATTACK.attack(replace(view, earlier=(replace(seen(other), records=rows[1]),)))
    assert right(misled, first) >= alone - 0.03
    with pytest.raises(ViewError, match="records"):
        replace(seen(first), earlier=(seen(second),))


@pytest.mark.parametrize("labels", [np.zeros(569, dtype=np.int64), None])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_records_and_a_single_class_end_in_an_answer_or_a_sentence(rows: int, labels: IntArray | None) -> None:
    run = trained(rows=np.arange(rows), labels=labels, epochs=3, batch=2)
    found = ATTACK.attack(seen(run))
    assert found.labels.shape == (rows,)
    assert bool(found.reason) != np.isfinite(found.probabilities).all()


def test_rows_that_are_all_alike_have_no_label_told() -> None:
    run = trained(epochs=10)
    for block in run.blocks:
        block[:] = block[0]
    found = ATTACK.attack(seen(replace(run, steps=run.steps)))
    assert found.reason
    assert np.isnan(found.probabilities).all()


def test_it_is_a_listening_passive_partys() -> None:
    run = planted()
    with pytest.raises(ViewError, match="passive"):
        ATTACK.attack(view_of(run, 0))
    with pytest.raises(ViewError, match="first-order"):
        ATTACK.attack(view_of(planted(approximation="minimax"), 1))
    with pytest.raises(ViewError, match="passive"):
        OwnPart().attack(view_of(run, 0))


# --- the own part ---------------------------------------------------------------------------------------------------


def test_the_own_part_follows_true_labels_and_no_shuffled_ones() -> None:
    true, shuffled = trained(shuffled=False), trained()
    assert right(OwnPart().attack(seen(true)), true) >= 0.85
    assert right(OwnPart().attack(seen(shuffled)), shuffled) <= 0.62


def test_the_own_part_of_hundreds_of_columns_is_found_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    view = seen(trained(shuffled=False))
    exact = OwnPart().attack(view).probabilities
    monkeypatch.setattr("attacks.training.own_part._WIDE", 1)
    assert OwnPart().attack(view).probabilities == pytest.approx(exact, abs=1e-4)


def test_known_labels_complete_an_estimate_that_is_the_wrong_way_round() -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 400)
    features: FloatArray = generator.normal(size=(400, 3))
    wrong = np.column_stack([0.2 + 0.6 * truth, 0.8 - 0.6 * truth])
    known = np.arange(30)
    found = completed(features, wrong, known, truth[known])
    assert (found.argmax(axis=1) == truth).mean() >= 0.98


def test_who_keeps_a_uniform_share_has_no_own_part() -> None:
    with pytest.raises(ViewError, match="no part of its own where weights stay shared"):
        OwnPart().attack(replace(seen(trained(shuffled=False)), knows_own_weights=False))


def test_a_constant_own_part_says_why_it_tells_nothing() -> None:
    run = planted(parties=(4, 1), epochs=2)
    run.blocks[1][:] = 1.0
    view = seen(replace(run, steps=tuple(replace(one, shares=(one.shares[0], 0 * one.shares[1])) for one in run.steps)))
    assert "the same for all records" in OwnPart().attack(view).reason
