"""Sweeps that are killed, interrupted, run out of disk or lose workers: what is done stays, and is done once."""

import errno
import os
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from studies.measurements import SweepOptions, TaskMeasurement, measure_all
from studies.measurements.store import SweepStopped, open_store
from tests.harness.sweep_tasks import TASKS, noted
from tests.harness.sweeping import commanded, ended_after, signalled, slow_measurements, started

_MEASUREMENTS, _SECONDS = 40, 0.2
# Of finished measurements, where the sweep is killed.
_POINTS = sorted(int(point) for point in np.random.default_rng(14).integers(1, 18, size=2))


def kept_in(folder: Path) -> int:
    return sum(len(pd.read_parquet(part)) for part in (folder / "cells").glob("*.parquet"))


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_killed_sweep_goes_on_and_computes_nothing_twice_but_what_was_in_flight(workers: int, tmp_path: Path) -> None:
    for point in _POINTS:
        finished = kept_in(tmp_path)
        process = started(tmp_path, _MEASUREMENTS, _SECONDS, workers)
        status, _ = ended_after(process, max(point - finished, 1), signal.SIGKILL)
        assert status == -signal.SIGKILL
        assert finished < kept_in(tmp_path) < _MEASUREMENTS
    kept, computed = kept_in(tmp_path), len(noted(tmp_path / "log"))
    # A job has up to fifteen such measurements; those that were in flight are lost, of each worker at each kill.
    assert computed - kept <= len(_POINTS) * workers * 15
    found = measure_all(
        slow_measurements(tmp_path, _MEASUREMENTS, _SECONDS), SweepOptions(store=tmp_path / "cells", workers=1)
    )
    assert found.attrs["known"] == kept
    assert len(noted(tmp_path / "log")) - computed == _MEASUREMENTS - kept
    assert list(found.square) == [number**2 for number in range(_MEASUREMENTS)]
    assert not list((tmp_path / "cells").rglob("*.unfinished"))


def test_what_is_lost_by_a_kill_is_what_was_in_flight(tmp_path: Path) -> None:
    # A second each: a job has one measurement, two workers have two, and as many wait for them.
    process = started(tmp_path, 8, 0.8, 2)
    ended_after(process, 2, signal.SIGKILL)
    assert kept_in(tmp_path) >= 2
    assert len(noted(tmp_path / "log")) - kept_in(tmp_path) <= 4


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_sweep_ends_in_a_sentence_and_what_is_done_stays(workers: int, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(
        f'data = ["digits"]\nattacks = ["half_star", "rcc2"]\nrecords = 300\n[split]\nd = {list(range(20, 60))}\n'
    )
    store = tmp_path / "cells"
    command = ["plumbline", "sweep", "grid.toml", "--store", str(store), "--workers", str(workers)]
    process = commanded(command, tmp_path)
    while process.poll() is None and not kept_in(tmp_path):
        time.sleep(0.05)
    signalled(process, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert f"finished measurements are kept in {store}" in " ".join(errors.split())
    with open_store(store) as opened:
        keys = [key for part in store.glob("*.parquet") for key in pd.read_parquet(part).key]
        assert len(opened.read(keys)) == len(keys) > 0


def test_a_disk_that_fills_up_stops_the_sweep_and_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, written = os.fsync, [0]

    def filling(descriptor: int) -> None:
        written[0] += 1
        if written[0] > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    # More than a job holds.
    measurements = slow_measurements(tmp_path, 80, 0.0)
    with monkeypatch.context() as full:
        full.setattr("services.common.durable.os.fsync", filling)
        with pytest.raises(SweepStopped, match="No space left on device") as told:
            measure_all(measurements, SweepOptions(store=tmp_path / "cells", workers=1))
    assert "\n" not in str(told.value)
    assert {path.suffix for path in (tmp_path / "cells").iterdir()} <= {".parquet", ""}
    found = measure_all(measurements, SweepOptions(store=tmp_path / "cells", workers=1))
    assert found.attrs["known"] >= 1
    assert (found.status == "done").all()


def test_a_measurement_that_ends_its_worker_fails_and_takes_no_other_with_it(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    measurements = [TaskMeasurement.of(f"{TASKS}:deadly", number=number, log=log, last=7) for number in range(20)]
    found = measure_all(measurements, SweepOptions(store=tmp_path / "cells", workers=2))
    assert list(found.status) == ["failed" if number == 7 else "done" for number in range(20)]
    assert "died" in found.reason[7]
    assert list(found.number) == list(range(20))
