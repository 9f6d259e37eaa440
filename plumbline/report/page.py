"""From a run's findings to the page: everything that its templates show, computed once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attacks import Level
from plumbline.charts.axes import WHOLE, Axis
from plumbline.charts.drawings import PERCENT, Series, lines, loss_curve, roc
from plumbline.charts.marks import Chart
from plumbline.judge.answer import LEVEL_WORDS, distinct_levels, judged_words
from plumbline.judge.column_sets import HEADINGS, sentences
from plumbline.judge.federation_part import at
from plumbline.judge.findings import Findings, recommendation_words, recommended
from plumbline.judge.first_screen import document_of, lines_of
from plumbline.judge.remedies import measures_of
from plumbline.judge.summary import assumptions, expectations
from plumbline.judge.training import TrainingFinding
from plumbline.judge.variant_results import then_how
from plumbline.report.cards import cards_of, evidence_of
from plumbline.report.glossary import GLOSSARY
from plumbline.report.html import template
from plumbline.report.run_tables import tables_of
from plumbline.report.trade_off import trade_off
from plumbline.telling.document import ColumnLine, Document
from services.common.durable import write_durably
from services.common.run_folder import RunFolder
from vfl.arrays import FloatArray, IntArray

# Lines that a chart can tell apart.
_MOST_LINES = 5


def ranked_levels(findings: Findings) -> list[tuple[Level, str, tuple[ColumnLine, ...]]]:
    """Rank the columns at every level that differs from the one before, in words too; nothing without columns."""

    def ranked(level: Level) -> tuple[ColumnLine, ...]:
        lines = lines_of(findings.answer, level)
        return tuple(sorted(lines, key=lambda one: 1.0 if one.part is None else -one.part.mean))

    levels = distinct_levels(findings.predictions) if findings.answer.columns else []
    return [(level, LEVEL_WORDS[level], ranked(level)) for level in levels]


# -- labels ------------------------------------------------------------------------------------------------------------


def labels_by_epoch(training: Sequence[TrainingFinding]) -> list[Chart]:
    """Draw what share of labels each attack had told after each epoch, and of those apart, how many rightly."""
    followed = [one for one in training if one.so_far][:_MOST_LINES]
    if not followed:
        return []
    last = max(2, *(len(one.so_far) for one in followed))
    guess = max((1 - at(one.levels).e0 for one in followed if one.levels), default=None)
    shares_told, right = list[Series](), list[Series]()
    for number, finding in enumerate(followed, start=1):
        name, shares = f"{finding.attack} by {finding.party}", finding.told_so_far or finding.so_far
        shares_told.append(Series(name, tuple(map(float, range(1, len(shares) + 1))), shares, f"s{number}"))
        epochs = [epoch for epoch, share in enumerate(shares) if share]
        of_told = tuple(finding.so_far[epoch] / shares[epoch] for epoch in epochs)
        if epochs:
            right.append(Series(name, tuple(epoch + 1.0 for epoch in epochs), of_told, f"s{number}"))
    if right and guess is not None:
        right.append(Series("guessing the most frequent class", (1.0, float(last)), (guess, guess), "guess"))
    titles = {"Labels told so far, by epoch": shares_told, "Of those told, right": right}
    across, upward = Axis(1, last, "epoch", WHOLE), Axis(0, 1, values=PERCENT)
    return [lines(title, series, across, upward, height=150) for title, series in titles.items() if series]


# Curves that a chart can tell apart, and points of each.
_MOST_CURVES, _POINTS = 6, 60


def label_curves(folder: RunFolder, findings: Findings) -> Chart | None:
    """Draw the model's ROC curve over the test records, and of two classes each attack on labels as a point.

    An attack that names classes and gives no scores has one point: of the records that it gave an answer for. None
    where the test records have one class only. Raises RunFolderError for a broken file.
    """
    tested = folder.delivered_scores(findings.summary.agreement)
    labels, scores = tested.labels, tested.scores
    if len(np.unique(labels)) < 2:
        return None
    names = findings.summary.class_names
    points = _points(folder, findings) if scores.shape[1] == 2 else []
    title = f"Who tells {names[1]} from {names[0]}" if len(names) == 2 else "The model: each class against the rest"
    return roc(title, _curves(labels, scores, names), points)


def _curves(labels: IntArray, scores: FloatArray, names: Sequence[str]) -> list[Series]:
    if scores.shape[1] == 2:
        return [_curve("the model's own scores", labels == 1, scores[:, 1], 1)]
    frequency = np.bincount(labels, minlength=scores.shape[1])
    classes = [
        int(one) for one in np.argsort(-frequency, kind="stable")[:_MOST_CURVES] if 0 < frequency[one] < len(labels)
    ]
    return [_curve(names[one], labels == one, scores[:, one], number) for number, one in enumerate(classes, start=1)]


def _curve(name: str, positive: FloatArray | IntArray, scores: FloatArray, number: int) -> Series:
    from sklearn.metrics import roc_curve  # slow to import

    false, true, _ = roc_curve(positive, scores)
    # What a screen can show: equal steps along the curve keep its corners.
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(false)) + np.abs(np.diff(true)))])
    corners = np.unique(np.searchsorted(length, np.linspace(0, length[-1], _POINTS)))
    return Series(name, tuple(map(float, false[corners])), tuple(map(float, true[corners])), f"s{number}")


def _points(folder: RunFolder, findings: Findings) -> list[tuple[str, float, float]]:
    points = []
    several = len(findings.summary.parties) > 2
    for finding in findings.training:
        if finding.kind != "labels" or not finding.is_scored:
            continue
        place = folder.malicious if finding.has_own_session else folder
        estimate = place.found_labels(finding.party, finding.attack)
        rows = estimate.judged_rows
        rows = rows[estimate.labels[rows] >= 0]
        # Read here: a run without attacks has none.
        positive = folder.labels()[rows] == 1
        if not positive.any() or positive.all():
            continue
        named = estimate.labels[rows] == 1
        name = f"{finding.attack} by {finding.party}" if several else finding.attack
        points.append((name, float(named[~positive].mean()), float(named[positive].mean())))
    return points


def write_report(path: Path, findings: Findings, facts: Mapping[str, Any], folder: RunFolder) -> Document:
    """Render a run's results into one page; returns the document that it shows.

    Args:
        path: where to write the page.
        findings: what the run gave away, and its terms, quality, times and traffic.
        facts: the run's ``request``, ``versions`` and duration in ``seconds``; the request may be absent.
        folder: what the parties wrote, of which the page draws truth and estimates.

    Raises:
        RunFolderError: when a file of the folder is missing or broken.
    """
    evidence = evidence_of(findings)
    document = replace(
        document_of(findings.answer, findings.glance),
        tables=tables_of(findings, facts, evidence),
        charts={name: chart for name, chart in _charts(findings, folder) if chart is not None},
    )
    asked = facts.get("request", {}).items()
    content = {
        "findings": findings,
        "summary": findings.summary,
        "answer": findings.answer,
        "document": document,
        "tables": document.tables,
        "charts": document.charts,
        "facts": facts,
        "judged": judged_words(findings.predictions),
        "levels": ranked_levels(findings),
        "cards": cards_of(findings.answer.columns, evidence, findings.predictions.attacks),
        "cheapest": recommended(findings.trials),
        "recommendation": recommendation_words(findings.trials),
        "then_how": then_how(findings.variants),
        "measures": measures_of(findings),
        # What was asked for, without what was left as it is.
        "request": {key: _listed(value) for key, value in asked if value not in ("", None, False, [], (), {}, 0)},
        "what_if": sentences(findings.what_if) if findings.what_if else (),
        "set_headings": HEADINGS,
        "expectations": expectations,
        "assumptions": assumptions,
        "glossary": GLOSSARY,
        "several_parties": len(findings.summary.parties) > 2,
    }
    write_durably(path, template("report.html").render(content).encode())
    return document


def _charts(findings: Findings, folder: RunFolder) -> Iterator[tuple[str, Chart | None]]:
    """Draw what is of the whole run, each under a name."""
    summary = findings.summary
    yield from zip(("labels told", "labels right"), labels_by_epoch(findings.training), strict=False)
    yield "curves", label_curves(folder, findings)
    yield "trade-off", trade_off(findings.what_if) if findings.what_if else None
    validated = [one for one in summary.epochs if math.isfinite(one.validation_loss)]
    epochs, losses = [one.epoch + 1.0 for one in validated], [one.validation_loss for one in validated]
    yield "loss", loss_curve(epochs, losses, len(summary.epochs), summary.kept_epoch + 1.0)


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
