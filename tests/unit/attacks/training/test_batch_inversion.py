"""Labels from sums of a network's backward signals over batches."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.training.batch_inversion import BatchInversion
from attacks.training.label_completion import own_classifier, with_columns
from attacks.training.own_part import OwnPart
from attacks.training.recovered_labels import UNRESOLVED
from tests.harness.network_views import breast_cancer, network_run
from vfl.learning.confidence import confidence_scores
from vfl.learning.score_quality import area_under_curve

# The label party trains with it.
pytest.importorskip("torch")


def test_sums_of_all_epochs_tell_labels_that_no_column_tells() -> None:
    blocks, labels = breast_cancer(shuffled=True)
    run = network_run(blocks, labels, batch=64, epochs=20, learning_rate=0.03)
    found = BatchInversion().attack(run.passive())
    assert area_under_curve(found.probabilities, labels) >= 0.99
    own = OwnPart().attack(run.passive())
    assert area_under_curve(own.probabilities, labels) <= 0.65


def test_own_columns_complete_what_sums_leave_open_and_no_shuffled_labels() -> None:
    generator = np.random.default_rng(0)
    labels = (generator.random(1000) < 0.3).astype(np.int64)
    features = labels[:, None] + generator.normal(0, 1.0, (1000, 3))
    evidence = (labels + generator.normal(0, 0.8, 1000) - 0.5)[:, None] * [-1, 1]
    believed = confidence_scores(evidence / 0.64)
    for columns, least in ((features, 0.03), (generator.permutation(features), -0.01)):
        gain = area_under_curve(with_columns(columns, believed), labels) - area_under_curve(believed, labels)
        assert gain >= least
    # Sums of nothing are no evidence, and columns alone name no class.
    flat = with_columns(features, np.full((1000, 2), 0.5))
    assert np.ptp(flat[:, 1]) < 1e-6


def test_small_batches_are_solved_step_by_step() -> None:
    blocks, labels = breast_cancer(rare=True)
    found = BatchInversion().attack(network_run(blocks, labels, batch=8, epochs=2, learning_rate=0.03).passive())
    assert (found.labels == labels).mean() >= 0.97
    in_the_clear = network_run(blocks, labels, batch=64, epochs=1, backward="plain").passive()
    assert (BatchInversion().attack(in_the_clear).labels == labels).mean() >= 0.97


@pytest.mark.parametrize("epochs", [1, 10])
def test_the_same_batches_in_every_epoch_tell_shuffled_labels_from_the_first_one_on(epochs: int) -> None:
    areas = []
    for seed in range(4):
        blocks, labels = breast_cancer(shuffled=True)
        view = network_run(blocks, labels, epochs=epochs, reshuffled=False, seed=seed).passive()
        area = area_under_curve(BatchInversion().attack(view).probabilities, labels)
        # Which class is which is a guess here.
        areas.append(max(area, 1 - area))
    assert np.mean(areas) >= 0.68


def test_sessions_of_a_network_are_joined_whichever_way_their_signals_point() -> None:
    blocks, labels = breast_cancer(shuffled=True)
    views = [
        network_run(blocks, labels, epochs=3, reshuffled=False, seed=seed).passive(records=np.arange(len(labels)))
        for seed in range(3)
    ]
    known = np.where(np.arange(len(labels)) < 40, labels, UNRESOLVED)
    alone, joined = (
        BatchInversion().attack(replace(views[0], known_labels=known, earlier=earlier))
        for earlier in ((), tuple(views[1:]))
    )
    assert joined.details["sessions"] == 3
    areas = [area_under_curve(one.probabilities[40:], labels[40:]) for one in (alone, joined)]
    assert areas[1] >= areas[0] + 0.05
    others = [
        replace(one, equations=tuple(replace(told, sums=told.sums[::-1]) for told in one.equations)) for one in views
    ]
    misled = BatchInversion().attack(replace(views[0], known_labels=known, earlier=tuple(others[1:])))
    assert misled.details["sessions"] == 1


@pytest.mark.slow("a search over the labels of whole batches")
def test_more_classes_that_no_column_tells_are_grouped_and_named_by_known_labels() -> None:
    blocks, _ = breast_cancer()
    labels = np.random.default_rng(0).integers(0, 3, len(blocks[0]))
    view = network_run(blocks, labels, batch=64, epochs=20, learning_rate=0.03).passive()
    assert "give the attack's party a known label" in BatchInversion().attack(view).reason
    known = np.full(len(labels), UNRESOLVED)
    known[:20] = labels[:20]
    found = BatchInversion().attack(replace(view, known_labels=known))
    assert (found.labels == labels)[20:].mean() >= 0.9
    fixed = network_run(blocks, labels, epochs=10, reshuffled=False).passive(known_labels=known)
    generator = np.random.default_rng(1)
    noise = [replace(one, sums=generator.standard_normal(one.sums.shape)) for one in view.equations]
    for nothing in (fixed, replace(view, equations=tuple(noise), known_labels=known)):
        untold = BatchInversion().attack(nothing)
        assert "the sums of all" in untold.reason
        assert (untold.labels == UNRESOLVED).all()


def test_own_part_of_a_layer_is_a_classifier_and_completed_by_known_labels() -> None:
    blocks, labels = breast_cancer(columns=20)
    known = np.full(len(labels), UNRESOLVED)
    known[400:440] = labels[400:440]
    view = network_run(blocks, labels, epochs=10, trained_on=400).passive(known_labels=known)
    found = OwnPart().attack(view)
    assert area_under_curve(found.probabilities[440:], labels[440:]) >= 0.9
    assert area_under_curve(OwnPart().attack(replace(view, known_labels=None)).probabilities, labels) >= 0.9


def test_few_known_labels_complete_a_layer_better_than_own_columns_and_no_shuffled_labels() -> None:
    gains, chance = list[float](), list[float]()
    for shuffled in (False, True):
        blocks, labels = breast_cancer(columns=20, shuffled=shuffled)
        view = network_run(blocks, labels, epochs=15).passive()
        for first in range(0, 200, 20):
            known = np.full(len(labels), UNRESOLVED)
            known[first : first + 20] = labels[first : first + 20]
            rest = known == UNRESOLVED
            if len(np.unique(labels[~rest])) > 1:
                found = OwnPart().attack(replace(view, known_labels=known)).probabilities[rest]
                own = own_classifier().fit(view.features[~rest], labels[~rest]).predict_proba(view.features[rest])
                told = area_under_curve(found, labels[rest])
                (chance if shuffled else gains).append(told if shuffled else told - area_under_curve(own, labels[rest]))
    assert np.mean(gains) > 0
    assert abs(np.mean(chance) - 0.5) <= 0.05


def test_own_part_of_three_classes_says_that_it_cannot_name_them() -> None:
    blocks, labels = breast_cancer(columns=20)
    three = np.where(blocks[1][:, 0] > 0.1, 2, labels)
    known = np.full(len(labels), UNRESOLVED)
    known[:60] = three[:60]
    view = network_run(blocks, three, epochs=4).passive()
    assert "give the attack's party a known label" in OwnPart().attack(view).reason
    named = OwnPart().attack(replace(view, known_labels=known))
    assert (named.labels[60:] == three[60:]).mean() >= np.bincount(three[60:]).max() / len(three[60:]) + 0.1
