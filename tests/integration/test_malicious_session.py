"""An attack that sends other messages has a session of its own: what an audit says of its model is of an honest one."""

import io
import json
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import report_again, run_audit
from services.common.run_folder import RunFolder

# The default plan of few whole steps, of which a malicious peer's model is spoiled by what it read in their place.
TERMS: dict[str, Any] = {"seed": 7, "key_bits": 512, "allow_insecure_keys": True}


def audited(folder: Path, *attacks: str) -> tuple[AuditFolder, str]:
    output = io.StringIO()
    request = AuditRequest.of(data="breast_cancer", runs=folder, attacks=attacks, settings=TERMS)
    run = AuditFolder(run_audit(request, Console(file=output, width=400)))
    return run, output.getvalue()


def weights(folder: RunFolder) -> list[np.ndarray]:
    return [folder.weights(party).weights for party in ("active", "passive")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditFolder, AuditFolder, str]:
    """An audit with such an attack, an honest one of the same seed, and what the first printed."""
    folder = tmp_path_factory.mktemp("runs")
    attacked, printed = audited(folder, "half_star", "own_part", "auxiliary_ciphertext")
    return attacked, audited(folder, "half_star", "own_part")[0], printed


def test_the_model_and_what_is_told_of_it_are_those_of_an_audit_without_the_attack(
    runs: tuple[AuditFolder, AuditFolder, str],
) -> None:
    attacked, honest, _ = runs
    for own, other in zip(weights(attacked.parties), weights(honest.parties), strict=True):
        np.testing.assert_array_equal(own, other)
    one, two = (json.loads(run.results.read_text()) for run in (attacked, honest))
    for figure in ("accuracy", "auc", "columns", "largest_part", "steps"):
        assert one[figure] == two[figure], figure
    assert one["auc"] > 0.98
    listening = [[found for found in run["training_attacks"] if found["attack"] == "own_part"] for run in (one, two)]
    assert [[found["success"] for found in both] for both in listening] == [[listening[0][0]["success"]]] * 2
    assert two["malicious"] is None
    assert not honest.parties.malicious.path.exists()


def test_what_the_attack_found_is_of_the_session_of_its_own_whose_model_it_spoiled(
    runs: tuple[AuditFolder, AuditFolder, str],
) -> None:
    attacked, _, printed = runs
    results = json.loads(attacked.results.read_text())
    found = {(one["attack"], one["party"]): one for one in results["training_attacks"]}
    assert {key: one["has_own_session"] for key, one in found.items()} == {
        ("own_part", "passive"): False,
        ("auxiliary_ciphertext", "active"): True,
        ("auxiliary_ciphertext", "passive"): True,
    }
    told = found["auxiliary_ciphertext", "passive"]
    assert (told["kind"], told["status"], told["conduct"]) == ("labels", "done", "replaces_messages")
    # Cut answers tell residuals of single rows.
    assert told["resolved"] > 0.1
    session = results["malicious"]
    assert session["attacks"] == ["auxiliary_ciphertext by active", "auxiliary_ciphertext by passive"]
    assert session["steps"] == results["steps"]
    assert session["auc"] < results["auc"]
    assert session["bytes"] > 0
    assert any(
        (a != b).any() for a, b in zip(weights(attacked.parties), weights(attacked.parties.malicious), strict=True)
    )

    plan = json.loads(attacked.config.read_text())["plan"]
    assert plan["amounts"]["malicious session"] == "for auxiliary_ciphertext"
    assert "In a session of its own, for it sends other messages than the protocol's: auxiliary_ciphertext." in printed
    words = f"the AUC of its model is {session['auc']:.3f}, where that of the audited one is {results['auc']:.3f}."
    assert words in unescape(attacked.report.read_text())
    page = attacked.report.read_text()
    assert words in page
    assert "Attacks that send other messages had one more" in page
    assert sorted(path.name for path in (attacked.logs / "malicious").iterdir()) == [
        "active.log",
        "coordinator.log",
        "passive.log",
    ]


def test_a_report_is_made_again_with_both_sessions(runs: tuple[AuditFolder, AuditFolder, str]) -> None:
    before = json.loads(runs[0].results.read_text())
    again = report_again(runs[0])
    assert again.malicious is not None
    assert again.malicious.auc == before["malicious"]["auc"]
    assert json.loads(runs[0].results.read_text()) == before
