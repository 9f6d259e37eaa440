"""What an audit writes into its folder: its request and plan at the start, its numbers and its page at the end."""

import json
import platform
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from plumbline.audit.configuration import write_configuration
from plumbline.audit.folder import AuditFolder
from plumbline.audit.judging import read_facts
from plumbline.audit.plan import AuditPlan, plan_facts
from plumbline.audit.report import write_report
from plumbline.judge.findings import Findings
from services.common.durable import make_folder, write_durably
from services.common.run_records import content_of

_VERSIONS = ("plumbline", "cryptography", "gmpy2", "grpcio", "numpy", "protobuf", "scikit-learn")


def new_run(plan: AuditPlan) -> AuditFolder:
    """Make the folder of a run: ``<runs>/<time>-<name>``, and nothing in it yet."""
    return AuditFolder(_new_folder(plan.request.runs, f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{_name(plan)}"))


def write_plan(run: AuditFolder, plan: AuditPlan) -> None:
    """Write the request, the plan and the versions, before anything is run, and the file that repeats it."""
    request = {key: str(one) if isinstance(one, Path) else one for key, one in asdict(plan.request).items()}
    facts = {
        "name": _name(plan),
        "request": request,
        "plan": plan_facts(plan),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
    }
    _write_facts(run, facts)
    write_configuration(run.path, plan.request, plan.recipe.asked)


def write_findings(run: AuditFolder, findings: Findings, seconds: float) -> None:
    """Write every number, the duration and the page."""
    facts = {**read_facts(run), "seconds": seconds}
    _write_facts(run, facts)
    results = {
        **asdict(findings.summary),
        "predictions": content_of(findings.summary.predictions),
        **asdict(findings.predictions),
        "training_attacks": [asdict(finding) for finding in findings.training],
        "answer": asdict(findings.answer),
        "largest_part": findings.answer.largest_part,
        "trials": [asdict(one) for one in findings.trials],
    }
    write_durably(run.results, json.dumps(results, indent=1).encode())
    write_report(run.report, findings, facts, run.parties)


def _write_facts(run: AuditFolder, facts: dict[str, Any]) -> None:
    write_durably(run.config, json.dumps(facts, indent=1, default=str).encode())


def _name(plan: AuditPlan) -> str:
    return plan.request.name or plan.request.data or "audit"


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
