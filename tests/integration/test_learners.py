"""A learner of another package in real processes, built from the text of its page."""

import os
from pathlib import Path

import numpy as np
import pytest

from services.common.errors import InvalidMessage
from tests.harness.documented_plugin import install
from tests.harness.processes import quick_federation


def test_a_learner_of_another_package_is_trained_kept_and_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    install("adding-a-learner.md", "least_squares", package, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")]))
    chosen = {"learner": "least_squares", "learner_options": {"rate": 0.05}, "epochs": 3}
    with quick_federation(tmp_path / "run", data="wine", **chosen) as federation:
        outcome = federation.train()
        assert outcome.epochs_run == 3
        assert outcome.auc is not None
        assert outcome.auc > 0.9
        scores = federation.predict([f"r{row:06d}" for row in range(178)])
        with pytest.raises(InvalidMessage, match="Unknown learner 'least'") as refused:
            federation.train(learner="least", learner_options={})
        assert "Known: boosted_trees, least_squares, linear" in str(refused.value)
    known = scores[scores["error"] == ""].drop(columns="error").to_numpy(dtype=np.float64)
    assert known.shape[1] == 3
    np.testing.assert_allclose(known.sum(axis=1), 1)
