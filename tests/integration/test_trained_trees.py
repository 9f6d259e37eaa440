"""Boosted trees in real processes over mTLS: they are trained, kept, asked and refused as any other learner."""

import json
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from plumbline.audit.folder import AuditFolder
from plumbline.federation import Federation
from plumbline.job_progress import RunProgress
from plumbline.judge.training import read_training_findings
from plumbline.what_if.asking import Question, ask
from services.common.errors import InvalidMessage
from services.common.run_folder import RunFolder
from tests.harness.audited import audited_once, shared_folder
from tests.harness.processes import local_processes
from tests.integration.test_restarts import answered, assert_goes_on, restart

CHOSEN = {
    "learner": "boosted_trees",
    "learner_options": {"n_estimators": 3, "max_depth": 3, "max_bin": 8, "gradient_bits": 12},
    "step_timeout": 60,
}


def test_trees_are_trained_and_asked_between_processes(tmp_path: Path) -> None:
    processes = local_processes(tmp_path / "run", data="breast_cancer", parties=3, **CHOSEN)
    with Federation.start(processes) as federation:
        outcome = federation.train()
        assert outcome.epochs_run == 3
        assert outcome.auc is not None
        assert outcome.auc > 0.9
        scores = federation.predict([f"r{row:06d}" for row in range(40)])
        with pytest.raises(InvalidMessage, match="trains under protocol=trees and epochs=3"):
            federation.train(epochs=2)
        before = answered(processes)
        assert before is not None
        restart(processes, *processes.settings)
        assert_goes_on(processes, before)
    known = scores[scores["error"] == ""].drop(columns="error").to_numpy(dtype=np.float64)
    np.testing.assert_allclose(known.sum(axis=1), 1)


AUDITED = ["--data", "breast_cancer", "--learner", "boosted_trees", "--set", 'learner_options={"n_estimators": 6}']


def test_what_if_replays_what_processes_told(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    run = AuditFolder(Path(copytree(audited_once(shared_folder(tmp_path_factory), AUDITED), tmp_path / "run")))
    found = ask(run, Question((("n_estimators=3", "own_trees=10"),), confirms=False, workers=1), RunProgress())
    assert found.whole.auc == found.run.auc
    # Each session numbers columns anew, which turns a few last digits of what attacks average.
    assert found.off(found.whole) == pytest.approx(0, abs=0.03)
    assert found.whole.labels == found.run.labels
    (fewer,) = found.asked
    assert fewer.title == "with n_estimators=3, own_trees=10"
    assert fewer.part < found.whole.part


def test_an_audit_measures_labels_and_columns(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = audited_once(shared_folder(tmp_path_factory), AUDITED)
    *named, labels, chosen = read_training_findings(RunFolder(run / "parties"))
    assert [one.attack for one in named] == [
        f"named_bins(prior={prior})" for prior in ("nothing", "marginals", "covariance")
    ]
    assert [one.kind for one in named] == ["bins", "estimates", "estimates"]
    assert 0 < named[0].details["cells_named"] < 1
    assert named[2].success > 0.2
    assert (labels.attack, labels.party, labels.kind) == ("leaf_labels", "passive", "labels")
    assert labels.success > 0.85
    # It sends other numbers than derivatives, in a session of its own, and names nearly all of 51 rows a tree.
    assert (chosen.attack, chosen.conduct, chosen.has_own_session) == ("chosen_gradients", "replaces_requests", True)
    assert chosen.details["records_named"] >= 300
    assert chosen.success > named[2].success
    # What is told of other records tells nothing.
    assert chosen.details["shuffled"] < 0.05
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["light"] == "red"
    results = json.loads((run / "results.json").read_text())
    lights = [one["light"] for one in results["answer"]["columns"]]
    assert len(lights) == 15
    assert {"red", "amber"} & set(lights)
    # What was told of other records tells nothing.
    assert results["trained"]["control"].startswith("A shuffled copy of what training told tells 0 of 15 columns")
    assert "columns leak" in verdict["sentence"]
