"""Real processes killed with SIGKILL, one by one and all at once: predictions go on, the same to the bit."""

import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from services.network.health import PREDICTIONS, is_serving, session_service
from services.watching.audit_log import verify
from tests.harness.processes import QUICK, dial, local_processes
from vfl.arrays import FloatArray

IDS = [f"r{number:06d}" for number in range(1, 41)]
# A machine that is shared; the suite that measures asks for 5 s.
BACK_SECONDS = 40


def quick(folder: Path, **settings: Any) -> LocalProcesses:
    """Processes that train in a moment, not started."""
    return local_processes(folder, **{**QUICK, **settings})


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + BACK_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {BACK_SECONDS} s: {what}"
        time.sleep(0.05)


def kill(processes: LocalProcesses, *names: str) -> None:
    for name in names:
        processes.process(name).send_signal(signal.SIGKILL)
    for name in names:
        processes.process(name).wait()


def restart(processes: LocalProcesses, *names: str) -> None:
    kill(processes, *names)
    for name in names:
        processes.start_party(name)


def assert_private(processes: LocalProcesses) -> None:
    """Each party's state is for its user alone, and nothing of it is where an audit publishes."""
    published = {one.name for one in (processes.folder / "parties").rglob("*")}
    for name in processes.settings:
        folder = processes.state(name)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.rglob("*") if one.is_file()}
        assert set(modes.values()) == {0o600}, modes
        assert {stat.S_IMODE(one.stat().st_mode) for one in folder.rglob("*") if one.is_dir()} == {0o700}
        assert not published & set(modes)


def assert_taken(processes: LocalProcesses, name: str) -> None:
    """A second process of a party is refused its state, and the first goes on."""
    first = processes.process(name)
    try:
        processes.start_party(name)
        assert processes.process(name).wait(BACK_SECONDS) == 2
        assert f"is in use by the process {first.pid}: stop it first" in processes.last_words(name)
        assert first.poll() is None
    finally:
        processes._running[name] = first


@contextmanager
def operator(processes: LocalProcesses) -> Iterator[Federation]:
    """Another connection: that of a federation whose active party was killed has gone."""
    with Federation.connect(processes.addresses["active"], processes.certificates) as connected:
        yield connected


def answered(processes: LocalProcesses) -> FloatArray | None:
    """Scores of all ids, NaN for those that aren't aligned; None when the federation refuses."""
    try:
        with operator(processes) as federation:
            scores: FloatArray = federation.predict(IDS).drop(columns="error").to_numpy()
            return scores
    except FederationFailed:
        return None


def assert_goes_on(processes: LocalProcesses, before: FloatArray) -> None:
    eventually(lambda: answered(processes) is not None, "predictions")
    after = answered(processes)
    assert after is not None
    assert after.tobytes() == before.tobytes()


def test_predictions_of_an_undefended_model_go_on_after_any_kill(tmp_path: Path) -> None:
    processes = quick(tmp_path)
    with Federation.start(processes) as federation:
        federation.train()
        before = answered(processes)
        assert before is not None
        assert np.isfinite(before).any()
        assert_private(processes)
        assert_taken(processes, "passive")
        names = list(processes.settings)
        for killed in (*([name] for name in names), names):
            restart(processes, *killed)
            assert_goes_on(processes, before)
        with operator(processes) as after:
            status = after.status()
            assert (status.stage, status.failure, status.obstacle) == ("serving", "", "")
        for name in names:
            log = (processes.state(name) / "audit-log" / "000001.jsonl").read_text()
            assert verify(processes.state(name)).last == len(log.splitlines())
            # Of before the kills, and of after them.
            assert log.count('"kind": "scores"') > 5


@pytest.mark.thorough
def test_predictions_under_score_defences_of_three_parties_go_on_after_kills(tmp_path: Path) -> None:
    processes = quick(tmp_path, parties=3)
    defended = {"defences": ("score_noise", "score_rounding"), "defence_options": {"score_rounding": {"decimals": 4}}}
    coordinator = processes.settings["coordinator"].model_copy(update=defended)
    processes.settings = {**processes.settings, "coordinator": coordinator}
    with Federation.start(processes) as federation:
        federation.train()
        before = answered(processes)
        assert before is not None
        for killed in (["coordinator"], ["active", "passive-2"], list(processes.settings)):
            restart(processes, *killed)
            assert_goes_on(processes, before)


def test_status_and_health_tell_what_a_prediction_would_find(tmp_path: Path) -> None:
    processes = quick(tmp_path)
    with (
        Federation.start(processes) as federation,
        dial(processes, "operator", "active") as channel,
        dial(processes, "active", "passive") as to_passive,
    ):

        def predicts() -> bool:
            return is_serving(channel, PREDICTIONS)

        assert not predicts()
        before = federation.status()
        assert before.obstacle.startswith("There is no trained model")
        assert [(one.name, one.answers) for one in before.parties] == [
            ("active", None),
            ("passive", True),
            ("coordinator", True),
        ]
        session = federation.train().session_id
        assert predicts()
        assert federation.status().obstacle == ""
        assert is_serving(to_passive, session_service(session))
        kill(processes, "passive")
        assert not predicts()
        # Once: "serving", health SERVING, and predict fails.
        without = federation.status()
        assert "passive does not answer" in without.obstacle
        assert [one.answers for one in without.parties] == [None, False, True]
        # Kept with the model: how it did, and what the parties had agreed.
        assert without.test is not None
        assert [one.feature_count for one in without.parties] == [16, 15, None]
        with pytest.raises(FederationFailed, match="passive"):
            federation.predict_one("r000001")
        shutil.rmtree(processes.state("passive"))
        processes.start_party("passive")
        eventually(lambda: "passive can't answer for this model" in federation.status().obstacle, "it is named")
        assert not predicts()
        federation.train()
        assert federation.status().obstacle == ""
        assert predicts()


def test_a_killed_job_leaves_the_model_that_was_served(tmp_path: Path) -> None:
    processes = quick(tmp_path)
    with Federation.start(processes) as federation:
        federation.train()
        before = answered(processes)
        assert before is not None
        names = list(processes.settings)

        def strike(event: object) -> None:
            if getattr(event, "progress", None) and event.progress.steps_done == 2:  # type: ignore[attr-defined]
                during = answered(processes)
                assert during is not None
                assert during.tobytes() == before.tobytes()
                kill(processes, *names)

        with pytest.raises((FederationFailed, grpc.RpcError)):
            federation.train(epochs=50, batch_size=16, watch=strike)
        for name in names:
            processes.start_party(name)
        assert_goes_on(processes, before)
        # A second model, and it lasts as well.
        with operator(processes) as again:
            again.train(key_bits=512, batch_size=64, epochs=2)
        second = answered(processes)
        assert second is not None
        assert not np.array_equal(second, before)
        restart(processes, *names)
        assert_goes_on(processes, second)
