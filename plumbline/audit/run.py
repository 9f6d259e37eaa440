"""One audit, stage by stage: look at the tables, plan, run the federation, judge it, write, print."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from plumbline.audit.candidates import try_defences
from plumbline.audit.federating import run_federation
from plumbline.audit.joined_tables import JoinedTables
from plumbline.audit.planning.plan import AuditPlan, candidates, plan_audit
from plumbline.audit.planning.plan_words import is_agreed, print_plan
from plumbline.audit.request import AuditRequest
from plumbline.audit.results import judged, write_findings
from plumbline.audit.runs.folder import AuditFolder
from plumbline.audit.runs.run_facts import new_run, write_duration, write_plan
from plumbline.audit.runs.run_status import run_at_work
from plumbline.audit.table_words import examined_and_shown
from plumbline.audit.verdict import print_findings
from plumbline.job_progress import NoProgress, RunProgress, shown_progress
from plumbline.judge.findings import Findings, recommendation_words
from services.common.settings import settings_of


class NotBegun(ValueError):
    """An audit that its owner didn't want once it was known how long it takes; nothing was run or written."""


def run_audit(request: AuditRequest, console: Console) -> Path:
    """Do a whole audit, as ``audited`` does and raising what it raises; returns the run's folder."""
    return audited(request, console)[0].path


def audited(request: AuditRequest, console: Console) -> tuple[AuditFolder, Findings]:
    """Plan and run an audit, print its findings, write them; returns the run's folder and what was found.

    Nothing is written before the plan is made. From then on the folder says what became of the run, and holds the logs
    of all parties, whatever happens.

    Raises:
        ValueError: for a request that can't work, one that only asks for the plan, and a long run that is declined.
        FederationFailed, ProcessFailed: when the federation fails.
    """
    start = time.perf_counter()
    plan, tables = prepare(request, console)
    if request.dry_run or not is_agreed(console, plan):
        raise NotBegun("Nothing was run: this was the plan.")
    run = new_run(plan)
    with run_at_work(run.path):
        write_plan(run, plan)
        with _shown(plan, console) as progress:
            run_federation(plan, tables, run, progress)
            progress.stage("judging")
            findings = judged(run, plan.request, lambda what, done, of: progress.at(done, of, what))
            if request.try_defences:
                findings = replace(findings, trials=try_defences(plan, tables, run, findings, progress))
            progress.stage("writing the report")
            write_findings(run, findings, write_duration(run, time.perf_counter() - start))
        print_findings(console, findings, time.perf_counter() - start, plan.request.verbosity)
        if words := recommendation_words(findings.trials):
            console.print(words, highlight=False)
        console.print(f"Report: {run.report}", highlight=False)
    return run, findings


def prepare(request: AuditRequest, console: Console) -> tuple[AuditPlan, JoinedTables]:
    """Look at the tables, plan and show the plan. Starts no process and writes nothing.

    Raises ValueError for tables that can't be used, and for a request that can't work.
    """
    # A mistake in them is told before tables are read; those of attacks and defences wait for what is mounted.
    settings_of({name: value for name, value in request.settings.items() if not name.endswith("_options")})
    own_data = examined_and_shown(request, console)
    recipe = candidates(request).recipe(own_data).checked()
    tables = JoinedTables(recipe.parties)
    plan = plan_audit(request, recipe, tables, own_data)
    if request.verbosity != "quiet":
        print_plan(console, plan)
    return plan, tables


def _shown(plan: AuditPlan, console: Console) -> AbstractContextManager[RunProgress]:
    if plan.request.verbosity == "quiet":
        return nullcontext(NoProgress())
    return shown_progress(console, expected=plan.workload.attacks)
