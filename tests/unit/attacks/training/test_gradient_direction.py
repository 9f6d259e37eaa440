"""Labels from the directions of a network's backward signals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.training.gradient_direction import GradientDirection
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_views import TrainingView
from attacks.views import ViewError
from tests.harness.listening import planted, view_of
from tests.harness.network_views import breast_cancer, network_run
from vfl.arrays import FloatArray, IntArray
from vfl.learning.network.network_reference import Defended
from vfl.learning.score_quality import area_under_curve

# The label party trains with it.
pytest.importorskip("torch")


def knowing(view: TrainingView, labels: IntArray, *rows: int) -> TrainingView:
    known = np.full(view.n, UNRESOLVED)
    known[list(rows)] = labels[list(rows)]
    return replace(view, known_labels=known)


@pytest.mark.parametrize("batch", [8, 64])
@pytest.mark.parametrize("options", [{}, {"upper": 8}, {"activation": "relu"}, {"optimiser": "adam"}])
def test_one_known_label_tells_all_where_signals_are_in_the_clear(batch: int, options: dict[str, Any]) -> None:
    blocks, labels = breast_cancer(shuffled=True)
    rate = 0.01 if "optimiser" in options else 0.03
    run = network_run(blocks, labels, batch=batch, epochs=2, backward="plain", learning_rate=rate, **options)
    view = knowing(run.passive(), labels, 3)
    found = GradientDirection().attack(view)
    assert area_under_curve(found.probabilities, labels) >= 0.99


def test_without_a_known_label_the_class_of_the_longer_signals_is_the_rarer() -> None:
    blocks, labels = breast_cancer(rare=True)
    found = GradientDirection().attack(network_run(blocks, labels, epochs=2, backward="plain").passive())
    assert (found.labels == labels).mean() >= 0.99


def test_sums_with_as_many_columns_as_rows_tell_the_signals() -> None:
    blocks, labels = breast_cancer(shuffled=True)
    run = network_run(blocks, labels, batch=8, epochs=2)
    found = GradientDirection().attack(knowing(run.passive(), labels, 0))
    assert (found.labels == labels).mean() >= 0.98
    larger = GradientDirection().attack(network_run(blocks, labels, epochs=1).passive())
    assert larger.reason.startswith("Not possible: 64 records in a step and 10 sums")
    assert (larger.labels == UNRESOLVED).all()


def test_three_classes_are_told_apart_and_named_by_known_labels_only() -> None:
    blocks, _ = breast_cancer()
    labels = np.random.default_rng(0).integers(0, 3, len(blocks[0]))
    view = network_run(blocks, labels, epochs=2, backward="plain", learning_rate=0.03).passive()
    assert "give the attack's party a known label" in GradientDirection().attack(view).reason
    found = GradientDirection().attack(
        knowing(view, labels, *(int(np.flatnonzero(labels == one)[0]) for one in range(3)))
    )
    assert (found.labels == labels).mean() >= 0.95


def test_signals_in_three_values_tell_labels_by_their_projections() -> None:
    """Coarse signals turn round from step to step: directions alone give an area of 0.92 here."""
    blocks, labels = breast_cancer()

    def coarse(signals: FloatArray, _: IntArray) -> FloatArray:
        middle, reach = signals.mean(), 2 * signals.std()
        rounded: FloatArray = middle + np.round(np.clip((signals - middle) / reach, -1, 1)) * reach
        return rounded

    run = network_run(blocks, labels, epochs=10, backward="plain", defended=Defended(backward=coarse))
    found = GradientDirection().attack(knowing(run.passive(), labels, *range(8)))
    assert area_under_curve(found.probabilities, labels) >= 0.99


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_where_noise_makes_all_signals_equally_long_the_class_with_fewer_records_is_the_rarer(seed: int) -> None:
    """Noise as of max_norm, drawn anew in every step; lengths would name the classes at random."""
    blocks, labels = breast_cancer()
    generator = np.random.default_rng(seed)

    def equally_long(signals: FloatArray, _: IntArray) -> FloatArray:
        lengths = np.linalg.norm(signals, axis=1, keepdims=True)
        spread = np.sqrt((lengths.max() / lengths) ** 2 - 1)
        noisy: FloatArray = signals * (1 + spread * generator.standard_normal(lengths.shape))
        return noisy

    defended = Defended(backward=equally_long)
    run = network_run(blocks, labels, epochs=10, backward="plain", learning_rate=0.03, defended=defended)
    found = GradientDirection().attack(run.passive())
    assert (found.labels == labels).mean() > 0.75


def test_signals_without_labels_in_them_tell_nothing() -> None:
    blocks, labels = breast_cancer(shuffled=True)
    view = network_run(blocks, labels, epochs=2, backward="plain").passive()
    generator = np.random.default_rng(2)
    noise = tuple(replace(one, sums=generator.standard_normal(one.sums.shape)) for one in view.equations)
    found = GradientDirection().attack(knowing(replace(view, equations=noise), labels, 3))
    assert abs(area_under_curve(found.probabilities, labels) - 0.5) < 0.1


def test_signals_that_are_zero_are_said_to_be() -> None:
    blocks, labels = breast_cancer()
    view = network_run(blocks, labels, epochs=1, backward="plain").passive()
    nothing = tuple(replace(one, sums=np.zeros_like(one.sums)) for one in view.equations)
    found = GradientDirection().attack(replace(view, equations=nothing))
    assert found.reason == "Not possible: every backward signal is 0."
    assert (found.labels == UNRESOLVED).all()


def test_it_is_refused_to_the_label_party_and_on_a_linear_model() -> None:
    blocks, labels = breast_cancer()
    with pytest.raises(ViewError, match="needs equations"):
        GradientDirection().attack(network_run(blocks, labels, epochs=1).active())
    with pytest.raises(ViewError, match="gradient_direction is on sessions of network, and this one trains linear"):
        GradientDirection().attack(view_of(planted(), 1))


@pytest.mark.parametrize(
    "name",
    ["label_recovery", "trajectory_labels", "feature_order", "trajectory_products", "averaged_products"],
)
def test_attacks_on_the_linear_model_say_so_on_a_network(name: str) -> None:
    blocks, labels = breast_cancer()
    run = network_run(blocks, labels, epochs=1)
    view = run.active() if name.endswith("products") else run.passive()
    attack: Any = attacks.load_training(name)
    with pytest.raises(ViewError, match=f"{name} (is on sessions of linear|needs)"):
        attack.attack(view)
