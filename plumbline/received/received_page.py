"""The page of a judge of received columns: the parts of an audit's page that are about columns, and its control."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plumbline.judge.answer import listed
from plumbline.judge.first_screen import document_of
from plumbline.received.assumptions import ASSUMED
from plumbline.received.before_sending import HEADINGS, Before
from plumbline.received.judge_request import SECRET
from plumbline.received.kinds import grouped
from plumbline.received.received_findings import ReceivedFindings, control_part
from plumbline.report.cards import cards_of, read_evidence
from plumbline.report.glossary import GLOSSARY
from plumbline.report.html import template
from plumbline.report.run_tables import persons_table
from plumbline.telling.document import Document
from plumbline.telling.numbers import percent
from services.common.durable import write_durably


def write_received_page(
    path: Path, findings: ReceivedFindings, facts: Mapping[str, Any], before: Before | None = None
) -> Document:
    """Render what received columns tell into one page; returns the document that it shows.

    Args:
        path: where to write the page.
        findings: what was found, of a run on disk.
        facts: the run's ``request``, ``versions`` and duration in ``seconds``.
        before: what fewer and coarser columns tell, where that was asked.

    Raises:
        RunFolderError: when a file of the run is missing or broken.
    """
    columns = findings.answer.columns
    shuffled = {one.column: percent(control_part(one)) for one in findings.shuffled}
    tables = {"persons": persons_table(findings.persons, "; the control is the shuffled copy")}
    document = replace(document_of(findings.answer), tables=tables)
    content = {
        "findings": findings,
        "answer": findings.answer,
        "facts": facts,
        "document": document,
        "cards": cards_of(columns, read_evidence(findings.folder, columns, [SECRET]), findings.predictions.attacks),
        "controls": [(one.column, one.share, shuffled.get(one.column, "")) for one in document.columns],
        "before": before,
        "before_headings": HEADINGS,
        "received": [(listed(names), *told) for names, *told in grouped(findings.facts.columns)],
        "assumed": {kind: ASSUMED[kind] for kind in dict.fromkeys(one.kind for one in findings.facts.columns)}.items(),
        "request": [(key, str(value)) for key, value in facts.get("request", {}).items() if value],
        "glossary": GLOSSARY,
        "several_parties": False,
    }
    write_durably(path, template("received.html").render(content).encode())
    return document
