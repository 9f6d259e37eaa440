"""The ladder in real processes: one request trains a network by every way back, and tells what each leaves."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import report_again, run_audit

pytest.importorskip("torch")


def test_the_rungs_train_alike_and_differ_in_what_they_tell(tmp_path: Path) -> None:
    output = io.StringIO()
    request = AuditRequest.of(
        data="breast_cancer",
        attacks=("gradient_direction", "ls"),
        settings={
            # Sixteen values have room in one plaintext.
            "key_bits": 1536,
            "allow_insecure_keys": True,
            "learner": "network",
            "backward": "plain,paillier,shared",
            "learner_options": {"hidden": 16},
            "epochs": 2,
        },
        runs=tmp_path,
    )
    run = AuditFolder(run_audit(request, Console(file=output, width=200)))
    results = json.loads(run.results.read_text())
    rungs = {one["variant"].partition("=")[2]: one for one in results["variants"]}
    assert list(rungs) == ["plain", "paillier", "shared"]
    assert rungs["paillier"]["auc"] == pytest.approx(rungs["plain"]["auc"], abs=0.002)
    assert rungs["shared"]["auc"] == pytest.approx(rungs["plain"]["auc"], abs=0.002)
    # Each record's signal in the clear tells its label; what is encrypted or shared isn't read one by one.
    told = {name: one["training"][0] for name, one in rungs.items()}
    assert told["plain"]["right"] > 0.99
    assert told["plain"]["guess"] < 0.7
    assert all(not told[name]["is_exposed"] for name in ("paillier", "shared"))
    # Sixteen sums of fifteen columns, with known weights: all of them, and nothing where weights stay shared.
    assert [rungs[name]["exposed"] for name in ("plain", "paillier")] == [15, 15]
    assert rungs["plain"]["part"] > 0.99
    assert rungs["shared"]["part"] is None
    assert "INSECURE: in the clear" in output.getvalue()
    assert "Under backward=shared, with the same tables, split and seeds" in results["then_how"]
    assert [one.variant for one in report_again(run).variants] == [f"backward={name}" for name in rungs]
    assert 'backward = "plain,paillier,shared"' in (run.path / "audit.toml").read_text()
    page = run.report.read_text()
    assert '<th scope="col">shared</th>' in page
    assert "16 sums of the other parties" in page
