"""``report.html``: one self-contained page per run, no script, no download."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from plumbline.audit import leakage_words
from plumbline.audit.console import session_words
from plumbline.figures.page.elements import inline, svg_text
from plumbline.html import template
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.summary import RunSummary, assumptions, expectations
from plumbline.judge.training import TrainingFinding
from services.common.durable import write_durably
from services.common.run_records import STAGES


def write_report(
    path: Path,
    summary: RunSummary,
    on_predictions: PredictionFindings,
    on_training: list[TrainingFinding],
    facts: dict[str, Any],
) -> None:
    """Render a run's results into one page.

    Arguments:
        path: where to write the page.
        summary: the run's terms, quality, times and traffic.
        on_predictions: what predictions gave away.
        on_training: what attacks on training found.
        facts: the run's request, versions and duration.
    """
    page = template("report.html").render(
        summary=summary,
        on_predictions=on_predictions,
        on_training=on_training,
        facts=facts,
        settings=asdict(summary.agreement.plan),
        stages=STAGES,
        expectations=expectations,
        assumptions=assumptions,
        words=leakage_words,
        session_words=session_words,
        loss_curve=_loss_curve(summary),
        stage_bars=_stage_bars(summary) if summary.timings else None,
    )
    write_durably(path, page.encode())


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _loss_curve(summary: RunSummary) -> Markup | None:
    losses = [epoch.validation_loss for epoch in summary.epochs]
    if len(losses) < 2 or any(loss != loss for loss in losses):
        return None
    figure, axes = _axes(5.5, 2.6)
    axes.plot(range(1, len(losses) + 1), losses, marker="o", markersize=3, color="#1b6ca8")
    axes.axvline(summary.kept_epoch + 1, color="#999999", linewidth=0.8, linestyle="--")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("epoch (dashed: kept)")
    axes.set_ylabel("validation loss, nats")
    return inline(svg_text(figure, tight=True))


def _stage_bars(summary: RunSummary) -> Markup:
    figure, axes = _axes(5.5, 0.8 + 0.45 * len(summary.timings))
    colours = ("#1b6ca8", "#c9d3dc", "#2a9d8f", "#e9a23b", "#c8553d", "#6b4c9a")
    left = [0.0] * len(summary.timings)
    names = [timing.name for timing in summary.timings]
    for stage, colour in zip(STAGES, colours, strict=True):
        widths = [timing.seconds[stage] * 1e3 for timing in summary.timings]
        axes.barh(names, widths, left=left, color=colour, label=stage)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per iteration")
    axes.legend(ncols=len(STAGES), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=7)
    return inline(svg_text(figure, tight=True))
