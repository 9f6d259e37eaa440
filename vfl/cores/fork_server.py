"""The process that workers are forks of (`multiprocessing`'s forkserver): when it starts, and what it has loaded.

It is started before a party has threads, secrets or sockets, and loads what workers need, so that one starts within
milliseconds and shares its memory. Where processes can't be forked this module can be imported, and no more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import spawn
from multiprocessing.process import BaseProcess
from typing import Any

_PRELOADED = ["vfl.cores.worker", "vfl.crypto.engine", "vfl.crypto.curve25519"]
# There are as many workers as cores: none needs threads for its linear algebra.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_launching = threading.Lock()


def start_server() -> None:
    """Start the server, once per process; returns at once."""
    forkserver.set_forkserver_preload(_PRELOADED)
    with _environment(dict.fromkeys(_ONE_THREAD, "1")):
        forkserver.ensure_running()


def context() -> ForkServerContext:
    """What starts workers as forks of the server, without running the calling program's main module again.

    Tasks are functions of our own modules. A person's script without ``if __name__ == "__main__"`` would run twice.
    """
    return _Context()


if hasattr(os, "fork"):
    from multiprocessing import forkserver
    from multiprocessing.context import ForkServerContext, ForkServerProcess
    from multiprocessing.popen_forkserver import Popen

    class _LaunchedWithoutMain(Popen):
        def _launch(self, process: BaseProcess) -> None:
            with _launching:
                prepared = spawn.get_preparation_data
                spawn.get_preparation_data = _without_main(prepared)
                try:
                    super()._launch(process)  # type: ignore[misc]
                finally:
                    spawn.get_preparation_data = prepared

    class _Worker(ForkServerProcess):
        @staticmethod
        def _Popen(process: BaseProcess) -> Popen:
            return _LaunchedWithoutMain(process)

    class _Context(ForkServerContext):
        Process = _Worker


def _without_main(prepared: Any) -> Any:
    def prepare(name: str) -> dict[str, Any]:
        return {key: value for key, value in prepared(name).items() if not key.startswith("init_main")}

    return prepare


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """This process's environment with changes, for a child that is started inside."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
