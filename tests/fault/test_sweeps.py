"""Sweeps that are killed, interrupted, run out of disk or lose workers: what is done stays, and is done once."""

import errno
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.sweep import SweepOptions, TaskCell, run_cells
from plumbline.sweep.store import SweepStopped
from tests.harness.sweep_tasks import TASKS, noted
from tests.harness.sweeping import ended_after, slow_cells, started

_CELLS, _SECONDS = 60, 0.01
_POINTS = [int(point) for point in np.random.default_rng(14).integers(1, _CELLS - 5, size=3)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_sweep_goes_on_and_computes_nothing_twice_but_what_was_in_flight(workers: int, tmp_path: Path) -> None:
    kept = 0
    for point in sorted(_POINTS):
        before = len(noted(tmp_path / "log"))
        process = started(tmp_path, _CELLS, _SECONDS, workers)
        status, _ = ended_after(process, max(point - kept, 1), signal.SIGKILL)
        assert status == -signal.SIGKILL
        kept = sum(len(pd.read_parquet(part)) for part in (tmp_path / "cells").glob("*.parquet"))
        assert len(noted(tmp_path / "log")) > before
    lost = len(noted(tmp_path / "log")) - kept
    found = run_cells(slow_cells(tmp_path, _CELLS, _SECONDS), SweepOptions(store=tmp_path / "cells", workers=1))
    # What was lost was in flight at one of the kills; all else was computed once.
    assert found.attrs["known"] == kept
    assert len(noted(tmp_path / "log")) == _CELLS + lost
    assert list(found.square) == [number**2 for number in range(_CELLS)]
    assert not list((tmp_path / "cells").rglob("*.unfinished"))


def test_what_is_lost_by_a_kill_is_what_was_in_flight(tmp_path: Path) -> None:
    # A second each: a job has one cell, two workers have two, and as many wait for them.
    process = started(tmp_path, 8, 0.8, 2)
    ended_after(process, 2, signal.SIGKILL)
    kept = sum(len(pd.read_parquet(part)) for part in (tmp_path / "cells").glob("*.parquet"))
    assert kept >= 2
    assert len(noted(tmp_path / "log")) - kept <= 4


def test_an_interrupted_sweep_says_what_is_kept(tmp_path: Path) -> None:
    status, errors = ended_after(started(tmp_path, _CELLS, 0.05, 1), 3, signal.SIGINT)
    assert status == -signal.SIGINT or status == 1 or status == 130
    assert f"what is done stays in {tmp_path / 'cells'}" in errors
    found = run_cells(slow_cells(tmp_path, _CELLS, 0.05), SweepOptions(store=tmp_path / "cells", workers=1))
    assert found.attrs["known"] >= 3


def test_a_disk_that_fills_up_stops_the_sweep_and_keeps_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    fsync, written = os.fsync, [0]

    def filling(descriptor: int) -> None:
        written[0] += 1
        if written[0] > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    cells = slow_cells(tmp_path, 20, 0.0)
    with monkeypatch.context() as full:
        full.setattr("services.common.durable.os.fsync", filling)
        with pytest.raises(SweepStopped, match="No space left on device") as told:
            run_cells(cells, SweepOptions(store=tmp_path / "cells", workers=1))
    assert "\n" not in str(told.value)
    assert {path.suffix for path in (tmp_path / "cells").iterdir()} <= {".parquet", ""}
    found = run_cells(cells, SweepOptions(store=tmp_path / "cells", workers=1))
    assert found.attrs["known"] >= 1
    assert (found.status == "done").all()


def test_a_cell_that_ends_its_worker_fails_and_takes_no_other_with_it(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    cells = [TaskCell.of(f"{TASKS}:deadly", number=number, log=log, last=7) for number in range(20)]
    found = run_cells(cells, SweepOptions(store=tmp_path / "cells", workers=2))
    assert list(found.status) == ["failed" if number == 7 else "done" for number in range(20)]
    assert "died" in found.reason[7]
    assert list(found.number) == list(range(20))
