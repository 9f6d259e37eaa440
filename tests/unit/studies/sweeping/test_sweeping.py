"""A sweep's file from start to end, and what came of its measurements."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from studies.measurements import SweepOptions
from studies.measurements.store import SweepStopped
from studies.sweeping.file import sweep_of
from studies.sweeping.sweeping import (
    facts_of,
    known_measurements,
    means_of,
    missing_data,
    print_results,
    run_sweep,
    tally_of,
)
from vfl.data import DatasetNotFound

GRID: dict[str, Any] = {
    "data": "wine",
    "split": {"d": [1, 5], "windows": 2},
    "attacks": ["half", "one_feature"],
    "records": 20,
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, SweepOptions, Path]:
    folder = tmp_path_factory.mktemp("sweep")
    options = SweepOptions(store=folder / "cells", workers=1)
    assert known_measurements(sweep_of(GRID).measurements, options) == 0
    return run_sweep(sweep_of(GRID), b"# the grid", folder / "out", options), options, folder


def test_results_are_written_and_known_the_next_time(measured: tuple[pd.DataFrame, SweepOptions, Path]) -> None:
    results, options, folder = measured
    assert (folder / "out" / "sweep.toml").read_bytes() == b"# the grid"
    pd.testing.assert_frame_equal(
        pd.read_parquet(folder / "out" / "results.parquet").drop(columns="mse_by_column"),
        results.drop(columns="mse_by_column"),
        check_dtype=False,
    )
    assert known_measurements(sweep_of(GRID).measurements, options) == 8
    more = sweep_of({**GRID, "split": {"d": [1, 5], "windows": 3}}).measurements
    # Windows of three begin elsewhere, but for the first.
    assert known_measurements(more, options) == 4
    elsewhere = sweep_of({**GRID, "data": ["wine", "satellite"]}).measurements
    assert known_measurements(elsewhere, options) == 8


def test_what_became_of_measurements_is_counted(measured: tuple[pd.DataFrame, SweepOptions, Path]) -> None:
    results, _, folder = measured
    tally = tally_of(results)
    assert (tally.done, tally.not_applicable, tally.failed) == (6, 2, 0)
    ((status, reason, count),) = tally.reasons
    assert (status, count) == ("not applicable", 2)
    assert "works on one passive feature" in reason
    facts = facts_of(results, folder)
    assert (facts["cells"], facts["done"], facts["reasons"][0]["cells"]) == (8, 6, 2)


def test_means_are_over_windows_and_seeds(measured: tuple[pd.DataFrame, SweepOptions, Path]) -> None:
    results, _, _ = measured
    means = means_of(results)
    assert list(means.columns) == ["dataset", "attack", "d", "mse", "guess", "federation_part", "cells"]
    half = results[(results.attack == "half") & (results.d == 5)]
    (row,) = means[(means.attack == "half") & (means.d == 5)].to_dict("records")
    assert row["mse"] == pytest.approx(half.mse.mean())
    assert row["cells"] == 2
    assert not ((means.attack == "one_feature") & (means.d == 5)).any()


def test_what_varies_has_a_column_and_reasons_stand_below() -> None:
    common = {"dataset": "wine", "model": "linear", "trainer": "lbfgs", "access": "white_box", "records": 20}
    rows = [
        {**common, "attack": attack, "defence": defence, "auxiliary": int(attack == "ls"), "d": d, "mse": d / 100}
        for attack in ("ls", "half")
        for defence in ("none", "class_label")
        for d in range(1, 20)
    ]
    results = pd.DataFrame(rows).assign(status="done", reason="", guess=0.5, federation_part=0.0)
    # One attack has one number of complete records: that is no column.
    assert list(means_of(results).columns)[:4] == ["dataset", "attack", "defence", "d"]
    failed = results.index == 0
    results["status"] = np.where(failed, "failed", "done")
    results["reason"] = np.where(failed, "ValueError: [red]", "")
    console = Console(record=True, width=200)
    print_results(console, results)
    shown = console.export_text()
    assert "75 measurements done, 0 not applicable, 1 failed." in shown
    assert "1 failed: ValueError: [red]" in shown
    assert "d = 19" in shown
    assert "Some d; the results have all." in shown


def test_models_of_other_options_are_not_averaged(tmp_path: Path) -> None:
    asked = sweep_of({**GRID, "attacks": "ls", "model": {"C": [0.1, 10.0]}})
    means = means_of(run_sweep(asked, b"", tmp_path, SweepOptions(workers=1)))
    assert list(means.model_options.unique()) == ["C=0.1", "C=10.0"]
    assert set(means.cells) == {2}


def test_nothing_done_has_no_means() -> None:
    assert means_of(pd.DataFrame({"status": ["failed"], "reason": ["x"]})).empty


def test_all_missing_data_sets_are_named_with_the_way_to_get_them(tmp_path: Path) -> None:
    assert missing_data(["wine", "synthetic"], None) == ""
    said = missing_data(["wine", "satellite", "bank"], tmp_path)
    for words in ("sat.trn", "bank-additional-full.csv", "datasets fetch satellite", "datasets fetch bank"):
        assert words in said
    asked = sweep_of({**GRID, "data": ["satellite", "bank"]})
    with pytest.raises(DatasetNotFound, match=r"lacks raw files of satellite: sat\.trn, sat\.tst; bank"):
        run_sweep(asked, b"", tmp_path / "out", SweepOptions(data_dir=tmp_path))
    assert not (tmp_path / "out").exists()


def test_results_that_cannot_be_written_leave_the_measurements(tmp_path: Path) -> None:
    store, folder = tmp_path / "cells", tmp_path / "out"
    (folder / "results.parquet" / "in the way").mkdir(parents=True)
    asked = sweep_of(GRID)
    with pytest.raises(SweepStopped, match=r"results.parquet can't be written .*choose another --out.*kept in"):
        run_sweep(asked, b"", folder, SweepOptions(store, workers=1))
    assert known_measurements(asked.measurements, SweepOptions(store)) == len(asked.measurements)
