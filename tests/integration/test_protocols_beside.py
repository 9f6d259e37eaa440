"""``--protocol hu,shared`` on a small table: the same tables under both with real ciphertexts, side by side."""

import io
import json
from html import unescape
from pathlib import Path

from rich.console import Console

from plumbline.audit.candidates import read_beside
from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import report_again, run_audit
from plumbline.judge.variant_results import rows_of
from services.common.run_records import NOT_APPLICABLE


def test_what_another_protocol_leaves_stands_beside_the_run(tmp_path: Path) -> None:
    output = io.StringIO()
    request = AuditRequest.of(
        data="breast_cancer",
        attacks=("half_star", "own_part", "auxiliary_ciphertext"),
        settings={
            "protocol": "hu,shared",
            "steps": "plain",
            "epochs": 4,
            "seed": 7,
            "batch_size": 100,
            "key_bits": 512,
            "allow_insecure_keys": True,
            "opening": "always",
        },
        runs=tmp_path,
    )
    run = AuditFolder(run_audit(request, Console(file=output, width=200)))
    results = json.loads(run.results.read_text())
    findings = report_again(run)
    hu, shared = findings.variants
    assert (hu.variant, shared.variant, hu.failed, shared.failed) == ("protocol=hu", "protocol=shared", (), ())
    # The same tables, split and seeds; weights are rounded to opened words, and batches are cut into blocks.
    assert abs(hu.auc - shared.auc) < 0.05
    assert hu.columns == shared.columns > 0
    assert (hu.exposed > 0, shared.exposed > 0) == (True, True)
    # The label party's residuals are read through the key holder, and there is none where who decrypts keeps it.
    told = hu.told("auxiliary_ciphertext", "passive")
    assert told is not None
    assert told.right == 1.0
    assert told.is_exposed
    left = shared.told("auxiliary_ciphertext", "passive")
    assert left is not None
    assert (left.right, left.status) == (None, NOT_APPLICABLE)
    listens = shared.told("own_part", "passive")
    assert listens is not None
    assert listens.right is not None
    assert min(hu.seconds, shared.seconds, hu.bytes, shared.bytes) > 0

    assert results["then_how"].startswith("Then how? Under protocol=shared,")
    assert results["then_how"] in unescape(run.report.read_text())
    assert [one["variant"] for one in results["variants"]] == ["protocol=hu", "protocol=shared"]
    rows = {row[0]: row[1:] for row in rows_of(findings.variants)}
    assert rows["labels: auxiliary_ciphertext by passive"][1] == "can't be mounted"
    assert all(row[0] in run.report.read_text() for row in rows_of(findings.variants))
    # Of the federation beside, only what it gave away is kept.
    assert read_beside(run, findings) == (hu, shared)
    assert not list(run.path.glob("trial-*"))
