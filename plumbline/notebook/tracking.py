"""Findings as a run of MLflow: settings as parameters, numbers as metrics, the report as an artifact."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.notebook.frames import frame_of
from plumbline.spreadsheets import write_csv

if TYPE_CHECKING:
    from plumbline.judge.findings import Findings


def log_findings(findings: Findings, run_name: str | None = None) -> str:
    """Log into MLflow's run at work, or one of its own that ends with this; returns the run's id.

    Metrics are numbered where a name of a column would have to be one: names are the owner's, and stay in the table.

    Raises:
        ModuleNotFoundError: without MLflow, with how to get it.
    """
    # It would tell its makers of every run; who wants that sets the variable to false.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        import mlflow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('MLflow is not installed: pip install "plumbline[mlflow]".') from error

    at_work = mlflow.active_run()
    run = at_work or mlflow.start_run(run_name=run_name or findings.summary.name)
    try:
        mlflow.log_params({**asdict(findings.summary.agreement.plan), "aligned_rows": findings.summary.aligned_rows})
        mlflow.log_metrics(_numbers(findings))
        mlflow.set_tags({"plumbline.light": findings.answer.light, "plumbline.verdict": findings.answer.sentence})
        _log_files(findings)
    finally:
        if at_work is None:
            mlflow.end_run()
    return str(run.info.run_id)


def _numbers(findings: Findings) -> dict[str, float]:
    summary, lights = findings.summary, [one.light for one in findings.answer.columns]
    numbers = {
        "accuracy": summary.accuracy,
        "auc": summary.auc,
        "federations_part_largest": findings.answer.largest_part,
        "columns_red": float(lights.count("red")),
        "columns_amber": float(lights.count("amber")),
        "bytes_on_the_wire": float(sum(summary.bytes_by_message.values())),
    }
    return {name: value for name, value in numbers.items() if value is not None and not math.isnan(value)}


def _log_files(findings: Findings) -> None:
    import mlflow

    with tempfile.TemporaryDirectory(prefix="plumbline-") as folder:
        columns = Path(folder) / "columns.csv"
        write_csv(frame_of(findings, "columns"), columns)
        mlflow.log_artifact(str(columns))
        if findings.folder is not None and findings.folder.path.exists():
            mlflow.log_artifact(str(findings.report(Path(folder) / "report.html")))
