"""The process that workers are forks of (`multiprocessing`'s forkserver): when it starts, and what it has loaded.

It is started before a party has threads, secrets or sockets, and loads what workers need, so that one starts within
milliseconds and shares its memory. Where processes can't be forked this module can be imported, and no more.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import spawn, util
from multiprocessing.process import BaseProcess
from typing import Any

from vfl.cores.child_environment import child_environment
from vfl.cores.signs_of_life import processor_time, stands_still

# There are as many workers as cores: none needs threads for its linear algebra.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_launching = threading.Lock()


def start_server(preload: Sequence[str]) -> None:
    """Start the server, once per process, with these modules; returns at once. Raises OSError where none can be had."""
    forkserver.set_forkserver_preload(["vfl.cores.worker", *preload])
    with _launching, _replaced(util, "spawnv_passfds", _start_bare):
        forkserver.ensure_running()


def start_worker(function: Callable[..., None], argument: object, patience: float) -> BaseProcess:
    """Start a worker, a fork of the server, without running the calling program's main module again.

    Workers run functions of our own modules. A person's script without ``if __name__ == "__main__"`` would run twice.

    Args:
        function: what it runs.
        argument: of the function.
        patience: seconds in which the server answers or computes; else it is ended, and the next worker starts another.

    Raises:
        OSError, EOFError: when the server ends before it has answered, or can't be started.
        RuntimeError: where no thread can be started.
    """
    worker = _Context().Process(target=function, args=[argument], daemon=True)
    with (
        _launching,
        _replaced(util, "spawnv_passfds", _start_bare),
        _replaced(spawn, "get_preparation_data", _without_main(spawn.get_preparation_data)),
        _ended_at_standstill(patience),
    ):
        worker.start()
    return worker


def end_server() -> None:
    """End the server, if there is one. Its workers go on; who waits for it is told."""
    if (server := _server()) is not None:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)


def _server() -> int | None:
    number: int | None = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return number


if hasattr(os, "fork"):
    from multiprocessing import forkserver, resource_tracker
    from multiprocessing.context import ForkServerContext as _Context

    @atexit.register
    def _wake_stopped() -> None:
        """Have the server, and the process that multiprocessing puts beside it, see that this one ends: so do they."""
        for process in (_server(), resource_tracker._resource_tracker._pid):  # type: ignore[attr-defined]
            if process is not None:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)


def _start_bare(program: str, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
    """Start a program that inherits these descriptors, and of the environment what it needs; returns its number."""
    environment = child_environment() | dict.fromkeys(_ONE_THREAD, "1")
    child = subprocess.Popen(  # noqa: S603 - this interpreter, as multiprocessing calls it
        arguments, executable=program, pass_fds=descriptors, env=environment, restore_signals=False
    )
    child.returncode = 0  # multiprocessing waits for its end, this object mustn't
    return child.pid


def _without_main(prepared: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def prepare(name: str) -> dict[str, Any]:
        return {key: value for key, value in prepared(name).items() if not key.startswith("init_main")}

    return prepare


@contextmanager
def _replaced(module: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Another function in the place of a module's."""
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def _ended_at_standstill(patience: float) -> Iterator[None]:
    """End the server when what is inside waits for one that is stopped; one that loads its modules is given time."""
    done = threading.Event()

    def watch() -> None:
        if stands_still(done.wait, lambda: processor_time(_server()), patience):
            end_server()

    threading.Thread(target=watch, name="server watch", daemon=True).start()
    try:
        yield
    finally:
        done.set()
