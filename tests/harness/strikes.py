"""Processes that are struck in the middle of a job, and what is waited for afterwards, always with a limit."""

import signal
import time
from collections.abc import Callable

import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2


def assert_no_traceback(processes: LocalProcesses) -> None:
    """A process that holds secrets must not write a traceback, which may show data."""
    for name in processes.settings:
        assert "Traceback" not in (processes.folder / f"{name}.log").read_text(), processes.last_words(name, 40)


def eventually(holds: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def train_until_failure(federation: Federation, strike: Callable[[], None]) -> tuple[str, float]:
    """Train, strike in mid-epoch; the failure's words and how many seconds after the strike they came."""
    struck: list[float] = []
    is_training = False

    def watch(event: active_pb2.JobEvent) -> None:
        nonlocal is_training
        is_training = is_training or event.stage == "training"
        if is_training and event.progress.steps_done >= 3 and not struck:
            struck.append(time.monotonic())
            strike()

    with pytest.raises(FederationFailed) as failure:
        federation.train(watch=watch)
    return str(failure.value), time.monotonic() - struck[0]


def send(processes: LocalProcesses, name: str, number: signal.Signals) -> None:
    process = processes.process(name)
    process.send_signal(number)
    if number == signal.SIGKILL:
        process.wait()


def log_of(federation: Federation, name: str) -> str:
    return (federation.processes.folder / f"{name}.log").read_text()
