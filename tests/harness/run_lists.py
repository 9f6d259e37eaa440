"""Folders of runs as audits leave them, made up: what lists and comparisons read."""

import json
from pathlib import Path

from plumbline.audit.configuration import write_configuration
from plumbline.audit.request import AuditRequest

LIGHTS = ("green", "amber", "red", "grey")


def make_run(
    folder: Path, *, sentence: str = "Nothing leaked.", light: str = "green", part: float = 0.05, epochs: int = 1
) -> Path:
    """One run that has ended, with results, its verdict in short, and a report."""
    folder.mkdir(parents=True)
    settings = {"epochs": epochs}
    write_configuration(folder, AuditRequest.of(data="wine", settings=settings), settings)
    levels = [{"level": "marginals", "part": {"mean": part}}]
    answer = {"sentence": sentence, "light": light, "columns": [{"party": "shop", "column": "hue", "levels": levels}]}
    results = {"answer": answer, "largest_part": part, "accuracy": 0.9, "auc": None}
    (folder / "results.json").write_text(json.dumps(results))
    verdict = {"sentence": sentence, "light": light, "part": part, "accuracy": 0.9, "auc": None}
    (folder / "verdict.json").write_text(json.dumps(verdict))
    (folder / "status.json").write_text(json.dumps({"status": "finished"}))
    (folder / "report.html").write_text(f"<!doctype html><title>A report</title><p>The report of {folder.name[16:]}.")
    return folder


def make_runs(folder: Path, count: int) -> None:
    """So many runs, a day between two, of every light in turn."""
    for number in range(count):
        name = f"2026{1 + number // 28:02}{1 + number % 28:02}-120000-run-{number}"
        make_run(folder / name, light=LIGHTS[number % 4], part=number / max(1, count), epochs=number + 1)
