"""The report of findings, written again from the files of their run."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder

if TYPE_CHECKING:
    from plumbline.judge.findings import Findings


def report_of(findings: Findings, path: Path) -> Path:
    """Write the report; returns where.

    Raises:
        RunFolderError: where the run's files are gone, as those of a local federation are once it is closed.
    """
    from plumbline.audit.report import write_report

    folder = findings.folder
    if folder is None or not folder.path.exists():
        raise RunFolderError(
            "The files of this run are gone, and the report draws from them: ask for it before the federation is "
            "closed, or give it a run_dir of your own in its settings."
        )
    write_report(path, findings, _facts(findings, folder), folder)
    return path


def _facts(findings: Findings, folder: RunFolder) -> dict[str, Any]:
    """What the command wrote of the run, or what there is to say of one that it didn't start."""
    try:
        facts: dict[str, Any] = json.loads((folder.path.parent / "config.json").read_text())
    except (OSError, ValueError):
        return {
            "versions": {"python": platform.python_version(), "plumbline": version("plumbline")},
            "seconds": sum(epoch.seconds for epoch in findings.summary.epochs),
        }
    return facts
