"""A Dask cluster as those who compute a sweep: reached through joblib's backend, with the same jobs and numbers.

Workers need Plumbline in the same version and nothing else: data and models travel to each of them once.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from joblib import parallel_config, register_parallel_backend

from plumbline.cells.jobs import Result, Task, quieted, run_task
from plumbline.cells.keys import versions_of, versions_of_model
from plumbline.cells.packed_arrays import Content
from plumbline.cells.store import SweepStopped
from plumbline.cells.sweep_workers import Workers
from vfl.source_words import without_password

_BACKEND = "plumbline-dask"
# Of anything else Dask's client makes a traceback when it is taken away.
_ADDRESS = r"(tcp|tls|wss?|ucx|inproc)://\S+(:\d+|/\S+)"
_CONNECT_SECONDS = 8
# What they log of a lost connection is said in a sentence here.
_TALKING = ("asyncio", "distributed", "tornado.application")
_STAYS = "What is done stays: start again, and the sweep goes on with what is missing."


class WorkerDiffers(SweepStopped):
    """A worker has other versions than who asked it: it would give other numbers under the same key."""


@contextmanager
def cluster_workers(address: str) -> Iterator[Workers]:
    """Connect to a cluster.

    Raises:
        SweepStopped: when the extra isn't installed, for what is no address, when nobody answers in time, or when there
            are no workers.
    """
    if not re.fullmatch(_ADDRESS, address):
        raise SweepStopped(
            f"{without_password(address)!r} is no address of a Dask scheduler: give it as tcp://host:port."
        )
    try:
        import dask
        from distributed import Client
        from joblib._dask import DaskDistributedBackend
    except ImportError as error:
        raise SweepStopped("A Dask cluster needs the extra `dask`: pip install 'plumbline[dask]'.") from error

    class _TellingBackend(DaskDistributedBackend):  # type: ignore[misc]
        """joblib's backend, which also tells of work whose workers died: joblib's own would wait for it."""

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)
            future.add_done_callback(lambda done: done.exception() and callback(done.exception()))
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, BaseException):
                raise out
            return super().retrieve_result_callback(out)

    register_parallel_backend(_BACKEND, _TellingBackend)
    with dask.config.set({"distributed.comm.timeouts.connect": f"{_CONNECT_SECONDS}s"}), quieted(_TALKING):
        try:
            client: Any = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise SweepStopped(
                f"No Dask scheduler answers at {address}: start one with `dask scheduler`, or check the address."
            ) from error
        with client:
            yield Workers(partial(_configuration, client, address), run_checked, partial(_check, client, address))


def _configuration(client: Any, address: str, contents: list[Content]) -> Any:
    try:
        return parallel_config(backend=_BACKEND, client=client, scatter=contents or None)
    except Exception as error:
        raise SweepStopped(f"The Dask cluster at {address} has no worker: start some with `dask worker`.") from error


def _check(client: Any, address: str) -> None:
    if client.status != "running":
        raise SweepStopped(f"The Dask scheduler at {address} has gone. {_STAYS}")


def run_checked(task: Task, table: Content | None, parameters: Content | None) -> Result:
    """Compute a job as ``run_task`` does, on a worker that has the versions that its keys are made of.

    Raises:
        WorkerDiffers: when it has others.
    """
    versions: dict[str, str] = versions_of_model(task.on)
    for cell in task.cells:
        versions |= versions_of(cell)
    for name, version in task.versions.items():
        if versions.get(name) != version:
            raise WorkerDiffers(
                f"A worker of the cluster has another version of {name} ({versions.get(name, 'none')}) than this "
                f"machine ({version}), and would give other numbers: install the same there, and start it again."
            )
    return run_task(task, table, parameters)
