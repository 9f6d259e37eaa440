"""Boosted trees in real processes over mTLS: they are trained, kept, asked and refused as any other learner."""

import json
from pathlib import Path

import numpy as np
import pytest

from plumbline.federation import Federation
from plumbline.judge.training import read_training_findings
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


def test_an_audit_measures_labels_and_says_what_it_does_not_measure(tmp_path_factory: pytest.TempPathFactory) -> None:
    options = ["--data", "breast_cancer", "--learner", "boosted_trees", "--set", 'learner_options={"n_estimators": 6}']
    run = audited_once(shared_folder(tmp_path_factory), options)
    bins, labels = read_training_findings(RunFolder(run / "parties"))
    assert (bins.attack, bins.party, bins.kind) == ("named_bins", "active", "bins")
    assert 0 < bins.details["cells_named"] < 1
    assert (labels.attack, labels.party, labels.kind) == ("leaf_labels", "passive", "labels")
    assert labels.success > 0.85
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["light"] == "red"
    # Bins are counted and not judged, so that nothing is said of columns: neither green nor red.
    assert verdict["sentence"] == "What columns give away was not measured; labels leak much."
