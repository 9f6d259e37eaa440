"""One audit, stage by stage: look at the tables, plan, run the federation, judge it, write, print."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.prompt import Confirm
from rich.table import Table
from rich.text import Text

from attacks import spec_of
from defences import defence_class
from plumbline.audit.candidates import most_trials, read_beside, read_trials, train_beside, try_defences
from plumbline.audit.configuration import FILE, ConfigurationError, read_configuration
from plumbline.audit.console import print_findings
from plumbline.audit.federating import run_federation
from plumbline.audit.folder import (
    AuditFolder,
    RunVerdict,
    new_run,
    read_facts,
    read_what_if,
    run_at_work,
    write_duration,
    write_plan,
)
from plumbline.audit.forecast import MALICIOUS_SESSION, Span
from plumbline.audit.past_runs import began
from plumbline.audit.plan import AuditPlan, candidates, labels_of, plan_audit
from plumbline.audit.request import AuditRequest
from plumbline.audit.tables import JoinedTables, examine_tables, print_tables
from plumbline.job_progress import RunProgress, shown_progress
from plumbline.judge import Progress
from plumbline.judge.findings import Findings, read_findings, recommendation_words
from plumbline.terminal import shown
from services.common.durable import make_folder, write_durably
from services.common.settings import settings_of
from vfl.data.faults import bounded, counted
from vfl.data.labels import FEW_RECORDS
from vfl.data.psi import rows_of

# Slow to import, and few ask for it.
if TYPE_CHECKING:
    from plumbline.report.annex import Annex, RunPapers

# A run that takes longer begins when its owner says so.
LONG_SECONDS = 600.0
# Classes that a plan names.
_MOST_CLASSES = 20


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
    if request.output.dry_run or not is_agreed(console, plan):
        raise NotBegun("Nothing was run: this was the plan.")
    run = new_run(request.output.runs, plan.request.title)
    with run_at_work(run.path):
        write_plan(run, plan)
        is_quiet = request.output.verbosity == "quiet"
        display = nullcontext(RunProgress()) if is_quiet else shown_progress(console, expected=plan.workload.attacks)
        with display as progress:
            run_federation(plan, tables, run, progress)
            progress.stage("judging")
            findings = judged(run, plan.request, lambda what, done, of: progress.at(done, of, what))
            if plan.beside:
                findings = replace(findings, variants=train_beside(plan, tables, run, findings, progress))
            if request.federation.try_defences:
                findings = replace(findings, trials=try_defences(plan, tables, run, findings, progress))
            progress.stage("writing the report")
            write_worst_records(run, tables, findings)
            write_findings(run, findings, write_duration(run, time.perf_counter() - start))
        print_findings(console, findings, time.perf_counter() - start, request.output.verbosity)
        if recommendation := recommendation_words(findings.trials):
            console.print(recommendation, highlight=False)
        console.print(f"Report: {run.report}", highlight=False)
    return run, findings


def prepare(request: AuditRequest, console: Console) -> tuple[AuditPlan, JoinedTables]:
    """Look at the tables, plan and show the plan. Starts no process and writes nothing.

    Raises ValueError for tables that can't be used, and for a request that can't work.
    """
    # A mistake in them is told before tables are read; those of attacks and defences wait for what is mounted.
    settings = request.federation.all_settings
    settings_of({name: value for name, value in settings.items() if not name.endswith("_options")})
    # What else is asked for is checked, and refused, with the whole recipe.
    rules = request.federation.said("table_megabytes", "table_columns", "table_cells", "encoder", "pad_widths")
    examined, is_quiet = examine_tables(request.tables, rules.table_limits), request.output.verbosity == "quiet"
    if examined.tables and not is_quiet:
        print_tables(console, examined, None if rules.pad_widths else rules.encoder)
    recipe = candidates(request).recipe(examined.settings).checked()
    tables = JoinedTables(recipe.parties, examined.tables)
    plan = plan_audit(request, recipe, tables)
    if not is_quiet:
        print_plan(console, plan)
    return plan, tables


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
    plan, parties, defences = read_facts(run).get("plan", {}), request.tables, request.federation.defences
    findings = read_findings(
        run.parties, parties.passive_names, request.title, titles=parties.titles, progress=progress
    )
    summary = findings.summary
    if in_lab := tuple(name for name in defences if "lab" in getattr(defence_class(name).spec, "sits", ())):
        # Nobody in the federation applied it, so that no party's record has it.
        summary = replace(summary, defences={**summary.defences, "the lab": in_lab})
    if not summary.agreement.plan.is_encrypted and "why" in plan:
        summary = replace(summary, warnings=tuple(dict.fromkeys((plan["why"], *summary.warnings))))
    findings = replace(findings, summary=summary, trials=read_trials(run), what_if=read_what_if(run))
    return replace(findings, variants=read_beside(run, findings))


def write_findings(run: AuditFolder, findings: Findings, facts: Mapping[str, Any]) -> None:
    """Write the report, and every number of it with the document that it shows as JSON; ``facts``: of config.json."""
    from plumbline.report.page import write_report  # slow to import

    document = write_report(run.report, findings, dict(facts), run.parties)
    results = {**findings.as_dict(), "document": asdict(document)}
    write_durably(run.results, json.dumps(results, indent=1).encode())
    answer, summary = findings.answer, findings.summary
    quality = summary.accuracy, summary.auc, summary.tested_by_class
    short = RunVerdict(findings.glance.sentence, answer.light, answer.largest_part, *quality)
    write_durably(run.verdict, json.dumps(asdict(short), indent=1).encode())


def write_annex(run: AuditFolder, annex: "Callable[[RunPapers, int], Annex]") -> tuple[Path, Path]:
    """Write the annex to an impact assessment beside a run's report; returns the PDF's path and that of the .docx.

    Args:
        run: which.
        annex: makes it of the run's papers, and of the most entries that any list may have.

    Raises:
        AnnexLacks: where a library that writes them can't be had.
        RunFolderError: where a file of the run is missing or broken.
    """
    from plumbline.report.annex import RunPapers
    from plumbline.report.annex_files import annex_files

    files = [one for one in (run.results, run.path / FILE, run.report) if one.is_file()]
    hashes = {one.name: sha256(one.read_bytes()).hexdigest() for one in files}
    papers = RunPapers(read_facts(run), began(run.path.resolve()), hashes, run.parties)
    written = run.path / "annex.pdf", run.path / "annex.docx"
    for path, content in zip(written, annex_files(partial(annex, papers)), strict=True):
        write_durably(path, content)
    return written


# Of each party's persons: how many are named to their owner.
_MOST_NAMED = 10


def write_worst_records(run: AuditFolder, tables: JoinedTables, findings: Findings) -> None:
    """Write, for each passive party's eyes alone, which of its records are most at risk: by row of its own table.

    Rows are counted as the table has them, from 1, without a heading. Nobody else's file has them.
    """
    for risks in findings.record_risks:
        worst = np.lexsort((-risks.told, -risks.risk))[:_MOST_NAMED]
        table_rows = rows_of(tables.data[risks.party].ids, tables.ids_of(risks.rows[worst]))
        entries = [
            {"row": int(row) + 1, "risk": float(risks.risk[place]), "values_told": int(risks.told[place])}
            for row, place in zip(table_rows, worst, strict=True)
            if risks.risk[place] > 0 or risks.told[place] > 0
        ]
        folder = run.owner(risks.party)
        make_folder(folder)
        write_durably(folder / "worst-records.json", json.dumps(entries, indent=1).encode())


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


def print_plan(console: Console, plan: AuditPlan) -> None:
    """Show what will run, under which cipher and why, and how long each stage takes."""
    foretold = plan.forecast
    table = Table(title=f"The plan: {Span.about(foretold.seconds)} in all, where the cores are free")
    table.add_column("stage", style="bold")
    table.add_column("of")
    table.add_column("takes", justify="right", no_wrap=True)
    for stage in foretold.stages:
        table.add_row(stage.name, stage.amount, str(Span.about(stage.seconds)))
    console.print(table)
    console.print(
        f"All processes together take {Span.about(foretold.processor_seconds)} of the processor, however busy it is.",
        highlight=False,
    )
    for sentence in plan_sentences(plan):
        console.print(Text(sentence, "bold red" if "INSECURE" in sentence else ""), highlight=False)


def plan_sentences(plan: AuditPlan) -> Iterator[str]:
    """Say which classes there are, why this cipher, which attacks run and which don't, and what is not measured."""
    adversary = plan.request.adversary
    yield from _class_sentences(plan)
    yield from map(shown, plan.forewarnings)
    yield f"Cipher {plan.cipher.cipher}: {plan.cipher.why}"
    if adversary.attacks:
        yield f"Attacks: {', '.join(adversary.attacks)}."
    if adversary.attacks_predictions and plan.attacked < plan.test_records:
        yield (
            f"They reconstruct {plan.attacked:,} of the {plan.test_records:,} test records; "
            f"--set attacked_records={plan.test_records} takes all."
        )
    if malicious := plan.workload.malicious:
        yield (
            f"In a session of its own, for it sends other messages than the protocol's: {', '.join(malicious)}. "
            "All else is measured of a model that was trained honestly."
        )
    if plan.limit is not None and (together := labels_of(adversary.attacks, adversary.levels, plan.limit)):
        names = " and ".join(dict.fromkeys(name for name, _ in together.values()))
        yield (
            f"Afterwards {names} puts {plan.limit.sessions} sessions about the same records together, the most "
            f"that PLUMBLINE_MOST_EQUATIONS={plan.limit.share:g} allows: --most-equations says what owners will set."
        )
    if plan.left_out:
        reasons: dict[str, list[str]] = {}
        for attack in plan.left_out:
            reasons.setdefault(attack.reason, []).append(attack.attack)
        phrases = (f"{', '.join(names)} ({why})" for why, names in reasons.items())
        yield f"Left out: {'; '.join(phrases)}."
    for variant in plan.beside:
        amounts = [f" ({stage.amount})" for stage in variant.forecast.stages if stage.name == "encrypting features"]
        insecure = "" if variant.cipher.is_encrypted else " INSECURE: in the clear."
        yield (
            f"Beside it {variant.title}{''.join(amounts)}: a federation of its own, over the same tables, split and "
            f"seeds: {Span.about(variant.forecast.seconds)}.{insecure}"
        )
    if plan.request.federation.try_defences:
        most = most_trials(plan.request)
        # No trial takes as long as training does for its cipher.
        omissions = ("training", MALICIOUS_SESSION) if plan.cipher.is_encrypted else ()
        each = sum(stage.seconds for stage in plan.forecast.stages if stage.name not in omissions)
        yield (
            f"If anything leaks, up to {most} defences are tried afterwards, each in a federation of its "
            f"own over the same tables, split and seeds, in the clear: {Span.about(each)} each."
        )
        replacing = any(spec_of(name).conduct != "listens" for name in adversary.attacks)
        if plan.cipher.is_encrypted and replacing:
            yield (
                "Where an attack on ciphertexts tells labels, they train under Paillier as well: "
                f"{Span.about(plan.forecast.seconds)} each."
            )
    yield from plan.not_measured


def _class_sentences(plan: AuditPlan) -> Iterator[str]:
    named = [f"{shown(bounded(name))} {count:,}" for name, count in plan.classes.items()]
    more = f" and {len(named) - _MOST_CLASSES:,} more" if len(named) > _MOST_CLASSES else ""
    lacking = f"; {counted(plan.unlabelled, 'more record')} without a label, predicted only" if plan.unlabelled else ""
    yield f"Classes of the label, with their records: {', '.join(named[:_MOST_CLASSES])}{more}{lacking}."
    if few := [f"{shown(bounded(name))} ({count})" for name, count in plan.classes.items() if count < FEW_RECORDS]:
        yield (
            f"Classes of fewer than {FEW_RECORDS} records: {', '.join(few[:_MOST_CLASSES])}. Hardly anything is "
            "learned of so few: check how they are written, or merge them."
        )


def is_agreed(console: Console, plan: AuditPlan) -> bool:
    """Tell whether a run may begin: somebody who can answer is asked about a long one, unless the request says yes."""
    if plan.forecast.seconds <= LONG_SECONDS or plan.request.output.assume_yes or not console.is_interactive:
        return True
    question = f"This takes {Span.about(plan.forecast.seconds)}. Begin?"
    return Confirm.ask(question, console=console, default=True)
