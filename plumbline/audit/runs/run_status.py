"""How far an audit has come: running, finished, failed or stopped; in the run's folder, whatever ends the process."""

import json
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from services.common.durable import write_durably
from services.common.run_files import parsed, read_json
from services.common.words import escaped

State = Literal["running", "finished", "failed", "stopped"]

_FILE = "status.json"
# Where in the program a run failed.
ERROR_FILE = "error.txt"
_MOST_SAID = 2_000
_REPEAT = "What became of the run is lost: `plumbline report` makes its report again."
_INTERRUPTED = "It was interrupted."
_KILLED = "Its process has ended without a word: it was killed, or the machine went down."


@dataclass(frozen=True)
class RunStatus:
    """What became of a run.

    Attributes:
        status: ``running``, ``finished``, ``failed`` or ``stopped``.
        reason: why it failed or stopped, a sentence; empty otherwise.
        started: when, ISO 8601 with the time zone.
        ended: when; empty while it runs, and for one that was killed.
    """

    status: State
    reason: str = ""
    started: str = ""
    ended: str = ""


@contextmanager
def run_at_work(folder: Path) -> Iterator[None]:
    """Mark a run as running inside, and then as finished, or as failed or stopped by what was raised.

    A process that is killed leaves it marked as running, and lets go of the folder: ``read_status`` takes it for
    stopped.
    """
    begun = RunStatus("running", started=_now())
    with _held(folder):
        _write(folder, begun)
        try:
            yield
        except KeyboardInterrupt:
            _write(folder, replace(begun, status="stopped", reason=_INTERRUPTED, ended=_now()))
            raise
        except BaseException as error:
            write_durably(folder / ERROR_FILE, traceback.format_exc().encode())
            error.add_note(f"The details are in {folder / ERROR_FILE}.")
            reason = escaped(str(error) or type(error).__name__, _MOST_SAID)
            _write(folder, replace(begun, status="failed", reason=reason, ended=_now()))
            raise
        _write(folder, replace(begun, status="finished", ended=_now()))


def read_status(folder: Path) -> RunStatus | None:
    """What became of the run in this folder; None where no run has said so. One whose process is gone has stopped.

    Raises RunFolderError for a broken file.
    """
    file = folder / _FILE
    if not os.path.lexists(file):
        return None
    status: RunStatus = parsed(RunStatus, read_json(file, _REPEAT, _REPEAT), file, _REPEAT)
    if status.status == "running" and not _is_held(folder):
        return replace(status, status="stopped", reason=_KILLED)
    return status


def _write(folder: Path, status: RunStatus) -> None:
    write_durably(folder / _FILE, json.dumps(asdict(status), indent=1).encode())


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Locks a folder for as long as this process works in it; the system unlocks it when the process dies."""
    import fcntl  # Windows has none

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _is_held(folder: Path) -> bool:
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
