"""Figure 5 on data that scikit-learn brings, and points whose answers are known."""

import numpy as np
import pytest

import attacks
from studies.jiang.inversion.contenders import ESA, HALF_STAR, RANDOM, RANGES, RCC2
from studies.jiang.inversion.inversion_setting import Grid, InversionPlan, complete_ratio, linear_targets, size_of
from studies.jiang.inversion.linear_inversion import linear
from studies.measurements import Choice, SweepOptions
from studies.page.section import Section
from studies.study import StudyRun

pytest.importorskip("torch")
WINE = Grid(("wine",), ratios=(0.15, 0.6), windows=2)


@pytest.fixture(scope="module")
def section() -> Section:
    run = StudyRun(SweepOptions(workers=1), attacks=(Choice.of("zero"),))
    return linear(run, InversionPlan(WINE, records=15, steps=200, draws=3))


def test_scores_determine_as_many_features_as_classes_but_one(section: Section) -> None:
    data = section.data[section.data["d"] <= 2]
    for curve in (ESA, HALF_STAR, RCC2):
        assert data[data["curve"] == curve]["mse"].max() < 1e-12
    assert data[data["curve"] == RANDOM]["mse"].min() > 0.05
    assert data[data["curve"] == ESA]["attack_accuracy"].min() == 1


def test_ours_and_plugins_stand_beside_the_published_curves(section: Section) -> None:
    error, accuracy = section.plots
    labels = {curve.label: curve.ours for panel in error.panels for curve in panel.curves}
    assert not labels[ESA]
    assert labels[RANGES]
    assert labels["zero"]
    assert labels["no score, ranges"]
    assert "no score, ranges" not in {curve.label for panel in accuracy.panels for curve in panel.curves}


def test_the_note_says_how_far_the_published_are_from_ours(section: Section) -> None:
    (told,) = [note for note in section.notes if note.startswith("wine, r = 0.62")]
    data = section.data[(section.data["ratio"] > 0.5) & (section.data["curve"] == RANGES)]
    assert f"{data['mse'].mean():.2g}" in told
    assert f"{max(0.0, 1 - data['mse'].mean() / data['baseline'].mean()):.0%}" in told


def test_statements_are_of_this_run(section: Section) -> None:
    wine = [one for one in section.statements if one.subject == "wine"]
    assert len(wine) == 8
    assert all(one.measured for one in wine)
    assert {one.verdict for one in wine} <= {"reproduced", "in part", "differs", "not measured"}


def test_grids_take_seeds_in_turn_and_the_size_that_scores_determine() -> None:
    targets = linear_targets(WINE, 5)
    assert complete_ratio("wine") == 2 / 13
    assert [(len(one.passive), one.model.seed) for one in targets] == [(2, 5), (2, 6), (8, 5), (8, 6)]
    assert [len(one.passive) for one in linear_targets(WINE, 0, complete=False)] == [2, 2, 8, 8]
    assert (size_of("wine", 0.01), size_of("wine", 1.0)) == (1, 12)


def test_a_missing_data_set_is_named() -> None:
    run = StudyRun(SweepOptions(workers=1))
    section = linear(run, InversionPlan(Grid(("robot",), ratios=(0.1,)), steps=1))
    assert any(note.startswith("robot is skipped") for note in section.notes)
    assert (section.plots, [one.verdict for one in section.statements]) == ((), ["not measured"])


@pytest.mark.parametrize(("init", "limit"), [("zero", "ls"), ("half", "half_star")])
def test_inversion_goes_where_equation_solving_goes(init: str, limit: str) -> None:
    # Weights of one size: Adam's steps, as long in every coordinate, then have the gradient's direction.
    generator = np.random.default_rng(0)
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [-1.0, -1.0, -1.0, -1.0]])
    truth = generator.uniform(0.45, 0.55, (20, 4))
    logits = truth @ weights.T
    view = attacks.PredictionView(
        features_active=np.zeros((20, 1)),
        scores=np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True),
        weights_active=np.zeros((2, 1)),
        weights_passive=weights,
        bias=np.zeros(2),
    )
    found = attacks.load_prediction("gia", init=init, distance="kld", steps=3000).reconstruct(view)
    np.testing.assert_allclose(found, attacks.load_prediction(limit).reconstruct(view), atol=1e-3)
