"""A real Dask cluster on loopback for tests: a scheduler and workers as processes of their own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")
_START_SECONDS = 120


@dataclass(frozen=True, eq=False)
class Cluster:
    """Processes of a cluster.

    Attributes:
        address: of the scheduler.
        scheduler: its process.
        workers: one process each.
    """

    address: str
    scheduler: "subprocess.Popen[bytes]"
    workers: "list[subprocess.Popen[bytes]]"


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Starts a cluster, waits until all workers have registered, and ends it."""
    from distributed import Client

    found = folder / "scheduler.json"
    found.unlink(missing_ok=True)
    scheduler = _process("dask_scheduler", folder, "--port", "0", "--scheduler-file", str(found))
    each: list[subprocess.Popen[bytes]] = []
    try:
        _wait(found, scheduler)
        place = ("--scheduler-file", str(found), "--local-directory", str(folder))
        options = ("--no-nanny", "--nthreads", "1", *place)
        each += [_process("dask_worker", folder, *options) for _ in range(workers)]
        with Client(scheduler_file=str(found), set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=_START_SECONDS)
            address = str(client.scheduler.address)
        yield Cluster(address, scheduler, each)
    finally:
        for process in (*each, scheduler):
            process.kill()
            process.wait()


def _process(module: str, folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", f"distributed.cli.{module}", *_LOOPBACK, *arguments]
    # Raw files are none of a worker's business: data travel to it.
    environment = {name: value for name, value in os.environ.items() if name != "PLUMBLINE_DATA_DIR"}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / f"{module}.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def _wait(path: Path, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + _START_SECONDS
    while not path.exists() or not path.read_text():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"The scheduler did not start: see {path.parent}.")
        time.sleep(0.05)
