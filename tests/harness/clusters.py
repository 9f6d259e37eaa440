"""A real Dask cluster on loopback for tests: a scheduler and workers as processes of their own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vfl.cores.cores import OneCore
from vfl.crypto.cluster import ClusterCores

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
def running_cluster(
    folder: Path, workers: int = 2, port: int = 0, certificates: Path | None = None
) -> Iterator[Cluster]:
    """Starts a cluster, waits until all workers have registered, and ends it.

    With a folder of certificates it speaks TLS: ``ca.crt``, and a pair each of scheduler, worker and client.
    """
    from distributed import Client, Security

    found = folder / "scheduler.json"
    found.unlink(missing_ok=True)
    begin = ("--port", str(port), "--scheduler-file", str(found), *_tls_options(certificates, "scheduler"))
    scheduler = _process("dask_scheduler", folder, *begin)
    each: list[subprocess.Popen[bytes]] = []
    try:
        _wait(found, scheduler)
        place = ("--scheduler-file", str(found), "--local-directory", str(folder))
        options = ("--no-nanny", "--nthreads", "1", *place, *_tls_options(certificates, "worker"))
        each += [_process("dask_worker", folder, *options) for _ in range(workers)]
        security = None
        if certificates is not None:
            authority, pem, key = _files(certificates, "client")
            security = Security(require_encryption=True, tls_ca_file=authority, tls_client_cert=pem, tls_client_key=key)
        with Client(scheduler_file=str(found), set_as_default=False, security=security) as client:
            client.wait_for_workers(workers, timeout=_START_SECONDS)
            address = str(client.scheduler.address)
        yield Cluster(address, scheduler, each)
    finally:
        for process in (*each, scheduler):
            process.kill()
            process.wait()


def connected(address: str, local: OneCore) -> ClusterCores:
    """Cores of a cluster that has answered, beside this machine's."""
    cores = ClusterCores(address, local)
    await_cluster(cores, local)
    return cores


def await_cluster(cores: ClusterCores, local: OneCore) -> None:
    """Waits until a cluster has answered."""
    end = time.monotonic() + _START_SECONDS
    while cores.count == local.count:
        if time.monotonic() > end:
            raise RuntimeError("The cluster doesn't answer.")
        time.sleep(0.02)


def _files(certificates: Path, name: str) -> tuple[str, str, str]:
    return tuple(str(certificates / file) for file in ("ca.crt", f"{name}.crt", f"{name}.key"))  # type: ignore[return-value]


def _tls_options(certificates: Path | None, name: str) -> tuple[str, ...]:
    if certificates is None:
        return ()
    options = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), _files(certificates, name), strict=True)
    return (*(word for option in options for word in option), "--protocol", "tls")


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
