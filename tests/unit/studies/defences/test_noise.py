"""Hu, Figures 2 to 4: noise in the simulation against the definitions, and success against what theory gives."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from defences import TrainingTerms
from defences.dp_noise import DpNoise
from studies.defences.noise import _FALLBACK, noise_plot, noise_section
from studies.defences.noise_trainings import DELTAS, EPSILONS, INITIALISATIONS, PAPER, VARIANTS
from studies.measurements import SweepOptions
from studies.page.panel_charts import document
from studies.page.section import Section
from studies.simulation.side_by_side import LEARNING_RATE, ResidualNoise, Starts, Watch, train_side_by_side
from studies.study import StudyRun
from vfl.learning import BatchSchedule, GradientDescent
from vfl.theory.dp_noise import best_success, sign_success

DATA = os.environ.get("PLUMBLINE_DATA_DIR")
TRAININGS = (1 + len(VARIANTS) * len(DELTAS) * len(EPSILONS)) * len(INITIALISATIONS)


@pytest.fixture(scope="module")
def section() -> Section:
    """Without raw data: breast_cancer."""
    return noise_section(StudyRun(SweepOptions(workers=1), quick=True))


# --- the noise in the simulation -----------------------------------------------------------------------------------


def test_each_partys_gradient_carries_the_others_noise() -> None:
    rng = np.random.default_rng(0)
    batch, residual = rng.normal(size=(6, 5)), rng.normal(size=(6, 3))
    active = np.array([True, False, True, False, False])
    sigma_active, sigma_passive = np.array([0.0, 2.0, 0.0]), np.array([0.0, 0.0, 3.0])
    noise = ResidualNoise(active, sigma_active, sigma_passive, np.random.default_rng(1))
    solved, sums = noise.disturb(batch, residual)
    np.testing.assert_array_equal(solved[:, [0, 2]], residual[:, [0, 2]])
    assert (solved[:, 1] != residual[:, 1]).all()
    plain = batch.T @ residual
    np.testing.assert_allclose(sums[:, 0], plain[:, 0])
    np.testing.assert_allclose(sums[active, 1], plain[active, 1])
    # What reaches the passive party's columns is exactly the noise that it can solve for.
    np.testing.assert_allclose(sums[~active, 1], batch[:, ~active].T @ solved[:, 1])
    np.testing.assert_allclose(sums[~active, 2], plain[~active, 2])
    assert (np.abs(sums[active, 2] - plain[active, 2]) > 1e-3).all()


def test_noise_without_sigma_changes_nothing_and_every_step_is_observed() -> None:
    rng = np.random.default_rng(2)
    features, labels = rng.normal(size=(30, 4)), rng.integers(0, 2, 30)
    schedule, start = BatchSchedule(np.arange(24), 7, 0), rng.normal(size=(4, 2)) / 4
    seen: list[tuple[np.ndarray, ...]] = []
    runs = [
        train_side_by_side(
            features,
            labels,
            Starts(start, np.zeros(2, dtype=np.int64)),
            GradientDescent(schedule, epochs=3, learning_rate=LEARNING_RATE),
            test=np.arange(24, 30),
            noise=noise,
            watch=Watch(step=lambda *step: seen.append(step)),
        )
        for noise in (None, ResidualNoise(np.arange(4) < 2, np.zeros(2), np.zeros(2), rng))
    ]
    np.testing.assert_allclose(runs[1].weights, runs[0].weights, atol=1e-14)
    np.testing.assert_array_equal(runs[1].success_step, runs[0].success_step)
    assert len(seen) == 2 * 3 * schedule.steps_per_epoch
    rows, residual, known, theta = seen[0]
    np.testing.assert_array_equal(theta, start)
    np.testing.assert_allclose(residual, features[rows] @ start - 2 * (2 * labels[rows, None] - 1))
    np.testing.assert_array_equal(known, residual)


def test_a_training_that_keeps_its_norm_does_as_the_defence() -> None:
    rng = np.random.default_rng(3)
    active, theta = np.arange(5) < 2, 4 * rng.normal(size=(5, 2))
    noise = ResidualNoise(active, np.zeros(2), np.zeros(2), rng, np.array([2.0, np.inf]))
    kept = noise.kept(theta)
    for role, own in (("active", active), ("passive", ~active)):
        terms = TrainingTerms(role, 1, 1, 1, 0.1, np.inf, features=int(own.sum()), all_features=5)  # type: ignore[arg-type]
        expected = DpNoise(project=True).project_parameters(theta[own, :1], terms)
        np.testing.assert_allclose(kept[own, :1], expected)
    np.testing.assert_array_equal(kept[:, 1], theta[:, 1])
    trained = train_side_by_side(
        rng.normal(size=(30, 5)),
        rng.integers(0, 2, 30),
        Starts(theta, np.zeros(2, dtype=np.int64)),
        GradientDescent(BatchSchedule(np.arange(24), 8, 0), epochs=2, learning_rate=LEARNING_RATE),
        test=np.arange(24, 30),
        noise=noise,
    )
    assert (trained.theta_norm[:, 0] <= 2 + 1e-9).all()
    assert (trained.theta_norm[:, 1] > 2).all()


# --- the section ---------------------------------------------------------------------------------------------------


def test_success_falls_to_what_theory_gives(section: Section) -> None:
    """Within five standard errors: every step's answer is a coin of known bias, given the true f."""
    data = section.data
    rows = round(569 * 0.9)
    for _, run in data.groupby(["initialisation", "calibration", "delta", "epsilon"]):
        if run["calibration"].iloc[0] == "none":
            assert (run["success_step"] == run["success_step_predicted"]).all()
            continue
        error = 0.5 / math.sqrt(rows * len(run))
        assert abs(run["success_step"].mean() - run["success_step_predicted"].mean()) < 5 * error
        last = run[run["epoch"] == run["epoch"].max()]
        error = 0.5 / math.sqrt(rows * len(last))
        assert abs(last["success_summed"].mean() - last["success_summed_predicted"].mean()) < 5 * error
    noisy = data[data["calibration"] != "none"]
    overall = 0.5 / math.sqrt(rows * len(noisy))
    assert abs((noisy["success_step"] - noisy["success_step_predicted"]).mean()) < 5 * overall
    # Far from what it is without noise, and more of it hides more.
    assert noisy["success_step"].mean() < 0.6
    by_epsilon = noisy[noisy["calibration"] == "printed"].groupby("epsilon")["success_step_predicted"].mean()
    assert by_epsilon.is_monotonic_increasing
    assert (data[data["calibration"] == "none"]["success_step"] == 1).all()


def test_the_first_epoch_from_zero_is_phi_of_nearly_two_over_sigma(section: Section) -> None:
    """f has hardly left -2 y by then; a prediction from nothing but sigma."""
    first = section.data[(section.data["epoch"] == 1) & (section.data["initialisation"] == "zero")]
    noisy = first[first["calibration"] != "none"]
    assert len(noisy)
    for row in noisy.to_dict("records"):
        from_zero = float(sign_success(np.array([-2.0]), np.array([1]), row["sigma_active"])[0])
        assert row["success_step_predicted"] == pytest.approx(from_zero, abs=0.004)


def test_the_sigmas_are_those_of_the_defence(section: Section) -> None:
    epochs, rows = int(section.data["epoch"].max()), 32
    steps = epochs * -(-round(569 * 0.9) // rows)
    terms = TrainingTerms("active", epochs, steps, rows, LEARNING_RATE, 2.0**14)
    terms = replace(terms, records=round(569 * 0.9))
    for row in section.summary[section.summary["calibration"] != "none"].to_dict("records"):
        delta, calibration = 0.1 if row["delta"] == PAPER else None, row["calibration"].split(",")[0]
        defence = DpNoise(epsilon=row["epsilon"], delta=delta, calibration=calibration)
        assert defence.sigma_for(terms) == pytest.approx(row["sigma_active"])
        assert defence.sigma_for(replace(terms, role="passive")) == pytest.approx(row["sigma_passive"])


def test_intervals_hold_their_means_and_the_norm_is_kept_where_it_is_to_be(section: Section) -> None:
    summary = section.summary
    for measure in ("accuracy_test", "success_summed", "success_kept"):
        assert (summary[f"{measure}_low"] <= summary[measure]).all()
        assert (summary[measure] <= summary[f"{measure}_high"]).all()
    norms = summary.groupby("calibration")["theta_norm"].max()
    assert norms["exact, projected"] <= 2 + 1e-9


def test_a_sum_tells_no_more_than_the_bound_and_more_than_the_vote(section: Section) -> None:
    """But for five standard errors of what two seeds of 512 records give."""
    noisy = section.summary[section.summary["calibration"] != "none"]
    spread = 0.5 / math.sqrt(2 * round(569 * 0.9))
    assert (noisy["success_summed"] <= noisy["success_bound"] + 5 * spread).all()
    assert (noisy["success_summed"] - noisy["success_kept"]).mean() > 0
    bounds = [best_success(sigma, 3) for sigma in noisy["sigma_active"]]
    np.testing.assert_allclose(noisy["success_bound"], bounds)


def test_one_row_per_training_and_epoch_and_all_of_them_in_the_summary(section: Section) -> None:
    data, summary = section.data, section.summary
    keys = ["dataset", "preparation", "initialisation", "calibration", "delta", "epsilon", "seed", "epoch"]
    assert not data.duplicated(keys).any()
    assert len(data) == TRAININGS * data["seed"].nunique() * data["epoch"].nunique()
    assert len(summary) == TRAININGS
    assert not data.isna().any().any()
    assert not summary.isna().any().any()
    assert (summary[summary["calibration"] == "none"]["first_wrong_step"] == -1).all()
    assert (summary[summary["calibration"] != "none"]["first_wrong_step"] == 0).all()


def test_predicted_accuracy_without_noise_is_the_measured_one(section: Section) -> None:
    none = section.summary[section.summary["calibration"] == "none"]
    np.testing.assert_allclose(none["accuracy_test_predicted"], none["accuracy_test"])


def test_the_notes_say_what_is_missing_and_the_plot_shows_every_calibration(section: Section) -> None:
    told = " ".join(section.notes)
    for word in ("mnist01 was left out", "credit was left out", "breast_cancer takes their place", "no ciphertext"):
        assert word in told
    (plot,) = section.plots
    for word in ("exact", "exact, projected", "lemma", "printed", "epsilon 0.1", "test accuracy"):
        assert word in document(plot)


def test_theory_is_drawn_whatever_the_number_of_seeds(section: Section) -> None:
    further = section.data.assign(seed=section.data["seed"] + 2)
    plot = noise_plot(_FALLBACK, pd.concat([section.data, further[further["seed"] == 2]]))
    drawn = next(
        one for panel in plot.panels for one in panel.curves if one.label == f"epsilon {EPSILONS[0]:g}, theory"
    )
    assert len(drawn.y) == 3
    assert np.isfinite(drawn.y).all()


def test_the_same_arguments_give_the_same_bytes(section: Section) -> None:
    again = noise_section(StudyRun(SweepOptions(workers=1), quick=True))
    pd.testing.assert_frame_equal(again.data, section.data)
    assert again.plots == section.plots
    assert again.notes == section.notes
    of_seeds = [part.reset_index(drop=True) for _, part in section.data.groupby("seed")]
    assert (of_seeds[0]["theta_norm"] != of_seeds[1]["theta_norm"]).any()


@pytest.mark.thorough
@pytest.mark.skipif(not DATA, reason="needs the data sets in PLUMBLINE_DATA_DIR")
def test_mnist_and_credit_take_part_where_they_are() -> None:
    section = noise_section(StudyRun(SweepOptions(data_dir=Path(str(DATA))), quick=True))
    assert list(section.data["dataset"].unique()) == ["mnist01", "credit"]
    assert len(section.plots) == 2
    assert any("Target" in note for note in section.notes)
    exact = section.summary.query(
        "dataset == 'mnist01' and calibration == 'exact' and delta == @PAPER and epsilon == 0.5"
        " and initialisation == 'zero'"
    )
    assert (exact["accuracy_test_predicted"] > 0.98).all()
