"""Boosted trees in real processes over mTLS: they are trained, kept, asked and refused as any other learner."""

from pathlib import Path

import numpy as np

from plumbline.federation import Federation
from tests.harness.processes import local_processes

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
    known = scores[scores["error"] == ""].drop(columns="error").to_numpy(dtype=np.float64)
    np.testing.assert_allclose(known.sum(axis=1), 1)
