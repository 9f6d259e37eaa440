"""The matrix of defences and attacks without its federations, and the advice that it gives."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import attacks
import defences
from plumbline.figures.defences import matrix as defences_matrix
from plumbline.figures.defences.advice import advice
from plumbline.figures.defences.against_predictions import PSI
from plumbline.figures.defences.matrix import matrix_section, print_matrix
from plumbline.figures.page.section import Section

# --- matrix -------------------------------------------------------------------------------------------------------


def federations(*, quick: bool) -> pd.DataFrame:
    """What ``training_rows`` gives, made up."""
    shared = {"phase": "training", "dataset": "breast_cancer", "case": "live", "options": "defaults", "reason": ""}
    shared |= {"adversary": "unaware", "status": "measured"}
    measured = [("none", "label_recovery", 1.0), ("dp_noise", "label_recovery", 0.5), ("none", "feature_order", 0.8)]
    return pd.DataFrame(
        [
            {**shared, "defence": defence, "attack": attack, "right": right, "right_undefended": 1.0, "answered": 1.0}
            for defence, attack, right in measured
        ]
    )


@pytest.fixture(scope="module")
def matrix() -> Section:
    """The quick matrix: its predictions are real, its federations made up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(defences_matrix, "training_rows", federations)
        return matrix_section(None, quick=True)


def chosen(section: Section, **where: object) -> pd.DataFrame:
    rows = section.data
    for column, value in where.items():
        rows = rows[rows[column] == value]
    assert len(rows)
    return rows


def test_each_pair_of_defence_and_attack_has_a_number_or_a_reason(matrix: Section) -> None:
    data = matrix.data.assign(attack=matrix.data["attack"].str.removesuffix(" from 1/2"))
    for defence in (PSI, *defences.names()):
        for attack in attacks.names():
            rows = data[(data["defence"] == defence) & (data["attack"] == attack)]
            assert len(rows), (defence, attack)
            has_number = rows["mse"].notna() | rows["right"].notna()
            assert (has_number | (rows["reason"] != "")).all(), (defence, attack)
    assert set(data["status"]) == {"measured", "unchanged", "not applicable", "refused"}
    assert (data[data["status"] != "measured"]["reason"] != "").all()


def test_alignment_and_truncation_change_no_prediction(matrix: Section) -> None:
    for defence in (PSI, "response_truncation"):
        rows = chosen(matrix, defence=defence, phase="prediction")
        assert (rows["status"] == "unchanged").all()
        pd.testing.assert_series_equal(rows["mse"], rows["mse_undefended"], check_names=False)
        assert (rows["kl"] == 0).all()


def test_what_defences_keep_is_kept(matrix: Section) -> None:
    for defence in ("score_scheme1", "score_scheme2", "score_scheme3", "class_label", "parameter_rotation"):
        rows = chosen(matrix, defence=defence, phase="prediction")
        assert (rows["model_accuracy"] == rows["model_accuracy_undefended"]).all()
    assert (chosen(matrix, defence="parameter_rotation")["interpretability"].dropna() > 0).all()
    assert (chosen(matrix, defence="score_noise", phase="prediction")["interpretability"] == 0).all()


def test_repeating_a_query_gains_nothing_and_steering_undoes_noise_and_labels(matrix: Section) -> None:
    def error(defence: str, adversary: str, attack: str = "clamped_ls") -> float:
        rows = chosen(matrix, defence=defence, options="defaults", adversary=adversary, attack=attack)
        return float(rows["mse"].iloc[0])

    noise = {words for words in chosen(matrix, defence="score_noise")["adversary"] if words != "unaware"}
    averaging = next(words for words in noise if "averages" in words)
    steering = next(words for words in noise if "steers" in words)
    assert error("score_noise", averaging) == pytest.approx(error("score_noise", "unaware"), abs=1e-12)
    status = chosen(matrix, defence="score_noise").groupby("adversary")["status"].first()
    assert (status[averaging], status[steering]) == ("measured", "refused")
    undefended = float(chosen(matrix, defence=PSI, attack="clamped_ls")["mse"].iloc[0])
    for defence in ("score_noise", "class_label", "score_rounding"):
        assert error(defence, steering) == pytest.approx(undefended, abs=0.003)
        assert error(defence, "unaware") > undefended + 0.01
    assert error("score_scheme1", "subtracts the noise") == pytest.approx(undefended, abs=1e-9)


def test_who_is_refused_is_not_the_strongest(matrix: Section) -> None:
    summary = matrix.summary.set_index("defence")
    for defence in ("score_noise", "class_label"):
        refused = chosen(matrix, defence=defence, options="defaults", status="refused")["mse"].min()
        assert summary.loc[defence, "breast_cancer, d = 15: strongest"] > refused


def test_summary_plots_and_notes(matrix: Section) -> None:
    summary = matrix.summary.set_index("defence")
    assert summary.loc["dp_noise", "labels, listening"] == 0.5
    strongest, unaware = (matrix.summary[f"breast_cancer, d = 15: {who}"] for who in ("strongest", "unaware"))
    known = strongest.notna()
    assert (strongest[known] <= unaware[known]).all()
    assert {plot.name for plot in matrix.plots} == {"breast-cancer-d-15", "training"}
    assert all("<svg" in plot.svg and plot.caption for plot in matrix.plots)
    assert any("label_recovery" in note and "50% with dp_noise" in note for note in matrix.notes)
    assert any(note.startswith("Alignment by PSI does not help") for note in matrix.notes)


def test_the_page_leads_with_what_holds_and_what_that_costs(matrix: Section) -> None:
    assert matrix.advice is not None
    rows = {row[0] or "strongest": row for row in matrix.advice.rows}
    assert len(matrix.advice.rows) == 4
    unaware = rows["reconstruction from scores by who doesn't know the defence"]
    assert unaware[1] == "breast_cancer, d = 15"
    assert unaware[2].endswith("guessing 0.097")
    noise = rows["label_recovery in training"]
    assert noise[2:5] == ("100% right", "dp_noise", "50% right")
    # No federation had anything against it.
    assert rows["feature_order in training"][3] == "none holds"


def test_of_defences_that_hold_the_cheapest_is_advised() -> None:
    def rows_of(trial: str, mse: float, kl: float, accuracy: float) -> list[dict[str, Any]]:
        shared: dict[str, Any] = {
            "phase": "prediction",
            "case": "c",
            "adversary": "unaware",
            "status": "measured",
            "trial": trial,
        }
        shared |= {"defence": trial, "kl": kl, "model_accuracy": accuracy, "model_accuracy_undefended": 0.9}
        return [{**shared, "attack": "half_star", "mse": mse}, {**shared, "attack": "half", "mse": 0.1}]

    data = pd.DataFrame(
        [
            *rows_of(PSI, 0.02, 0.0, 0.9),
            *rows_of("dear", 0.2, 0.0, 0.5),
            *rows_of("moves scores", 0.07, np.inf, 0.9),
            *rows_of("little", 0.065, 0.2, 0.9),
            *rows_of("too weak", 0.05, 0.0, 0.9),
        ]
    )
    unaware, strongest = advice(data, ["c"]).rows
    assert unaware[1:] == (
        "c",
        "error 0.020, guessing 0.100",
        "little",
        "error 0.065",
        "scores move by a KL of 0.2",
        "moves scores, dear",
    )
    assert strongest[3] == "little"
    weak, _ = advice(data[data["trial"].isin([PSI, "too weak"])], ["c"]).rows
    assert weak[3:5] == ("none holds; too weak comes closest", "error 0.050")


def test_the_console_shows_the_change_of_error(matrix: Section) -> None:
    console = Console(file=io.StringIO(), width=200)
    print_matrix(console, matrix.data)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "breast_cancer, d = 15" in shown
    line = next(line for line in shown.splitlines() if "response_truncation" in line)
    assert line.count("=") == 8
