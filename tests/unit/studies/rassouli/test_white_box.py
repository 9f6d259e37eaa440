"""Figure 4 run in quick form on synthetic data: curves equal to closed forms, cvxpy on some of it, and plugins."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import attacks
from studies.measurements import AttackMeasurement, Choice, SweepOptions, measure_all
from studies.page.section import Section
from studies.rassouli.claims.comparisons import LABELS
from studies.rassouli.white_box import (
    _QUICK,
    BEFORE,
    _left_on_the_table,
    best_published,
    level,
    white_box_section,
)
from studies.rassouli.windowed import columns_of, model_of
from studies.study import StudyRun
from tests.harness.prepared import prepare
from vfl.theory.prediction import equations, moments, prediction_errors


@pytest.fixture(scope="module")
def section() -> Section:
    """The quick one of made data, with a plugin that needs complete records, and one that reads a single column."""
    brought = (Choice.of("imputation"), Choice.of("one_feature"))
    return white_box_section(
        StudyRun(SweepOptions(workers=1), attacks=brought), replace(_QUICK, datasets=("synthetic",))
    )


def test_half_star_and_ls_are_theorem_2_on_the_attacked_records(section: Section) -> None:
    model = prepare(model_of("synthetic", 0, rows=4000), None)
    own = section.data[(section.data["trainer"] == "adam") & (section.data["seed"] == 0) & (section.data["start"] == 0)]
    for d in own["d"].unique():
        columns = columns_of(int(d), 0, 10)
        theory = prediction_errors(equations(model.weights[:, columns]), moments(model.features[:100, columns]))
        errors = own[own["d"] == d].set_index("attack")["mse"]
        assert errors["half_star"] == pytest.approx(theory.half_star.value, abs=1e-9)
        assert errors["ls"] == pytest.approx(theory.least_squares.value, abs=1e-9)


@pytest.mark.thorough
def test_rcc2_is_what_cvxpy_finds() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    choice = model_of("synthetic", 0, rows=4000)
    model = prepare(choice, None)
    for d, start in ((3, 2), (8, 5)):
        columns = tuple(columns_of(d, start, 10))
        view, truth = model.view(columns, 5)
        matrix = equations(model.weights[:, columns])
        found = []
        for record in truth:
            point = cvxpy.Variable(d)
            constraints = [matrix @ point == matrix @ record, point >= 0, point <= 1]
            cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(point - 0.5)), constraints).solve(solver="CLARABEL")
            found.append(point.value)
        (row,) = measure_all(
            [AttackMeasurement(choice, columns, Choice.of("rcc2"), records=5)], SweepOptions(workers=1)
        ).to_dict("records")
        assert row["mse"] == pytest.approx(float(np.mean((np.array(found) - truth) ** 2)), abs=1e-6)
        np.testing.assert_allclose(attacks.load_prediction("rcc2").reconstruct(view), found, atol=1e-5)


def test_every_attack_of_the_figure_was_measured_and_ours_beside(section: Section) -> None:
    adam = section.data[section.data["trainer"] == "adam"]
    assert set(LABELS) <= set(adam["attack"])
    assert {level(prior) for prior in ("half", "mean", "covariance", "imputation")} <= set(adam["attack"])
    assert adam.loc[adam["attack"] == level("imputation"), "baseline"].notna().all()
    assert best_published(adam) not in BEFORE
    (plot,) = section.plots
    ours = {curve.label for panel in plot.panels for curve in panel.curves if curve.ours}
    assert {"posterior, knows records", "guess, knows means"} <= ours
    assert any("the paper's best attack is" in note for note in section.notes)


def test_statements_come_from_the_run(section: Section) -> None:
    (theorem,) = (one for one in section.statements if one.source == "Figure 4, Theorem 1")
    assert (theorem.subject, theorem.verdict) == ("all data sets", "in part")
    assert "broken in 0 of" in theorem.measured
    assert "Of 4 data sets, bank, robot, satellite not measured." in theorem.measured
    assert not any(one.subject == "robot" for one in section.statements)


def test_our_guess_is_the_least_one_on_the_windows_that_are_compared() -> None:
    """A level's own baseline may be worse than 1/2, and windows without a pair say nothing of the pairs."""
    rows = []
    for start, guess in ((0, 0.04), (5, 0.4)):
        ours: dict[str, object] = {"attack": level("imputation"), "mse": 0.02, "guess": guess, "baseline": 0.9}
        theirs: dict[str, object] = {"attack": "rcc2", "mse": 0.03, "guess": 0.05, "baseline": float("nan")}
        others: list[dict[str, object]] = [
            {"attack": name, "mse": 0.1} for name in ("ls", "gia", "cls", "half_star", "rcc1", "clamped_ls")
        ]
        measured = [ours, theirs, *others] if start == 0 else [ours]
        rows += [
            {"dataset": "bank", "trainer": "adam", "seed": 0, "d": 5, "k": 2, "start": start} | one for one in measured
        ]
    words = _left_on_the_table(pd.DataFrame(rows), "bank")
    assert "a guess 0.040: the federation's part is 0.50" in words


def test_a_plugin_is_given_what_it_needs_and_drawn_where_it_can_be_mounted(section: Section) -> None:
    assert set(section.data.loc[section.data["attack"] == "imputation", "auxiliary"]) == {_QUICK.auxiliary}
    drawn = {curve.label: curve for curve in section.plots[0].panels[0].curves}
    assert len(drawn["imputation"].x) > 1
    # Several columns can't be read by it: only d = 1 is there.
    assert set(section.data.loc[section.data["attack"] == "one_feature", "d"]) <= {1}
