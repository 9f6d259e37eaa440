"""The judge credits nothing to attacks on other records' predictions, and finds what scores do tell."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from attacks import LEVELS, Level
from plumbline.judge.federation_part import Comparison
from studies.simulation.linear_models import TrainedModel, train
from tests.harness.placebos import gather_evidence, permuted, placebo
from vfl.arrays import FloatArray

DATA = os.environ.get("PLUMBLINE_DATA_DIR")
RECORDS, KNOWN = 60, 40
MOUNTED: Mapping[str, Mapping[str, Any]] = {
    "half_star": {},
    "rcc2": {},
    "ls": {},
    "gia": {"init": "half", "steps": 60, "learning_rate": 0.05},
    "posterior(prior=half)": {"prior": "half", "draws": 40},
    "posterior(prior=mean)": {"prior": "mean", "draws": 40},
    "posterior(prior=covariance)": {"prior": "covariance", "draws": 40},
    "posterior(prior=imputation)": {"prior": "imputation", "draws": 40},
    "imputation": {},
    "zero": {},
}


def mounted() -> dict[str, attacks.PredictionAttack]:
    pytest.importorskip("torch")  # for gia
    return {label: attacks.load_prediction(label.partition("(")[0], **options) for label, options in MOUNTED.items()}


def case(model: TrainedModel) -> tuple[attacks.PredictionView, FloatArray]:
    """A view of an adversary who knows beforehand what each level can, of records that are neither judged nor known."""
    columns = model.features.shape[1]
    # Of digits the last row of pixels: 32 columns of few values take long.
    passive = list(range(columns - 8 if model.name == "digits" else columns // 2, columns))
    view, truth = model.view(passive, RECORDS)
    order = np.random.default_rng(0).permutation(len(model.features_train))
    others = model.features_train[order[:1000]]
    known = replace(model, features=others).view(passive, KNOWN)[0]
    moments = attacks.PassiveMoments(
        mean=others[:, passive].mean(axis=0),
        variance=others[:, passive].var(axis=0),
        covariance=np.cov(others[:, passive].T),
    )
    assert known.scores is not None
    labels = model.labels_train[order[:KNOWN]]
    auxiliary = attacks.AuxiliaryRows(known.features_active, others[:KNOWN, passive], known.scores, labels)
    return replace(view, moments=moments, auxiliary=auxiliary, record_labels=model.labels[:RECORDS]), truth


def exposed(found: Comparison, level: Level) -> list[tuple[str, int]]:
    return [(one.attack, column) for column, one in found.at(level).verdicts() if one.is_beyond_chance]


@pytest.fixture(
    scope="module",
    params=[
        "breast_cancer",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("wine", "digits", "satellite")),
    ],
)
def model(request: pytest.FixtureRequest) -> TrainedModel:
    if request.param == "satellite" and DATA is None:
        pytest.skip("satellite is raw data: set PLUMBLINE_DATA_DIR")
    return train(request.param, Path(DATA) if DATA else None)


@pytest.mark.slow("all attacks are mounted on a real data set")
def test_attacks_on_other_records_give_nothing_away(model: TrainedModel) -> None:
    view, truth = case(model)
    found = placebo(view, truth, mounted(), generator=np.random.default_rng(1))
    assert {level: exposed(found, level) for level in LEVELS[1:]} == {level: [] for level in LEVELS[1:]}


@pytest.mark.slow("all attacks are mounted on a real data set")
def test_other_records_scores_give_nothing_away(model: TrainedModel) -> None:
    """Own columns and parameters stay, and on satellite tell half* of a column by themselves; records tell more of it.

    That is no score's doing, but the disclosed parameters': it counts as the federation's below the level ``records``.
    """
    view, truth = case(model)
    found = placebo(view, truth, mounted(), what="scores", generator=np.random.default_rng(1))
    levels = LEVELS[3:] if model.name == "satellite" else LEVELS[1:]
    assert {level: exposed(found, level) for level in levels} == {level: [] for level in levels}


@pytest.mark.slow("all attacks are mounted on a real data set")
def test_a_records_own_scores_do(model: TrainedModel) -> None:
    view, truth = case(model)
    found = gather_evidence(view, truth, mounted()).compared()
    assert exposed(found, "marginals")
    assert not {"zero", "imputation"} & set(found.at("records").attacks)


def test_each_record_gets_all_of_another_one_and_none_is_lost() -> None:
    view, _ = case(train("wine", None))
    other = permuted(view, "records", np.random.default_rng(0))
    assert view.scores is not None
    assert other.scores is not None
    together = np.hstack([view.features_active, view.scores])
    moved = np.hstack([other.features_active, other.scores])
    assert not np.array_equal(moved, together)
    np.testing.assert_array_equal(np.unique(moved, axis=0), np.unique(together, axis=0))
    scores_only = permuted(view, "scores", np.random.default_rng(0))
    np.testing.assert_array_equal(scores_only.features_active, view.features_active)


def test_without_scores_there_is_nothing_to_permute() -> None:
    view, _ = case(train("wine", None))
    with pytest.raises(attacks.ViewError, match="run predictions first"):
        permuted(replace(view, scores=None), "scores", np.random.default_rng(0))
