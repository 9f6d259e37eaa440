"""Parties on two cores each: the parameters of one core, whatever becomes of the workers, and no worker left behind."""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2
from tests.harness.children import await_states, children_of
from tests.harness.exchanges import largest_difference, train_plainly
from tests.harness.processes import QUICK, local_processes, registered_problem, weights_of
from vfl.arrays import FloatArray

# Its services are started as anywhere: what a process has of its own is looked at.
COLD = True

PARTIES = ("active", "passive")
DATA = "wine"
SECRET = "correct-horse-battery"
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")


Strike = Callable[[set[int], set[int]], Iterable[int]]


class Stranger:
    """Watches a job, and sends a signal to some of a party's processes, once: children, or theirs, the workers.

    Attributes:
        victims: who got the signal.
        seen: all of the party's processes.
        environments: what each of them inherited.
    """

    def __init__(self, party: int, number: signal.Signals, choose: Strike) -> None:
        self._party = party
        self._number = number
        self._choose = choose
        self._is_training = False
        self.victims: list[int] = []
        self.seen: set[int] = set()
        self.environments: dict[int, bytes] = {}

    def __call__(self, event: active_pb2.JobEvent) -> None:
        started = {helper: children_of(helper) for helper in children_of(self._party)}
        workers = set().union(*started.values())
        self.seen |= started.keys() | workers
        for process in self.seen - self.environments.keys():
            with suppress(OSError):  # it has ended, or lets nobody look
                self.environments[process] = Path(f"/proc/{process}/environ").read_bytes()
        # Workers of an alignment end with it.
        self._is_training = self._is_training or event.stage == "training"
        if self._is_training and workers and not self.victims:
            for victim in self._choose(set(started), workers):
                os.kill(victim, self._number)
                self.victims.append(victim)


# What is sent, to whom, and what the log says of it.
STRIKES: list[tuple[signal.Signals, Strike, str]] = [
    (signal.SIGKILL, lambda _, workers: [max(workers)], "A worker process has died"),
    (signal.SIGSTOP, lambda _, workers: [max(workers)], "A worker process stood still"),
    (signal.SIGSTOP, set.union, "A worker process "),
]


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


def test_two_cores_give_the_digits_of_one_whatever_strikes_workers_and_tell_them_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Federation.start(settled(tmp_path / "one", 1)) as federation:
        federation.train()
        assert "Arithmetic: portable; 1 core." in federation.processes.log("active").read_text()
        expected, plain = own_and_plain_weights(federation.processes, tmp_path / "one")
    assert largest_difference(expected, plain) <= 1e-6

    # Whatever secrets a party's own environment has, in its settings or in variables of others.
    monkeypatch.setenv("PGPASSWORD", SECRET)
    strangers = []
    with Federation.start(settled(tmp_path / "two", 2)) as federation:
        processes = federation.processes
        party = processes.process("active").pid
        for number, choose, words in STRIKES:
            said = len(processes.log("active").read_text())
            stranger = Stranger(party, number, choose)
            federation.train(watch=stranger)
            found, _ = own_and_plain_weights(processes, tmp_path / "two")
            assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
            assert stranger.victims
            assert words in processes.log("active").read_text()[said:]
            strangers.append(stranger)
        log = processes.log("active").read_text()
        own = Path(f"/proc/{party}/environ").read_bytes()
    assert "Arithmetic: portable; 2 cores." in log
    assert "Traceback" not in log
    assert log.count("A worker process has died: its work is done again.") == 1
    assert SECRET.encode() in own
    assert b"PLUMBLINE_DATA=wine" in own
    environments = [one for stranger in strangers for one in stranger.environments.values()]
    assert environments
    for environment in environments:
        assert b"PATH=" in environment
        assert b"OMP_NUM_THREADS=1" in environment
        assert SECRET.encode() not in environment
        assert b"PLUMBLINE" not in environment
    await_states("ZX", *(process for stranger in strangers for process in stranger.seen))
