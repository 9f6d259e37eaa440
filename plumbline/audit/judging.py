"""What an audit found, from its folder alone: judged, with what its plan says of how it was run."""

import json
from dataclasses import replace
from typing import Any

from plumbline.audit.candidates import read_trials
from plumbline.audit.folder import AuditFolder
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.progress import Progress


def read_facts(run: AuditFolder) -> dict[str, Any]:
    """Read a run's request, plan, versions and duration. Raises OSError or ValueError for a missing or broken file."""
    facts: dict[str, Any] = json.loads(run.config.read_text())
    return facts


def judge_run(run: AuditFolder, progress: Progress | None = None) -> Findings:
    """Judge what the parties wrote, and add what only the audit knows: why in the clear, what was not measured, what was tried.

    Args:
        run: the folder of a run whose federation is over.
        progress: called with what is being judged, how much is done and of how much.

    Raises:
        OSError, ValueError: when the run's own record is missing or broken.
        RunFolderError: when a party's file is.
    """
    facts = read_facts(run)
    plan, name = facts["plan"], facts["name"]
    findings = read_findings(run.parties, plan["passive_names"], name, titles=plan["titles"], progress=progress)
    summary = findings.summary
    if plan["lab_defences"]:
        summary = replace(summary, defences={**summary.defences, "the lab": tuple(plan["lab_defences"])})
    if summary.agreement.plan.cipher == "plain":
        summary = replace(summary, warnings=(*dict.fromkeys((plan["why"], *summary.warnings)),))
    unmeasured = dict.fromkeys((*findings.answer.not_measured, *plan["not_measured"]))
    answer = replace(findings.answer, not_measured=tuple(unmeasured))
    return replace(findings, summary=summary, answer=answer, trials=read_trials(run))
