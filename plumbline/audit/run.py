"""One audit: a federation of local processes from alignment to scores, and what is written of it."""

import json
import platform
import tempfile
import time
from dataclasses import asdict, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from defences.dp_sgd import DpSgd
from plumbline.audit.configuration import write_configuration
from plumbline.audit.folder import AuditFolder
from plumbline.audit.installed_models import install_network
from plumbline.audit.known_beforehand import write_knowledge
from plumbline.audit.report import write_report
from plumbline.audit.request import AuditRequest
from plumbline.audit.verdict import print_findings
from plumbline.federation import Federation
from plumbline.job_progress import JobWatcher, shown_progress
from plumbline.judge.findings import Findings, read_findings
from plumbline.processes import LocalProcesses
from plumbline.recipe import changed
from services.common.durable import make_folder, write_durably
from services.common.identity import Role

_VERSIONS = ("plumbline", "cryptography", "gmpy2", "grpcio", "numpy", "protobuf", "scikit-learn")


def run_audit(request: AuditRequest, console: Console) -> Path:
    """Run the federation, print its findings, write them; returns the run's folder.

    Raises ValueError for a request that can't work, FederationFailed or ProcessFailed when the run fails; logs of all
    parties are in the run's folder either way.
    """
    name = request.name or request.data or "audit"
    recipe = request.recipe().checked()  # what can't work is refused before anything is written
    run = AuditFolder(_new_folder(request.runs, f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{name}"))
    write_configuration(run.path, request, recipe.asked)
    settings = recipe.settings(run.parties.path.resolve())
    if request.hidden is not None:
        parts = install_network(
            settings,
            run.models,
            hidden=request.hidden,
            activation=request.activation,
            training=next((one for one in recipe.defences if isinstance(one, DpSgd)), None),
        )
        settings |= {name: changed(name, settings[name], model=part) for name, part in parts.items()}
    if request.attacks_predictions:
        known = write_knowledge(settings, run, request.auxiliary)
        settings[Role.ACTIVE] = changed(Role.ACTIVE, settings[Role.ACTIVE], **known)
    # Keys stay outside the run's folder and go with the run.
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        run.logs.mkdir()
        processes = LocalProcesses(Path(scratch), settings, logs=run.logs)
        start = time.perf_counter()
        with Federation.start(processes) as federation, shown_progress(console) as progress:
            federation.train(watch=JobWatcher(progress))
        elapsed = time.perf_counter() - start
    findings = read_findings(run.parties, request.passive_names, name, titles=request.titles)
    if in_lab := tuple(defence.name for defence in recipe.defences if "lab" in defence.spec.sits):
        defended = {**findings.summary.defences, "the lab": in_lab}
        findings = replace(findings, summary=replace(findings.summary, defences=defended))
    _write(run, request, findings, elapsed)
    print_findings(console, findings, elapsed, request.verbosity)
    console.print(f"Report: {run.report}", highlight=False)
    return run.path


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


def _write(run: AuditFolder, request: AuditRequest, findings: Findings, elapsed: float) -> None:
    facts = {
        "request": {key: str(value) if isinstance(value, Path) else value for key, value in asdict(request).items()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "seconds": elapsed,
    }
    write_durably(run.config, json.dumps(facts, indent=1, default=str).encode())
    write_durably(run.results, json.dumps(findings.as_dict(), indent=1).encode())
    write_report(run.report, findings, facts, run.parties)
