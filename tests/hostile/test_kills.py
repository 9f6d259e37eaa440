"""A served federation whose processes are killed and started again: it answers as before, to the last bit."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from plumbline.federation import Federation, FederationFailed
from tests.harness.hostile import assert_sound, scores_of, served_federation

# From the restart on; starting Python and reading the state are within it.
SECONDS = 5.0
# On a machine that other tests share.
GENEROUS = 60.0


@pytest.fixture(
    params=[("hu", 2), ("shared", 2), pytest.param(("shared", 3), marks=pytest.mark.hostile_long)],
    ids=lambda one: f"{one[0]}-{one[1]}",
)
def federation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Federation]:
    protocol, parties = request.param
    with served_federation(tmp_path, protocol=protocol, parties=parties) as running:
        yield running
        assert_sound(running.processes)


def kill_and_restart(federation: Federation, *names: str) -> float:
    """Kill processes and start them again; the time from which they have to answer."""
    for name in names:
        process = federation.processes.process(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
    restarted = time.monotonic()
    for name in names:
        federation.processes.start_party(name)
    return restarted


def answers_again(federation: Federation, expected: pd.DataFrame, since: float) -> float:
    """Seconds until the federation scores as before."""
    last = "nothing"
    while time.monotonic() - since < GENEROUS:
        try:
            scores = scores_of(federation)
        except FederationFailed as error:
            last = str(error)
            time.sleep(0.05)
            continue
        pd.testing.assert_frame_equal(scores, expected, check_exact=True)
        return time.monotonic() - since
    pytest.fail(f"no score within {GENEROUS:g} s; the last answer: {last}")


def test_a_process_of_each_role_comes_back_with_the_same_scores(federation: Federation) -> None:
    expected = scores_of(federation)
    for name in federation.processes.settings:
        answers_again(federation, expected, kill_and_restart(federation, name))
        assert federation.status().stage == "serving"


def test_all_processes_at_once_come_back_with_the_same_scores(federation: Federation) -> None:
    expected = scores_of(federation)
    answers_again(federation, expected, kill_and_restart(federation, *federation.processes.settings))


@pytest.mark.hostile_long
@pytest.mark.timeout(900)
def test_five_of_five_kills_of_each_are_answered_within_five_seconds(federation: Federation) -> None:
    expected = scores_of(federation)
    seconds = {}
    for number in range(5):
        for name in federation.processes.settings:
            since = kill_and_restart(federation, name)
            seconds[name, number] = answers_again(federation, expected, since)
    late = {kill: taken for kill, taken in seconds.items() if taken > SECONDS}
    assert not late
    assert len(seconds) == 5 * len(federation.processes.settings)


@pytest.mark.hostile_long
@pytest.mark.timeout(900)
def test_a_kill_in_mid_training_leaves_the_served_model(federation: Federation) -> None:
    """The job is lost, the model before it isn't."""
    expected = scores_of(federation)
    for name in federation.processes.settings:
        struck: list[float] = []

        def strike(_: object, name: str = name, struck: list[float] = struck) -> None:
            if federation.status().stage == "training" and not struck:
                struck.append(kill_and_restart(federation, name))

        with pytest.raises(FederationFailed):
            federation.train(watch=strike, epochs=200, batch_size=16)
        answers_again(federation, expected, struck[0])
