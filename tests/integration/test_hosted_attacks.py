"""Attacks on live transcripts: mounted in the active service, judged by the auditor, with real processes over mTLS."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import attacks
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from vfl.learning.networks import load_network

QUICK = {"epochs": 2, "batch_size": 128}


def audit(folder: Path, **request: Any) -> tuple[Path, dict[str, Any], str]:
    """Run an audit; returns its folder, its results and what it printed."""
    output = io.StringIO()
    run = run_audit(
        AuditRequest.of(data="breast_cancer", runs=folder, settings=QUICK, verbosity="verbose", **request),
        Console(file=output, width=200),
    )
    return run, json.loads((run / "results.json").read_text()), output.getvalue()


@pytest.fixture(scope="module")
def white_box(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    return audit(tmp_path_factory.mktemp("white"), attacks=("half", "half_star", "rcc2", "agnostic"), parties=3)


def test_white_box_attacks_beat_one_half_on_every_record_of_the_test(
    white_box: tuple[Path, dict[str, Any], str],
) -> None:
    _, results, _ = white_box
    found = {finding["attack"]: finding for finding in results["attacks"]}
    assert all(finding["records"] == results["test_rows"] for finding in found.values())
    assert found["half"]["mse"]["mean"] == pytest.approx(found["half"]["half"], abs=1e-12)
    # Rassouli Theorem 1: half* is never worse than half, and rcc2, which projects onto a smaller set, than half*.
    errors = [found[name]["mse"]["mean"] for name in ("rcc2", "half_star", "half")]
    assert errors[0] <= errors[1] + 1e-12
    assert errors[1] < errors[2]


def test_live_estimates_are_those_of_the_library_on_the_same_pieces(
    white_box: tuple[Path, dict[str, Any], str],
) -> None:
    run, _, _ = white_box
    parties = run / "parties"
    weights = {
        name: np.load(parties / f"{name}-weights.npz")["weights"] for name in ("active", "passive-1", "passive-2")
    }
    own = np.load(parties / "active-features.npz")["features"]
    estimates = np.load(parties / "attacks" / "estimates-0.npz")
    half = np.array([[-0.5], [0.5]])
    passive = np.vstack([weights["passive-1"], weights["passive-2"]])
    view = attacks.PredictionView(
        features_active=own[estimates["rows"]][:, :-1],
        scores=np.load(parties / "active-test-scores.npz")["scores"],
        weights_active=half * weights["active"][:-1].T,
        weights_passive=half * passive.T,
        bias=half[:, 0] * weights["active"][-1],
    )
    np.testing.assert_allclose(estimates["half_star"], attacks.load("half_star").reconstruct(view), rtol=0, atol=1e-9)


def test_report_and_terminal_name_the_most_exposed_column(white_box: tuple[Path, dict[str, Any], str]) -> None:
    run, results, printed = white_box
    rcc2 = next(finding for finding in results["attacks"] if finding["attack"] == "rcc2")
    worst = min(rcc2["columns"], key=lambda column: column["mse"]["mean"] / column["half"])
    assert worst["column"] in (run / "report.html").read_text()
    assert "rcc2" in printed


def test_estimates_are_written_without_truth_or_passive_parameters(
    white_box: tuple[Path, dict[str, Any], str],
) -> None:
    run, _, _ = white_box
    with np.load(run / "parties" / "attacks" / "estimates-0.npz") as content:
        hosted = {name for name in content.files if "many_sessions" not in name}  # the auditor's own
    assert hosted == {"rows", "half", "half_star", "rcc2", "agnostic"}


def test_black_box_makes_white_box_attacks_not_applicable_and_the_federation_goes_on(tmp_path: Path) -> None:
    run, results, printed = audit(tmp_path, attacks=("half", "half_star"), black_box=True)
    found = {finding["attack"]: finding for finding in results["attacks"]}
    assert found["half"]["mse"] is not None
    assert found["half_star"]["mse"] is None
    assert "half_star needs weights_passive" in found["half_star"]["reason"]
    assert "half_star, not applicable: half_star needs weights_passive" in " ".join(printed.split())
    assert (run / "report.html").exists()
    assert results["auc"] > 0.9


def test_network_from_the_lab_is_served_by_the_parties_and_attacked(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run, results, _ = audit(
        tmp_path,
        attacks=("gia", "half_star"),
        hidden=(8, 8),
        activation="tanh",
    )
    found = {finding["attack"]: finding for finding in results["attacks"]}
    assert found["gia"]["mse"] is not None
    assert found["half_star"]["mse"] is None
    assert any("installed" in note for note in results["simulation"])
    assert results["accuracy"] > 0.9
    # The scores that the federation delivered are the network's own.
    rows = np.load(run / "parties" / "attacks" / "estimates-0.npz")["rows"]
    logits = sum(
        load_network(run / "models" / f"{name}-model.npz").partial_scores(
            np.load(run / "parties" / f"{name}-features.npz")["features"][rows]
        )
        for name in ("active", "passive")
    )
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    delivered = np.load(run / "parties" / "active-test-scores.npz")["scores"]
    np.testing.assert_allclose(delivered, scores, atol=1e-12)


def test_unknown_attack_stops_the_service_with_the_list_of_known_ones(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"Unknown attack 'half_moon'. Known: agnostic, .*half_star"):
        audit(tmp_path, attacks=("half_moon",))
