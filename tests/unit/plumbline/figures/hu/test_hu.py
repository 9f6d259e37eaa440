"""The figures of Hu, section 7: the fast simulation against the slow definitions, and the files.

Raw data are tested where PLUMBLINE_DATA_DIR names a directory that has them.
"""

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from attacks.label_recovery import LabelRecovery
from attacks.training_views import simulated_view
from plumbline.figures.hu import study as hu
from plumbline.figures.hu.experiments import (
    HU_EXPERIMENTS,
    INITIALISATIONS,
    EquationFacts,
    auxiliary_plan,
    equation_facts,
    rank_and_condition,
    run_experiment,
    summary_of,
)
from plumbline.figures.hu.page import write_hu
from plumbline.figures.hu.statements import statements_of
from plumbline.figures.hu.study import run_hu
from plumbline.simulation.records import Records, scaled_features
from plumbline.simulation.side_by_side import KeptLabels, Starts, train_side_by_side
from vfl.arrays import BoolArray
from vfl.data import DatasetNotFound
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, train_centrally
from vfl.theory.training import simulate_oracle

DATA = os.environ.get("PLUMBLINE_DATA_DIR")
QUIET = Console(file=io.StringIO())


def synthetic(rows: int = 120, features: int = 12, *, seed: int = 0, train_rows: int | None = None) -> Records:
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(rows, features)) * generator.uniform(0.5, 4.0, features)
    labels = (values @ generator.normal(size=features) + generator.normal(size=rows) > 0).astype(np.int64)
    return Records(values, labels, train_rows)


def small_run(name: str) -> tuple[pd.DataFrame, list[EquationFacts]]:
    return run_experiment(
        name, replace(HU_EXPERIMENTS[name], most_copies=None), synthetic(), seeds=2, epochs=3, batch_size=16
    )


# --- against the definitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "batch"), [(1.0, 16), (0.15, 16), (1.0, 17)])
def test_training_and_kept_labels_are_those_of_the_reference_and_of_label_recovery(scale: float, batch: int) -> None:
    """With T_eps before, inside and after the run; a last batch that is shorter."""
    generator = np.random.default_rng(3)
    blocks = [scale * generator.normal(size=(72, width)) for width in (3, 24)]
    labels = generator.integers(0, 2, 72)
    train, test = np.arange(60), np.arange(60, 72)
    schedule = BatchSchedule(train, batch, 5)
    weights = np.hstack([np.zeros((27, 1)), 0.2 * generator.normal(size=(27, 1))])
    squared_norm = float((np.hstack(blocks) ** 2).sum(axis=1).max())
    limits: list[int] = []
    expected: list[list[BoolArray]] = []
    for column, kind in enumerate(("zero", "xavier")):
        start = weights[:, [column]]
        oracle = simulate_oracle(
            VerticalData(blocks, labels),
            [start[:3], start[3:]],
            GradientDescent(schedule, epochs=4, learning_rate=0.2),
        )
        found = []
        for epochs in range(1, 5):
            view = simulated_view(
                oracle,
                1,
                initialisation=kind,
                label_party_bias=False,
                steps=slice(epochs * schedule.steps_per_epoch),
            )
            recovered = LabelRecovery(squared_norm=squared_norm).attack(view)
            assert not recovered.reason
            found.append(recovered.labels == labels)
        assert recovered.guaranteed_steps is not None
        limits.append(recovered.guaranteed_steps)
        expected.append(found)
    trained = train_side_by_side(
        np.hstack(blocks),
        labels,
        Starts(weights, np.array(limits)),
        GradientDescent(schedule, epochs=4, learning_rate=0.2),
        test=test,
    )
    for column in range(2):
        start = weights[:, [column]]
        reference = np.vstack(
            train_centrally(
                VerticalData(blocks, labels),
                [start[:3], start[3:]],
                GradientDescent(schedule, epochs=4, learning_rate=0.2),
            )
        )
        np.testing.assert_allclose(trained.weights[:, [column]], reference, atol=1e-12)
        assert trained.theta_norm[-1, column] == pytest.approx(np.linalg.norm(reference))
        np.testing.assert_allclose(trained.success_kept[:, column], [right[train].mean() for right in expected[column]])
    if scale == 1.0:
        assert (trained.success_step < 1).any(), "the run must leave the range in which every label is right"
        wrong = trained.first_wrong_step
        assert ((wrong < 0) | (wrong >= np.array(limits))).all()


def test_success_by_step_and_first_wrong_step_follow_f() -> None:
    """One feature, weight 3: f = 3 x - 2 y has the wrong sign where y x > 2/3."""
    features, labels = np.array([[1.0], [-1.0], [0.1], [-0.1]]), np.array([1, 0, 1, 0])
    schedule = BatchSchedule(np.arange(4), 1, 0)
    trained = train_side_by_side(
        features,
        labels,
        Starts(np.array([[3.0, 0.0]]), np.array([0, 100])),
        GradientDescent(schedule, epochs=1, learning_rate=1e-9),
        test=np.arange(4),
    )
    np.testing.assert_array_equal(trained.success_step, [[0.5, 1.0]])
    order = np.concatenate(list(schedule.epoch(0)))
    np.testing.assert_array_equal(trained.first_wrong_step, [np.flatnonzero(order < 2)[0], -1])
    np.testing.assert_allclose(trained.theta_norm, [[3.0, 0.0]], atol=1e-6)
    np.testing.assert_array_equal(trained.accuracy_test, [[1.0, 1.0]])


def test_kept_labels_prefer_the_guarantee_then_the_majority_then_the_earliest() -> None:
    kept = KeptLabels(3, np.array([1, 0]))
    rows = np.arange(3)
    for epoch, told in enumerate(([1, 0, 1], [0, 1, 0], [0, 1, 1])):
        column = np.array(told, dtype=np.bool_)[:, None]
        kept.add(rows, np.full(3, epoch), np.hstack([column, column]))
        if epoch == 1:
            np.testing.assert_array_equal(kept.labels[:, 1], [True, False, True])
    np.testing.assert_array_equal(kept.labels[:, 0], [True, False, True])
    np.testing.assert_array_equal(kept.labels[:, 1], [False, True, True])


# --- features and equations -----------------------------------------------------------------------------------


def test_scalings() -> None:
    records = synthetic()
    train = np.arange(90)
    norms = {kind: np.linalg.norm(scaled_features(records, kind, train), axis=1) for kind in ("bounded", "none")}
    assert norms["bounded"].max() < 1.001
    np.testing.assert_allclose(norms["none"], np.linalg.norm(records.features, axis=1), atol=1e-4)
    whole = scaled_features(records, "whole_row_unit_norm", train)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1.0, atol=1e-3)
    halves = scaled_features(records, "unit_norm", train)
    np.testing.assert_allclose(np.linalg.norm(halves[:, :6], axis=1), 1.0, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(halves[:, 6:], axis=1), 1.0, atol=1e-3)
    standard = scaled_features(records, "standardise", train)
    np.testing.assert_allclose(standard[train].std(axis=0), 1.0, atol=1e-3)
    np.testing.assert_array_equal(standard * 2**16, np.rint(standard * 2**16))


def test_rows_are_the_published_ones_or_nine_to_one() -> None:
    train, test = synthetic(train_rows=100).rows_of(3)
    np.testing.assert_array_equal(np.concatenate([train, test]), np.arange(120))
    assert len(train) == 100
    train, test = synthetic().rows_of(3)
    assert len(test) == 12
    assert not np.array_equal(test, synthetic().rows_of(4)[1])
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(120))


def test_equations_of_rank_below_the_rows_recover_nothing_and_random_features_do() -> None:
    features = np.rint(np.random.default_rng(0).uniform(0, 1, (64, 20)) * 2**16) / 2**16
    features[:, 6:] = 0.0
    schedule = BatchSchedule(np.arange(64), 16, 0)
    alone = equation_facts("x", "y", features, schedule, used_copies=1)
    assert (alone.rank_low, alone.rank_high, alone.recovered, alone.error) == (6, 6, 0, None)
    extended = equation_facts("x", "y", features, schedule, used_copies=2)
    assert (extended.rank_low, extended.recovered, extended.equations, extended.fits) == (16, 3, 40, True)
    assert extended.error is not None
    assert extended.error < 1e-9
    plan = auxiliary_plan(features, 16, None)
    assert plan.copies == 31
    rank, condition = rank_and_condition(features, next(schedule.epoch(0)), plan, 0)
    assert rank == 16
    assert 1 < condition < 1e3
    assert not equation_facts("x", "y", features * 2**12, schedule, used_copies=31).fits
    assert auxiliary_plan(features * 2**12, 16, None).copies < 31


def test_too_few_equations_are_refused_with_the_numbers() -> None:
    with pytest.raises(ValueError, match="more unknowns than"):
        run_experiment("credit", HU_EXPERIMENTS["credit"], synthetic(400, 4), seeds=1, epochs=1, batch_size=256)
    with pytest.raises(ValueError, match="batch size"):
        run_experiment("credit", HU_EXPERIMENTS["credit"], synthetic(), seeds=1, epochs=1)


# --- results and files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(HU_EXPERIMENTS))
def test_long_table_and_summary(name: str) -> None:
    results, facts = small_run(name)
    readings = [reading.name for reading in HU_EXPERIMENTS[name].readings]
    assert len(results) == len(readings) * len(INITIALISATIONS) * 2 * 3
    required = (
        "dataset initialisation seed epoch accuracy_train accuracy_test success_step success_kept theta_norm rank "
        "condition"
    )
    assert set(required.split()) <= set(results.columns)
    assert list(results["reading"].unique()) == readings
    assert set(results["rank"]) == {16}
    for measure in ("accuracy_train", "accuracy_test", "success_step", "success_kept"):
        assert results[measure].between(0, 1).all()
    summary = summary_of(results)
    assert len(summary) == len(results) / 2
    one = results[
        (results["reading"] == readings[0]) & (results["initialisation"] == "xavier") & (results["epoch"] == 2)
    ]
    row = summary[
        (summary["reading"] == readings[0]) & (summary["initialisation"] == "xavier") & (summary["epoch"] == 2)
    ].iloc[0]
    assert row["theta_norm"] == pytest.approx(one["theta_norm"].mean())
    assert row["theta_norm_se"] == pytest.approx(one["theta_norm"].std(ddof=1) / np.sqrt(2))
    first = results[(results["initialisation"] == "zero") & (results["epoch"] == 1)]
    wrong_in_time = first["first_wrong_step"] < first["guaranteed_steps"]
    assert not wrong_in_time.fillna(value=False).any()
    sources = {statement.source for statement in statements_of(results, facts)}
    assert len(sources) >= 3


def test_files_are_complete_and_the_same_every_time(tmp_path: Path) -> None:
    written = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        parts = [small_run(name) for name in HU_EXPERIMENTS]
        page = write_hu(folder, pd.concat([part[0] for part in parts], ignore_index=True), parts[0][1] + parts[1][1])
        assert page == folder / "hu.html"
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert set(written[0]) == {"hu.parquet", "hu.json", "hu-mnist01.svg", "hu-credit.svg", "hu.html"}
    assert written[0] == written[1]
    content = json.loads(written[0]["hu.json"])
    assert content["settings"]["seeds"] == 2
    assert len(content["summary"]) == 7 * 3 * 3
    assert any("unit-norm rows" in note for note in content["simulation"])
    html = written[0]["hu.html"].decode()
    assert html.count("<svg") == 2
    for words in ("training accuracy", "attack success, kept", "epoch", "raw pixels"):
        assert f"<!-- {words} -->" in written[0]["hu-mnist01.svg"].decode()
    for words in ("reproduced", "Simulation:", "not measured", "±", "The norm of theta is bounded by 2"):
        assert words in html
    for outside in (" src=", "<link", "<metadata"):
        assert outside not in html
    assert str(tmp_path) not in html


def test_one_seed_has_no_standard_error(tmp_path: Path) -> None:
    results, facts = small_run("credit")
    write_hu(tmp_path, results[results["seed"] == 0], facts)
    summary = json.loads((tmp_path / "hu.json").read_text())["summary"]
    assert {row["theta_norm_se"] for row in summary} == {None}
    assert " ± 0" not in (tmp_path / "hu.html").read_text()


def test_run_hu_runs_what_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hu, "_load", lambda name, data_dir: synthetic(600, 23))
    console = Console(file=io.StringIO(), width=140)
    page = run_hu(tmp_path / "out", None, seeds=1, epochs={"credit": 2}, datasets=["credit"], console=console)
    results = pd.read_parquet(page.parent / "hu.parquet")
    assert set(results["dataset"]) == {"credit"}
    assert results["epoch"].max() == 2
    assert not (page.parent / "hu-mnist01.svg").exists()
    assert isinstance(console.file, io.StringIO)
    assert "bounded rows" in console.file.getvalue()


def test_missing_raw_files_are_named_before_anything_is_written(tmp_path: Path) -> None:
    for data_dir in (None, tmp_path / "nothing"):
        with pytest.raises(DatasetNotFound, match="plumbline datasets fetch mnist01"):
            run_hu(tmp_path / "out", data_dir, console=QUIET)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("seeds", "epochs", "datasets", "message"),
    [
        (0, None, ["credit"], "at least 1 seed"),
        (1, {"credit": 0}, ["credit"], "at least 1 epoch"),
        (1, {"adult": 3}, ["credit"], "no experiment on 'adult'"),
        (1, None, ["bank"], "no experiment on 'bank'"),
        (1, None, [], "No data set"),
    ],
)
def test_bad_arguments(
    tmp_path: Path, seeds: int, epochs: dict[str, int] | None, datasets: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run_hu(tmp_path, None, seeds=seeds, epochs=epochs, datasets=datasets, console=QUIET)


# --- the papers' data -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA, reason="needs the data sets in PLUMBLINE_DATA_DIR")
def test_real_data_for_two_epochs(tmp_path: Path) -> None:
    assert DATA
    page = run_hu(tmp_path, Path(DATA), seeds=1, epochs={"mnist01": 2, "credit": 2}, console=QUIET)
    results = pd.read_parquet(page.parent / "hu.parquet")
    for reading in ("unit-norm rows", "unit-norm rows, no intercept", "unit-norm halves", "bounded rows"):
        assert (results.loc[results["reading"] == reading, ["success_step", "success_kept"]] == 1).all(axis=None)
    raw = (results["reading"] == "raw pixels") & (results["epoch"] == 2)
    assert (results.loc[raw, "success_step"] < 0.9).all()
    standardised = (results["reading"] == "standardised") & (results["initialisation"] == "xavier")
    assert (results.loc[standardised, "success_step"] < 1).all()
    assert results["rank"].isin((254, 255)).all()
    assert (results["condition"] < 1e4).all()
    equations = json.loads((page.parent / "hu.json").read_text())["equations"]
    by_use = {(fact["reading"], fact["batch_size"], fact["copies"]): fact for fact in equations}
    alone = by_use["unit-norm rows", 256, 1]
    assert 190 < alone["rank_low"] <= alone["rank_high"] < 250
    assert alone["recovered"] == 0
    assert by_use["unit-norm rows", 128, 1]["recovered"] == 3
    assert by_use["bounded rows", 256, 31]["recovered"] == 3
    assert not by_use["standardised", 256, 31]["fits"]
