"""A sweep as a process of its own, to be killed: ``python -m tests.harness.sweeping FOLDER COUNT SECONDS WORKERS``."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from studies.measurements import Measurement, SweepOptions, TaskMeasurement, measure_all
from tests.harness.sweep_tasks import TASKS

ROOT = Path(__file__).parents[2]


def slow_measurements(folder: Path, count: int, seconds: float) -> list[Measurement]:
    """Measurements that note in ``folder/log`` when they compute."""
    log = str(folder / "log")
    return [TaskMeasurement.of(f"{TASKS}:slowly", number=number, log=log, seconds=seconds) for number in range(count)]


def started(folder: Path, count: int, seconds: float, workers: int) -> "subprocess.Popen[str]":
    """Start a sweep that writes how many of its measurements are kept."""
    arguments = ["tests.harness.sweeping", str(folder), str(count), str(seconds), str(workers)]
    return commanded(arguments, ROOT)


def commanded(arguments: list[str], folder: Path) -> "subprocess.Popen[str]":
    """Start ``python -m`` in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended_after(process: "subprocess.Popen[str]", finished: int, with_signal: signal.Signals) -> tuple[int, str]:
    """End a sweep, and its workers, once so many measurements are kept; its status, and what it wrote as errors."""
    if process.stdout is None:
        raise AssertionError
    for line in process.stdout:
        if int(line) >= finished:
            break
    signalled(process, with_signal)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def signalled(process: "subprocess.Popen[str]", with_signal: signal.Signals) -> None:
    """Send a signal to a sweep and all its workers."""
    os.killpg(process.pid, with_signal)


def main() -> None:
    """Sweep, and write how many measurements are kept after each job."""
    folder, count, seconds, workers = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])

    def done(share: float) -> None:
        sys.stdout.write(f"{round(share * count)}\n")
        sys.stdout.flush()

    measure_all(
        slow_measurements(folder, count, seconds), SweepOptions(store=folder / "cells", workers=workers, done=done)
    )


if __name__ == "__main__":
    main()
