"""The matrix of defences and attacks without its federations."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import attacks
import defences
from studies.defences import matrix as defences_matrix
from studies.defences.adversaries import PUBLISHED
from studies.defences.against_predictions import prediction_rows
from studies.defences.cases import OF_FEW_VALUES, PSI, UNDEFENDED, Case, Plan, Trial, available, cases_of
from studies.defences.matrix import matrix_section
from studies.measurements import Choice, SweepOptions
from studies.page.section import Section
from studies.study import StudyRun

pytest.importorskip("torch")

# `make studies` draws the matrix; what each cell must be is looked at here.
pytestmark = pytest.mark.thorough

PLAN = Plan(
    cases=(Case("breast_cancer", 15),),
    trials=(
        UNDEFENDED,
        Trial("feature_transform", {"kind": "negate"}),
        Trial("score_rounding"),
        Trial("score_scheme1"),
        Trial("class_label"),
    ),
    seeds=2,
    records=30,
    rounds=5,
    draws=10,
)


def federations(*, quick: bool) -> pd.DataFrame:
    """What ``training_rows`` gives, made up."""
    shared = {"phase": "training", "dataset": "breast_cancer", "case": "live", "options": "defaults", "reason": ""}
    shared |= {"awareness": "knows nothing of it", "status": "measured"}
    measured = [("none", "label_recovery", 1.0), ("dp_noise", "label_recovery", 0.5), ("none", "feature_order", 0.8)]
    accuracy = {"model_accuracy": 0.5, "model_accuracy_undefended": 0.9}
    return pd.DataFrame(
        [
            {**shared, **accuracy, "defence": defence, "attack": attack, "right": right, "right_undefended": 1.0}
            | {"answered": 1.0}
            for defence, attack, right in measured
        ]
    )


@pytest.fixture(scope="module")
def told() -> list[float]:
    return []


@pytest.fixture(scope="module")
def matrix(told: list[float]) -> Section:
    """A small matrix in this process: its predictions are real, its federations made up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(defences_matrix, "training_rows", federations)
        return matrix_section(StudyRun(SweepOptions(workers=1), done=told.append), plan=PLAN)


def chosen(section: Section, **where: object) -> pd.DataFrame:
    rows = section.data
    for column, value in where.items():
        rows = rows[rows[column] == value]
    assert len(rows)
    return rows


def test_each_pair_of_defence_and_attack_has_a_number_or_a_reason(matrix: Section) -> None:
    data = matrix.data
    names = {label: name for label, name, _ in PUBLISHED}
    training = {name for name in attacks.names() if attacks.load(name).spec.phase == "training"}
    measured = {trial.defence for trial in PLAN.trials}
    for defence in (PSI, *defences.names()):
        for attack in {*names, *training} if defence in {*measured, PSI, "dp_noise"} else training:
            rows = data[(data["defence"] == defence) & (data["attack"] == attack)]
            assert len(rows), (defence, attack)
            has_number = rows["mse"].notna() | rows["right"].notna()
            assert (has_number | (rows["reason"] != "")).all(), (defence, attack)
    assert set(data["status"]) == {"measured", "unchanged", "not applicable", "refused"}
    assert (data[data["status"] != "measured"]["reason"] != "").all()
    # Of many sessions and of black boxes the audit tells: a model of a study has one session, and is disclosed.
    others = {
        "zero",
        "half",
        "random_guess",
        "imputation",
        "posterior",
        "many_sessions",
        "method_of_moments",
        "regression",
    }
    assert set(names.values()) | others == {
        name for name in attacks.names() if attacks.load(name).spec.phase == "prediction"
    }


def test_all_models_are_measured_and_every_case_and_model_is_told_of(matrix: Section, told: list[float]) -> None:
    predicted = chosen(matrix, phase="prediction", status="measured")
    models = set(zip(predicted["optimiser"], predicted["seed"], strict=True))
    assert models == {("adam", 0), ("adam", 1), ("lbfgs", 0), ("lbfgs", 1)}
    assert told == sorted(told)
    assert told[-1] == pytest.approx(0.9)


def test_an_error_is_the_mean_of_those_of_both_halves(matrix: Section) -> None:
    rows = chosen(matrix, phase="prediction", status="measured")
    means = (rows["mse_first"] + rows["mse_second"]) / 2
    np.testing.assert_allclose(rows["mse"], means, rtol=1e-9)


def test_baselines_are_the_same_under_every_defence_and_never_the_best_attack(matrix: Section) -> None:
    guesses = chosen(matrix, awareness="guesses")
    assert (guesses.groupby(["optimiser", "seed", "attack"])["mse"].nunique() == 1).all()
    assert not any("guesses" in str(row) for row in matrix.notes)


def test_the_undefended_come_first_and_defences_leave_what_they_leave(matrix: Section) -> None:
    summary = matrix.summary
    assert next(iter(summary["trial"])) == "none"
    shares = summary.set_index(["trial", "optimiser"])[["nothing", "marginals", "covariance", "records"]]
    assert ((shares >= 0) & (shares <= 1)).all().all()
    lows = summary[["nothing_low", "covariance_low"]].to_numpy()
    assert (lows <= shares[["nothing", "covariance"]].to_numpy()).all()
    # Who knows the options of these is where it was without.
    covariance = {key: float(share) for key, share in shares["covariance"].items()}
    for trial in ("score_scheme1", "feature_transform (kind=negate)"):
        assert covariance[trial, "adam"] == pytest.approx(covariance["none", "adam"], 1e-3)
    assert covariance["class_label", "adam"] < covariance["none", "adam"]


def test_costs_stand_beside_what_is_left(matrix: Section) -> None:
    summary = matrix.summary
    assert (summary["accuracy_change"] == 0).sum() >= 6  # rounding may turn a decision
    assert (summary["kl"] >= 0).all()
    moved = summary["trial"] == "feature_transform (kind=negate)"
    assert (summary[moved]["interpretability"] > 0).all()
    assert (summary[summary["trial"] == "score_scheme1"]["kl"] > 0).all()
    assert (summary[moved | (summary["trial"] == "none")]["kl"] == 0).all()


def test_maps_have_a_shade_per_cell(matrix: Section) -> None:
    remaining, training = matrix.maps
    assert remaining.caption == "breast_cancer, d = 15: the federation's part that remains"
    assert training.caption == "What training attacks got right"
    for one in matrix.maps:
        assert [len(row) for row in one.rows] == [len(one.headings)] * len(one.rows)
        assert [len(line) for line in one.shares] == [len(one.headings) - 1] * len(one.rows)
        for row, line in zip(one.rows, one.shares, strict=True):
            assert [cell == "–" for cell in row[1:]] == [share is None for share in line]
            assert all(share is None or 0 <= share <= 1 for share in line)


def test_notes_and_advice(matrix: Section) -> None:
    notes = " ".join(matrix.notes)
    assert "label_recovery" in notes
    assert "50% with dp_noise" in notes
    assert "4 models per case" in notes
    assert "undefended: nothing, adam: " in notes
    assert "The coordinator answers once." in notes
    assert matrix.advice is not None
    assert len(matrix.advice.rows) == 6


def test_attacks_and_defences_that_a_user_brings_are_measured_with_all_others() -> None:
    small = replace(PLAN, trials=PLAN.trials[:1], trainings=("lbfgs",))
    attack, defence = Choice.of("half_star"), Choice.of("score_rounding", decimals=1)
    brought = replace(attack, options=(("name_of_nobody", 1),))
    run = StudyRun(SweepOptions(workers=1), attacks=(Choice.of("gia", steps=1),), defences=(defence,))
    section = matrix_section(run, plan=small, live=False)
    with pytest.raises(ValueError, match="can't take name_of_nobody"):
        matrix_section(replace(run, attacks=(brought,)), plan=small, live=False)
    rows = chosen(section, phase="prediction", attack="gia(steps=1)", status="measured")
    assert set(rows["trial"]) == {"none", "score_rounding (decimals=1)"}
    assert rows["mse"].notna().all()


def test_a_defence_of_the_plan_that_is_brought_as_well_is_measured_once() -> None:
    small = replace(PLAN, trials=(UNDEFENDED, Trial("score_rounding")), trainings=("lbfgs",))
    run = StudyRun(SweepOptions(workers=1), defences=(Choice.of("score_rounding"),))
    rows = chosen(matrix_section(run, plan=small, live=False), attack="half_star", trial="score_rounding")
    assert len(rows[rows["awareness"] == "knows nothing of it"]) == small.seeds


def test_models_that_fail_without_a_defence_are_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError("No room.")

    monkeypatch.setattr("studies.defences.against_predictions.trial_estimates", failing)
    with pytest.raises(ValueError, match=r"d = 15, adam, seed 0 failed without a defence.*OSError: No room\."):
        prediction_rows(StudyRun(SweepOptions(workers=1)), PLAN)


def test_missing_data_has_a_stand_in_that_is_named() -> None:
    cases, said = available(Plan(), None)
    if any(case.dataset == "satellite" for case in cases):
        pytest.skip("satellite is there")
    assert [case.title for case in cases] == ["digits, d = 32", "breast_cancer, d = 15", "breast_cancer, d = 1"]
    assert said[0].startswith("digits takes the place of satellite")


def test_processes_give_the_same_rows_as_one(matrix: Section) -> None:

    small = replace(PLAN, trials=PLAN.trials[2:3], trainings=("lbfgs",))
    rows, _ = prediction_rows(StudyRun(SweepOptions(workers=2)), small)
    one = chosen(matrix, phase="prediction", trial="score_rounding", optimiser="lbfgs")
    columns: list[Any] = ["attack", "awareness", "seed", "mse"]
    two = rows[rows["status"] != "unchanged"]
    pd.testing.assert_frame_equal(one[columns].reset_index(drop=True), two[columns].reset_index(drop=True), rtol=1e-6)


def test_cases_are_chosen_by_data_set() -> None:
    assert cases_of(("bank", "adult")) == OF_FEW_VALUES
    with pytest.raises(
        ValueError, match=r"isn't measured on 'credit': choose from satellite, breast_cancer, adult, bank"
    ):
        cases_of(("credit",))
