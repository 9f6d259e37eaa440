"""Pages that show a plugin, followed to the end: its code, its package, and the audit whose report has it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.new_plugins import Kind
from tests.harness.documented_plugin import audits, install


def followed(
    page: str, modules: Sequence[str], words: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], str]:
    """Install modules of a page and type one of its audits; returns the results and the report."""
    for module in modules:
        package = folder / module
        package.mkdir()
        install(page, module, package, monkeypatch)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "plumbline", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (run,) = (folder / "runs").iterdir()
    return json.loads((run / "results.json").read_text()), (run / "report.html").read_text()


@pytest.mark.parametrize("kind", list(Kind))
def test_what_new_writes_is_installed_and_its_test_passes(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pip, without a network, under a name of one's own."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)]))
    installing = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", "site"]
    for words in (
        ["plumbline", "new", kind, "my_own"],
        [*installing, "./my-own"],
        ["pytest", "-p", "no:randomly", "my-own"],
    ):
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    if kind in (Kind.ATTACK, Kind.DEFENCE):
        listed = [sys.executable, "-m", "plumbline", f"{kind}s"]
        told = subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert "my_own" in told


def test_a_learner_is_audited_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = audits("adding-a-learner.md")
    results, report = followed("adding-a-learner.md", ["least_squares"], words, tmp_path, monkeypatch)
    assert results["agreement"]["plan"]["learner"] == "least_squares"
    assert results["limit"]["reason"] == "What further sessions of the learner least_squares tell was not measured."
    assert results["limit"]["reason"] in report


def test_attacks_are_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, words = audits("adding-an-attack.md")
    results, report = followed("adding-an-attack.md", ["residual_size", "row_probe"], words, tmp_path, monkeypatch)
    listening, probing = sorted(results["training_attacks"], key=lambda one: str(one["attack"]))
    assert (listening["attack"], probing["attack"]) == ("residual_size", "row_probe")
    assert f"not scored: solved steps: {listening['details']['solved_steps']}" in report
    assert listening["details"]["solved_steps"] > 20
    assert probing["resolved"] > 0


def test_an_attack_on_predictions_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, _ = audits("adding-an-attack.md")
    results, report = followed("adding-an-attack.md", ["mean_guess"], words, tmp_path, monkeypatch)
    (found,) = [one for one in results["attacks"] if one["attack"] == "mean_guess"]
    assert found["mse"] is not None
    assert "mean_guess" in report


def test_a_defence_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = audits("adding-a-defence.md")
    results, report = followed("adding-a-defence.md", ["score_power"], words, tmp_path, monkeypatch)
    assert results["defences"]["coordinator"] == ["score_power"]
    assert "score_power" in report


def test_a_protocol_and_what_it_tells_are_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = audits("adding-a-protocol.md")
    results, report = followed("adding-a-protocol.md", ["pairwise_sums"], words, tmp_path, monkeypatch)
    assert results["agreement"]["plan"]["protocol"] == "pairwise_sums"
    # Its exposure, in the ledger.
    assert "residuals of each record of a step, in the clear" in report
    assert "INSECURE: protocol=pairwise_sums tells every party the residuals of each record" in report
