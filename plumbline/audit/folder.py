"""Where an audit writes: one folder per run, with what the parties wrote of it inside, and what the run says of itself.

That is its request, its plan, the versions, and how far it has come, whatever ends its process.
"""

import json
import os
import platform
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict
from typing_extensions import TypedDict

from plumbline.audit.configuration import write_configuration
from plumbline.audit.plan import AuditPlan, plan_facts
from plumbline.judge.column_sets import WhatIf
from services.common.durable import make_folder, write_durably
from services.common.run_files import MOST_SHORT_BYTES, parsed, read_json
from services.common.run_folder import RunFolder
from services.common.run_records import Seconds
from services.common.words import escaped, system_words

State = Literal["running", "finished", "failed", "stopped"]

_FILE = "status.json"
# Where in the program a run failed.
ERROR_FILE = "error.txt"
_MOST_SAID = 2_000
# Of a reason that must find room in the block that the file has.
_MOST_IN_PLACE = 300
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


@dataclass(frozen=True)
class RunVerdict:
    """What a list says of a run that has results: all of it is in results.json as well, among megabytes.

    Attributes:
        sentence: the verdict.
        light: green, amber, red or grey; empty where an older release didn't say.
        part: the largest federation's part, 0 to 1; None where none was measured.
        accuracy: of the model on test records; None or NaN without any.
        auc: likewise.
        tested_by_class: test records of each class; empty where an older release didn't count them.
    """

    sentence: str = ""
    light: str = ""
    part: float | None = None
    accuracy: float | None = None
    auc: float | None = None
    tested_by_class: tuple[int, ...] = ()


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
            _end(folder, replace(begun, status="stopped", reason=_INTERRUPTED, ended=_now()))
            raise
        except BaseException as error:
            if isinstance(error, OSError) and error.errno is not None and error.filename is None:
                error.filename = str(folder)
            sentence = system_words(error) if isinstance(error, OSError) else str(error)
            reason = escaped(sentence or type(error).__name__, _MOST_SAID)
            _end(folder, replace(begun, status="failed", reason=reason, ended=_now()))
            with suppress(OSError):
                write_durably(folder / ERROR_FILE, traceback.format_exc().encode())
                error.add_note(f"The details are in {folder / ERROR_FILE}.")
            raise
        _write(folder, replace(begun, status="finished", ended=_now()))


def read_status(folder: Path) -> RunStatus | None:
    """Read what became of the run in this folder; None where no run says so. One whose process is gone has stopped.

    Raises RunFolderError for a broken file.
    """
    file = folder / _FILE
    if not os.path.lexists(file):
        return None
    status = parsed(RunStatus, read_json(file, _REPEAT, _REPEAT, MOST_SHORT_BYTES), file, _REPEAT)
    if status.status == "running" and not _is_held(folder):
        return replace(status, status="stopped", reason=_KILLED)
    return status


def _write(folder: Path, status: RunStatus) -> None:
    write_durably(folder / _FILE, json.dumps(asdict(status), indent=1).encode())


def _end(folder: Path, status: RunStatus) -> None:
    """Write how a run has ended, over what stands there where the disk has no room for another file."""
    try:
        _write(folder, status)
    except OSError:
        content = json.dumps(asdict(replace(status, reason=status.reason[:_MOST_IN_PLACE])), indent=1).encode()
        with suppress(OSError), (folder / _FILE).open("r+b") as file:
            file.write(content)
            file.truncate()


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


class _Named:
    """A file or folder of this name in the folder of a run."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: "AuditFolder", _: Any = None) -> Path:
        return run.path / self._name


@dataclass(frozen=True)
class AuditFolder:
    """The files of one audit.

    Attributes:
        path: ``<runs>/<time>-<name>``.
        logs: a log per party.
        models: parts of a model that was trained in the lab.
        known_labels: what passive parties' adversaries know of labels, where asked for.
        auxiliary: complete records that the adversary was given.
        prior_knowledge: statistics of the passive columns that the adversary was given.
        config: the request, versions and duration.
        results: every number of the report.
        what_if: sets of columns that were tried.
        trials: defences that were tried.
        variants: what the variants of a request gave away.
        verdict: the verdict in short, as ``RunVerdict``.
        report: the page.
    """

    path: Path
    logs = _Named("logs")
    models = _Named("models")
    known_labels = _Named("known-labels.parquet")
    auxiliary = _Named("auxiliary.parquet")
    prior_knowledge = _Named("prior-knowledge.json")
    config = _Named("config.json")
    results = _Named("results.json")
    what_if = _Named("whatif.json")
    trials = _Named("candidates.json")
    variants = _Named("variants.json")
    verdict = _Named("verdict.json")
    report = _Named("report.html")

    @property
    def status(self) -> RunStatus | None:
        """Whether it is running, finished, failed or stopped; None where that was never written."""
        return read_status(self.path)

    @property
    def parties(self) -> RunFolder:
        """What the services write; all parties of an audit share it."""
        return RunFolder(self.path / "parties")

    def owner(self, party: str) -> Path:
        """Name what is for this party's eyes alone: an auditor hands it to nobody else."""
        return self.path / "owners" / party


_VERSIONS = ("plumbline", "cryptography", "gmpy2", "grpcio", "numpy", "protobuf", "scikit-learn")


class PlanFacts(TypedDict, total=False):
    """What is read again of a plan: why it trains in the clear. The rest is for people."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    why: str


class RunFacts(TypedDict, total=False):
    """What config.json holds: ``request``, ``plan``, ``versions`` and, of a run that got to its end, ``seconds``."""

    request: dict[str, Any]
    plan: PlanFacts
    versions: dict[str, str]
    seconds: Seconds


def new_run(runs: Path, title: str) -> AuditFolder:
    """Make the folder of a run: ``<runs>/<time>-<name>``, and nothing in it yet."""
    return AuditFolder(_new_folder(runs, f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{title}"))


def write_plan(run: AuditFolder, plan: AuditPlan) -> None:
    """Write the request, the plan and the versions, before anything is run, and the file that repeats it."""
    options = {**plan.request.options(), **asdict(plan.request.tables.without_passwords())}
    facts = {
        "request": {key: str(one) if isinstance(one, Path) else one for key, one in options.items()},
        "plan": plan_facts(plan),
        "versions": versions(),
    }
    write_facts(run, facts)
    write_configuration(run.path, plan.request, plan.recipe.asked)


def write_duration(run: AuditFolder, seconds: float) -> RunFacts:
    """Write how long the run took, to what is known of it; returns all of that."""
    facts: RunFacts = {**read_facts(run), "seconds": seconds}
    write_facts(run, facts)
    return facts


def read_facts(run: AuditFolder) -> RunFacts:
    """Read a run's request, plan, versions and duration. Raises RunFolderError for a missing or broken file."""
    return parsed(RunFacts, read_json(run.config), run.config)


def write_what_if(run: AuditFolder, what_if: WhatIf) -> None:
    """Write what sets of columns would give away."""
    write_durably(run.what_if, json.dumps(asdict(what_if), indent=1).encode())


def read_what_if(run: AuditFolder) -> WhatIf | None:
    """Read what sets of columns would give away; None where nobody asked. Raises RunFolderError for a broken file."""
    if not os.path.lexists(run.what_if):
        return None
    again = "`plumbline whatif` writes it again."
    return parsed(WhatIf, read_json(run.what_if, again, again), run.what_if, again)


def versions() -> dict[str, str]:
    """List the versions of what ran, by name."""
    return {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}}


def write_facts(run: AuditFolder, facts: Mapping[str, Any]) -> None:
    """Write config.json: a run's request, plan, versions and duration, as far as they are known."""
    write_durably(run.config, json.dumps(facts, indent=1, default=str).encode())


def _new_folder(parent: Path, name: str) -> Path:
    """Make a folder of this name, with -2, -3 and so on where audits of the same second have made theirs.

    It is for its owner alone: the parties' features and labels will be in it.
    """
    make_folder(parent)
    folder, number = parent / name, 1
    while True:
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
            folder = parent / f"{name}-{number}"
        else:
            return folder
