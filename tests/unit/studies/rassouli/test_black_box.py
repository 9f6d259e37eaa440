"""Figure 7: the cases of section VI against their closed forms, and the section in quick form on synthetic data."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from studies.measurements import SweepOptions
from studies.page.section import Section
from studies.rassouli.black_box import (
    _QUICK,
    black_box_section,
    case_of,
    error_of_case,
    expected_limit,
    predictions,
)
from studies.simulation.linear_models import TrainedModel
from studies.study import StudyRun

VALUES = np.array([0.0, 0.2, 0.5, 1.0])


def model_with(omega: float, bias: float, values: np.ndarray = VALUES) -> TrainedModel:
    """Two columns: the active party's, and one whose log ratio is omega x + bias."""
    features = np.column_stack([np.full(len(values) * 50, 0.3), np.tile(values, 50)])
    weights = np.array([[-1.0, -omega / 2], [1.0, omega / 2]])
    labels = np.arange(len(features)) % 2
    return TrainedModel("made up", features, labels, weights, np.array([-bias / 2, bias / 2]), features, labels)


def measured(omega: float, bias: float, knows: str, values: np.ndarray = VALUES) -> dict[str, object]:
    model = model_with(omega, bias, values)
    return dict(error_of_case(model, column=1, knows=knows, instances=40, most=60))


def test_cases_are_told_apart() -> None:
    assert case_of(1.0, 0.0, VALUES) == "1"
    assert case_of(-2.0, -1.0, -2 * VALUES - 1) == "2"
    assert case_of(1.0, -2.0, VALUES - 2) == "3, one sign"
    assert case_of(2.0, -1.0, 2 * VALUES - 1) == "3, both signs"


@pytest.mark.parametrize(
    ("omega", "bias", "knows", "case"),
    [(1.5, 2.0, "b", "1"), (1.5, 2.0, "sign of omega b", "2"), (-1.5, 4.0, "sign of omega b", "3, one sign")],
)
def test_a_feature_that_takes_both_ends_is_read(omega: float, bias: float, knows: str, case: str) -> None:
    found = measured(omega, bias, knows)
    assert found["case"] == case
    assert found["exceeded"] == 0
    assert found["error"][-1] < 1e-12 < found["half"]  # type: ignore[index, operator]
    assert found["bound"][-1] < 1e-5  # type: ignore[index]


def test_without_the_signs_one_half_is_said_and_with_them_the_feature_is_read() -> None:
    unknown, known = (measured(2.0, -1.0, knows) for knows in ("sign of omega b", "signs"))
    assert unknown["case"] == known["case"] == "3, both signs"
    assert unknown["bound"] == []
    assert unknown["error"][-1] == pytest.approx(unknown["half"], rel=0.2)  # type: ignore[index]
    assert known["error"][-1] < 1e-9  # type: ignore[index]


def test_a_binary_feature_is_read_once_both_values_were_seen() -> None:
    found = measured(0.7, 0.1, "sign of omega b", np.array([0.0, 1.0]))
    assert found["values"] == 2
    assert found["error"][-1] == pytest.approx(0, abs=1e-20)  # type: ignore[index]


def test_the_bound_is_the_expectation_of_the_extremes() -> None:
    """By enumeration of all pairs of draws."""
    pairs = [(a, b) for a in VALUES for b in VALUES]
    one = np.mean([(1 - max(pair)) ** 2 for pair in pairs])
    both = np.mean([(1 - max(pair)) ** 2 + min(pair) ** 2 for pair in pairs])
    assert expected_limit(VALUES, "1", "b", np.array([2])) == [pytest.approx(one)]
    assert expected_limit(VALUES, "2", "sign of omega b", np.array([2])) == [pytest.approx(both)]
    assert expected_limit(VALUES, "3, both signs", "sign of omega b", np.array([2])) == []


def test_error_of_case_1_is_eq_65() -> None:
    """No value at 1: the largest stands for it, and the error is E[x^2] (1 - x_M)^2 / x_M^2."""
    values = np.array([0.1, 0.4, 0.8])
    model = model_with(3.0, 1.0, values)
    found = error_of_case(model, column=1, knows="b", instances=60, most=200)
    expected = (values**2).mean() * (1 - 0.8) ** 2 / 0.8**2
    assert found["error"][-1] == pytest.approx(expected, rel=0.05)


def test_predictions_start_at_one_and_end_at_the_most() -> None:
    assert predictions(100)[0] == 1
    assert predictions(100)[-1] == 100
    assert predictions(3).tolist() == [1, 2, 3]


@pytest.fixture(scope="module")
def section() -> Section:
    return black_box_section(StudyRun(SweepOptions(workers=1)), replace(_QUICK, instances=4))


def test_every_column_has_a_case(section: Section) -> None:
    assert set(section.data["dataset"]) == {"synthetic"}
    assert (section.data.groupby("column").size() == 3).all()
    assert (section.data["exceeded"] == 0).all()
    assert any(note.startswith("bank is skipped") for note in section.notes)
    verdicts = {one.source: one.verdict for one in section.statements}
    assert verdicts["Eq. 65"] == "reproduced"
    assert verdicts["Figure 7"] == "not measured"
