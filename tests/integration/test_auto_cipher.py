"""An audit that trains in the clear, because Paillier would take too long, says so wherever it says anything."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from plumbline.audit import plan
from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit


def test_in_the_clear_by_choice_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PATIENCE_SECONDS", 0.0)
    console = Console(file=io.StringIO(), width=400)
    request = AuditRequest.of(
        data="wine", runs=tmp_path, attacks=("half_star", "auxiliary_ciphertext"), settings={"epochs": 2}
    )
    run = AuditFolder(run_audit(request, console))

    why = json.loads(run.config.read_text())["plan"]["why"]
    assert why.startswith("INSECURE: it trains in the clear, over the same services and messages")
    results = json.loads(run.results.read_text())
    assert results["agreement"]["plan"]["cipher"] == "plain"
    assert results["warnings"][0] == why
    unmeasured = " ".join(results["answer"]["not_measured"])
    assert "auxiliary_ciphertext" in unmeasured
    assert why in run.report.read_text().replace("\n", " ")
    status = run.status
    assert status is not None
    assert status.status == "finished"

    # Of the whole run, in lines: this console is no terminal.
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    stages = [line.removesuffix(" ...") for line in lines if line.endswith(" ...")]
    whole = ["starting", "aligning", "agreeing", "training", "attacking", "testing", "attacking", "serving"]
    # The passive party's attacks on training take their time beside the serving.
    assert stages == [*whole, "attacking", "judging", "writing the report"]
