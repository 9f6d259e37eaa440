"""A process that is killed in mid-training and started again, over the wire: the training waits for it and goes on."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.federation_status import status_lines
from protos.v1 import active_pb2
from services.common.run_folder import RunFolder
from tests.harness.processes import quick_federation, weights_of
from tests.harness.strikes import assert_no_traceback, eventually, log_of, send
from vfl.arrays import FloatArray, unpack_arrays

SECONDS = 60.0
TERMS = {"batch_size": 16, "epochs": 4, "resume_within": SECONDS, "private_seed": 1, "step_timeout": 30}


def in_training(strike: Callable[[], None], after: int = 10) -> Callable[[active_pb2.JobEvent], None]:
    """Strikes once, when so many steps of a job are done."""
    struck, reached = threading.Event(), list[str]()

    def watch(event: active_pb2.JobEvent) -> None:
        reached.append(event.stage or (reached[-1] if reached else ""))
        if reached[-1] == "training" and event.progress.steps_done > after and not struck.is_set():
            struck.set()
            strike()

    return watch


def waits_for(federation: Federation, name: str) -> bool:
    job = federation.status().job
    return job is not None and job.waiting_for == (name,)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    with quick_federation(tmp_path_factory.mktemp("interrupted"), **TERMS) as running:
        yield running
        assert_no_traceback(running.processes)


def weights(federation: Federation) -> list[FloatArray]:
    names = [name for name in federation.processes.settings if name != "coordinator"]
    return weights_of(federation.processes.folder / "parties", names)


@pytest.fixture(scope="module")
def undisturbed(federation: Federation) -> list[FloatArray]:
    federation.train()
    return weights(federation)


@pytest.mark.parametrize("killed", ["passive", pytest.param("coordinator", marks=pytest.mark.thorough)])
def test_a_party_that_is_killed_is_waited_for_and_the_training_goes_on(
    federation: Federation, undisturbed: list[FloatArray], killed: str
) -> None:
    def take_back() -> None:
        send(federation.processes, killed, signal.SIGKILL)
        eventually(lambda: waits_for(federation, killed), SECONDS, "the status names who is waited for")
        assert any(f"waiting for {killed} since " in line for line in status_lines(federation.status()))
        federation.processes.start_party(killed)

    with ThreadPoolExecutor(1) as operator:
        back: list[Future[None]] = []
        outcome = federation.train(watch=in_training(lambda: back.append(operator.submit(take_back))))
        back[0].result()
    assert outcome.epochs_run == TERMS["epochs"]
    skipped = RunFolder(federation.processes.folder / "parties").record("active").skipped_steps
    assert len(skipped or ()) <= 2
    if skipped is None:
        for before, after in zip(undisturbed, weights(federation), strict=True):
            np.testing.assert_array_equal(after, before)


def test_the_active_party_goes_on_by_itself_when_it_is_started_again(federation: Federation) -> None:
    with pytest.raises(FederationFailed):
        federation.train(watch=in_training(lambda: send(federation.processes, "active", signal.SIGKILL)))
    federation.processes.start_party("active")
    eventually(lambda: serves(federation), SECONDS, "the job is over, and its model answers")
    assert "the training goes on from step" in log_of(federation, "active")


def test_a_job_that_waits_is_cancelled(federation: Federation) -> None:
    def cancel() -> None:
        send(federation.processes, "passive", signal.SIGKILL)
        eventually(lambda: waits_for(federation, "passive"), SECONDS, "the status names who is waited for")
        federation.cancel()

    with ThreadPoolExecutor(1) as operator:
        cancelling: list[Future[None]] = []
        with pytest.raises(FederationFailed, match="The job was cancelled by the operator"):
            federation.train(watch=in_training(lambda: cancelling.append(operator.submit(cancel))))
        cancelling[0].result()
    assert not (federation.processes.state("active") / "training.npz").exists()


def test_shared_weights_go_on_when_their_label_party_is_killed(tmp_path: Path) -> None:
    """That of the passive party, and whose model it is then: test_whole_life."""
    shared = {**TERMS, "batch_size": 64, "protocol": "shared", "opening": "always", "calibrated": False}
    with quick_federation(tmp_path, **shared) as federation:
        federation.train()
        before = weights(federation)
        with pytest.raises(FederationFailed):
            federation.train(watch=in_training(lambda: send(federation.processes, "active", signal.SIGKILL)))
        federation.processes.start_party("active")
        eventually(lambda: serves(federation), SECONDS, "the job is over, and its model answers")
        assert "the training goes on from step" in log_of(federation, "active")
        assert_no_traceback(federation.processes)
        for undisturbed_one, after in zip(before, weights(federation), strict=True):
            np.testing.assert_allclose(after, undisturbed_one, atol=2 * 2.0**-16)


def trees(federation: Federation) -> dict[str, FloatArray]:
    """The label party's nodes and leaves' weights. Equal columns of a party may change places: then neither does."""
    content = (federation.processes.state("active") / "served.npz").read_bytes()
    _, arrays = unpack_arrays(content)
    return {name: arrays[f"own_own_{name}"] for name in ("nodes", "leaves", "first_margin")}


def test_trees_go_on_from_the_last_whole_one_when_a_party_is_killed_in_the_next(tmp_path: Path) -> None:
    options = {"n_estimators": 6, "max_depth": 3, "max_bin": 8, "gradient_bits": 12}
    terms = {**TERMS, "learner": "boosted_trees", "learner_options": options, "batch_size": 0, "epochs": 6}
    with quick_federation(tmp_path, **terms) as federation:
        federation.train()
        undisturbed = trees(federation)

        def take_back() -> None:
            send(federation.processes, "passive", signal.SIGKILL)
            federation.processes.start_party("passive")

        with ThreadPoolExecutor(1) as operator:
            back: list[Future[None]] = []
            outcome = federation.train(watch=in_training(lambda: back.append(operator.submit(take_back)), after=2))
            back[0].result()
        assert outcome.epochs_run == 6
        assert RunFolder(tmp_path / "parties").record("passive").interruptions == {"active": 1}
        after_passive = trees(federation)
        with pytest.raises(FederationFailed):
            federation.train(watch=in_training(lambda: send(federation.processes, "active", signal.SIGKILL), after=2))
        federation.processes.start_party("active")
        eventually(lambda: serves(federation), SECONDS, "the job is over, and its model answers")
        assert "the training goes on from step" in log_of(federation, "active")
        assert_no_traceback(federation.processes)
        for again in (after_passive, trees(federation)):
            for name, array in undisturbed.items():
                np.testing.assert_array_equal(again[name], array)
        assert not list(tmp_path.rglob("message_*.bytes"))


def serves(federation: Federation) -> bool:
    with suppress(FederationFailed):  # while it starts
        return federation.status().stage == "serving"
    return False
