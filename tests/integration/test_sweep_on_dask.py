"""A sweep on a real Dask cluster: the same numbers, whoever dies on the way."""

import time
from collections.abc import Iterator
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
from tests.harness.clusters import Cluster, running_cluster
from tests.harness.sweep_tasks import TASKS, noted

pytest.importorskip("distributed", reason="needs the extra dask")
MODELS = [ModelChoice(DataChoice("digits"), seed=seed) for seed in (0, 1)]
ATTACKS = ("ls", "half_star", "rcc2", "random_guess", "no_such_attack")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with running_cluster(tmp_path / "cluster") as running:
        yield running


def attacked() -> list[Measurement]:
    return [
        AttackMeasurement(on, w, Choice(name), 100) for on in MODELS for w in windows(64, 20, 3) for name in ATTACKS
    ]


def slow(log: Path, count: int) -> list[Measurement]:
    return [
        TaskMeasurement.of(f"{TASKS}:slowly", DataChoice("digits"), number=number, log=str(log), seconds=0.2)
        for number in range(count)
    ]


@pytest.mark.thorough
def test_a_worker_dies_and_the_numbers_are_those_of_this_process(cluster: Cluster, tmp_path: Path) -> None:
    log, victim = tmp_path / "log", cluster.workers[0]
    measurements = [*attacked(), *slow(log, 30)]

    def kill(_: float) -> None:
        if len(noted(log)) >= 8 and victim.poll() is None:
            victim.kill()
            victim.wait()

    found = measure_all(measurements, SweepOptions(store=tmp_path / "cells", dask=cluster.address, done=kill))
    assert victim.poll() is not None
    assert set(noted(log)) == set(range(30))
    assert set(found.status[found.attack == "no_such_attack"]) == {"failed"}
    assert set(found.status[found.attack != "no_such_attack"]) == {"done"}
    here = measure_all(measurements, SweepOptions(workers=1, store=None))
    pd.testing.assert_frame_equal(found, here, check_exact=True)


@pytest.mark.thorough
def test_a_scheduler_that_vanishes_ends_the_sweep_and_what_is_done_stays(cluster: Cluster, tmp_path: Path) -> None:
    log, store = tmp_path / "log", tmp_path / "cells"
    measurements = slow(log, 60)
    shares: list[float] = []

    def kill(share: float) -> None:
        shares.append(share)
        if len(shares) == 8:
            cluster.scheduler.kill()
            cluster.scheduler.wait()

    with pytest.raises(SweepStopped, match=r"scheduler at tcp.* has gone") as told:
        measure_all(measurements, SweepOptions(store=store, dask=cluster.address, done=kill))
    assert "\n" not in str(told.value)
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    before = noted(log)
    found = measure_all(measurements, SweepOptions(store=store, workers=1))
    assert found.attrs["known"] >= 8
    assert (found.status == "done").all()
    assert len(noted(log)) - len(before) == 60 - found.attrs["known"]


def test_a_scheduler_that_is_not_there_is_said_in_time() -> None:
    begin = time.monotonic()
    with pytest.raises(SweepStopped, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1: start one"):
        measure_all(attacked()[:1], SweepOptions(dask="tcp://127.0.0.1:1"))
    # A bound, not a measurement: without the limit it would be half a minute.
    assert time.monotonic() - begin < 25
