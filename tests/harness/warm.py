"""Services that start in no time: real processes, forked from one that has imported what they need.

A federation spends seconds of its start on imports, of which tests start hundreds. What is tested of a start itself,
and of the memory or environment of a process, goes without this (``COLD``).

python -m tests.harness.warm    answers {"argv": ..., "environment": ..., ...} with a process id, one line each
"""

import json
import os
import runpy
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

# What of its environment an interpreter and its libraries read when they start.
_READ_AT_START = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_", "GRPC_", "MALLOC_", "ASAN_", "OTEL_")
_IMPORTED = (
    "plumbline.cli",
    "services.active.server",
    "services.passive.server",
    "services.coordinator.server",
    "sklearn.compose",
    "sklearn.datasets",
    "sklearn.impute",
    "sklearn.metrics",
    "sklearn.preprocessing",
)


class WarmProcess(subprocess.Popen[bytes]):
    """A service that was forked; behaves as one that was started."""

    def __init__(self, forker: "Forker", process: int) -> None:
        self.pid, self.returncode, self.args = process, None, ()
        self.stdin = self.stdout = self.stderr = None
        self._child_created = False
        self._forker, self._ended = forker, os.pidfd_open(process)

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], 0)[0]:
            self.returncode = self._forker.status_of(self.pid)
            os.close(self._ended)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("plumbline serve", timeout or 0.0)
        status = self._internal_poll()
        assert status is not None
        return status


class Forker:
    """The process that forks services, and starts those that it can't be the parent of. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.harness.warm"]
        # Whatever folder a test has gone to, its module is found.
        self._process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(
        self, command: Sequence[str], *, env: Mapping[str, str], stdout: Any, **others: Any
    ) -> subprocess.Popen[bytes]:
        """Start a service as ``subprocess.Popen`` does."""
        if _read_at_start(env) != _read_at_start(self._environment):
            return subprocess.Popen(command, env=env, stdout=stdout, **others)
        asked = {
            "argv": [*command[2:]],
            "environment": dict(env),
            "log": stdout.name,
            "folder": str(Path.cwd()),
            "cores": [*os.sched_getaffinity(0)],
        }
        return WarmProcess(self, int(self._ask(asked)))

    def status_of(self, process: int) -> int:
        """With which status a process has ended."""
        return int(self._ask({"ended": process}))

    def close(self) -> None:
        """Fork no more."""
        self._process.communicate()

    def _ask(self, asked: Mapping[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _fork_on_request() -> dict[str, Any] | None:
    """Answer requests until there are none; in a child, what it is to be."""
    for line in sys.stdin:
        asked = json.loads(line)
        if (ended := asked.get("ended")) is not None:
            answer = os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1])
        elif (answer := os.fork()) == 0:
            return dict(asked)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    return None


def _become(asked: Mapping[str, Any]) -> None:
    """Be the process that was asked for."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    os.sched_setaffinity(0, asked["cores"])
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(target, stream)
    if hasattr(time, "tzset"):
        time.tzset()
    # As `python -m plumbline serve ROLE`.
    sys.argv = asked["argv"]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for module in _IMPORTED:
        import_module(module)
    if (asked := _fork_on_request()) is not None:
        _become(asked)
