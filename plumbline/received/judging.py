"""A judge's run: read three tables, mount adversaries, write what they tell, as an audit writes it."""

import json
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict

from rich.console import Console

from plumbline.audit.console import print_answer
from plumbline.audit.folder import (
    AuditFolder,
    RunVerdict,
    new_run,
    read_facts,
    run_at_work,
    versions,
    write_duration,
    write_facts,
)
from plumbline.audit.forecast import Span
from plumbline.audit.run import NotBegun
from plumbline.audit.tables import print_tables
from plumbline.judge.answer import listed
from plumbline.received.assumptions import ASSUMED
from plumbline.received.before_sending import HEADINGS, read_before, sets_of, weigh, write_before
from plumbline.received.judge_request import JudgeRequest
from plumbline.received.kinds import grouped
from plumbline.received.mounting import mount
from plumbline.received.received_findings import ReceivedFindings, read_received_findings
from plumbline.received.received_tables import JudgeFacts, ReceivedRecords, read_received
from plumbline.terminal import folded_table, shown_text
from services.common.durable import write_durably
from services.common.run_files import parsed
from vfl.data.faults import counted

# Of a plan, where a judge's run keeps what it was of; no audit's plan has it.
_KEY = "judge"
# Seconds on the reference machine, beside the first, of a thousand rows read by a hundred columns' regressions.
_SECONDS, _SECONDS_EACH = 20.0, 0.35
# Of these, what one more set of columns takes before sending.
_OF_A_SET = 0.2


def judge(request: JudgeRequest, console: Console) -> tuple[AuditFolder, ReceivedFindings]:
    """Judge received columns, print what they tell and write it; returns the run's folder and what was found.

    Raises:
        ValueError: for tables that can't be used, and for a request that only asks for the plan (``NotBegun``).
    """
    start = time.perf_counter()
    is_quiet = request.output.verbosity == "quiet"
    records = prepare(request, console)
    facts = records.facts
    if request.output.dry_run:
        raise NotBegun("Nothing was judged: this was the plan.")
    run = new_run(request.output.runs, request.title)
    with run_at_work(run.path):
        write_facts(run, {"request": request.facts(), "plan": {_KEY: asdict(facts)}, "versions": versions()})
        with nullcontext() if is_quiet else console.status("Judging what was received"):
            records.write(run.parties)
            mount(run.parties, records, request.seed)
            if request.before:
                write_before(run.path, weigh(records, request.seed))
            findings = read_received_findings(run.parties, facts)
            write_findings(run, findings, write_duration(run, time.perf_counter() - start))
    if is_quiet:
        console.print(shown_text(findings.answer.sentence), highlight=False, soft_wrap=True)
    else:
        print_findings(console, findings)
        print_before(console, run)
    console.print(f"Report: {run.report}", highlight=False)
    return run, findings


def prepare(request: JudgeRequest, console: Console) -> ReceivedRecords:
    """Read the tables, and show what will be judged. Writes nothing.

    Raises ValueError for tables that can't be used.
    """
    examined, records = read_received(request)
    if request.output.verbosity != "quiet":
        print_tables(console, examined, "minmax")
        print_plan(console, records, sets_of(len(records.facts.columns)) if request.before else 0)
    return records


def print_plan(console: Console, records: ReceivedRecords, sets: int) -> None:
    """Show what each received column is taken for, who is known and judged, and how long it takes with further sets."""
    facts = records.facts
    for names, kind, why in grouped(facts.columns):
        console.print(shown_text(f"received {listed(names)}: {kind} ({why})"), highlight=False)
    for kind in dict.fromkeys(one.kind for one in facts.columns):
        console.print(shown_text(f"Assumed of each {kind}: {ASSUMED[kind]}."), highlight=False)
    for note in facts.notes:
        console.print(shown_text(note, "yellow"), highlight=False)
    labels = "own columns and labels" if records.labelled else "own columns"
    seconds = _SECONDS + _SECONDS_EACH * len(records.judged) / 1000 * records.received.shape[1] / 10
    seconds *= 1 + _OF_A_SET * sets
    console.print(
        f"{counted(len(records.judged), 'record')} are judged; the receiver has {labels} of all of them and "
        f"{len(records.known):,} more in full. Takes {Span.about(seconds)}.",
        highlight=False,
    )


def print_findings(console: Console, findings: ReceivedFindings) -> None:
    """Show the verdict, the columns and the control."""
    print_answer(console, findings.answer)
    for sentence in filter(None, (findings.control_words, *findings.facts.notes, *findings.answer.not_measured)):
        console.print(shown_text(sentence), highlight=False)


def print_before(console: Console, run: AuditFolder) -> None:
    """Show what fewer and coarser columns tell, where that was asked."""
    if (before := read_before(run.path)) is None:
        return
    for title, rows in before.groups:
        console.print(folded_table(title, HEADINGS, rows))
    for sentence in before.sentences:
        console.print(shown_text(sentence), highlight=False)


def write_findings(run: AuditFolder, findings: ReceivedFindings, facts: Mapping[str, object]) -> None:
    """Write every number as JSON, the page and the verdict in short."""
    from plumbline.received.received_page import write_received_page  # slow to import

    before = read_before(run.path)
    document = write_received_page(run.report, findings, facts, before)
    results = findings.as_dict() | ({} if before is None else {"before": asdict(before)})
    write_durably(run.results, json.dumps({**results, "document": asdict(document)}, indent=1).encode())
    answer = findings.answer
    short = RunVerdict(answer.sentence, answer.light, answer.largest_part)
    write_durably(run.verdict, json.dumps(asdict(short), indent=1).encode())


def is_judged(run: AuditFolder) -> bool:
    """Tell whether a run judged received columns, rather than a federation."""
    return run.config.is_file() and _KEY in read_facts(run).get("plan", {})


def judged_again(run: AuditFolder) -> ReceivedFindings:
    """Judge once more what lies in the folder of a judge's run, and write its page anew.

    Raises:
        RunFolderError: where a file of it is missing or broken.
    """
    config = read_facts(run)
    facts = parsed(JudgeFacts, dict(config["plan"]).get(_KEY), run.config)
    findings = read_received_findings(run.parties, facts)
    write_findings(run, findings, config)
    return findings
