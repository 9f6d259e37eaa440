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
from plumbline.audit.console import (
    JobWatcher,
    job_progress,
    print_leakage,
    print_predictions,
    print_summary,
    print_training_leakage,
    unaware_words,
)
from plumbline.audit.installed_models import install_network, write_auxiliary
from plumbline.audit.report import write_report
from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation
from plumbline.judge.predictions import AttackFinding, read_leakage
from plumbline.judge.summary import RunSummary, read_summary
from plumbline.judge.training import TrainingFinding, read_training_leakage
from plumbline.processes import LocalProcesses

_VERSIONS = ("plumbline", "cryptography", "gmpy2", "grpcio", "numpy", "protobuf", "scikit-learn")


def run_audit(request: AuditRequest, console: Console) -> Path:
    """Run the federation, print its findings, write them; returns the run's folder.

    Raises ValueError for a request that can't work, FederationFailed or ProcessFailed when the run fails; logs of all
    parties are in the run's folder either way.
    """
    name = request.name or request.data or "audit"
    request.party_settings(request.runs)  # what can't work is refused before anything is written
    run = _new_folder(request.runs, f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{name}")
    settings = request.party_settings((run / "parties").resolve())
    if request.hidden is not None:
        parts = install_network(
            settings,
            run / "models",
            hidden=request.hidden,
            activation=request.activation,
            training=next((one for one in request.loaded_defences() if isinstance(one, DpSgd)), None),
        )
        settings = {name: {**values, "model": parts.get(name, "")} for name, values in settings.items()}
    if request.auxiliary:
        table = write_auxiliary(settings, run / "auxiliary.parquet", request.auxiliary)
        settings["active"] = {**settings["active"], "auxiliary": table}
    # Keys stay outside the run's folder and go with the run.
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        (run / "logs").mkdir()
        processes = LocalProcesses(
            Path(scratch),
            settings,
            insecure_transport=request.settings.get("transport") == "insecure",
            logs=run / "logs",
        )
        start = time.perf_counter()
        with Federation.start(processes) as federation, job_progress(console) as progress:
            federation.train(watch=JobWatcher(progress))
        elapsed = time.perf_counter() - start
    findings = read_summary(run / "parties", name)
    if in_lab := [defence.name for defence in request.loaded_defences() if "lab" in defence.spec.sits]:
        findings = replace(findings, defences={**findings.defences, "the lab": in_lab})
    leakage = read_leakage(run / "parties", request.passive_names)
    training = read_training_leakage(run / "parties")
    unaware = unaware_words(request.loaded_defences())
    _write(run, request, findings, leakage, training, elapsed, unaware)
    print_summary(console, findings, elapsed)
    print_leakage(console, leakage, unaware)
    print_training_leakage(console, training)
    print_predictions(console, findings)
    console.print(f"Report: {run / 'report.html'}", highlight=False)
    return run


def _new_folder(parent: Path, name: str) -> Path:
    """Make a folder of this name, with -2, -3 and so on where audits of the same second have made theirs."""
    parent.mkdir(parents=True, exist_ok=True)
    folder, number = parent / name, 1
    while True:
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            folder = parent / f"{name}-{number}"
        else:
            return folder


def _write(
    run: Path,
    request: AuditRequest,
    findings: RunSummary,
    leakage: list[AttackFinding],
    training: list[TrainingFinding],
    elapsed: float,
    unaware: str,
) -> None:
    facts = {
        "request": {key: str(value) if isinstance(value, Path) else value for key, value in asdict(request).items()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "seconds": elapsed,
    }
    (run / "config.json").write_text(json.dumps(facts, indent=1, default=str))
    results = {**asdict(findings), "attacks": [asdict(finding) for finding in leakage]}
    results["training_attacks"] = [asdict(finding) for finding in training]
    (run / "results.json").write_text(json.dumps(results, indent=1))
    write_report(run / "report.html", findings, leakage, training, facts, unaware)
