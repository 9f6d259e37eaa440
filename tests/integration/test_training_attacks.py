"""Attacks in training on the live wire: processes over mTLS, the adversary in its service, judged by the auditor."""

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from plumbline.judge.summary import read_summary
from services.common.run_folder import RunFolder
from tests.harness.documented_plugin import install

# From zero weights, as common frameworks start: Criterion 4.2 is then right for every record of the first epoch.
HU: dict[str, Any] = {
    "steps": "plain",
    "calibrated": False,
    "initialisation": "zero",
    "epochs": 2,
    "validation_fraction": 0.0,
}
SMALL: dict[str, Any] = {**HU, "key_bits": 512, "allow_insecure_keys": True, "batch_size": 14}
UNPACKED: dict[str, Any] = {**HU, "packing": False, "batch_size": 128}
# INSECURE, for the study of Algorithm 2.
WHOLE_ANSWERS: dict[str, Any] = {**UNPACKED, "truncate_answers": False}


def audit(folder: Path, settings: dict[str, Any], **request: Any) -> dict[str, Any]:
    """Run an audit on breast_cancer or on the given tables; returns its results."""
    tables: dict[str, Any] = {} if "active" in request else {"data": "breast_cancer"}
    run = run_audit(
        AuditRequest.of(runs=folder, settings=settings, **tables, **request), Console(file=io.StringIO(), width=200)
    )
    results: dict[str, Any] = json.loads((run / "results.json").read_text())
    return results


def finding(results: dict[str, Any], attack: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in results["training_attacks"] if one["attack"] == attack)
    return found


def messages(results: dict[str, Any]) -> dict[str, int]:
    """Bytes of Protocol 1 by message."""
    return {name: size for name, size in results["bytes_by_message"].items() if name.startswith(("Ask", "SendR"))}


@pytest.mark.parametrize("parties", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_small_batches_give_all_labels_to_a_passive_party_that_only_listens(tmp_path: Path, parties: int) -> None:
    # Hu, Theorem 4.6: the smaller the step, the longer the criterion holds.
    settings = {**SMALL, "learning_rate": 0.01, "batch_size": 14 if parties == 2 else 9}
    results = audit(tmp_path, settings, attacks=("label_recovery",), parties=parties)
    for found in results["training_attacks"]:
        assert found["kind"] == "labels"
        assert found["by_epoch"][0] == 1.0
        assert found["resolved"] == 1.0
    assert len(results["training_attacks"]) == parties - 1
    assert results["auc"] > 0.9


def test_reshuffled_batches_give_all_labels_to_a_passive_party_that_only_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lights aren't looked at here, and each of 199 draws takes as long as the attack does.
    monkeypatch.setattr("plumbline.judge.label_chance.DRAWS", 2)
    # Gradients are those of encrypted training to its precision.
    attacks = ("trajectory_labels", "own_part", "label_recovery", "trajectory_products")
    results = audit(
        tmp_path, {"steps": "plain", "epochs": 60, "batches": "reshuffled"}, attacks=attacks, cipher="plain"
    )
    found = finding(results, "trajectory_labels")
    assert found["success"] >= 0.99
    assert found["control"]["shuffled_right"] >= 0.95
    assert "Not possible" in finding(results, "label_recovery")["reason"]
    assert finding(results, "own_part")["control"]["shuffled_right"] <= 0.65


def test_batches_with_more_rows_than_features_are_reported_as_not_possible(tmp_path: Path) -> None:
    settings = {**SMALL, "batch_size": 40, "initialisation": "xavier"}
    found = finding(audit(tmp_path, settings, attacks=("label_recovery",)), "label_recovery")
    assert found["resolved"] == 0.0
    assert "40 records" in found["reason"]
    assert "active's weights started at private random values (initialisation=xavier)" in found["reason"]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An honest federation at 2,048 bits, whose passive party remembers what it was answered."""
    return audit(tmp_path_factory.mktemp("honest"), WHOLE_ANSWERS, attacks=("label_recovery",))


def test_one_honest_answer_of_15_sums_gives_all_labels_of_the_first_batch_at_2048_bits(honest: dict[str, Any]) -> None:
    """From zero weights: of 438 training records in batches of 110, the first batch is told, every label."""
    pytest.importorskip("flint")
    found = finding(honest, "label_recovery")
    assert found["by_epoch"] == [found["success"], 0.0]
    assert found["success"] == found["resolved"] == pytest.approx(0.25, abs=0.002)
    assert found["details"]["rank"] == [15] * 8
    (warning,) = (text for text in honest["warnings"] if "answers of the first step" in text)
    assert "passive's 15 honest sums can hold the labels of 318 records" in warning


def test_auxiliary_ciphertexts_give_all_labels_of_large_batches_at_2048_bits_and_do_not_show(
    tmp_path: Path, honest: dict[str, Any]
) -> None:
    results = audit(tmp_path, WHOLE_ANSWERS, attacks=("auxiliary_ciphertext",), adversary="passive")
    found = finding(results, "auxiliary_ciphertext")
    assert found["by_epoch"][0] == 1.0
    for party in ("active", "passive"):
        assert any(text.startswith(f"INSECURE: truncate_answers=false at {party}") for text in results["warnings"])
    smallest = results["channels"][0]["rows"]
    assert smallest > 100
    assert found["details"]["rank"][0] in (smallest, smallest + 1)
    # Same counts and sizes of messages, same model: the key holder sees nothing.
    (run,) = tmp_path.glob("*/parties")
    summary = read_summary(RunFolder(run).malicious, "")
    assert messages({"bytes_by_message": summary.bytes_by_message}) == messages(honest)
    assert results["malicious"]["auc"] == summary.auc == pytest.approx(honest["auc"], abs=1e-12)


@pytest.mark.parametrize(("rerandomise", "read"), [(False, 1.0), (True, 0.0)], ids=["off", "on"])
def test_the_randomiser_channel_reads_features_exactly_unless_answers_are_rerandomised(
    tmp_path: Path, rerandomise: bool, read: float
) -> None:
    settings = {**UNPACKED, "epochs": 1, "rerandomise": rerandomise}
    results = audit(tmp_path, settings, attacks=("randomiser_channel",))
    found = finding(results, "randomiser_channel")
    assert found["success"] == read
    assert found["details"]["credible_answers"] == read * found["details"]["answers"]
    assert (found["resolved"] > 0.5) == (not rerandomise)
    assert any("rerandomise=off" in warning for warning in results["warnings"]) == (not rerandomise)


@pytest.mark.thorough
def test_packed_answers_have_room_for_more_than_was_asked_until_batches_outgrow_it(tmp_path: Path) -> None:
    small = {**SMALL, "truncate_answers": False}
    room = audit(tmp_path / "room", small, attacks=("auxiliary_ciphertext",), adversary="passive")
    assert finding(room, "auxiliary_ciphertext")["by_epoch"][0] > 0.99
    assert any(text.startswith("passive could learn labels of active's records from") for text in room["warnings"])
    none = audit(tmp_path / "none", {**small, "batch_size": 60}, attacks=("auxiliary_ciphertext",), adversary="passive")
    assert "more unknowns than the" in finding(none, "auxiliary_ciphertext")["reason"]
    assert not any("enough to solve for" in warning for warning in none["warnings"])
    assert none["auc"] > 0.9


def test_the_active_party_reads_a_single_passive_feature_up_to_sign(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    ids = [f"c{number:03d}" for number in range(150)]
    hidden = generator.random(150)
    own = pd.DataFrame(generator.random((150, 12)), columns=[f"own{column}" for column in range(12)])
    own.insert(0, "client", ids)
    own["default"] = (hidden + 0.3 * generator.normal(size=150) > 0.5).astype(int)
    own.to_csv(tmp_path / "active.csv", index=False)
    pd.DataFrame({"client": ids, "income": hidden}).to_csv(tmp_path / "passive.csv", index=False)
    results = audit(
        tmp_path,
        {**SMALL, "epochs": 6, "batch_size": 12, "batches": "reshuffled"},
        active=str(tmp_path / "active.csv"),
        passive=(str(tmp_path / "passive.csv"),),
        label="default",
        id_column="client",
        attacks=("feature_order",),
    )
    found = finding(results, "feature_order")
    assert found["kind"] == "features"
    # Training rows are four fifths of the table; the others take part in no batch.
    assert found["success"] == pytest.approx(0.8, abs=0.01)


def test_a_listening_attack_of_another_package_runs_in_the_service_and_is_reported_by_its_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    install("adding-an-attack.md", "residual_size", package, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    results = audit(
        tmp_path / "runs",
        {**SMALL, "epochs": 1, "attack_options": {"residual_size": {"tolerance": 1e-5}}},
        attacks=("residual_size",),
        adversary="passive",
    )
    found = finding(results, "residual_size")
    assert (found["party"], found["kind"]) == ("passive", "residual sizes")
    steps = found["details"]["solved_steps"]
    assert steps > 20
    (run,) = (tmp_path / "runs").iterdir()
    with np.load(run / "parties" / "attacks" / "training-passive-residual_size.npz") as content:
        # From zero weights every residual of the first step is -2 y.
        assert (content["steps"][0], content["sizes"][0]) == (0, pytest.approx(2.0))
        assert len(content["steps"]) == steps
    assert f"not scored: solved steps: {steps}" in (run / "report.html").read_text()


def test_two_attacks_that_replace_messages_stop_the_service_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="both replace messages: mount one of them"):
        audit(tmp_path, UNPACKED, attacks=("auxiliary_ciphertext", "randomiser_channel"))
