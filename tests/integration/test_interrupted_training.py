"""A process that is killed in mid-training and started again, over the wire: the training waits for it and goes on."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.federation_status import status_lines
from protos.v1 import active_pb2
from services.common.run_folder import RunFolder
from tests.harness.processes import quick_federation, weights_of
from tests.harness.strikes import assert_no_traceback, eventually, send

SECONDS = 60.0
TERMS = {"batch_size": 16, "epochs": 4, "resume_within": SECONDS, "private_seed": 1, "step_timeout": 30}


def in_training(strike: Callable[[], None]) -> Callable[[active_pb2.JobEvent], None]:
    """Strikes once, when ten steps of a job are done."""
    struck, reached = threading.Event(), list[str]()

    def watch(event: active_pb2.JobEvent) -> None:
        reached.append(event.stage or (reached[-1] if reached else ""))
        if reached[-1] == "training" and event.progress.steps_done > 10 and not struck.is_set():
            struck.set()
            strike()

    return watch


def waits_for(federation: Federation, name: str) -> bool:
    job = federation.status().job
    return job is not None and job.waiting_for == (name,)


@pytest.mark.parametrize("killed", ["passive", "coordinator"])
def test_a_party_that_is_killed_is_waited_for_and_the_training_goes_on(tmp_path: Path, killed: str) -> None:
    with quick_federation(tmp_path, **TERMS) as running:
        names = [name for name in running.processes.settings if name != "coordinator"]
        running.train()
        undisturbed = weights_of(tmp_path / "parties", names)

        def take_back() -> None:
            send(running.processes, killed, signal.SIGKILL)
            eventually(lambda: waits_for(running, killed), SECONDS, "the status names who is waited for")
            assert any(f"waiting for {killed} since " in line for line in status_lines(running.status()))
            running.processes.start_party(killed)

        with ThreadPoolExecutor(1) as operator:
            back = []
            outcome = running.train(watch=in_training(lambda: back.append(operator.submit(take_back))))
            back[0].result()
        assert outcome.epochs_run == 4
        skipped = RunFolder(tmp_path / "parties").record("active").skipped_steps
        assert len(skipped or ()) <= 2
        if skipped is None:
            for before, after in zip(undisturbed, weights_of(tmp_path / "parties", names), strict=True):
                np.testing.assert_array_equal(after, before)
        assert_no_traceback(running.processes)


def test_the_active_party_goes_on_by_itself_when_it_is_started_again(tmp_path: Path) -> None:
    with quick_federation(tmp_path, **TERMS) as running:
        with pytest.raises(FederationFailed):
            running.train(watch=in_training(lambda: send(running.processes, "active", signal.SIGKILL)))
        running.processes.start_party("active")
        eventually(lambda: serves(running), SECONDS, "the job is over, and its model answers")
        assert_no_traceback(running.processes)


def serves(federation: Federation) -> bool:
    with suppress(FederationFailed):  # while it starts
        return federation.status().stage == "serving"
    return False


def test_a_job_that_waits_is_cancelled(tmp_path: Path) -> None:
    with quick_federation(tmp_path, **TERMS) as running:

        def cancel() -> None:
            send(running.processes, "passive", signal.SIGKILL)
            eventually(lambda: waits_for(running, "passive"), SECONDS, "the status names who is waited for")
            running.cancel()

        with ThreadPoolExecutor(1) as operator:
            cancelling = []
            with pytest.raises(FederationFailed, match="The job was cancelled by the operator"):
                running.train(watch=in_training(lambda: cancelling.append(operator.submit(cancel))))
            cancelling[0].result()
        assert running.status().stage == "idle"
        assert not list(running.processes.state("active").glob("*.npz"))
