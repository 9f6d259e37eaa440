"""Parties on two cores each: the parameters of one core, whatever becomes of the workers, and no worker left behind."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2
from tests.harness.children import children_of
from tests.harness.exchanges import largest_difference, train_plainly
from tests.harness.processes import QUICK, local_processes, registered_problem, weights_of
from vfl.arrays import FloatArray

PARTIES = ("active", "passive")
DATA = "wine"
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")


class Murderer:
    """Watches a job, and kills one of a party's workers, once: children of a child, which workers are forks of."""

    def __init__(self, party: int) -> None:
        self._party = party
        self.victims: list[int] = []
        self.seen: set[int] = set()

    def __call__(self, event: active_pb2.JobEvent) -> None:
        helpers = children_of(self._party)
        workers = children_of(*helpers)
        self.seen |= helpers | workers
        if workers and not self.victims:
            self.victims.append(max(workers))
            os.kill(self.victims[0], signal.SIGKILL)


def settled(folder: Path, workers: int) -> LocalProcesses:
    folder.mkdir()
    # Keys so long that work is worth the way to a worker.
    settings: dict[str, Any] = {
        **QUICK,
        "key_bits": 2048,
        "kernel": "portable",
        "workers": workers,
        "step_timeout": 30,
        "epochs": 2,
    }
    return local_processes(folder, data=DATA, **settings)


def own_and_plain_weights(processes: LocalProcesses, folder: Path) -> tuple[list[FloatArray], list[FloatArray]]:
    plan = processes.settings["active"].plan()
    seeds = [processes.settings[name].private_seed or 0 for name in PARTIES]
    return weights_of(folder / "parties", PARTIES), train_plainly(
        registered_problem(processes, DATA, plan), plan, seeds
    )


def test_two_cores_give_the_digits_of_one_even_when_workers_are_killed(tmp_path: Path) -> None:
    with Federation.start(settled(tmp_path / "one", 1)) as federation:
        federation.train()
        assert "Arithmetic: portable; 1 core." in federation.processes.log("active").read_text()
        expected, plain = own_and_plain_weights(federation.processes, tmp_path / "one")
    assert largest_difference(expected, plain) <= 1e-6

    with Federation.start(settled(tmp_path / "two", 2)) as federation:
        processes = federation.processes
        murderer = Murderer(processes.process("active").pid)
        federation.train(watch=murderer)
        log = processes.log("active").read_text()
        found, _ = own_and_plain_weights(processes, tmp_path / "two")
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert murderer.victims
    assert "Arithmetic: portable; 2 cores." in log
    assert log.count("A worker process has died: its work is done again.") == 1
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{process}").exists() for process in murderer.seen):
        assert time.monotonic() < deadline, "a party's processes outlive it"
        time.sleep(0.01)
