"""An alignment on two cores a party: workers that are killed, an operator who cancels, a party that dies half-way."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2
from tests.harness.children import workers_of
from tests.harness.strikes import assert_no_traceback
from vfl.data.psi import CHUNK_IDS

# Its services are started as anywhere: what a process has of its own is looked at.
COLD = True

ROWS = 8 * CHUNK_IDS
PARTIES = ("active", "passive")
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")


@pytest.fixture
def federation() -> Iterator[Federation]:
    """Two parties, whose alignment takes seconds."""
    draw = np.random.default_rng(3)
    first = pd.DataFrame({"id": [f"r{row}" for row in range(ROWS)], "a": draw.random(ROWS)})
    second = pd.DataFrame({"id": [f"r{row}" for row in range(100, ROWS + 100)], "b": draw.random(ROWS)})
    first["y"] = np.where(first["a"] > 0.5, "yes", "no")
    settings = {"cipher": "plain", "epochs": 1, "batch_size": 4096, "workers": 2, "step_timeout": 60}
    with Federation.local(active=first, passive=[second], label="y", settings=settings) as started:
        yield started


def at_ids(
    federation: Federation, done: int, act: Callable[[], object], *, can_act: Callable[[], bool] = lambda: True
) -> list[active_pb2.JobProgress]:
    """Train, and do something once, when so many ids of the alignment are done and it can be; what was told of it."""
    told: list[active_pb2.JobProgress] = []
    acted = False

    def watch(event: active_pb2.JobEvent) -> None:
        nonlocal acted
        if not event.HasField("progress") or event.progress.steps_planned != 3 * ROWS:
            return
        told.append(event.progress)
        if event.progress.steps_done >= done and not acted and can_act():
            acted = True
            act()

    federation.train(watch=watch)
    assert acted
    return told


def processes_of(federation: Federation) -> dict[str, int]:
    return {party: federation.processes.process(party).pid for party in PARTIES}


def await_no_worker(*parties: int) -> None:
    deadline = time.monotonic() + 30
    while any(workers_of(party) for party in parties):
        assert time.monotonic() < deadline, "workers go on after their session"
        time.sleep(0.02)


def test_killed_workers_of_both_parties_cost_an_alignment_nothing(federation: Federation) -> None:
    parties = processes_of(federation)

    def strike() -> None:
        for process in parties.values():
            os.kill(max(workers_of(process)), signal.SIGKILL)

    told = at_ids(federation, CHUNK_IDS, strike, can_act=lambda: all(map(workers_of, parties.values())))
    assert federation.status(quick=True).aligned_rows == ROWS - 100
    assert told[-1].steps_done == told[-1].steps_planned
    for party in PARTIES:
        assert "A worker process has died: its work is done again." in federation.processes.log(party).read_text()
    await_no_worker(*parties.values())


@pytest.mark.parametrize(
    "done", [pytest.param(CHUNK_IDS, marks=pytest.mark.thorough), ROWS + 2 * CHUNK_IDS], ids=["set-up", "request"]
)
def test_a_cancelled_alignment_leaves_no_worker_and_another_one_works(federation: Federation, done: int) -> None:
    parties = processes_of(federation)
    with pytest.raises(FederationFailed, match="cancelled by the operator"):
        at_ids(federation, done, federation.cancel)
    await_no_worker(*parties.values())
    assert_no_traceback(federation.processes)
    assert federation.status(quick=True).stage == "idle"
    if done == CHUNK_IDS:
        assert federation.train().aligned_rows == ROWS - 100


def test_a_party_that_dies_while_it_aligns_is_named_and_takes_its_workers_along(federation: Federation) -> None:
    parties = processes_of(federation)
    workers = set[int]()

    def strike() -> None:
        workers.update(workers_of(parties["passive"]))
        os.kill(parties["passive"], signal.SIGKILL)

    with pytest.raises(FederationFailed, match="passive"):
        at_ids(federation, CHUNK_IDS, strike, can_act=lambda: bool(workers_of(parties["passive"])))
    assert workers
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "workers outlive their party"
        time.sleep(0.02)
    await_no_worker(parties["active"])
