"""What is judged of an audit's folder and written into it: when the run ends, and when its report is made again."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from defences import defence_class
from plumbline.audit.candidates import read_trials
from plumbline.audit.configuration import FILE, ConfigurationError, read_configuration
from plumbline.audit.report import write_report
from plumbline.audit.request import AuditRequest
from plumbline.audit.runs.folder import AuditFolder
from plumbline.audit.runs.run_facts import read_facts
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.how_far import Progress
from services.common.durable import write_durably


def judged(run: AuditFolder, request: AuditRequest, progress: Progress | None = None) -> Findings:
    """Judge what the parties of a run wrote, and add what nobody but its plan knows.

    That is which defences the lab applied, why training was in the clear, and what was tried.

    Args:
        run: the folder of a run whose federation is over.
        request: what was asked for.
        progress: called with what is being judged, how much is done and of how much.

    Raises:
        RunFolderError: where something of it is missing or broken.
    """
    plan = read_facts(run).get("plan", {})
    findings = read_findings(
        run.parties, request.passive_names, request.title, titles=request.titles, progress=progress
    )
    summary = findings.summary
    if in_lab := tuple(name for name in request.defences if "lab" in getattr(defence_class(name).spec, "sits", ())):
        # Nobody in the federation applied it, so that no party's record has it.
        summary = replace(summary, defences={**summary.defences, "the lab": in_lab})
    if not summary.agreement.plan.is_encrypted and "why" in plan:
        summary = replace(summary, warnings=tuple(dict.fromkeys((plan["why"], *summary.warnings))))
    return replace(findings, summary=summary, trials=read_trials(run))


def write_findings(run: AuditFolder, findings: Findings, facts: Mapping[str, Any]) -> None:
    """Write every number of the report as JSON, and the report; ``facts`` are those of config.json."""
    write_durably(run.results, json.dumps(findings.as_dict(), indent=1).encode())
    write_report(run.report, findings, dict(facts), run.parties)


def report_again(run: AuditFolder) -> Findings:
    """Judge a run that has ended, and write its numbers and its report anew.

    Raises:
        ValueError: where the run hasn't got as far, or was made before runs said what they were asked for.
        RunFolderError: where a file of it is missing or broken.
    """
    if not (run.path / FILE).exists():
        raise ValueError(f"{run.path} has no {FILE}, which says what to judge: run the audit again.")
    if not os.path.lexists(run.config) or "seconds" not in read_facts(run):
        raise ValueError(f"{run.path} has no results to report on: it didn't get as far. `plumbline runs` says why.")
    try:
        request = read_configuration(run.path / FILE).request()
    except ConfigurationError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{run.path / FILE} asks for no audit that can be: {error} Run it again.") from error
    findings = judged(run, request)
    write_findings(run, findings, read_facts(run))
    return findings
