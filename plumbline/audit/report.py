"""``report.html``: one self-contained page per run, no script, no download."""

import io
from pathlib import Path
from typing import Any

from markupsafe import Markup

from plumbline.html import template
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.summary import STAGES, RunSummary, assumptions, expectations
from plumbline.judge.training import TrainingFinding


def write_report(
    path: Path,
    findings: RunSummary,
    leakage: list[AttackFinding],
    training: list[TrainingFinding],
    facts: dict[str, Any],
    unaware: str = "",
) -> None:
    """Render the findings; ``facts`` are the run's request, versions and duration.

    ``unaware``: a sentence on the defences that attacks on predictions meet without knowing of them.
    """
    path.write_text(
        template("report.html").render(
            findings=findings,
            leakage=leakage,
            training=training,
            facts=facts,
            stages=STAGES,
            expectations=expectations,
            assumptions=assumptions,
            unaware=unaware,
            loss_curve=_loss_curve(findings),
            stage_bars=_stage_bars(findings) if findings.timings else None,
        )
    )


def _figure_svg(figure: Any) -> Markup:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 - our own drawing


def _axes(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _loss_curve(findings: RunSummary) -> Markup | None:
    losses = [epoch["validation_loss"] for epoch in findings.epochs]
    if len(losses) < 2 or any(loss != loss for loss in losses):
        return None
    figure, axes = _axes(5.5, 2.6)
    axes.plot(range(1, len(losses) + 1), losses, marker="o", markersize=3, color="#1b6ca8")
    axes.axvline(findings.kept_epoch + 1, color="#999999", linewidth=0.8, linestyle="--")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("epoch (dashed: kept)")
    axes.set_ylabel("validation loss, nats")
    return _figure_svg(figure)


def _stage_bars(findings: RunSummary) -> Markup:
    figure, axes = _axes(5.5, 0.8 + 0.45 * len(findings.timings))
    colours = ("#1b6ca8", "#c9d3dc", "#2a9d8f", "#e9a23b", "#c8553d", "#6b4c9a")
    left = [0.0] * len(findings.timings)
    names = [timing.name for timing in findings.timings]
    for stage, colour in zip(STAGES, colours, strict=True):
        widths = [timing.seconds[stage] * 1e3 for timing in findings.timings]
        axes.barh(names, widths, left=left, color=colour, label=stage)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds per iteration")
    axes.legend(ncols=len(STAGES), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=7)
    return _figure_svg(figure)
