"""What is measured of data sets and of the adversary's own model, against known answers; statements each way."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from studies.claims.claim import judged
from studies.claims.statement import Statement
from studies.simulation.linear_models import TrainedModel, train
from studies.simulation.scaled_tables import ScaledTable
from studies.varasteh.column_covariance import heat_map
from studies.varasteh.column_moments import MOMENT_CLAIMS
from studies.varasteh.data_facts import accuracy_of, covariance_of, moments_of
from studies.varasteh.own_accuracy import accuracy_statements, own_model_of
from studies.varasteh.rivals import ADULT, GRID


def table(features: list[list[float]]) -> ScaledTable:
    rows = np.array(features, dtype=np.float64)
    names = tuple(f"x{column}" for column in range(rows.shape[1]))
    return ScaledTable("made", rows, np.arange(len(rows)) % 2, names, ("no", "yes"))


def test_moments_of_two_columns() -> None:
    found = moments_of(table([[0.0, 0.5], [1.0, 0.5]]))
    assert (found["records"], found["columns"], found["classes"]) == (2, 2, 2)
    assert found["means"] == [0.5, 0.5]
    assert found["variances"] == [0.25, 0.0]
    assert found["half"] == pytest.approx(0.125)


def test_columns_that_are_equal_have_half_of_their_squares_off_the_diagonal() -> None:
    together = covariance_of(table([[0.0, 0.0], [1.0, 1.0]]))
    assert (together["off_diagonal"], together["correlation"]) == (pytest.approx(0.5), pytest.approx(1.0))
    apart = covariance_of(table([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    assert apart["off_diagonal"] == pytest.approx(0.0)


def test_heat_maps_say_hundredths_and_shade_magnitudes() -> None:
    found = heat_map("made", ["a", "b"], [[0.1, -0.05], [-0.05, 0.001]])
    assert found.rows == (("1 a", "10", "\N{MINUS SIGN}5"), ("2 b", "\N{MINUS SIGN}5", ""))
    assert found.shares[0] == (1.0, 0.5)


# --- the adversary's own model -------------------------------------------------------------------------------------


def separable() -> TrainedModel:
    """Two columns that both tell the label, and a model that goes by their sum."""
    own = np.linspace(0, 1, 200)
    labels = (own > 0.5).astype(np.int64)
    features = np.column_stack([own, labels * 0.8 + 0.1])
    weights = np.array([[-2.0, -2.0], [2.0, 2.0]])
    return TrainedModel("made", features, labels, weights, np.array([2.0, -2.0]), features, labels)


def test_accuracies_by_hand() -> None:
    model = separable()
    assert accuracy_of(model) == {"accuracy": 1.0, "majority": 0.5}
    found = own_model_of(model, passive=(1,), records=50)
    # One column that orders the labels: the own model is right but next to the border.
    assert found["own_accuracy"] > 0.95
    assert found["accuracy"] == 1.0
    blind = replace(model, features_train=np.column_stack([np.full(200, 0.5), model.features_train[:, 1]]))
    assert own_model_of(blind, passive=(1,), records=50)["own_accuracy"] == pytest.approx(0.5)


@pytest.mark.parametrize("passive", [(0,), (0, 1), (0, 1, 2, 3, 4)])
def test_the_attacks_error_is_that_of_equations_13_and_21(passive: tuple[int, ...]) -> None:
    found = own_model_of(train("wine", None), passive=passive, records=30)
    assert found["unclamped"] == pytest.approx(found["closed_form"], rel=1e-9)
    assert found["error"] <= found["unclamped"]


# --- statements ----------------------------------------------------------------------------------------------------


def said(statements: tuple[Statement, ...], paper: str, subject: str) -> Statement:
    (found,) = [one for one in statements if paper in one.paper and one.subject == subject]
    return found


def facts(columns: int, half: float, accuracy: float) -> pd.DataFrame:
    shape = {"dataset": "satellite", "columns": columns, "classes": 6, "records": 6435, "means": [0.5], "half": half}
    model = {"dataset": "satellite", "trainer": "adam", "accuracy": accuracy, "majority": 0.2}
    return pd.DataFrame([shape, model])


def test_table_i_each_way() -> None:
    good, bad = judged(MOMENT_CLAIMS, facts(36, 0.041, 0.9)), judged(MOMENT_CLAIMS, facts(35, 0.2, 0.5))
    assert said(good, "6,430 records", "satellite").verdict == "in part"
    assert "6,435" in said(good, "6,430 records", "satellite").reason
    assert (said(good, "1/2 for all", "satellite").verdict, said(bad, "1/2 for all", "satellite").verdict) == (
        "reproduced",
        "differs",
    )
    assert (said(good, "85%", "satellite").verdict, said(bad, "85%", "satellite").verdict) == ("reproduced", "differs")
    assert said(good, "85%", "bank").verdict == "not measured"
    splits = pd.concat([facts(36, 0.041, accuracy) for accuracy in (0.84, 0.845, 0.855)])
    assert said(judged(MOMENT_CLAIMS, splits), "85%", "satellite").verdict == "in part"


def accuracies(own: Mapping[str, float], errors: Mapping[str, float], closed_form: float = 0.1) -> pd.DataFrame:
    """The federation is right in 90 %; AM with one column in 50 %, with nine as said; windows differ by little."""
    rows = [
        {"dataset": name, "seed": 0, "start": start, "active": active, "accuracy": 0.9}
        | {"own_accuracy": (0.5 if active == 1 else right) + start / 1000, "error": errors[name], "half": 0.2}
        | {"unclamped": 0.1, "closed_form": closed_form, "error_train": 0.1}
        for name, right in own.items()
        for active in (1, 9)
        for start in (0, 1)
    ]
    return pd.DataFrame(rows)


def test_who_benefits_from_a_federation_each_way() -> None:
    own = {GRID: 0.6, "pendigits": 0.6, "bank": 0.9, "satellite": 0.88, ADULT: 0.86}
    errors = {GRID: 0.2, "pendigits": 0.19, "bank": 0.05, "satellite": 0.06, ADULT: 0.07}
    found = accuracy_statements(accuracies(own, errors))
    assert {one.verdict for one in found} == {"reproduced"}
    turned = {name: 1.5 - right for name, right in own.items()} | {GRID: 0.45, "pendigits": 0.4}
    other = accuracy_statements(
        accuracies(turned | {"bank": 0.3, "satellite": 0.3, ADULT: 0.3}, errors, closed_form=0.2)
    )
    assert said(other, "follows from", "all data sets").verdict == "differs"
    assert said(other, "rises", GRID).verdict == "differs"
    assert said(other, "benefits more", "all data sets").verdict == "differs"
    assert said(other, "less susceptible", "all data sets").verdict == "differs"


def test_nothing_measured_gives_no_verdict() -> None:
    for statements in (judged(MOMENT_CLAIMS, pd.DataFrame()), accuracy_statements(pd.DataFrame())):
        assert {one.verdict for one in statements} == {"not measured"}


def test_three_data_sets_are_no_evidence_of_a_rank_correlation() -> None:
    own, errors = {GRID: 0.6, "bank": 0.9, ADULT: 0.86}, {GRID: 0.2, "bank": 0.05, ADULT: 0.07}
    found = accuracy_statements(accuracies(own, errors))
    assert said(found, "less susceptible", "all data sets").verdict == "not measured"
    assert said(found, "benefits more", "all data sets").verdict == "in part"
