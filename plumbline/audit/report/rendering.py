"""From a run's findings to the page: everything that its templates show, computed once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plumbline.audit.console import cipher_words
from plumbline.audit.report.cards import cards_of
from plumbline.audit.report.evidence import read_evidence
from plumbline.audit.report.glossary import GLOSSARY
from plumbline.audit.report.label_curves import label_curves
from plumbline.audit.report.ledger import ledger
from plumbline.audit.report.overview import labels_by_epoch, ranked_levels
from plumbline.audit.report.strength import by_strength
from plumbline.charts.axes import WHOLE, Axis
from plumbline.charts.drawings import Part, Series, lines, stacked
from plumbline.charts.marks import Chart
from plumbline.html import template
from plumbline.judge import words
from plumbline.judge.findings import Findings, recommended
from plumbline.judge.summary import RunSummary, assumptions, expectations
from plumbline.width_words import seen_words
from services.common.durable import write_durably
from services.common.run_folder import RunFolder
from services.common.run_records import STAGES

# What a light says in words.
LIGHT_WORDS = {"red": "Leaks much", "amber": "Leaks something", "green": "No leak found", "grey": "Not measured"}


def write_report(path: Path, findings: Findings, facts: Mapping[str, Any], folder: RunFolder) -> None:
    """Render a run's results into one page.

    Args:
        path: where to write the page.
        findings: what the run gave away, and its terms, quality, times and traffic.
        facts: the run's ``request``, ``versions`` and duration in ``seconds``; the request may be absent.
        folder: what the parties wrote, of which the page draws truth and estimates.

    Raises:
        RunFolderError: when a file of the folder is missing or broken.
    """
    write_durably(path, template("report.html").render(**_content(findings, facts, folder)).encode())


def _content(findings: Findings, facts: Mapping[str, Any], folder: RunFolder) -> dict[str, Any]:
    summary, columns = findings.summary, findings.answer.columns
    passive = [party.name for party in summary.parties[1:]]
    evidence = {one.answer: one for one in read_evidence(folder, columns, passive)}
    return {
        "findings": findings,
        "summary": summary,
        "answer": findings.answer,
        "facts": facts,
        "insecure": [text for text in summary.warnings if text.startswith("INSECURE")],
        "others": [text for text in summary.warnings if not text.startswith("INSECURE")],
        "levels": ranked_levels(findings),
        "labels_chart": labels_by_epoch(findings.training),
        "cheapest": recommended(findings.trials),
        "cards": cards_of(columns, evidence, findings.predictions.attacks),
        "strengths": by_strength(findings.predictions.attacks, columns, evidence),
        "curves": label_curves(folder, findings),
        "ledger": ledger(summary, facts),
        "columns_seen": {party.name: seen_words(party) for party in summary.parties},
        "loss_chart": _loss_chart(summary),
        "stage_chart": _stage_chart(summary),
        "settings": asdict(summary.agreement.plan),
        "request": _asked_for(facts.get("request", {})),
        "cipher": cipher_words(summary.agreement.plan),
        "stages": STAGES,
        "expectations": expectations,
        "assumptions": assumptions,
        "words": words,
        "light_words": LIGHT_WORDS,
        "glossary": GLOSSARY,
        "several_parties": len(passive) > 1,
    }


def _asked_for(request: Mapping[str, Any]) -> dict[str, str]:
    """What was asked for, without what was left as it is."""
    return {key: _listed(value) for key, value in request.items() if value not in ("", None, False, [], (), {}, 0)}


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _loss_chart(summary: RunSummary) -> Chart | None:
    validated = [epoch for epoch in summary.epochs if math.isfinite(epoch.validation_loss)]
    if len(validated) < 2:
        return None
    losses = tuple(epoch.validation_loss for epoch in validated)
    epochs = tuple(float(epoch.epoch + 1) for epoch in validated)
    kept = float(summary.kept_epoch + 1)
    low, high = min(losses), max(losses)
    margin = max(high - low, 1e-9) * 0.05
    across, upward = Axis(1, len(summary.epochs), "epoch", WHOLE), Axis(low - margin, high + margin, "nats")
    series = [
        Series("validation loss", epochs, losses, "s1"),
        Series(f"kept: epoch {kept:.0f}", (kept, kept), (low - margin, high + margin), "guess"),
    ]
    return lines("Validation loss", series, across, upward)


def _stage_chart(summary: RunSummary) -> Chart | None:
    rows = [
        (
            one.name,
            [Part(stage, one.seconds[stage] * 1e3, f"s{number}") for number, stage in enumerate(STAGES, start=1)],
        )
        for one in summary.timings
    ]
    return stacked("Milliseconds of a training step, by stage", rows, "ms") if rows else None
