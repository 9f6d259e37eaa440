"""Tries plugins of other packages in a child process before this one imports them.

An import runs a stranger's code: it may raise, end the process, crash it, wait for ever or take all memory. In the
child it does so alone. What a plugin does later, in a process that has imported it, no trial foresees.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from vfl.installed_plugins import error_line

# For each plugin, with the first import of torch on a busy machine in mind; and for all that are tried at a time.
_SECONDS, _SECONDS_OF_ALL = 60.0, 180.0
_MOST_BYTES = 4 << 30
# In the environment of a process whose plugins have been tried, or are being tried: it imports them without a trial.
TRIED = "_PLUMBLINE_PLUGINS_TRIED"
# No settings of a party go along: a child that crashes may leave a picture of them.
_SETTINGS = "PLUMBLINE_"
_START = (
    "import json, sys; asked = json.load(sys.stdin); sys.path[:] = asked['path']; "
    "from vfl.plugin_trial import try_here; try_here(asked)"
)
_READY = "ready"

_problems: dict[tuple[EntryPoint, tuple[str, ...]], str] = {}


def problem_of(point: EntryPoint) -> str:
    """Say why a plugin can't be imported, in a sentence without its subject; empty where it can."""
    try_out([point])
    return _problems.get(_key(point), "")


def try_out(points: Iterable[EntryPoint]) -> None:
    """Try plugins, each once in a process's life, together in one child as long as none ends it.

    Not tried: those whose module this process has already, and any in a process whose parent has tried them.
    """
    waiting = [] if TRIED in os.environ else [point for point in points if _is_untried(point)]
    end = time.monotonic() + _SECONDS_OF_ALL
    while waiting:
        remaining = end - time.monotonic()
        if remaining <= 0:
            problems = [f"was not tried, for those before it took {_SECONDS_OF_ALL:.0f} s"] * len(waiting)
        else:
            problems, ending = _tried_in_child(waiting, remaining)
            # Who is thought to have ended a child that tried others before is tried once more, as the first.
            if not problems:
                problems.append(ending)
        _problems.update(zip(map(_key, waiting), problems, strict=False))
        waiting = waiting[len(problems) :]


def _key(point: EntryPoint) -> tuple[EntryPoint, tuple[str, ...]]:
    return point, tuple(sys.path)


def _is_untried(point: EntryPoint) -> bool:
    return _key(point) not in _problems and point.value.partition(":")[0].strip() not in sys.modules


def _tried_in_child(points: Sequence[EntryPoint], seconds: float) -> tuple[list[str], str]:
    """Say what is wrong with each plugin, up to the one that ended the child, and how that one did it."""
    task = {
        "path": [place for place in sys.path if isinstance(place, str)],
        "arguments": sys.argv,
        "seconds": _SECONDS,
        "points": [(point.name, point.value, point.group) for point in points],
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_SETTINGS)}
    with TemporaryFile() as request, TemporaryFile() as answer:
        request.write(json.dumps(task).encode())
        request.seek(0)
        try:
            child = subprocess.Popen(  # noqa: S603 - this interpreter and our own module, no shell
                [sys.executable, "-P", "-c", _START],
                env={**environment, TRIED: "1"},
                stdin=request,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return [], f"can't be tried, for no process can be started ({error.strerror})"
        try:
            status: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)  # with all that the imports have started
            child.wait()
        answer.seek(0)
        return _read(answer.read().decode(errors="replace"), status)


def _read(answer: str, status: int | None) -> tuple[list[str], str]:
    lines, problems = answer.splitlines(), list[str]()
    for line in lines:
        # A plugin that forks has a second process answer beside the first.
        with suppress(ValueError, TypeError):
            number, problem = json.loads(line)
            problems += [str(problem)] if number == len(problems) else []
    if problems[:1] != [_READY]:
        return [], f"can't be tried, for Python doesn't start here (status {status})"
    late = f"takes longer than {_SECONDS:.0f} s to import"
    if any(line.startswith("Timeout (") for line in lines):
        return [*problems[1:], late], ""
    if status is None:
        return problems[1:], late
    if status < 0:
        return problems[1:], f"crashes when it is imported (signal {-status}: {signal.strsignal(-status)})"
    return problems[1:], f"ends the process that imports it (status {status})"


# --- in the child --------------------------------------------------------------------------------------------------


def try_here(task: dict[str, Any]) -> None:
    """Import each plugin and make it once, write what is wrong with it, and end this process."""
    answer = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    sys.argv[:] = task["arguments"]
    _limit_memory()
    _write(answer, 0, _READY)
    for number, (name, value, group) in enumerate(task["points"], start=1):
        # Its thread needs no interpreter: it ends a loop in C as well.
        faulthandler.dump_traceback_later(task["seconds"], exit=True, file=answer)
        problem = _problem(EntryPoint(name, value, group))
        faulthandler.cancel_dump_traceback_later()
        _write(answer, number, problem)
    os._exit(0)


def _write(answer: int, number: int, problem: str) -> None:
    os.write(answer, json.dumps([number, problem]).encode() + b"\n")


def _limit_memory() -> None:
    import resource

    for limit, most in ((resource.RLIMIT_DATA, _MOST_BYTES), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # the limit there is may be lower
            resource.setrlimit(limit, (most, most))
    with suppress(OSError):  # Linux: where memory runs out all the same, this process goes first
        Path("/proc/self/oom_score_adj").write_text("1000")


def _problem(point: EntryPoint) -> str:
    try:
        plugin = point.load()
        getattr(plugin, "spec", None)
    except SystemExit:
        return "asks to end the program when it is imported (sys.exit)"
    except BaseException as error:
        return f"fails when it is imported: {error_line(error)}"
    try:
        plugin()
    except Exception:
        return ""  # it may need options: loading it with its own says what is wrong
    except BaseException as error:
        return f"ends the program when it is made: {error_line(error)}"
    return ""
