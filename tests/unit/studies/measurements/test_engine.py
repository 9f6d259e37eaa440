"""Sweeps: each measurement is computed once, kept, and comes back as it was."""

import gc
from pathlib import Path

import pandas as pd
import pytest

from studies.measurements import (
    AttackMeasurement,
    Choice,
    DataChoice,
    Measurement,
    ModelChoice,
    SweepOptions,
    TaskMeasurement,
    measure_all,
    windows,
)
from studies.measurements.store import SweepStopped
from tests.harness.sweep_tasks import TASKS, noted

MODEL = ModelChoice(DataChoice("breast_cancer"))


def squares(log: Path, count: int) -> list[Measurement]:
    return [TaskMeasurement.of(f"{TASKS}:squared", number=number, log=str(log)) for number in range(count)]


def attacked(*attacks: str, count: int = 2) -> list[Measurement]:
    return [AttackMeasurement(MODEL, window, Choice(name), 50) for window in windows(30, 6, count) for name in attacks]


def test_a_measurement_is_computed_once_and_comes_back_to_the_last_bit(tmp_path: Path) -> None:
    log, options = tmp_path / "log", SweepOptions(store=tmp_path / "cells", workers=1)
    measurements = squares(log, 5)
    first = measure_all([*measurements, measurements[0]], options)
    second = measure_all([measurements[0], *measurements[::-1]], options)
    assert noted(log) == [0, 1, 2, 3, 4]
    assert list(first.number) == [0, 1, 2, 3, 4, 0]
    assert list(second.number) == [0, 4, 3, 2, 1, 0]
    pd.testing.assert_frame_equal(
        first[1:5].sort_values("number", ignore_index=True),
        second[1:5].sort_values("number", ignore_index=True),
        check_exact=True,
    )
    assert first.nothing.isna().all()
    assert first["all"][3] == [3, float("inf")]


def test_failed_measurements_are_tried_again_and_those_that_cannot_apply_are_not(tmp_path: Path) -> None:
    log, options = tmp_path / "log", SweepOptions(store=tmp_path / "cells", workers=1)
    measurements = [TaskMeasurement.of(f"{TASKS}:refusing", number=number, log=str(log)) for number in range(3)]
    found = measure_all(measurements, options)
    measure_all(measurements, options)
    assert list(found.status) == ["done", "failed", "done"]
    assert found.reason[1] == "ArithmeticError: 1 is odd."
    assert noted(log) == [0, 1, 2, 1]
    # half_star has a window wider than its equations; this one needs a single unknown per equation.
    refused = measure_all(attacked("one_feature", count=1), options)
    assert list(refused.status) == ["not applicable"]
    assert refused.reason[0]


def test_measurements_of_an_attack_are_described_and_measured(tmp_path: Path) -> None:
    found = measure_all(attacked("half_star", "half"), SweepOptions(store=tmp_path, workers=1))
    assert list(found.attack) == ["half_star", "half"] * 2
    assert list(found.start) == [0, 0, 15, 15]
    assert (found.status == "done").all()
    assert found.mse.between(0, 1).all()


def test_without_a_store_nothing_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for _ in range(2):
        measure_all(squares(log, 2), SweepOptions(workers=1))
    assert noted(log) == [0, 1, 0, 1]


def test_progress_ends_at_one(tmp_path: Path) -> None:
    told: list[float] = []
    options = SweepOptions(store=tmp_path / "cells", workers=1, done=told.append)
    measure_all(squares(tmp_path / "log", 4), options)
    assert told == sorted(told)
    assert told[-1] == 1.0
    told.clear()
    measure_all(squares(tmp_path / "log", 4), options)
    assert told == [1.0]


@pytest.mark.slow("two processes start, and import what measurements need")
def test_two_workers_find_the_same_bits_as_one() -> None:
    models = [ModelChoice(DataChoice(name), trainer="lbfgs") for name in ("breast_cancer", "wine")]
    measurements = [
        AttackMeasurement(on, window, Choice.of(name), 40)
        for on, columns in zip(models, (30, 13), strict=True)
        for window in windows(columns, 5, 3)
        for name in ("ls", "rcc2", "random_guess", "posterior")
    ]
    one, two = (measure_all(measurements, SweepOptions(workers=count)) for count in (1, 2))
    assert set(one["status"]) == {"done"}
    pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_what_a_plugin_prints_stays_out_of_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    measure_all([TaskMeasurement.of(f"{TASKS}:talking")], SweepOptions(workers=1))
    said = capsys.readouterr()
    assert said.out == ""
    assert "a plugin talks" in said.err


def test_a_sweep_that_stops_leaves_no_warning_of_the_work_in_flight(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def full(_: float) -> None:
        raise SweepStopped("The disk is full.")

    with pytest.raises(SweepStopped, match="disk is full"):
        measure_all(squares(tmp_path / "log", 8), SweepOptions(workers=2, done=full))
    gc.collect()
    assert not [str(one.message) for one in recwarn if "still being processed" in str(one.message)]


@pytest.mark.parametrize("address", ["", "here", "http://127.0.0.1:8786", "tcp://here", "127.0.0.1:8786"])
def test_what_is_no_address_of_a_cluster(address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(SweepStopped, match=r"is no address of a Dask scheduler: give it as tcp://host:port"):
        measure_all([TaskMeasurement.of(f"{TASKS}:talking")], SweepOptions(dask=address))
