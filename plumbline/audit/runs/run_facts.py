"""What a run's folder says of the run itself: its request, its plan, the versions, and how long it took."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from typing_extensions import TypedDict

from plumbline.audit.configuration import write_configuration
from plumbline.audit.planning.plan import AuditPlan, plan_facts
from plumbline.audit.runs.folder import AuditFolder
from services.common.durable import make_folder, write_durably
from services.common.run_files import parsed, read_json
from services.common.run_records import Seconds

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


def new_run(plan: AuditPlan) -> AuditFolder:
    """Make the folder of a run: ``<runs>/<time>-<name>``, and nothing in it yet."""
    return AuditFolder(
        _new_folder(plan.request.output.runs, f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{plan.request.title}")
    )


def write_plan(run: AuditFolder, plan: AuditPlan) -> None:
    """Write the request, the plan and the versions, before anything is run, and the file that repeats it."""
    asked = {**plan.request.options(), **asdict(plan.request.tables.without_passwords())}
    facts = {
        "request": {key: str(one) if isinstance(one, Path) else one for key, one in asked.items()},
        "plan": plan_facts(plan),
        "versions": versions(),
    }
    _write_facts(run, facts)
    write_configuration(run.path, plan.request, plan.recipe.asked)


def write_duration(run: AuditFolder, seconds: float) -> RunFacts:
    """Write how long the run took, to what is known of it; returns all of that."""
    facts: RunFacts = {**read_facts(run), "seconds": seconds}
    _write_facts(run, facts)
    return facts


def read_facts(run: AuditFolder) -> RunFacts:
    """Read a run's request, plan, versions and duration. Raises RunFolderError for a missing or broken file."""
    facts: RunFacts = parsed(RunFacts, read_json(run.config), run.config)
    return facts


def versions() -> dict[str, str]:
    """Versions of what ran, by name."""
    return {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}}


def _write_facts(run: AuditFolder, facts: Mapping[str, Any]) -> None:
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
